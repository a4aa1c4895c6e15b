"""`contention`: four readers by selector while one writer applies 1,000 events a second.

Events arrive in bursts of ten every 10 ms, as chunks of a watch's stream do; the writer takes all
that have arrived, at most 500, as one batch. Each reader asks every 5 ms. The same is measured
with one more thread that computes in Python without a pause.

| line | a sample is |
|---|---|
| read | one call of a lister |
| write | one batch applied |
| freshness | from the arrival of a batch's first event until every new read sees it |
| reader wait, writer wait | what the call took longer than its median in the same process alone |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from typing import Any

from sqlcache.bench import workloads
from sqlcache.bench.answers import Answer, ask, by_plain_rule
from sqlcache.bench.measuring import percentile, setting_up, timed
from sqlcache.bench.scenarios.workload import Cell, Measurement, Workload
from sqlcache.bench.threads import Thread
from sqlcache.bench.workloads import REPEATED, Feed, Question
from sqlcache.lister import PodLister

READERS = 4
READ_EVERY_S = 0.005
EVENTS_A_SECOND = 1000
BURST = 10
MOST_EVENTS = 500  # of a batch: what a store may hold its lock for
_ALONE_S, _ALONE_READS = 0.3, 200
QUIET, BUSY = "without a busy thread", "with a busy thread"
_BUSY_SUM = 1000
Event = dict[str, Any]


@dataclass(slots=True)
class Samples:
    """What the threads of one round measured, in microseconds."""

    read: list[float] = field(default_factory=list)
    write: list[float] = field(default_factory=list)
    freshness: list[float] = field(default_factory=list)
    batches: list[float] = field(default_factory=list)  # events in each
    lasted_s: float = 0.0


class Contention(Workload):
    """Pods with five labels, and a feed that changes one label of every second event's pod."""

    def prepare(self) -> list[Answer]:
        """Load the pods; answer what the readers will ask."""
        seed, size = self.parameters.seed, self.parameters.pods
        with setting_up():
            self.pods = workloads.ordinary_pods(size, f"contention {seed}")
            self.subject.load(self.pods)
            self.questions = list(islice(workloads.service_questions(size), REPEATED))
            self.feed = Feed(self.pods, seed)
        self.matches = sorted(count for count, _ in self.answers())[len(self.questions) // 2]
        return self.answers()

    def answers(self) -> list[Answer]:
        """Return the store's answers to the readers' questions."""
        return ask(self.subject.store, self.questions)

    def reads(self) -> Iterator[Callable[[], Any]]:
        """Return the reads of one reader, without end."""
        lister = PodLister(self.subject.store).pods("shop")
        return (partial(lister.list, question.selector) for question in cycle(self.questions))

    def bursts(self, seconds: float) -> list[list[Event]]:
        """Return the bursts that arrive in a number of seconds."""
        count = max(1, int(seconds * EVENTS_A_SECOND / BURST))
        return [self.feed.batch(min(BURST, len(self.pods)), None) for _ in range(count)]

    def cells(self) -> Sequence[Cell]:
        """Return the threads together, without and with a busy one."""
        return [_Together(self, busy=False), _Together(self, busy=True)]


class _Together(Cell):
    def __init__(self, workload: Contention, *, busy: bool) -> None:
        self.workload, self.busy = workload, busy
        self.rounds = 1 if workload.parameters.quick else min(2, workload.parameters.rounds)
        self.seconds = float(workload.options["seconds"]) / self.rounds

    def measure(self, round_number: int) -> list[Measurement]:
        alone = self._alone()
        bursts = self.workload.bursts(self.seconds)
        with _computing(self.busy):
            samples = _run(self.workload, bursts, self.seconds)
        return self._measurements(samples, alone, self._wrong())

    def _alone(self) -> tuple[float, float]:
        """Return the medians of a read and of a burst's write that nothing else disturbs."""
        apply = self.workload.subject.store.apply
        reads = ((None, read) for read in islice(self.workload.reads(), _ALONE_READS))
        bursts = ((None, partial(apply, burst)) for burst in self.workload.bursts(_ALONE_S))
        medians = [
            percentile([elapsed for _, elapsed, _ in timed(calls, _ALONE_S, 5)], 0.5)
            for calls in (reads, bursts)
        ]
        for _, write in bursts:  # those that the time did not suffice for: the feed has made them
            write()
        return medians[0], medians[1]

    def _measurements(
        self, samples: Samples, alone: tuple[float, float], wrong: str | None
    ) -> list[Measurement]:
        read_alone, write_alone = alone
        facts = {
            "readers": READERS,
            "reads_per_s": round(len(samples.read) / samples.lasted_s),
            "writes_per_s": round(sum(samples.batches) / samples.lasted_s),
            "batch_p99": int(percentile(samples.batches, 0.99)),
        }
        lines = {
            "read": samples.read,
            "write, one batch": samples.write,
            "freshness": samples.freshness,
            "reader wait": [max(0.0, each - read_alone) for each in samples.read],
            "writer wait": [max(0.0, each - write_alone) for each in samples.write],
        }
        return [
            Measurement(
                query=name,
                variant=BUSY if self.busy else QUIET,
                pods=len(self.workload.pods),
                matches=self.workload.matches if name.startswith("read") else None,
                samples_us=each,
                fields=facts,
                wrong=wrong,
            )
            for name, each in lines.items()
        ]

    def _wrong(self) -> str | None:
        questions: list[Question] = self.workload.questions[:5]
        right = by_plain_rule(self.workload.pods, questions)
        return (
            None
            if ask(self.workload.subject.store, questions) == right
            else ("after the writes the store does not hold what was written")
        )


def _run(workload: Contention, bursts: list[list[Event]], seconds: float) -> Samples:
    samples, start = Samples(), time.perf_counter()
    end = start + seconds
    readers = [Thread(_read, samples, workload.reads(), start, end, n) for n in range(READERS)]
    writer = Thread(_write, samples, workload.subject.store.apply, bursts, start)
    for thread in (*readers, writer):
        thread.start()
    for thread in (*readers, writer):
        thread.finish()
    samples.lasted_s = time.perf_counter() - start
    return samples


def _read(
    samples: Samples, reads: Iterator[Callable[[], Any]], start: float, end: float, number: int
) -> None:
    clock = time.perf_counter
    due = start + READ_EVERY_S * number / READERS
    while due < end:
        time.sleep(max(0.0, due - clock()))
        read = next(reads)
        began = clock()
        result = read()
        elapsed = clock() - began
        samples.read.append(elapsed * 1e6)
        del result
        due = max(due + READ_EVERY_S, clock())


def _write(
    samples: Samples, apply: Callable[[list[Event]], None], bursts: list[list[Event]], start: float
) -> None:
    clock = time.perf_counter
    every = BURST / EVENTS_A_SECOND
    taken = 0
    while taken < len(bursts):
        arrived = start + taken * every
        time.sleep(max(0.0, arrived - clock()))
        ready = int((clock() - start) / every) + 1
        ready = min(max(ready, taken + 1), taken + MOST_EVENTS // BURST, len(bursts))
        events = [event for burst in bursts[taken:ready] for event in burst]
        began = clock()
        apply(events)
        visible = clock()
        samples.write.append((visible - began) * 1e6)
        samples.freshness.append((visible - arrived) * 1e6)
        samples.batches.append(len(events))
        taken = ready


@contextmanager
def _computing(wanted: bool) -> Iterator[None]:
    """Keep one more thread computing in Python meanwhile, if wanted."""
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(number * number for number in range(_BUSY_SUM))

    thread = Thread(compute)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if wanted:
            thread.finish()
