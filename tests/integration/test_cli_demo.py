"""`sqlcache demo`: small ones on every backend, comparisons, interrupts, a check that can fail."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from sqlcache.store import BACKENDS
from sqlcache.store.sqlite import SqliteStore
from tests.integration.command import error, finish, run, start, wrong_usage
from tests.integration.following import following

pytest.importorskip("kubernetes")
pytest.importorskip("aiohttp")

SMALL = ("--namespaces", "2", "--services", "16", "--pods", "60", "--rate", "40")
SERVICES = 16


def demo(*args: str) -> Any:
    """Run a small demo that must be right; return its JSON."""
    result = run("demo", *SMALL, "-o", "json", *args)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("backend", [*BACKENDS, "sqlite:///demo.db"])
def test_all_is_right_on_every_backend(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = demo("--backend", backend, "--duration", "1")
    assert found["settings"] == {
        "namespaces": 2,
        "services": SERVICES,
        "pods": 60,
        "changes_per_s": 40.0,
        "duration_s": 1.0,
        "seed": 1,
    }
    (only,) = found["runs"]
    assert (only["backend"], only["changes"], only["stopped"]) == (backend, 40, False)
    assert only["differences"] == []
    assert only["checked_endpoints"] == SERVICES
    assert only["checked_slices"] > SERVICES, "some have two families, or two sets of ports"
    assert only["syncs"] == only["sync"]["count"] > 0
    assert only["lists"]["count"] >= only["syncs"], "each sync lists pods"
    assert only["writer_wait"]["count"] > 0
    for name in ("lists", "sync", "writer_wait"):
        measured = only[name]
        assert 0 <= measured["p50_us"] <= measured["p99_us"] <= measured["max_us"]
    assert only["lists"]["p50_us"] < only["sync"]["p50_us"]
    assert only["changing_s"] >= 0.9
    assert only["memory_bytes"] > 10_000_000
    assert (tmp_path / "demo.db").exists() is (":" in backend)
    if ":" in backend:
        with SqliteStore("demo.db", "pods") as store:
            assert len(store.list()) >= 60


def test_lines_tell_how_it_goes(tmp_path: Path) -> None:
    result = run("demo", *SMALL, "--backend", "dict", "--duration", "0.2")
    assert result.exit_code == 0
    phases = [
        line.removeprefix("dict: ").partition(" 0.")[0] for line in result.stderr.splitlines()
    ]
    for phase in ("making the cluster", "first sync", "pods change", "coming to rest"):
        assert any(each.startswith(phase) for each in phases), phases
    last = result.stderr.splitlines()[-1]
    for fact in ("changes 8, ", "queue depth 0, ", "syncs/s ", "list p50/p99 ", "memory "):
        assert fact in last
    assert "writer wait p50/p99 " in last
    assert result.stdout.startswith("MEASURE ")
    assert "16 Endpoints and" in result.stdout
    assert result.stdout.endswith("compared with a computation from scratch: all are right\n")


def test_a_comparison_makes_the_same_changes_on_each_and_prints_ratios() -> None:
    names = ("dict", "sqlite")
    result = finish(start("demo", *SMALL, "--duration", "0.5", "--compare", ",".join(names)))
    assert result.exit_code == 0, result.stderr
    table, _, verdicts = result.stdout.partition("\n\n")
    header, *rows = table.splitlines()
    assert header.split() == ["MEASURE", "DICT", "SQLITE"]
    (median,) = (row for row in rows if row.startswith("list p50"))
    assert median.endswith("x)")
    right = [line.partition(" and ")[0] for line in verdicts.splitlines() if "all are" in line]
    assert right == [f"{name}: 20 changes; 16 Endpoints" for name in names]
    for name in names:
        assert f"{name}: pods change " in result.stderr


def test_equal_seeds_end_in_equal_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, labels, addresses and readiness of all pods, whatever the backend."""
    from sqlcache.demo import run as running
    from sqlcache.testing.convergence import ClusterState

    seen = []

    def noting(state: ClusterState) -> list[str]:
        seen.append(
            sorted(
                (
                    each["metadata"]["name"],
                    str(each["metadata"]["labels"]),
                    each["status"]["podIP"],
                    each["status"]["conditions"][0]["status"],
                )
                for each in state.pods
            )
        )
        return []

    monkeypatch.setattr(running, "endpoints_differences", noting)
    for seed, backend in ((1, "dict"), (1, "sqlite"), (2, "dict")):
        demo("--seed", str(seed), "--backend", backend, "--duration", "0.5")
    assert seen[0] == seen[1] != seen[2]


