"""Informers on a troubled API server, over real HTTP: the soak of the bench, in short.

The full one, 20,000 pods and 1,000 changes a second for 30 s, is `sqlcache bench soak`.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlcache.bench.backends import BACKENDS
from sqlcache.bench.prepared import PreparedList
from sqlcache.bench.results import Parameters
from sqlcache.bench.scenarios.soak import Soak
from sqlcache.bench.scenarios.workload import Job
from sqlcache.bench.threads import wait_until
from sqlcache.bench.workloads import ordinary_pods
from sqlcache.clock import MonotonicClock
from sqlcache.informer import Backoff, HandlerFuncs, SharedInformer
from tests.backends import BACKENDS as STORES

pytest.importorskip("kubernetes")

PODS, RELISTS = 150, 20


@pytest.fixture(params=BACKENDS)
def soak(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Soak]:
    options = {"pods": 400, "seconds": 1.6, "troubles_per_s": 7, "relists": 2}
    parameters = Parameters(400, (request.param,), ("soak",), quick=True)
    soak = Soak(Job("soak", request.param, parameters, options, str(tmp_path)))
    try:
        yield soak
    finally:
        soak.close()


def test_cache_and_handlers_are_true_after_trouble_and_relists(soak: Soak) -> None:
    soak.prepare()
    troubled, relists = soak.cells()
    (events,) = troubled.measure(0)
    assert events.wrong is None
    assert len(events.samples_us) > 100  # what relists swallow on a busy machine has no time
    assert len(events.fields["faults"]) >= 3, "the trouble did not come"
    relisted, _ = relists.measure(0)
    assert relisted.wrong is None
    assert len(relisted.samples_us) == 2
    assert soak.auditors[0].repeats > 400


@pytest.mark.parametrize("backend", STORES)
def test_memory_is_flat_over_relists(backend: str, tmp_path: Path) -> None:
    """Each relist leaves behind what the one before left: nothing but the objects."""
    prepared = PreparedList(ordinary_pods(PODS, "flat"))
    told = 0

    def count(*_: object) -> None:
        nonlocal told
        told += 1

    with STORES[backend](tmp_path) as store:
        quick = Backoff(MonotonicClock(), first_s=0.001, longest_s=0.001)
        with SharedInformer(prepared, store, backoff=quick) as informer:
            informer.add_handler(HandlerFuncs(on_add=count, on_update=count))
            wait_until(lambda: told == PODS, "the adds")
            gc.freeze()  # thousands of other tests, which each collection below would walk
            tracemalloc.start()
            try:
                traced = []
                for number in range(1, RELISTS + 1):
                    prepared.offer()
                    prepared.expire()
                    wait_until(lambda: told == PODS * (number + 1), "the updates")  # noqa: B023
                    gc.collect()
                    traced.append(tracemalloc.get_traced_memory()[0])
            finally:
                tracemalloc.stop()
    one_list_more = len(b",".join(prepared.documents)) // 2
    assert max(traced[-3:]) - min(traced[4:8]) < one_list_more
