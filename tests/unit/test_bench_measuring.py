"""Percentiles, the timing loop and memory."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sqlcache.bench import environment, measuring
from sqlcache.bench.measuring import percentile, timed


@pytest.mark.parametrize(
    ("share", "expected"), [(0, 1.0), (0.5, 50.0), (0.99, 99.0), (1, 100.0), (0.001, 1.0)]
)
def test_percentile_is_a_measured_value(share: float, expected: float) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected


def test_percentile_of_few_samples_is_the_largest() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0


def test_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)


def test_timed_makes_the_least_number_of_calls_without_any_budget() -> None:
    assert len(list(timed(((n, lambda: None) for n in range(100)), 0, 5))) == 5


def test_timed_stops_when_its_budget_is_spent() -> None:
    calls = ((n, lambda: time.sleep(0.01)) for n in range(1000))
    assert 1 <= len(list(timed(calls, 0.05, 1))) <= 6


def test_timed_takes_nothing_that_it_does_not_call() -> None:
    """The feed has counted the rest as applied, so the caller must still get it."""
    calls = iter([(n, lambda: None) for n in range(5)])
    assert [name for name, _, _ in timed(calls, 0, 2)] == [0, 1]
    assert [name for name, _ in calls] == [2, 3, 4]


def test_timed_does_not_count_what_the_caller_does_between() -> None:
    samples = []
    for _, elapsed, _ in timed([(n, lambda: None) for n in range(3)], 1, 3):
        samples.append(elapsed)
        time.sleep(0.02)
    assert max(samples) < 10_000


def test_timed_releases_each_result_before_the_next_call() -> None:
    """Freeing 15,000 references inside the next call would be counted as its time."""

    class Answer:
        pass

    alive: list[weakref.ref[Answer]] = []

    def call() -> Answer:
        assert all(reference() is None for reference in alive)
        answer = Answer()
        alive.append(weakref.ref(answer))
        return answer

    def calls() -> Iterator[tuple[int, Callable[[], Answer]]]:
        return ((n, call) for n in range(3))

    for _, _, result in timed(calls(), 1, 3):
        assert isinstance(result, Answer)
        del result
    assert len(alive) == 3


def test_resident_memory_grows_with_what_is_held() -> None:
    before = measuring.rss_bytes()
    held = bytearray(50_000_000)
    assert measuring.rss_bytes() - before > 40_000_000
    assert measuring.peak_rss_bytes() >= before
    del held


def test_environment_names_what_a_reader_needs_and_no_host() -> None:
    where = environment.environment()
    assert {"cpu", "cores", "python", "sqlite", "sqlcache", "commit", "date"} <= where.keys()
    assert not {"host", "user", "node"} & where.keys()


def test_installed_package_has_no_commit(tmp_path: Path) -> None:
    """It may lie inside some other project's work tree."""
    assert environment.commit(tmp_path) is None


def test_broken_checkout_has_no_commit(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert environment.commit(tmp_path) is None
