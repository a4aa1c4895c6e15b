"""The work queue, mostly on a virtual clock."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import pytest

from sqlcache.errors import QueueShutDownError
from sqlcache.testing.clock import VirtualClock
from sqlcache.workqueue import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    WithMaxWaitRateLimiter,
    Workers,
    WorkQueue,
    default_controller_rate_limiter,
)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def queue(clock: VirtualClock) -> WorkQueue[str]:
    return WorkQueue("q", clock=clock)


@contextmanager
def workers(queue: WorkQueue[str], number: int = 1) -> Iterator[list[str]]:
    """Have threads take items until the queue is shut down, which leaving does."""
    taken: list[str] = []

    def work() -> None:
        for item in queue:
            taken.append(item)
            queue.done(item)

    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield taken
    finally:
        queue.shut_down()
        for thread in threads:
            thread.join()


def waiting(queue: WorkQueue[str]) -> list[str]:
    """Take all items that wait, without ending any."""
    return [queue.get() for _ in range(len(queue))]


def test_items_come_in_order_and_once(queue: WorkQueue[str]) -> None:
    for item in ("b", "a", "b", "c", "a"):
        queue.add(item)
    assert len(queue) == 3
    assert waiting(queue) == ["b", "a", "c"]


def test_item_added_while_worked_on_comes_again_after_done(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0, "two workers must not have one item"
    queue.done("a")
    assert waiting(queue) == ["a"]
    queue.done("a")
    assert len(queue) == 0


def test_done_of_an_item_that_waits_does_not_double_it(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.done("a")
    assert waiting(queue) == ["a"]


def test_get_without_an_item_times_out(queue: WorkQueue[str], clock: VirtualClock) -> None:
    errors: list[Exception] = []

    def take() -> None:
        try:
            queue.get(timeout=5)
        except TimeoutError as error:
            errors.append(error)

    thread = threading.Thread(target=take)
    thread.start()
    clock.advance(4.9)
    assert errors == []
    clock.advance(0.2)
    assert len(errors) == 1
    thread.join()


def test_delayed_item_comes_when_due(queue: WorkQueue[str], clock: VirtualClock) -> None:
    with workers(queue) as taken:
        queue.add_after("a", 10)
        clock.advance(9.9)
        assert taken == []
        clock.advance(0.1)
        assert taken == ["a"]


def test_delays_of_zero_and_below_add_at_once(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 0)
    queue.add_after("b", -1)
    assert waiting(queue) == ["a", "b"]


def test_earliest_of_several_delays_holds(queue: WorkQueue[str], clock: VirtualClock) -> None:
    with workers(queue, 2) as taken:
        queue.add_after("a", 10)
        queue.add_after("a", 5)
        queue.add_after("a", 20)
        clock.advance(5)
        assert taken == ["a"]
        clock.advance(100)
        assert taken == ["a"], "the later requests were merged into the first"


def test_delayed_items_come_by_time_with_many_workers(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    with workers(queue, 4) as taken:
        for delay in (9, 3, 7, 1, 5):
            queue.add_after(str(delay), delay)
        for _ in range(10):
            clock.advance(1)
        assert taken == ["1", "3", "5", "7", "9"]


def test_add_does_not_take_a_delayed_add_back(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add_after("a", 5)
    queue.add("a")
    assert waiting(queue) == ["a"]
    queue.done("a")
    clock.advance(5)
    assert waiting(queue) == ["a"]


def test_rate_limited_items_wait_longer_each_time(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    with workers(queue) as taken:
        for failures in range(4):
            assert queue.num_requeues("a") == failures
            queue.add_rate_limited("a")
            clock.advance(0.005 * 2**failures - 0.001)
            assert len(taken) == failures
            clock.advance(0.002)
            assert len(taken) == failures + 1
        queue.forget("a")
        assert queue.num_requeues("a") == 0


def test_workers_finish_what_waits_after_shut_down(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add_after("later", 1)
    queue.shut_down()
    queue.add("b")
    queue.add_after("c", 0)
    assert queue.shutting_down()
    assert list(queue) == ["a"]
    with pytest.raises(QueueShutDownError, match="work queue 'q' is shut down"):
        queue.get()
    queue.shut_down()


def test_shut_down_wakes_waiting_workers(queue: WorkQueue[str], clock: VirtualClock) -> None:
    with workers(queue, 3):
        queue.add_after("a", 100)
        clock.settle()
    # leaving joins them


def in_thread(function: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    return thread, results


def test_drain_waits_for_work_in_progress(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add("a")
    queue.get()
    queue.add("a")
    thread, results = in_thread(queue.shut_down_with_drain)
    clock.settle()
    assert results == []
    queue.done("a")
    clock.settle()
    assert results == [], "it was added meanwhile, so it is due once more"
    assert queue.get() == "a"
    queue.done("a")
    thread.join()
    assert results == [True]


def test_shut_down_ends_a_drain(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add("a")
    queue.get()
    thread, results = in_thread(queue.shut_down_with_drain)
    clock.settle()
    queue.shut_down()
    thread.join()
    assert results == [False]


def test_drain_gives_up_after_its_timeout(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add("a")
    queue.get()
    thread, results = in_thread(lambda: queue.shut_down_with_drain(timeout=3))
    clock.advance(3)
    thread.join()
    assert results == [False]


def test_idle_queue_has_no_thread() -> None:
    before = threading.active_count()
    queue = WorkQueue[str]()
    queue.add_after("a", 1000)
    assert threading.active_count() == before


def test_real_clock_delivers_a_delayed_item() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 0.01)
    assert queue.get(timeout=10) == "a"


class Recorded:
    """A provider that keeps everything it is told."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.observed: dict[str, list[float]] = {}
        self.functions: dict[str, Callable[[], float]] = {}

    def _metric(self, kind: str, name: str) -> _Metric:
        return _Metric(self, f"{kind}/{name}")

    def new_depth_metric(self, name: str) -> _Metric:
        return self._metric("depth", name)

    def new_adds_metric(self, name: str) -> _Metric:
        return self._metric("adds", name)

    def new_latency_metric(self, name: str) -> _Metric:
        return self._metric("latency", name)

    def new_work_duration_metric(self, name: str) -> _Metric:
        return self._metric("work", name)

    def new_unfinished_work_seconds_metric(self, name: str) -> _Metric:
        return self._metric("unfinished", name)

    def new_longest_running_processor_seconds_metric(self, name: str) -> _Metric:
        return self._metric("longest", name)

    def new_retries_metric(self, name: str) -> _Metric:
        return self._metric("retries", name)


