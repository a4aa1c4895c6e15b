"""Results as JSON, CSV, tables, sentences and a page."""

from __future__ import annotations

import csv
import io
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser

import orjson
import pytest

from sqlcache.bench import figures, report, results, tables
from sqlcache.bench.curves import curves_chart
from sqlcache.bench.results import Parameters, Result, Run
from sqlcache.bench.scenarios import cardinality, churning, collecting, controllers, memory
from sqlcache.bench.sentences import sentences
from sqlcache.cli import bench as cli

NARROW = "one label, 0.1 % of pods, uniform"
ENVIRONMENT = {
    "cpu": "<b>CPU</b>",
    "cores": 2,
    "memory_bytes": 24 * 2**30,
    "system": "Linux",
    "python": "CPython 3.11",
    "sqlite": "3.40.1",
    "sqlcache": "0.1.0",
    "commit": "0123456789abcdef",
    "date": "2026-01-02T03:04:05+00:00",
    "packages": {"orjson": "3"},
}


def timing(backend: str, *samples: float, query: str = NARROW, variant: str = "repeat") -> Result:
    return Result("single-label", backend, variant, query, 1000, 1, list(samples))


def run(*made: Result, backends: tuple[str, ...] = ("dict", "dict-index", "sqlite")) -> Run:
    names = tuple(dict.fromkeys(result.scenario for result in made))
    return Run(ENVIRONMENT, Parameters(1000, backends, names), list(made))


THREE = run(timing("dict", 1000.0, 1200.0), timing("dict-index", 2.0), timing("sqlite", 20.0))


def test_json_has_three_parts_and_the_promised_fields() -> None:
    document = orjson.loads(results.to_json(THREE))
    assert list(document) == ["environment", "parameters", "results"]
    row = document["results"][0]
    assert row | {"samples_us": [1000.0, 1200.0]} == row
    assert {key: row[key] for key in ("n", "min_us", "p50_us", "p99_us", "bytes", "matches")} == {
        "n": 2,
        "min_us": 1000.0,
        "p50_us": 1000.0,
        "p99_us": 1200.0,
        "bytes": None,
        "matches": 1,
    }
    assert not any("mean" in key or "average" in key for key in row)


def test_json_is_read_back_as_it_was() -> None:
    failed = Result("update", "sqlite", "", "all", 5, error="out of time", fields={"labels": 5})
    before = run(*THREE.results, failed)
    assert results.from_json(results.to_json(before)) == before


@pytest.mark.parametrize("quick", [False, True])
def test_json_has_the_command_that_gives_the_same_parameters(
    quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Parameters] = []
    monkeypatch.setattr(cli, "_measure_and_show", lambda parameters, *_: asked.append(parameters))
    arguments = ["update", "load", "--pods", "77", "--backends", "dict,sqlite", "--seed", "5"]
    cli.bench.main([*arguments, *(["--quick"] if quick else [])], standalone_mode=False)
    document = orjson.loads(results.to_json(Run(ENVIRONMENT, asked[0], [])))
    command = shlex.split(document["parameters"]["command"])
    assert command[:2] == ["sqlcache", "bench"]
    cli.bench.main(command[2:], standalone_mode=False)
    assert asked[0] == asked[1]


def test_command_names_dumps_without_their_directories() -> None:
    parameters = Parameters(9, ("dict",), ("dump",), files=("/home/me/my pods.json",))
    assert parameters.command.startswith("sqlcache bench dump 'my pods.json' --pods 9 ")


@pytest.mark.parametrize("text", [b"", b"[", b"[]", b"{}", b'{"results":[]}', b"null"])
def test_other_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        results.from_json(text)


def test_csv_has_one_line_a_result() -> None:
    rows = list(csv.DictReader(io.StringIO(results.to_csv(THREE))))
    assert [row["backend"] for row in rows] == ["dict", "dict-index", "sqlite"]
    assert rows[0]["p99_us"] == "1200.0"


@pytest.mark.parametrize(
    ("us", "expected"),
    [
        (0.0, "0.0 us"),
        (24.04, "24.0 us"),
        (12_600, "12.6 ms"),
        (999_000, "999 ms"),
        (4.2e6, "4.2 s"),
    ],
)
def test_durations_have_the_unit_that_reads_best(us: float, expected: str) -> None:
    assert figures.duration(us) == expected


