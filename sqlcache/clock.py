"""Time and waiting, so that tests can replace both.

Whatever waits in this package, for a moment or for another thread, waits on a condition that its
clock made. With `MonotonicClock`, the default everywhere, that is a `threading.Condition`. A
virtual clock (sqlcache.testing) knows through its conditions when every thread waits, and lets
time jump to the next deadline.

Elsewhere: what is waited for (sqlcache.workqueue, sqlcache.informer).
Source: k8s.io/utils/clock; context.Context for `StopSignal`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Protocol, TypeVar

T = TypeVar("T")

_WORK_S = 0.001
_PAUSE_S = 0.00005  # what the kernel makes of any shorter sleep, too


class Condition(Protocol):
    """The part of `threading.Condition` that this package uses."""

    def __enter__(self) -> bool:
        """Take the lock."""

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the lock."""

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait to be notified, take the lock again.

        Args:
            timeout: seconds of the clock; None waits for ever.

        Returns:
            Whether it was notified.
        """

    def notify(self, n: int = 1) -> None:
        """Wake waiting threads, at most n of them."""

    def notify_all(self) -> None:
        """Wake all waiting threads."""


class Clock(Protocol):
    """Tells the time and makes conditions. All methods may be called from any thread."""

    def now(self) -> float:
        """Return seconds since some fixed moment; never goes back."""

    def condition(self) -> Condition:
        """Return a condition, with its own lock, whose timeouts are seconds of this clock."""


class _Condition(threading.Condition):
    """Waits as long as the platform can, where more is asked for: `inf`, or a million years."""

    def wait(self, timeout: float | None = None) -> bool:
        longest = threading.TIMEOUT_MAX
        return super().wait(timeout if timeout is None or timeout < longest else longest)


class MonotonicClock:
    """Real time."""

    def now(self) -> float:
        """Return `time.monotonic()`."""
        return time.monotonic()

    def condition(self) -> Condition:
        """Return a `threading.Condition` whose lock is not reentrant."""
        return _Condition(threading.Lock())


class StopSignal:
    """A flag that is raised once, wakes those who sleep on it and calls those who asked for it.

    It is what `context.Context` is in client-go: given to calls that may take long, so that they
    can be cut short.
    """

    def __init__(self, clock: Clock) -> None:
        """Make a signal that is not set."""
        self._clock = clock
        self._changed = clock.condition()
        self._set = False
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next_id = 0

    def is_set(self) -> bool:
        """Return whether it was raised."""
        return self._set

    def set(self) -> None:
        """Raise it: wake all sleepers, then run the callbacks in this thread."""
        with self._changed:
            self._set = True
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
            self._changed.notify_all()
        for callback in callbacks:
            callback()

    def sleep(self, seconds: float) -> bool:
        """Sleep until the time has passed or the signal is raised.

        Returns:
            Whether it was raised.
        """
        deadline = self._clock.now() + seconds
        with self._changed:
            while not self._set:
                left = deadline - self._clock.now()
                if left <= 0:
                    break
                self._changed.wait(left)
            return self._set

    def wait(self) -> None:
        """Sleep until the signal is raised."""
        with self._changed:
            while not self._set:
                self._changed.wait()

    def call(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have a function called when the signal is raised; at once if it is.

        Returns:
            A function that takes the request back.
        """
        with self._changed:
            if not self._set:
                number = self._next_id
                self._next_id += 1
                self._callbacks[number] = callback
                return lambda: self._forget(number)
        callback()
        return lambda: None

    def _forget(self, number: int) -> None:
        with self._changed:
            self._callbacks.pop(number, None)


def paced(items: Iterable[T]) -> Iterator[T]:
    """Yield items, and sleep for a moment between two of them about every millisecond.

    For loops that compute for long beside threads that should answer soon. CPython takes the
    interpreter lock from a thread only when another has waited 5 ms for it
    (`sys.setswitchinterval`), and a call of SQLite gives it back several times: a read beside such
    a loop takes 30 ms instead of 0.1. A real sleep lets whoever waits go first; after `sleep(0)`
    the lock is taken back before another thread is awake. The loop takes some 5 % longer.
    """
    due = time.perf_counter() + _WORK_S
    for item in items:
        yield item
        if time.perf_counter() >= due:
            time.sleep(_PAUSE_S)
            due = time.perf_counter() + _WORK_S
