"""Readers by selector against one writer to whom events arrive in bursts, each in a thread.

Events arrive as chunks of a watch's stream do; the writer takes all that have
arrived, within a limit, as one batch. Each reader asks at even intervals.

Elsewhere: what they read and write (scenarios).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlcache.bench.threads import Thread
from sqlcache.bench.workloads import Event

READERS = 4
READ_EVERY_S = 0.005
BURST_EVERY_S = 0.01
MOST_EVENTS = 500  # of a batch: what a store may hold its lock for
Reads = Iterator[Callable[[], Any]]
Apply = Callable[[list[Event]], None]
B = TypeVar("B")


@dataclass(slots=True)
class Samples:
    """What the threads measured, in microseconds.

    Attributes:
        read: of each call of a reader.
        write: of each batch.
        cpu: of each batch, what the writer's thread computed, waiting left out.
        freshness: from the arrival of a batch's first event until every new read sees it.
        batches: events in each batch.
        lasted_s: seconds until the last thread was done.
    """

    read: list[float] = field(default_factory=list)
    write: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    freshness: list[float] = field(default_factory=list)
    batches: list[float] = field(default_factory=list)
    lasted_s: float = 0.0

    @property
    def writes_per_s(self) -> int:
        """The rate that the writer reached."""
        return round(sum(self.batches) / self.lasted_s)

    @property
    def reads_per_s(self) -> int:
        """The rate that all readers together reached."""
        return round(len(self.read) / self.lasted_s)


def together(
    reads: Callable[[], Reads],
    apply: Apply,
    bursts: Sequence[B],
    events_of: Callable[[B], list[Event]],
    seconds: float,
) -> Samples:
    """Let readers and writer work for some seconds; return what they measured.

    Args:
        reads: gives the reads of one reader, without end.
        apply: writes a batch.
        bursts: what arrives, one every 10 ms; the writer ends with the last one.
        events_of: gives the events of a burst, before the clock of a write starts.
        seconds: how long the readers read.
    """
    samples, start = Samples(), time.perf_counter()
    readers = [
        Thread(_read, samples, reads(), start, start + seconds, number) for number in range(READERS)
    ]
    writer = Thread(_write, samples, apply, bursts, events_of, start)
    for thread in (*readers, writer):
        thread.start()
    for thread in (*readers, writer):
        thread.finish()
    samples.lasted_s = time.perf_counter() - start
    return samples


def _read(samples: Samples, reads: Reads, start: float, end: float, number: int) -> None:
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
    samples: Samples,
    apply: Apply,
    bursts: Sequence[B],
    events_of: Callable[[B], list[Event]],
    start: float,
) -> None:
    clock, cpu = time.perf_counter, time.thread_time
    taken = 0
    while taken < len(bursts):
        arrived = start + taken * BURST_EVERY_S
        time.sleep(max(0.0, arrived - clock()))
        ready = int((clock() - start) / BURST_EVERY_S) + 1
        events = events_of(bursts[taken])
        taken += 1
        while taken < min(ready, len(bursts)):
            more = events_of(bursts[taken])
            if len(events) + len(more) > MOST_EVENTS:
                break
            events += more
            taken += 1
        if not events:  # nothing arrived
            continue
        began, used = clock(), cpu()
        apply(events)
        used, visible = cpu() - used, clock()
        samples.write.append((visible - began) * 1e6)
        samples.cpu.append(used * 1e6)
        samples.freshness.append((visible - arrived) * 1e6)
        samples.batches.append(len(events))
