"""`contention`: four readers by selector while one writer applies 1,000 events a second.

Events arrive in bursts of ten every 10 ms, as chunks of a watch's stream do; the writer takes all
that have arrived, at most 500, as one batch. Each reader asks every 5 ms. The same is measured
with one more thread that computes in Python without a pause, and with that thread while the
interpreter's lock is asked for sooner than by default (`sys.setswitchinterval`).

| line | a sample is |
|---|---|
| read | one call of a lister |
| write | one batch applied |
| freshness | from the arrival of a batch's first event until every new read sees it |
| reader wait, writer wait | what the call took longer than its median in the same process alone |
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice

from sqlcache.bench import workloads
from sqlcache.bench.answers import Answer, ask, by_plain_rule
from sqlcache.bench.measuring import percentile, setting_up, timed
from sqlcache.bench.scenarios.workload import Cell, Measurement, Workload
from sqlcache.bench.threads import Thread
from sqlcache.bench.traffic import BURST_EVERY_S, READERS, Reads, Samples, together
from sqlcache.bench.workloads import REPEATED, Feed, Question

EVENTS_A_SECOND = 1000
_ALONE_S, _ALONE_READS = 0.3, 200
QUIET, BUSY = "without a busy thread", "with a busy thread"
SHORT_S = 0.0005  # a tenth of Python's default
SHORT = f"{BUSY}, switch interval {SHORT_S * 1000:g} ms"
_BUSY_SUM = 1000


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

    def reads(self) -> Reads:
        """Return the reads of one reader, without end."""
        return workloads.repeated(self.subject.store, self.questions)

    def bursts(self, seconds: float) -> list[list[workloads.Event]]:
        """Return the bursts that arrive in a number of seconds."""
        size = round(EVENTS_A_SECOND * BURST_EVERY_S)
        count = max(1, int(seconds / BURST_EVERY_S))
        return [self.feed.batch(min(size, len(self.pods)), None) for _ in range(count)]

    def cells(self) -> Sequence[Cell]:
        """Return the threads together, without and with a busy one; a full run's also switching."""
        variants = [QUIET, BUSY] if self.parameters.quick else [QUIET, BUSY, SHORT]
        return [_Together(self, variant) for variant in variants]


class _Together(Cell):
    def __init__(self, workload: Contention, variant: str) -> None:
        self.workload, self.variant = workload, variant
        self.rounds = 1 if workload.parameters.quick else min(2, workload.parameters.rounds)
        self.seconds = float(workload.options["seconds"]) / self.rounds

    def measure(self, round_number: int) -> list[Measurement]:
        alone = self._alone()
        bursts = self.workload.bursts(self.seconds)
        with _computing(self.variant != QUIET), _switching(self.variant == SHORT):
            apply = self.workload.subject.store.apply
            samples = together(self.workload.reads, apply, bursts, list, self.seconds)
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
            "reads_per_s": samples.reads_per_s,
            "writes_per_s": samples.writes_per_s,
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
                variant=self.variant,
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


@contextmanager
def _switching(wanted: bool) -> Iterator[None]:
    """Let threads ask for the interpreter's lock sooner meanwhile, if wanted."""
    before = sys.getswitchinterval()
    if wanted:
        sys.setswitchinterval(SHORT_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
