"""Readers and one writer to whom events arrive: nothing is lost, and waiting is not computing."""

from __future__ import annotations

import threading
import time
from itertools import repeat
from typing import Any

import pytest

from sqlcache.bench import traffic
from sqlcache.bench.threads import Thread
from sqlcache.bench.traffic import together
from sqlcache.bench.workloads import Event


def events(*numbers: int) -> list[Event]:
    return [{"type": "MODIFIED", "object": number} for number in numbers]


def run(bursts: list[list[Event]], apply: Any, seconds: float = 0.02) -> traffic.Samples:
    return together(lambda: repeat(lambda: None), apply, bursts, list, seconds)


def test_every_event_is_written_once_and_in_order() -> None:
    written: list[int] = []
    samples = run(
        [events(1, 2), [], events(3), events(4, 5)],
        lambda batch: written.extend(event["object"] for event in batch),
    )
    assert written == [1, 2, 3, 4, 5]
    assert sum(samples.batches) == 5
    assert len(samples.write) == len(samples.cpu) == len(samples.freshness) == len(samples.batches)


def test_a_burst_without_events_is_no_batch() -> None:
    samples = run([[], [], []], pytest.fail)
    assert samples.batches == []
    assert samples.writes_per_s == 0


def test_what_has_arrived_meanwhile_is_one_batch_within_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(traffic, "MOST_EVENTS", 3)
    batches: list[int] = []

    def slowly(batch: list[Event]) -> None:
        batches.append(len(batch))
        if len(batches) == 1:
            time.sleep(0.1)  # ten bursts arrive meanwhile

    run([events(number) for number in range(8)], slowly)
    assert max(batches) == 3
    assert sum(batches) == 8


def test_a_burst_larger_than_the_limit_is_written_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MOST_EVENTS", 2)
    batches: list[int] = []
    run([events(1, 2, 3), events(4)], lambda batch: batches.append(len(batch)))
    assert batches == [3, 1]


def test_waiting_is_not_counted_as_computing() -> None:
    samples = run([events(1)], lambda batch: time.sleep(0.05))
    assert samples.write[0] >= 50_000
    assert samples.cpu[0] < 25_000
    assert samples.freshness[0] >= samples.write[0]


def test_what_the_writer_raises_reaches_the_caller() -> None:
    def fail(batch: list[Event]) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run([events(1)], fail)
    assert not any(isinstance(thread, Thread) for thread in threading.enumerate())
