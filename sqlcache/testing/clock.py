"""A clock that a test moves, for code that waits on `sqlcache.clock` conditions in many threads.

    clock = VirtualClock()
    queue = WorkQueue(clock=clock)
    worker.start()
    queue.add_after("a", 60)
    clock.advance(60)  # the worker has got "a" when this returns, and no second has passed

It knows which threads wait, because they wait on its conditions, and takes every other thread that
came after it as working. `settle` returns when none works, so what a test sees then is final until
time passes.

Source: Go's testing/synctest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

_POLL_S = 0.0002
_PATIENCE_S = 20.0  # of real time, until a thread that neither waits nor ends is an error


class _Waiter:
    """One thread in one wait."""

    def __init__(self, condition: _VirtualCondition, deadline: float | None) -> None:
        self.condition, self.deadline = condition, deadline
        self.thread = threading.get_ident()
        self.notified = False
        self.gate = threading.Lock()
        self.gate.acquire()


class VirtualClock:
    """A `sqlcache.clock.Clock` that stands still until it is told to move."""

    def __init__(self, start: float = 1000.0) -> None:
        """Make a clock. Threads that run already are none of its business."""
        self._now = start
        self._mutex = threading.Lock()  # guards all waiters of all conditions
        self._waiting: dict[int, _Waiter] = {}
        self._strangers = set(threading.enumerate())

    def now(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def condition(self) -> _VirtualCondition:
        """Return a condition whose timeouts are virtual."""
        return _VirtualCondition(self)

    def settle(self) -> None:
        """Wait, in real time, until every thread waits on a condition of this clock or has ended.

        Raises:
            AssertionError: some thread does neither.
        """
        patience = time.monotonic() + _PATIENCE_S
        while working := self._working():
            if time.monotonic() > patience:
                raise AssertionError(f"threads never come to rest: {', '.join(working)}")
            time.sleep(_POLL_S)

    def advance(self, seconds: float) -> None:
        """Let time pass, deadline by deadline, and settle after each."""
        end = self._now + seconds
        self.settle()
        while self._wake_next(end):
            self.settle()
        self._now = end

    def run_until(self, reached: Callable[[], bool], within: float = 3600.0) -> None:
        """Let time pass until something is the case.

        Args:
            reached: asked whenever all threads wait.
            within: virtual seconds.

        Raises:
            AssertionError: it was not reached in that time.
        """
        end = self._now + within
        self.settle()
        while not reached():
            if not self._wake_next(end):
                raise AssertionError(f"not reached in {within} virtual seconds")
            self.settle()

    def _working(self) -> list[str]:
        # The waiters are fixed while the mutex is held, and only a working thread could start
        # another, so a thread missing from both lists has ended.
        with self._mutex:
            here = threading.current_thread()
            return [
                thread.name
                for thread in threading.enumerate()
                if thread not in self._strangers
                and thread is not here
                and thread.ident not in self._waiting
            ]

    def _wake_next(self, end: float) -> bool:
        """Move to the next deadline, if it is not after `end`, and wake who waits for it."""
        with self._mutex:
            deadlines = [w.deadline for w in self._waiting.values() if w.deadline is not None]
            if not deadlines or min(deadlines) > end:
                return False
            self._now = max(self._now, min(deadlines))
            due = [
                waiter
                for waiter in self._waiting.values()
                if waiter.deadline is not None and waiter.deadline <= self._now
            ]
            for waiter in due:
                waiter.condition._waiters.remove(waiter)
                self._release(waiter)
            return True

    def _release(self, waiter: _Waiter) -> None:
        del self._waiting[waiter.thread]
        waiter.gate.release()


class _VirtualCondition:
    """A condition of a virtual clock; see `sqlcache.clock.Condition`."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiters: list[_Waiter] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until notified or until the virtual timeout."""
        if timeout is not None and timeout <= 0:
            return False
        clock = self._clock
        waiter = _Waiter(self, None if timeout is None else clock.now() + timeout)
        with clock._mutex:
            self._waiters.append(waiter)
            clock._waiting[waiter.thread] = waiter
        self._lock.release()
        try:
            waiter.gate.acquire()
        finally:
            self._lock.acquire()
        return waiter.notified

    def notify(self, n: int = 1) -> None:
        """Wake the n threads that wait longest."""
        with self._clock._mutex:
            woken, self._waiters = self._waiters[:n], self._waiters[n:]
            for waiter in woken:
                waiter.notified = True
                self._clock._release(waiter)

    def notify_all(self) -> None:
        """Wake all waiting threads."""
        self.notify(len(self._waiters))