def test_cells_show_median_and_99th_percentile_or_the_reason() -> None:
    assert figures.cell(timing("dict", 9_345.6, 23_456.7)) == "9,346 / 23,457"
    assert figures.cell(timing("dict", 12_345.6, 5_234_567.0)) == "12 / 5,235 ms"
    assert figures.cell(timing("dict", 1.94)) == "1.9 / 1.9"
    assert figures.cell(Result("memory", "dict", "", "", 1, bytes=96_400_000)) == "96 MB"
    late = Result("load", "dict", "", "", 1, error="out of time: not done within 3 s")
    assert figures.cell(late) == "out of time"
    assert figures.cell(None) == "-"


def test_table_has_a_row_for_each_line_and_a_column_for_each_backend() -> None:
    text = tables.text(run(*THREE.results, timing("sqlite", 5.0, query="another")))
    assert re.search(rf"^{re.escape(NARROW)} +repeat +1,000 +1 +1,000 / 1,200 +2.0 / 2.0 +20 / 20$",
                     text, re.MULTILINE)  # fmt: skip
    assert re.search(r"^another +repeat +1,000 +1 +- +- +5.0 / 5.0$", text, re.MULTILINE)
    header = next(line for line in text.splitlines() if line.startswith("QUERY"))
    assert header.split() == ["QUERY", "VARIANT", "PODS", "MATCHES", "DICT", "DICT-INDEX", "SQLITE"]


def test_table_ends_with_a_sentence_for_each_scenario() -> None:
    assert tables.text(THREE).splitlines()[-1] == (
        f"single-label: {NARROW}, repeat, 1 of 1,000 pods: dict-index wins with 2.0 us;"
        " sqlite 10 times that, dict 500 times that; sqlite is 50 times as fast as the dict scan."
    )


def test_sentence_says_so_when_the_scan_is_faster() -> None:
    slow = run(timing("dict", 10.0), timing("sqlite", 25.0))
    (said,) = sentences(slow.results)
    assert said == (
        f"single-label: {NARROW}, repeat, 1 of 1,000 pods: dict wins with 10.0 us;"
        " sqlite 2.5 times that; sqlite takes 2.5 times as long as dict."
    )


def test_sentence_leaves_out_a_backend_without_number() -> None:
    dead = timing("sqlite")
    dead.error = "out of memory"
    made = run(timing("dict", 10.0), dead)
    assert sentences(made.results) == [
        f"single-label: {NARROW}, repeat, 1 of 1,000 pods: dict takes 10.0 us."
    ]
    assert "single-label: sqlite has no number: out of memory" in tables.text(made)


def test_sentence_of_nothing_says_so() -> None:
    assert sentences([timing("dict", query="unknown")]) == [
        "single-label: there is nothing to compare."
    ]


def test_sentence_of_controllers_tells_lookups_waits_and_rates() -> None:
    def measured(backend: str, name: str, variant: str, us: float, **fields: float) -> Result:
        query = controllers.line(name, controllers.USUAL_SERVICES)
        return Result("controllers", backend, variant, query, 1000, None, [us], fields=fields)

    usual, backlog = "5 workers", "5 workers, backlog"
    whole = controllers.WHOLE.format("endpoints")
    lookup = controllers.LOOKUP.format("endpoints")
    (said,) = sentences(
        [
            measured("dict", lookup, controllers.ALONE, 20_000.0),
            measured("sqlite", lookup, controllers.ALONE, 100.0),
            measured("dict", controllers.READER, usual, 3000.0),
            measured("sqlite", controllers.READER, usual, 200.0),
            measured("dict", controllers.WRITER, usual, 10.0),
            measured("sqlite", controllers.WRITER, usual, 20.0),
            measured("dict", whole, backlog, 9.0, syncs_per_s=7.04),
            measured("sqlite", whole, backlog, 9.0, syncs_per_s=250.4),
        ]
    )
    assert said == (
        "controllers: pod lookup, endpoints sync, 1,000 services, one thread, 1,000 pods: sqlite"
        " wins with 100 us; dict 200 times that; sqlite is 200 times as fast as the dict scan;"
        " reader wait, 1,000 services, 5 workers, p99: sqlite wins with 200 us; dict 15 times that;"
        " sqlite waits 15 times less than dict;"
        " writer wait, 1,000 services, 5 workers, p99: dict wins with 10.0 us; sqlite 2.0 times"
        " that; sqlite waits 2.0 times longer than dict;"
        " syncs/s of 5 workers, backlog: dict 7.0, sqlite 250."
    )


