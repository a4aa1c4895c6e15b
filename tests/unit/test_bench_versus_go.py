"""client-go's figures beside ours: whole, marked as quoted, on the lines that they belong to."""

from __future__ import annotations

import re

import pytest

from sqlcache.bench import client_go, figures, tables
from sqlcache.bench.results import QUOTED, Parameters, Result, Run
from sqlcache.bench.scenarios import SCENARIOS, memory, versus_go
from sqlcache.bench.scenarios.workload import Job
from sqlcache.bench.sentences import sentences
from tests.unit.test_bench_results import ENVIRONMENT

CASE = "uniform1000, 5 labels"
TYPICAL = versus_go.line(CASE, "typical")


def measured(backend: str, us: float, query: str = TYPICAL, pods: int = 150_000) -> Result:
    return Result(versus_go.NAME, backend, "repeat", query, pods, 150, [us])


def cells(results: list[Result], query: str) -> dict[tuple[str, str], str]:
    return {
        (each.variant, each.backend): figures.cell(each) for each in results if each.query == query
    }


def test_scan_is_compared_with_scan_and_index_with_index() -> None:
    ours = [measured("dict", 9000.0), measured("dict-index", 5.0), measured("sqlite", 2.0)]
    assert cells(versus_go.beside_go(ours), TYPICAL) == {
        ("scan", "dict"): "9,000 / 9,000",
        ("label index", "dict-index"): "5.0 / 5.0",
        ("label index", "sqlite"): "2.0 / 2.0",
        ("label index", "client-go"): "9.8",
        ("scan", "client-go"): "161 ms",
    }


def test_only_lines_that_were_measured_have_figures_beside_them() -> None:
    added = versus_go.beside_go([measured("dict", 1.0)])[1:]
    assert {each.query for each in added} == {TYPICAL}
    assert versus_go.beside_go([]) == []


def test_figures_for_another_number_of_pods_are_lines_of_their_own() -> None:
    (ours, *quoted) = versus_go.beside_go([measured("sqlite", 2.0, pods=6000)])
    assert ours.pods == 6000
    assert {each.pods for each in quoted} == {client_go.pods()} == {150_000}


def test_index_is_compared_in_bytes() -> None:
    def grown(query: str, count: int) -> Result:
        return Result(versus_go.NAME, "sqlite", memory.RSS, query, 150_000, bytes=count)

    ours, go = versus_go.beside_go([grown(memory.WITH, 300), grown(memory.WITHOUT, 100)])
    assert ours.line == go.line
    assert (ours.bytes, go.bytes) == (200, 554_313_744)


@pytest.mark.parametrize("case", versus_go.CASES)
def test_every_case_is_known_and_index_beats_scan(case: str) -> None:
    rows = list(client_go.queries(case))
    assert rows
    assert all(0 < indexed < scanned and matches > 0 for _, matches, indexed, scanned in rows)
    for change in versus_go.CHANGES:
        indexed, plain = client_go.update_us(case, change)
        assert 0 < plain < indexed


@pytest.mark.parametrize("case", versus_go.CASES)
def test_pods_and_questions_are_those_of_the_case(case: str) -> None:
    """As many matches as client-go had for as many pods, whatever it was asked."""
    pods = 3000
    parameters = Parameters(pods, ("dict",), (versus_go.NAME,))
    job = Job(versus_go.NAME, "dict", parameters, {"case": case}, "")
    workload = SCENARIOS[versus_go.NAME].workload(job)
    assert isinstance(workload, versus_go.VersusGo)
    workload.prepare()
    found = {query.name: query for query in workload.queries}
    for kind, matches, _, _ in client_go.queries(case):
        query = found[versus_go.line(case, kind)]
        counts = [workload.subject.store.count(*question) for question in query.repeat]
        expected = matches * pods / client_go.pods()
        median = sorted(counts)[len(counts) // 2]
        assert max(1, expected / 2) <= max(1, median) <= max(3, expected * 2), kind
    assert len(workload.cells()) == len(found) + len(versus_go.CHANGES)
    workload.close()


def test_the_source_is_told_with_the_figures() -> None:
    results = versus_go.beside_go([measured("sqlite", 2.0)])
    run = Run(ENVIRONMENT, Parameters(150_000, ("sqlite",), (versus_go.NAME,)), results)
    assert re.search(r"client-go 1\.36.*2-core machine.*2026-12-02", sentences(results)[0])
    assert all(each.fields[QUOTED] for each in results if each.backend == client_go.BACKEND)
    text = tables.text(run)
    assert re.search(rf"{re.escape(TYPICAL)} +label index +150,000 +150 +2.0 / 2.0 +9.8\n", text)
    header = next(line for line in text.splitlines() if line.startswith("QUERY"))
    assert header.split()[-2:] == ["SQLITE", "CLIENT-GO"]