def test_a_wrong_slice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlcache.demo import run as running
    from sqlcache.demo.process import DemoCluster

    class Tampering(DemoCluster):
        """Somebody edits a slice at the last moment, when nobody looks at it any more."""

        def ask(self, what: str, **arguments: Any) -> Any:
            answer = super().ask(what, **arguments)
            if (what, arguments.get("resource")) == ("list", "endpointslices"):
                full = next(each for each in answer if len(each.get("endpoints") or ()) > 1)
                del full["endpoints"][0]
            return answer

    monkeypatch.setattr(running, "DemoCluster", Tampering)
    result = run("demo", *SMALL, "--duration", "0.2", "-o", "json")
    assert result.exit_code == 1
    (difference,) = json.loads(result.stdout)["runs"][0]["differences"]
    assert difference.startswith("EndpointSlices team-")
    assert ": missing: 10.0." in difference
    assert f"sqlite: {difference}" in result.stderr

    result = run("demo", *SMALL, "--duration", "0.2")
    assert result.exit_code == 1
    assert result.stdout.endswith("compared with a computation from scratch: 1 difference\n")


def test_ctrl_c_ends_the_changes_and_tells_what_was_checked(tmp_path: Path) -> None:
    with following("demo", *SMALL, "--duration", "600", kubeconfig=tmp_path / "none") as command:
        command.wait_for("sqlite: pods change ", stream="stderr")
        result = command.end()
    assert result.exit_code == 130
    assert result.stdout.endswith(": all are right\n")
    assert result.stderr.endswith("Interrupted\n")


def test_ctrl_c_ends_a_comparison_with_what_was_done(tmp_path: Path) -> None:
    with following(
        *("demo", *SMALL, "--duration", "600", "--compare", "dict-index,dict", "-o", "json"),
        kubeconfig=tmp_path / "none",
    ) as command:
        command.wait_for("dict-index: pods change ", stream="stderr")
        result = command.end()
    assert result.exit_code == 130
    (only,) = json.loads(result.stdout)["runs"]
    assert (only["backend"], only["stopped"], only["differences"]) == ("dict-index", True, [])
    assert "dict: " not in result.stderr


def test_a_second_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    with following("demo", *SMALL, "--duration", "600", kubeconfig=tmp_path / "none") as command:
        command.wait_for("sqlite: pods change ", stream="stderr")
        command.process.send_signal(signal.SIGINT)
        command.wait_for("stopping", stream="stderr")
        result = command.end()
    assert result.exit_code == 130
    assert result.stdout == ""
    assert result.stderr.endswith("Interrupted\n")


def test_sigterm_ends_a_comparison_and_its_processes(tmp_path: Path) -> None:
    with following(
        *("demo", *SMALL, "--duration", "600", "--compare", "dict"), kubeconfig=tmp_path / "none"
    ) as command:
        command.wait_for("dict: pods change ", stream="stderr")
        below = children(command.process.pid)
        assert below
        result = command.end(signal.SIGTERM)
    assert result.exit_code == 143
    assert not [pid for pid in below if is_alive(pid)]


def test_an_api_server_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with following("demo", *SMALL, "--duration", "600", kubeconfig=tmp_path / "none") as command:
        command.wait_for("sqlite: pods change ", stream="stderr")
        (server,) = children(command.process.pid)
        os.kill(server, signal.SIGKILL)
        result = command.finish()
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.endswith("Error: the process of the cluster is gone\n")


def children(pid: int) -> list[int]:
    """Return the processes below a process."""
    found = []
    for each in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, each.read_text().split()):
            found += [child, *children(child)]
    return found


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    assert error("demo") == "the demo needs: pip install 'sqlcache[kubernetes]'"
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    assert error("demo") == "the demo needs: pip install 'sqlcache[kubernetes,testing]'"


def test_wrong_usage_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    choose = "choose dict, dict-index, sqlite or sqlite:///PATH"
    for name in ("nope", "sqlite:///"):
        said = wrong_usage("demo", "--backend", name)
        assert said.endswith(f": no backend {name!r}: {choose}")
        assert said == wrong_usage("run", "--backend", name)
    assert choose in wrong_usage("demo", "--compare", "dict,nope")
    assert "no backend given" in wrong_usage("demo", "--compare", ",")
    assert "0" in wrong_usage("demo", "--pods", "0")
    for option in ("--rate", "--duration"):
        for number in ("nan", "inf", "-1"):
            assert f"'{option}'" in wrong_usage("demo", option, number)
    for seed in ("-1", str(1 << 70)):
        assert "'--seed'" in wrong_usage("demo", "--seed", seed)
    Path("mine.db").write_bytes(b"precious")
    assert wrong_usage("demo", "--backend", "sqlite:///mine.db").endswith(
        "mine.db is there already: a demo needs a file of its own"
    )
    monkeypatch.setenv("SQLCACHE_BACKEND", "sqlite:///mine.db")
    assert "is there already" in wrong_usage("demo")
    assert Path("mine.db").read_bytes() == b"precious"