def test_label_index_is_the_difference_between_with_and_without_labels() -> None:
    def grown(query: str, count: int | None, error: str | None = None) -> Result:
        return Result("memory", "sqlite", memory.RSS, query, 10, bytes=count, error=error)

    (index,) = memory.label_index(
        [grown("store, with labels", 300), grown("store, without labels", 100)]
    )
    assert (index.query, index.bytes) == ("index of 200 labels", 200)
    (alone,) = memory.label_index([grown("store, with labels", 300)])
    assert (alone.bytes, alone.error) == (None, "nothing to compare with")
    dead = memory.label_index(
        [grown("store, with labels", 300), grown("store, without labels", None, "out of memory")]
    )
    assert [result.error for result in dead] == ["nothing to compare with", "out of memory"]


class Page(HTMLParser):
    """Collects what a page refers to, and checks that its elements are closed in order."""

    _VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in self._VOID:
            self.open.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def whole_page() -> str:
    failed = timing("sqlite", query="<script>alert(1)</script>")
    failed.error = "died: <script>"
    size = Result("memory", "sqlite", memory.RSS, "index of 200 labels", 10, bytes=4_000_000)
    return report.html(run(*THREE.results, failed, size))


def test_page_needs_no_network_and_no_script() -> None:
    text = whole_page()
    page = Page(text)
    assert page.references == []
    assert not page.tags & {"script", "link", "img", "iframe"}
    assert not re.search(r"url\(|@import|https?://", text)


def test_page_is_well_formed_and_escapes_what_it_shows() -> None:
    text = whole_page()
    assert Page(text).open == []
    assert "<b>CPU</b>" not in text
    assert "&lt;b&gt;CPU&lt;/b&gt;" in text
    assert "<script" not in text


def test_page_is_for_light_and_dark_and_does_not_rely_on_colour() -> None:
    text = whole_page()
    assert "prefers-color-scheme: dark" in text
    legend = text[text.index("Markers of the backends") :]
    legend = legend[: legend.index("</svg>")]
    shapes = re.findall(r"<(circle|polygon) (?:points=\"([^\"]*)\")?", legend)
    assert len(shapes) == 3
    forms = {(kind, len(points.split())) for kind, points in shapes}
    assert ("circle", 0) in forms


def test_page_of_an_interrupted_run_is_still_a_page() -> None:
    assert Page(report.html(run())).open == []
    assert tables.text(run()) == "no results\n"


def load(backend: str, unique: int, us: float) -> Result:
    return Result(
        "cardinality", backend, cardinality.LOAD, cardinality.line(unique), 1000,
        samples_us=[us], fields={cardinality.FIELD: unique},
    )  # fmt: skip


def grown(backend: str, unique: int, count: int) -> Result:
    made = load(backend, unique, 0.0)
    return replace(made, variant=cardinality.GROWTH, samples_us=[], bytes=count)


def test_unique_labels_are_shown_as_curves() -> None:
    """One for each backend that has numbers, its points in order, to a linear scale."""
    made = [grown("dict", 0, 1_000_000), grown("dict", 20, 2_000_000), load("dict", 0, 5e6)]
    dead = load("sqlite", 0, 1.0)
    dead.samples_us, dead.error = [], "out of time"
    page = report.html(run(*made, dead, backends=("dict", "sqlite")))
    section = page[page.index('id="cardinality"') :]
    curves = re.findall(r'class="whisker" d="M([^"]+)"', section)
    assert [len(curve.split("L")) for curve in curves] == [2, 1]
    (x0, y0), (x1, y1) = (map(float, point.split()) for point in curves[0].split("L"))
    assert x0 < x1
    assert y1 < y0
    assert "unique labels per pod" in section
    assert "<title>dict, 20: 2.0 MB</title>" in section
    assert "<title>dict, 0: 5.0 s</title>" in section


def test_no_curve_without_a_number() -> None:
    assert curves_chart([], ("dict",), cardinality.FIELD, "empty") == ""
    nothing = tables.lines([grown("dict", 0, 0)])
    assert "<svg" in curves_chart(nothing, ("dict",), cardinality.FIELD, "all zero")


def test_sentences_of_several_lines_tell_each() -> None:
    pause = "full collection"
    made = [
        Result("gc", backend, variant, pause, 10, samples_us=[us])
        for backend, us in (("dict", 100.0), ("sqlite", 10.0))
        for variant in (collecting.NOT_FROZEN, collecting.FROZEN)
    ]
    (said,) = sentences(made)
    assert said.count("sqlite wins with 10.0 us; dict 10 times that") == 2


def test_sentence_of_churn_tells_rate_and_share_of_a_core() -> None:
    facts = {"writes_per_s": 2500, "writer_cpu_share": 0.126}
    made = Result("churn", "sqlite", churning.VARIANT, churning.READ, 10, 3, [5.0], fields=facts)
    (said,) = sentences([made])
    assert said.endswith("writes a second: sqlite 2,500 with 13 % of a core.")
