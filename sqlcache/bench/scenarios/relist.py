"""`relist`: an informer's history is forgotten, and it lists all pods anew while readers go on.

Four threads list by selector (narrow), each every 5 ms. What a reader waits counts from the moment
at which it was to ask, so that a pause of the whole process counts in full, whatever the readers
were doing when it began. One handler counts what it is told.

| line | a sample is |
|---|---|
| time to sync | from the request of the list until the store stands at its resourceVersion |
| reader wait | one read, from when it was due until its answer was there |
| longest wait of a reader | the longest of these in one relist |
| peak over steady memory | (bytes) highest resident memory of the relist, less that before it |

Each with the interpreter as it is, and tuned as a program may but a library must not: the pods
frozen after each sync, `gc.freeze()`, full collections made rare, `gc.set_threshold(700, 10,
1_000)`, and a busy thread interrupted after 0.5 ms, `sys.setswitchinterval(0.0005)`. A full
collection walks all pods, and no thread runs meanwhile.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from random import Random
from typing import Any

import orjson

from sqlcache.bench import workloads
from sqlcache.bench.answers import Answer, ask
from sqlcache.bench.measuring import peak_of, rss_bytes
from sqlcache.bench.prepared import PreparedList
from sqlcache.bench.scenarios.workload import Cell, Job, Measurement, Workload
from sqlcache.bench.threads import Thread
from sqlcache.bench.traffic import READ_EVERY_S, READERS
from sqlcache.bench.workloads import REPEATED
from sqlcache.clock import MonotonicClock
from sqlcache.errors import SqlcacheError
from sqlcache.informer import Backoff, HandlerFuncs, SharedInformer
from sqlcache.lister import PodLister

ON, TUNED = "interpreter as it is", "interpreter tuned"
_THRESHOLDS = (700, 10, 1_000)
_SWITCH_INTERVAL_S = 0.0005
SYNC, WAIT, LONGEST, PEAK = (
    "time to sync", "reader wait", "longest wait of a reader", "peak over steady memory",
)  # fmt: skip
_ROUNDS = 2
_DELAY_S = 0.01  # before the list: the real back-off is no part of this
_LEAD_S = 0.1  # the readers are at work before the relist begins
_POLL_S = 0.005
_LIMIT_S = 120.0


class RelistError(SqlcacheError, RuntimeError):
    """A relist did not come to its end."""


class Relist(Workload):
    """An informer on the backend's store, its lists prepared as bytes."""

    def __init__(self, job: Job) -> None:
        """Open an empty store."""
        super().__init__(job)
        self.told = 0
        self._random = Random(f"relist {self.parameters.seed}")  # noqa: S311 - no secrets

    def prepare(self) -> Sequence[Answer | None]:
        """Bring the informer in sync; answer what the readers will ask."""
        size = self.parameters.pods
        self.list = PreparedList(workloads.ordinary_pods(size, f"relist {self.parameters.seed}"))
        self.questions = list(islice(workloads.service_questions(size), REPEATED))
        self.informer = SharedInformer(
            self.list,
            self.subject.store,
            backoff=Backoff(MonotonicClock(), first_s=_DELAY_S, longest_s=_DELAY_S),
        )
        self.informer.add_handler(HandlerFuncs(on_add=self._count, on_update=self._count))
        self.informer.start()
        if not self.informer.wait_for_sync(_LIMIT_S):
            raise RelistError(f"no first sync within {_LIMIT_S:g} s")
        self._wait(lambda: self.told >= size, "the handler's adds")
        return ask(self.subject.store, self.questions)

    def cells(self) -> Sequence[Cell]:
        """Return relists with few changes and with many, each without and with the tuning."""
        if self.parameters.quick:
            return [_Relists(self, 0.01, tuned=False)]
        return [
            _Relists(self, share, tuned=tuned) for share in (0.01, 1.0) for tuned in (False, True)
        ]

    def close(self) -> None:
        """Stop the informer."""
        self.informer.stop()
        super().close()

    def change(self, share: float) -> None:
        """Give a share of the pods another version and another tier."""
        documents = self.list.documents
        count = max(1, int(len(documents) * share))
        for number in self._random.sample(range(len(documents)), count):
            pod = orjson.loads(documents[number])
            meta = pod["metadata"]
            meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1_000_000)
            meta["labels"]["tier"] = f"tier-{self._random.randrange(10)}"
            documents[number] = orjson.dumps(pod)

    def relist(self, version: str) -> float:
        """Have an offered list fetched; return seconds from its request until it is stored."""
        store, told = self.subject.store, self.told
        self.list.expire()
        self._wait(lambda: store.last_store_sync_resource_version() == version, "a relist")
        lasted = time.perf_counter() - self.list.listed_at
        self._wait(lambda: self.told >= told + len(self.list.documents), "the handler's updates")
        return lasted

    @contextmanager
    def reading(self) -> Iterator[list[float]]:
        """Give a list that fills with what the readers wait, in microseconds, meanwhile."""
        waits: list[float] = []
        ended = threading.Event()
        readers = [Thread(self._read, waits, ended, number) for number in range(READERS)]
        for reader in readers:
            reader.start()
        try:
            yield waits
        finally:
            ended.set()
            for reader in readers:
                reader.finish()

    def _read(self, waits: list[float], ended: threading.Event, number: int) -> None:
        clock = time.perf_counter
        lister = PodLister(self.subject.store).pods("shop")
        due = clock() + READ_EVERY_S * number / READERS
        for question in cycle(self.questions):
            time.sleep(max(0.0, due - clock()))
            if ended.is_set():
                return
            lister.list(question.selector)
            now = clock()
            waits.append((now - due) * 1e6)
            due = max(due + READ_EVERY_S, now)

    def _count(self, *_: Any) -> None:
        self.told += 1

    def _wait(self, condition: Any, what: str) -> None:
        end = time.monotonic() + _LIMIT_S
        while not condition():
            if time.monotonic() > end:
                raise RelistError(f"{what} did not come within {_LIMIT_S:g} s")
            time.sleep(_POLL_S)