class _Metric:
    def __init__(self, record: Recorded, name: str) -> None:
        self.record, self.name = record, name

    def inc(self) -> None:
        self.record.values[self.name] = self.record.values.get(self.name, 0) + 1

    def dec(self) -> None:
        self.record.values[self.name] -= 1

    def observe(self, value: float) -> None:
        self.record.observed.setdefault(self.name, []).append(value)

    def set_function(self, function: Callable[[], float]) -> None:
        self.record.functions[self.name] = function


def test_metrics_tell_what_happens(clock: VirtualClock) -> None:
    record = Recorded()
    queue = WorkQueue[str]("q", metrics=record, clock=clock)
    for item in ("a", "a", "b"):
        queue.add(item)
    queue.add_after("c", 2)
    assert record.values == {"adds/q": 2, "depth/q": 2, "retries/q": 1}
    clock.advance(5)
    assert waiting(queue) == ["a", "b", "c"]
    assert record.observed == {"latency/q": [5, 5, 3]}, "c waited since it was due"
    assert record.values["depth/q"] == 0
    clock.advance(4)
    queue.done("a")
    clock.advance(1)
    assert record.observed["work/q"] == [4]
    assert record.functions["unfinished/q"]() == 10
    assert record.functions["longest/q"]() == 5
    del queue
    assert record.functions["longest/q"]() == 0, "metrics do not keep a queue alive"


def test_unnamed_queue_has_no_metrics(clock: VirtualClock) -> None:
    record = Recorded()
    queue = WorkQueue[str](metrics=record, clock=clock)
    queue.add("a")
    assert not record.values
    assert not record.functions


