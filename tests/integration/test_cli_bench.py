"""`sqlcache bench` on few pods: all scenarios and backends, forms of output, ways to fail."""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import orjson
import pytest

from sqlcache.bench import runner
from sqlcache.bench.backends import BACKENDS
from sqlcache.bench.results import Parameters, Result
from sqlcache.bench.scenarios import SCENARIOS, unnamed
from sqlcache.cli import bench
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing import pod
from tests.integration.command import error, finish, output, run, start, wrong_usage

NUMBERS = ("n", "min_us", "p50_us", "p99_us", "bytes")
ALL = unnamed(quick=True, files=False)
Row = dict[str, Any]

# Tests that read one run of many processes: in one worker, or each worker would make its own.
of_the_quick_run = pytest.mark.xdist_group("bench-quick")
of_the_named_run = pytest.mark.xdist_group("bench-named")

ASKED_ONCE = {"update", "selecting", "load", "replace", "memory", "first-sync", "soak"}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Row, str]:
    """The JSON and the page of one quick run of everything."""
    page = tmp_path_factory.mktemp("bench") / "page.html"
    text = output("bench", "--quick", "--pods", "300", "-o", "json", "--report", str(page))
    return orjson.loads(text), page.read_text(encoding="utf-8")


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """A dump with three pods and two services that select some of them."""
    services = [
        {
            "kind": "Service",
            "metadata": {"namespace": "default", "name": name},
            "spec": {"selector": of},
        }
        for name, of in (("web", {"app": "web"}), ("db", {"app": "db"}), ("none", None))
    ]
    pods = [
        pod(name, labels={"app": app}) for name, app in (("a", "web"), ("b", "web"), ("c", "db"))
    ]
    path = tmp_path / "dump.json"
    path.write_bytes(orjson.dumps({"kind": "List", "items": [*pods, *services]}))
    return str(path)


@of_the_quick_run
def test_json_has_exactly_three_parts(quick: tuple[Row, str]) -> None:
    assert list(quick[0]) == ["environment", "parameters", "results"]
    assert quick[0]["parameters"]["pods"] == 300
    assert quick[0]["environment"]["sqlite"]


def measured(scenario: str) -> set[str]:
    """Return a scenario's backends; where nothing is asked again, hot views tell nothing."""
    return BACKENDS.keys() - ({"sqlite-cold"} if scenario in ASKED_ONCE else set())


@of_the_quick_run
def test_every_scenario_has_every_backend(quick: tuple[Row, str]) -> None:
    found = {(row["scenario"], row["backend"]) for row in quick[0]["results"]}
    assert found == {(scenario, backend) for scenario in ALL for backend in measured(scenario)}


@of_the_quick_run
def test_every_row_has_the_promised_fields(quick: tuple[Row, str]) -> None:
    for row in quick[0]["results"]:
        assert {"scenario", "backend", "variant", "pods", "matches", *NUMBERS} <= row.keys()
        assert "error" not in row, row
        assert row["n"] == len(row["samples_us"])
        if row["bytes"] is None:
            assert 0 <= row["min_us"] <= row["p50_us"] <= row["p99_us"]
            assert row["min_us"] == min(row["samples_us"]) or row["n"] > 0
        else:
            assert row["bytes"] >= 0
        assert row["peak_rss_bytes"] > 0


@of_the_quick_run
def test_all_backends_have_the_same_lines_and_matches(quick: tuple[Row, str]) -> None:
    lines: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(dict)
    for row in quick[0]["results"]:
        line = (row["scenario"], row["query"], row["variant"], row["pods"])
        assert row["backend"] not in lines[line], "two rows for one cell"
        lines[line][row["backend"]] = row["matches"]
    for (scenario, *_), by_backend in lines.items():
        if scenario != "memory":
            assert by_backend.keys() == measured(scenario)
        assert len(set(by_backend.values())) == 1


@of_the_quick_run
def test_queries_are_measured_first_and_repeated(quick: tuple[Row, str]) -> None:
    variants = Counter(
        row["variant"] for row in quick[0]["results"] if row["scenario"] == "multi-label"
    )
    assert variants["first"] == variants["repeat"] > 0
    assert set(variants) == {"first", "repeat"}


