"""The queue itself: dedup, delays and rate limits behind one lock, without a thread of its own.

client-go stacks three types (Type, delayingType, rateLimitingType) and runs a goroutine for the
delays. Here delayed items lie in a heap, and the thread that waits in `get` also waits for the
next of them to be due, so a queue that nobody shuts down leaves nothing running.

Source: client-go util/workqueue queue.go, delaying_queue.go, rate_limiting_queue.go.
"""

from __future__ import annotations

import heapq
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from itertools import count
from typing import Generic, TypeVar

from sqlcache.clock import Clock, MonotonicClock
from sqlcache.errors import QueueShutDownError
from sqlcache.workqueue._limiters import RateLimiter, default_controller_rate_limiter
from sqlcache.workqueue._metrics import MetricsProvider, QueueMetrics

T = TypeVar("T", bound=Hashable)


class WorkQueue(Generic[T]):
    """Items to be worked on, each by one worker at a time. Every method is thread-safe."""

    def __init__(
        self,
        name: str = "",
        *,
        rate_limiter: RateLimiter[T] | None = None,
        metrics: MetricsProvider | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Make an empty queue.

        Args:
            name: the queue's label in metrics; without one there are none.
            rate_limiter: decides the delays of `add_rate_limited`.
            metrics: makes the queue's metrics.
            clock: for tests.
        """
        self.name = name
        self._clock = clock or MonotonicClock()
        self._limiter = rate_limiter or default_controller_rate_limiter(self._clock)
        self._changed = self._clock.condition()
        self._ready: deque[T] = deque()  # each is in dirty, none in processing
        self._dirty: set[T] = set()  # need work
        self._processing: set[T] = set()  # are worked on; those also dirty come again
        self._delayed: dict[T, float] = {}  # when each is due
        self._heap: list[tuple[float, int, T]] = []  # has outdated entries: _delayed is right
        self._sequence = count()
        self._timekeeper: object | None = None  # of the waiting threads, the one with a timeout
        self._shutting_down = False
        self._draining = False
        self._metrics = QueueMetrics(metrics, name) if metrics and name else None
        if metrics and name:
            self._publish_ages(metrics)

    def add(self, item: T) -> None:
        """Have an item worked on; merged with an add that is still waiting.

        While it is worked on it is only marked, and comes again after `done`. Ignored after
        `shut_down`.
        """
        with self._changed:
            self._promote()
            self._add(item, self._clock.now())

    def add_after(self, item: T, delay_s: float) -> None:
        """Add an item after some seconds; of several requests for one item the earliest holds.

        A plain `add` in the meantime does not take the request back. Ignored after `shut_down`.
        """
        with self._changed:
            if self._shutting_down:
                return
            self._promote()
            if self._metrics:
                self._metrics.retry()
            now = self._clock.now()
            if delay_s > 0:
                self._delay(item, now + delay_s)
            else:  # also NaN, which would be before and after nothing in the heap
                self._add(item, now)

    def add_rate_limited(self, item: T) -> None:
        """Add an item after as long as the rate limiter says: for items that failed."""
        self.add_after(item, self._limiter.when(item))

    def forget(self, item: T) -> None:
        """Tell the rate limiter that an item needs no more retries. `done` is still needed."""
        self._limiter.forget(item)

    def num_requeues(self, item: T) -> int:
        """Return how many times an item was rate-limited since it was last forgotten."""
        return self._limiter.num_requeues(item)

    def get(self, timeout: float | None = None) -> T:
        """Wait for an item and take it. Call `done` when it is worked on, whatever came of it.

        Args:
            timeout: seconds; None waits for ever.

        Raises:
            QueueShutDownError: the queue was shut down and is empty: end the worker.
            TimeoutError: no item came in time.
        """
        deadline = None if timeout is None else self._clock.now() + timeout
        with self._changed:
            while True:
                self._promote()
                if self._ready:
                    return self._take()
                if self._shutting_down:
                    raise QueueShutDownError(self.name)
                if deadline is not None and self._clock.now() >= deadline:
                    raise TimeoutError(f"no item in {timeout} s")
                self._wait(deadline)

    def done(self, item: T) -> None:
        """Tell that an item taken by `get` is worked on; if added meanwhile, it comes again."""
        with self._changed:
            self._promote()
            if self._metrics:
                self._metrics.done(item, self._clock.now())
            if item in self._processing:
                self._processing.discard(item)
                if item in self._dirty:
                    self._ready.append(item)
                    self._changed.notify()
            if self._draining and not self._processing:
                self._changed.notify_all()

    def __iter__(self) -> Iterator[T]:
        """Yield items as `get` does, until the queue is shut down and empty."""
        while True:
            try:
                item = self.get()
            except QueueShutDownError:
                return
            yield item

    def __len__(self) -> int:
        """Return the number of items waiting; not those delayed or worked on."""
        with self._changed:
            self._promote()
            return len(self._ready)

    def is_idle(self) -> bool:
        """Return whether no item waits, is delayed, or is worked on."""
        with self._changed:
            self._promote()
            return not (self._dirty or self._processing or self._delayed)

    def shut_down(self) -> None:
        """Refuse further adds, drop delayed ones; workers get what is waiting and then end.

        Twice is harmless; after `shut_down_with_drain` it makes that return.
        """
        with self._changed:
            self._shut_down(draining=False)

    def shut_down_with_drain(self, timeout: float | None = None) -> bool:
        """Shut down, and wait until all items being worked on are done.

        An item that was added while it was worked on is worked on once more. Workers must call
        `done`, or this waits for ever.

        Args:
            timeout: seconds; None waits for ever.

        Returns:
            Whether everything is done; False after the timeout or another thread's `shut_down`.
        """
        deadline = None if timeout is None else self._clock.now() + timeout
        with self._changed:
            self._shut_down(draining=True)
            while self._draining and (self._processing or self._ready):
                left = None if deadline is None else deadline - self._clock.now()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
            return self._draining

    def shutting_down(self) -> bool:
        """Return whether the queue was shut down."""
        with self._changed:
            return self._shutting_down

    # What follows comes with the lock held.

    def _add(self, item: T, now: float) -> None:
        if self._shutting_down or item in self._dirty:
            return
        if self._metrics:
            self._metrics.add(item, now)
        self._dirty.add(item)
        if item not in self._processing:
            self._ready.append(item)
            self._changed.notify()

    def _take(self) -> T:
        item = self._ready.popleft()
        if self._metrics:
            self._metrics.get(item, self._clock.now())
        self._processing.add(item)
        self._dirty.discard(item)
        if self._ready or (self._heap and self._timekeeper is None):
            self._changed.notify()  # somebody else must go on keeping the time
        return item

    def _delay(self, item: T, due: float) -> None:
        known = self._delayed.get(item)
        if known is not None and known <= due:
            return
        earliest = not self._heap or due < self._heap[0][0]
        self._delayed[item] = due
        heapq.heappush(self._heap, (due, next(self._sequence), item))
        if earliest:
            self._timekeeper = None  # it sleeps too long now; who wakes up takes over
            self._changed.notify()

    def _promote(self) -> None:
        """Add the delayed items that are due, as of the moment at which they were."""
        if not self._heap:
            return
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            due, _, item = heapq.heappop(self._heap)
            if self._delayed.get(item) == due:
                del self._delayed[item]
                self._add(item, due)

    def _wait(self, deadline: float | None) -> None:
        """Wait for a change; one of the waiting threads also until the next item is due."""
        wake = deadline
        me = object()
        if self._heap and self._timekeeper is None:
            self._timekeeper = me
            due = self._heap[0][0]
            wake = due if wake is None else min(wake, due)
        self._changed.wait(None if wake is None else max(0.0, wake - self._clock.now()))
        if self._timekeeper is me:
            self._timekeeper = None
            if self._heap:
                self._changed.notify()

    def _shut_down(self, *, draining: bool) -> None:
        self._shutting_down, self._draining = True, draining
        self._delayed.clear()
        self._heap.clear()
        self._changed.notify_all()

    def _publish_ages(self, metrics: MetricsProvider) -> None:
        ages = _ages_of(weakref.ref(self))  # a registry of metrics must not keep the queue alive
        unfinished = metrics.new_unfinished_work_seconds_metric(self.name)
        unfinished.set_function(lambda: sum(ages()))
        longest = metrics.new_longest_running_processor_seconds_metric(self.name)
        longest.set_function(lambda: max(ages(), default=0.0))

    def _ages(self) -> list[float]:
        with self._changed:
            return self._metrics.ages(self._clock.now()) if self._metrics else []


def _ages_of(reference: weakref.ref[WorkQueue[T]]) -> Callable[[], list[float]]:
    def ages() -> list[float]:
        queue = reference()
        return queue._ages() if queue is not None else []

    return ages
