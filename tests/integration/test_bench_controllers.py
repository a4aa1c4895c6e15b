"""The bench of controllers on every backend, in short: they run, and what they write is checked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlcache.bench.backends import BACKENDS
from sqlcache.bench.results import Parameters
from sqlcache.bench.scenarios import controllers
from sqlcache.bench.scenarios.controllers import Controllers
from sqlcache.bench.scenarios.workload import Job, Measurement
from tests.integration.clusters import eventually

PODS, SERVICES, WORKERS = 300, 10, 2


@pytest.fixture(params=BACKENDS)
def workload(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Controllers]:
    options = {"services": [SERVICES], "workers": [WORKERS], "seconds": 0.3}
    parameters = Parameters(PODS, (request.param,), ("controllers",), cell_s=0.01)
    workload = Controllers(Job("controllers", request.param, parameters, options, str(tmp_path)))
    try:
        yield workload
    finally:
        workload.close()


def by_query(measured: list[Measurement]) -> dict[str, Measurement]:
    return {each.query.removesuffix(f", {SERVICES} services"): each for each in measured}


def test_controllers_are_measured_in_one_thread_and_in_many(workload: Controllers) -> None:
    answers = workload.prepare()
    assert {count for count, _ in answers} == {1}, "0.1 % of the pods, at least one"
    threads = threading.active_count()
    memory, alone, together, backlog = workload.cells()
    (grown,) = memory.measure(0)
    assert grown.bytes is not None
    lines = by_query(alone.measure(0))
    assert all(each.samples_us and each.wrong is None for each in lines.values()), lines
    eventually(lambda: threading.active_count() == threads, "a thread is left")
    for name in ("endpoints", "endpointslice"):
        parts = [lines[kind.format(name)] for kind in _KINDS]
        for lookup, cache, whole in zip(*(each.samples_us for each in parts), strict=True):
            assert 0 < lookup < cache < whole
    for cell, variant in ((together, "2 workers"), (backlog, "2 workers, backlog")):
        lines = by_query(cell.measure(0))
        assert {each.variant for each in lines.values()} == {variant}
        assert all(each.samples_us and each.wrong is None for each in lines.values()), lines
        assert len(lines[controllers.WRITER].samples_us) == 30, "one of each burst"
        facts = lines[controllers.READER].fields
        assert facts["syncs_per_s"] > 0
        assert facts["api_writes"] > 0
    eventually(lambda: threading.active_count() == threads, "a thread is left")


_KINDS = (controllers.LOOKUP, controllers.CACHE, controllers.WHOLE)


@pytest.mark.parametrize("workload", ["dict"], indirect=True)
def test_an_event_that_the_caches_never_saw_is_found(workload: Controllers) -> None:
    workload.prepare()
    with controllers.World(workload, 1, 1) as world:
        handle = world.by_hand()
        handle(world.burst())
        assert world.wrong() is None
        world.burst()  # of a pod of the only service; the store is not told
        assert world.wrong() == "the Endpoints of svc-000000 are not those of its pods"