class _Relists(Cell):
    rounds = _ROUNDS

    def __init__(self, workload: Relist, share: float, *, tuned: bool) -> None:
        self.workload, self.share, self.tuned = workload, share, tuned
        if workload.parameters.quick or share == 1:
            self.rounds = 1

    def measure(self, round_number: int) -> list[Measurement]:
        workload = self.workload
        workload.change(self.share)
        version = workload.list.offer()
        with _tuned(self.tuned):
            steady = rss_bytes()
            with workload.reading() as waits, peak_of() as peak, _pauses() as pauses:
                time.sleep(_LEAD_S)
                lasted_s = workload.relist(version)
        facts = {
            "readers": READERS,
            "longest_collection_ms": round(max(pauses, default=0.0) * 1e3, 1),
            "collections_ms": round(sum(pauses) * 1e3, 1),
        }
        values: dict[str, Any] = {
            SYNC: {"samples_us": [lasted_s * 1e6]},
            WAIT: {"samples_us": waits},
            LONGEST: {"samples_us": [max(waits)]},
            PEAK: {"bytes": max(0, peak.bytes - steady)},
        }
        return [self._measurement(name, facts, **value) for name, value in values.items()]

    def _measurement(self, name: str, facts: dict[str, Any], **values: Any) -> Measurement:
        changed = "all changed" if self.share == 1 else f"{self.share * 100:g} % changed"
        return Measurement(
            f"{name}, {changed}",
            TUNED if self.tuned else ON,
            len(self.workload.list.documents),
            fields=dict(facts),
            **values,
        )


@contextmanager
def _tuned(wanted: bool) -> Iterator[None]:
    """Keep what is alive now out of collections, make them rare, and threads change, if wanted."""
    if not wanted:
        yield
        return
    gc.collect()
    gc.freeze()
    before, interval_s = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(*_THRESHOLDS)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def _pauses() -> Iterator[list[float]]:
    """Give a list that fills with the seconds that collections take meanwhile."""
    pauses: list[float] = []
    started = 0.0

    def note(phase: str, _: dict[str, int]) -> None:
        nonlocal started
        if phase == "start":
            started = time.perf_counter()
        else:
            pauses.append(time.perf_counter() - started)

    gc.callbacks.append(note)
    try:
        yield pauses
    finally:
        gc.callbacks.remove(note)