@of_the_quick_run
def test_memory_is_told_in_bytes(quick: tuple[Row, str]) -> None:
    rows = [row for row in quick[0]["results"] if row["scenario"] == "memory"]
    index = {row["backend"] for row in rows if row["query"].startswith("index of")}
    assert index == {"dict", "dict-index", "sqlite"}
    assert any(row["bytes"] for row in rows if row["variant"] == "SQLite pages")
    assert {row["n"] for row in rows if row["variant"] == "pause"} == {3}


@pytest.fixture(scope="module")
def named() -> dict[str, list[Row]]:
    """The results of scenarios that a quick run has only by name, on few pods."""
    names = ("gc", "cardinality", "churn", "vs-go")
    backends = ("--backends", "dict,dict-index,sqlite,sqlite-file")
    text = output("bench", *names, *backends, "--quick", "--pods", "200", "-o", "json")
    rows: dict[str, list[Row]] = {name: [] for name in names}
    for row in orjson.loads(text)["results"]:
        rows[row["scenario"]].append(row)
    return rows


@of_the_named_run
def test_collections_are_timed_before_and_after_the_freeze(named: dict[str, list[Row]]) -> None:
    for row in named["gc"]:
        assert row["n"] == 3
        assert (row["frozen"] > 0) == (row["variant"] != "nothing frozen")
    for backend in ("dict", "dict-index", "sqlite"):
        before, after, later = (row for row in named["gc"] if row["backend"] == backend)
        # Live stores: after the freeze nothing is tracked; later, the pods that changed.
        assert before["tracked"] > later["tracked"] > after["tracked"]
        assert before["p50_us"] > after["p50_us"]


@of_the_named_run
def test_unique_labels_are_points_of_curves(named: dict[str, list[Row]]) -> None:
    points = Counter(
        (row["backend"], row["variant"], row["unique_labels_per_pod"])
        for row in named["cardinality"]
    )
    assert set(points.values()) == {1}
    assert {variant for _, variant, _ in points} == {"process growth", "load"}
    assert {count for _, _, count in points} == {0, 20}
    assert len(points) == 4 * 2 * 2


@of_the_named_run
def test_churn_tells_percentiles_share_of_a_core_and_memory(named: dict[str, list[Row]]) -> None:
    assert all("error" not in row for row in named["churn"])
    assert all(0 < row["writer_cpu_share"] < 1 for row in named["churn"])
    assert {row["query"] for row in named["churn"] if row["n"]} == {
        "read", "write, one batch", "write, an event", "CPU of a write, an event", "freshness",
    }  # fmt: skip
    (bytes_line,) = {row["query"] for row in named["churn"] if row["bytes"] is not None}
    assert bytes_line == "memory over the run"


@of_the_named_run
def test_client_go_stands_beside_what_was_measured(named: dict[str, list[Row]]) -> None:
    go = [row for row in named["vs-go"] if row["backend"] == "client-go"]
    ours = [row for row in named["vs-go"] if row["backend"] != "client-go"]
    assert {row["query"] for row in go} - {row["query"] for row in ours} == {
        "index of 3,000,000 labels"  # of 150,000 pods
    }
    assert {row["pods"] for row in go} == {150_000}
    assert {row["backend"] for row in ours if row["variant"] == "scan"} == {"dict"}


@of_the_quick_run
def test_contention_tells_the_rate_that_the_writer_reached(quick: tuple[Row, str]) -> None:
    rows = [row for row in quick[0]["results"] if row["scenario"] == "contention"]
    assert {row["query"] for row in rows} == {
        "read", "write, one batch", "freshness", "reader wait", "writer wait",
    }  # fmt: skip
    assert all(row["writes_per_s"] > 0 for row in rows)


