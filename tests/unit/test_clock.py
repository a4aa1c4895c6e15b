"""Loops that let other threads run, and waits of any length."""

from __future__ import annotations

import math
import resource
import threading
import time
from collections.abc import Iterator

import pytest

from sqlcache.clock import MonotonicClock, StopSignal, paced
from sqlcache.workqueue import Workers, WorkQueue

PER_THREAD = getattr(resource, "RUSAGE_THREAD", None)  # not on macOS


def computing(items: int, seconds: float) -> Iterator[int]:
    for number in range(items):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        yield number


def sleeps() -> int:
    assert PER_THREAD is not None
    return resource.getrusage(PER_THREAD).ru_nvcsw


def test_paced_yields_every_item_in_order() -> None:
    assert list(paced(range(1000))) == list(range(1000))
    assert list(paced([])) == []


@pytest.mark.skipif(PER_THREAD is None, reason="the system counts no switches of one thread")
def test_paced_sleeps_about_every_millisecond() -> None:
    before = sleeps()
    assert sum(paced(computing(100, 0.0005))) == sum(range(100))
    assert 20 <= sleeps() - before <= 100
    before = sleeps()
    list(paced(range(1000)))
    assert sleeps() - before <= 5, "what takes no time needs no pause"


@pytest.mark.parametrize("seconds", [1e10, 1e300, math.inf])
def test_what_waits_longer_than_the_platform_can_waits(seconds: float) -> None:
    """A server's Retry-After, a rate limiter, a timeout: any of them may be huge."""
    signal = StopSignal(MonotonicClock())
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("late", seconds)
    woken = [threading.Timer(0.05, signal.set), threading.Timer(0.05, queue.add, ["soon"])]
    for each in woken:
        each.start()
    assert signal.sleep(seconds)
    assert queue.get(timeout=seconds) == "soon"
    for each in woken:
        each.join()
    workers = Workers(queue, lambda item: None)
    workers.start()
    queue.shut_down()
    assert workers.join(timeout_s=seconds) == []
