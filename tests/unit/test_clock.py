"""Loops that let other threads run."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import pytest

from sqlcache.clock import paced

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