def test_controllers_are_measured_when_named() -> None:
    text = output(
        "bench", "controllers", "--quick", "--pods", "300", "--backends", "dict,sqlite",
        "-o", "json",
    )  # fmt: skip
    rows = orjson.loads(text)["results"]
    lines: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in rows:
        assert "error" not in row, row
        assert row["n"] > 0 or row["bytes"] >= 0
        lines[row["backend"]].add((row["query"], row["variant"]))
    assert lines["dict"] == lines["sqlite"]
    assert lines["dict"] >= set(SCENARIOS["controllers"].headlines)
    assert "controllers" not in ALL


@of_the_quick_run
def test_page_needs_no_network(quick: tuple[Row, str]) -> None:
    page = quick[1]
    assert not re.search(r"https?://|<script|<link|<img|url\(|@import", page)
    assert page.count("<svg") > len(ALL)
    assert all(f'<h2 id="{name}">' in page for name in ALL)


def test_table_has_a_column_for_each_backend_and_ends_with_sentences() -> None:
    text = output(
        "bench", "namespaces", "update", "--quick", "--pods", "200", "--backends", "dict,dict-index"
    )
    headers = [line.split() for line in text.splitlines() if line.startswith("QUERY")]
    assert headers == [["QUERY", "VARIANT", "PODS", "MATCHES", "DICT", "DICT-INDEX"]] * 2
    assert re.search(r"^svc=…, one of 10 namespaces +repeat +200 +\d+( +[\d.,]+ / [\d.,]+){2}$",
                     text, re.MULTILINE)  # fmt: skip
    *_, namespaces, update = text.splitlines()
    assert re.match(r"namespaces: .* wins with .*\.$", namespaces)
    assert re.match(r"update: .* wins with .*\.$", update)


def test_csv_has_a_header_and_a_line_for_each_result() -> None:
    text = output(
        "bench", "load", "--quick", "--pods", "50", "--backends", "dict,sqlite", "-o", "csv"
    )
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["scenario"], row["backend"]) for row in rows] == [
        ("load", "dict"), ("load", "sqlite"),
    ]  # fmt: skip
    assert all(float(row["p50_us"]) > 0 for row in rows)


def test_same_seed_asks_the_same(tmp_path: Path) -> None:
    def matches(seed: str) -> list[tuple[str, int]]:
        command = ("bench", "single-label", "--quick", "--pods", "500", "--backends", "dict")
        document = orjson.loads(output(*command, "--seed", seed, "-o", "json"))
        return [(row["query"], row["matches"]) for row in document["results"]]

    assert matches("5") == matches("5")
    assert matches("5") != matches("6")


@pytest.mark.parametrize("form", [["dump", "FILE"], ["dump", "--file", "FILE"], ["FILE", "dump"]])
def test_dump_asks_every_service(form: list[str], dump: str) -> None:
    words = [dump if word == "FILE" else word for word in form]
    document = orjson.loads(output("bench", *words, "--quick", "-o", "json"))
    assert document["parameters"]["files"] == [dump]
    rows = document["results"]
    assert {row["backend"] for row in rows} == set(BACKENDS)
    assert {(row["query"], row["pods"], row["services"]) for row in rows} == {
        ("services of dump.json", 3, 2)
    }
    assert {row["n"] for row in rows if row["variant"] == "first"} == {2}