def test_exponential_limiter_doubles_up_to_its_cap() -> None:
    limiter = ItemExponentialFailureRateLimiter[str](1, 10)
    assert [limiter.when("a") for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert limiter.when("b") == 1
    limiter.forget("a")
    limiter.forget("unknown")
    assert (limiter.num_requeues("a"), limiter.num_requeues("b")) == (0, 1)
    for _ in range(2000):
        assert limiter.when("b") <= 10


def test_fast_slow_limiter_turns_slow() -> None:
    limiter = ItemFastSlowRateLimiter[str](0.1, 10, 3)
    assert [limiter.when("a") for _ in range(5)] == [0.1, 0.1, 0.1, 10, 10]


def test_bucket_limiter_lets_a_burst_through_and_then_a_rate(clock: VirtualClock) -> None:
    limiter = BucketRateLimiter[str](10, 3, clock)
    delays = [limiter.when("a") for _ in range(5)]
    assert delays == pytest.approx([0, 0, 0, 0.1, 0.2])
    clock.advance(100)
    assert limiter.when("b") == 0, "debts are paid, and no more than the burst is saved"
    assert [limiter.when("b") for _ in range(3)] == pytest.approx([0, 0, 0.1])


def test_bucket_that_is_not_refilled_lets_its_burst_through(clock: VirtualClock) -> None:
    limiter: BucketRateLimiter[str] = BucketRateLimiter(0.0, 2, clock)
    assert [limiter.when("a") for _ in range(4)] == [0.0, 0.0, math.inf, math.inf]


def test_delay_that_is_no_number_does_not_upset_others(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    for item, delay_s in {"b": 2.0, "nan": math.nan, "a": 1.0, "never": math.inf}.items():
        queue.add_after(item, delay_s)
    assert queue.get() == "nan"
    with workers(queue) as taken:
        clock.advance(3)
        assert taken == ["a", "b"]


def test_combined_limiters_give_the_longest_and_the_capped_delay() -> None:
    first, second = ItemFastSlowRateLimiter[str](1, 5, 1), ItemFastSlowRateLimiter[str](2, 3, 1)
    limiter = MaxOfRateLimiter[str](first, second)
    assert [limiter.when("a"), limiter.when("a")] == [2, 5]
    assert limiter.num_requeues("a") == 2
    limiter.forget("a")
    assert first.num_requeues("a") == second.num_requeues("a") == 0
    assert WithMaxWaitRateLimiter[str](first, 0.5).when("a") == 0.5


def test_default_limiter_is_client_gos(clock: VirtualClock) -> None:
    limiter = default_controller_rate_limiter(clock)
    assert limiter.when("a") == 0.005
    others: list[Hashable] = [f"other-{number}" for number in range(99)]
    assert {limiter.when(other) for other in others} == {0.005}
    assert limiter.when("late") == pytest.approx(0.1), "the bucket is empty"


def test_idle_is_when_nothing_waits_is_delayed_or_worked_on(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    assert queue.is_idle()
    queue.add("a")
    assert not queue.is_idle(), "it waits"
    item = queue.get()
    assert not queue.is_idle(), "it is worked on"
    queue.add("a")
    queue.done(item)
    assert not queue.is_idle(), "it comes again"
    queue.done(queue.get())
    assert queue.is_idle()
    queue.add_rate_limited("b")
    assert not queue.is_idle(), "it is delayed"
    clock.advance(60.0)
    queue.done(queue.get())
    assert queue.is_idle()


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_worker_outlives_whatever_its_handler_raises(error: type[BaseException]) -> None:
    queue: WorkQueue[str] = WorkQueue("q")
    handled: list[str] = []

    def handle(item: str) -> None:
        handled.append(item)
        if handled == ["a"]:
            raise error("boom")

    threads = Workers(queue, handle)
    queue.add("a")
    threads.start()
    deadline = time.monotonic() + 10
    while handled != ["a", "a"] and time.monotonic() < deadline:
        time.sleep(0.001)
    queue.shut_down()
    assert threads.join(timeout_s=10) == []
    assert handled == ["a", "a"]