def test_objects_takes_a_dump_and_tells_that_it_is_small(dump: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    arguments = ("objects", dump, "--quick", "-o", "json", "--report", str(page))
    done = run("bench", *arguments)
    assert done.exit_code == 1
    rows = orjson.loads(done.stdout)["results"]
    assert {row["backend"] for row in rows} == {"sqlite-packed", "sqlite-file"}
    assert {row["query"].partition(", ")[2] for row in rows} == {"pods of dump.json"}
    assert {row["variant"] for row in rows if "error" in row} == {"zstd level 3"}
    assert {row["variant"] for row in rows if row["n"]} == {"JSON"}
    assert "too few pods" in page.read_text(encoding="utf-8")


def test_dump_that_is_none_is_one_line(tmp_path: Path) -> None:
    missing, broken, empty = (str(tmp_path / name) for name in ("no.json", "broken.json", "e.json"))
    Path(broken).write_bytes(b"{")
    Path(empty).write_bytes(orjson.dumps({"pods": [pod("a")], "services": []}))
    assert error("bench", "dump", missing) == f"{missing}: No such file or directory"
    assert error("bench", "dump", broken).startswith(f"{broken}: ")
    assert error("bench", "dump", empty) == f"{empty}: no services with a selector in it"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["speed"], "no scenario 'speed': choose from single-label, "),
        (["dump"], "`dump` needs a file: sqlcache bench dump FILE"),
        (["load", "--file", "x"], "--file is for `objects` and `dump`, which are not chosen"),
        (["--backends", "dict,redis"], "Invalid value for '--backends': no backend 'redis'"),
        (["--backends", ","], "Invalid value for '--backends': no backend given"),
        (["--pods", "0"], "Invalid value for '--pods'"),
        (["--time-limit", "0"], "Invalid value for '--time-limit'"),
        (["-o", "xml"], "Invalid value for '-o' / '--output'"),
        (["--report", "no/such/directory/x.html"], "Invalid value for '--report': no directory"),
        (["--time-limit", "nan"], "Invalid value for '--time-limit'"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], said: str) -> None:
    assert wrong_usage("bench", *arguments).startswith(said)


def test_one_pod_is_enough() -> None:
    assert run("bench", "--quick", "--pods", "1", "--backends", "dict,sqlite").exit_code == 0


def test_backend_that_is_out_of_time_is_told_and_fails_the_run() -> None:
    result = run(
        "bench", "load", "--quick", "--pods", "20000", "--time-limit", "0.001", "-o", "json"
    )
    assert result.exit_code == 1
    rows = orjson.loads(result.stdout)["results"]
    assert {row["error"] for row in rows} == {"out of time: not done within 0.001 s"}
    assert {row["n"] for row in rows} == {0}
    assert "load: sqlite has no number: out of time" in result.stderr


def test_wrong_answer_gets_no_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A backend that loses an object is faster; the bench must not say so."""
    broken = tmp_path / "sitecustomize.py"
    broken.write_text(
        "from sqlcache.store.sqlite import SqliteStore\n"
        "select = SqliteStore.select\n"
        "SqliteStore.select = lambda self, *question: select(self, *question)[1:]\n"
    )
    assert "select" in dir(SqliteStore)  # the name that the lines above replace
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = run(
        "bench",
        "single-label",
        "--quick",
        "--pods",
        "100",
        "--backends",
        "dict,sqlite",
        "-o",
        "json",
    )
    assert result.exit_code == 1
    for row in orjson.loads(result.stdout)["results"]:
        if row["backend"] == "dict":
            assert row["n"] > 0
        else:
            assert row["n"] == 0
            assert row["error"].startswith("wrong answer: ")


def test_ctrl_c_prints_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(parameters: Parameters, notify: object) -> Generator[Result, None, None]:
        yield Result("load", "dict", "one replace", "load all pods", 10, samples_us=[5.0])
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", interrupted)
    result = run("bench", "load", "-o", "json")
    assert result.exit_code == 130
    assert result.stderr.splitlines() == ["interrupted: here is what was done", "Interrupted"]
    (row,) = orjson.loads(result.stdout)["results"]
    assert row["p50_us"] == 5.0


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_all_processes(by: signal.Signals, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path))
        process = start("bench", "single-label", "--pods", "2000", "-o", "json")
    wait_until(lambda: len(descendants(process.pid)) > len(BACKENDS), "children", 30)
    children = descendants(process.pid)
    os.kill(process.pid, by)
    result = finish(process)
    assert result.exit_code == 128 + by
    assert "Traceback" not in result.stderr
    wait_until(lambda: not any(map(is_running, children)), "their end", 10)
    assert list(tmp_path.iterdir()) == []


def wait_until(condition: Callable[[], bool], what: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def descendants(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    found = [int(word) for word in text.split()]
    return found + [each for child in found for each in descendants(child)]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_help_names_every_scenario_and_example() -> None:
    text = output("bench", "--help")
    assert all(f"  {name} " in text for name in SCENARIOS)
    assert "sqlcache bench --quick" in text
    assert bench.bench.short_help
