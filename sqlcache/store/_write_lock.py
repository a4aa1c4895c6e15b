"""The lock of a store's writers, which tells a thread that would wait for itself.

Ctrl-C must not leave it held. Python minds signals where a function of its own starts and after
each call, so a `with` whose lock is taken and given back by Python code may end with the lock held.
Here `with` has the C lock itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sqlcache.errors import ReentrantWriteError


class WriteLock:
    """Held while changes are worked out and committed. Not reentrant: half a write is no state."""

    def __init__(self) -> None:
        """Make a lock that nobody holds."""
        self._lock: Any = threading.RLock()  # which knows its owner, as threading.Condition asks it

    def turn(self) -> AbstractContextManager[bool]:
        """Return what holds the lock for a `with` block.

        Raises:
            ReentrantWriteError: this thread holds it.
        """
        self._check()
        lock: AbstractContextManager[bool] = self._lock
        return lock

    @contextmanager
    def turn_within(self, timeout_s: float) -> Iterator[None]:
        """Hold the lock for a block, if it comes in time.

        Args:
            timeout_s: how long to wait.

        Raises:
            ReentrantWriteError: this thread holds it.
            TimeoutError: others held it for longer.
        """
        self._check()
        try:
            if not self._lock.acquire(timeout=timeout_s):
                raise TimeoutError
            yield
        finally:
            self._release()

    def locked(self) -> bool:
        """Return whether any thread holds it."""
        if self._lock._is_owned():
            return True
        try:
            return not self._lock.acquire(blocking=False)
        finally:
            self._release()

    def _release(self) -> None:
        if self._lock._is_owned():
            self._lock.release()

    def _check(self) -> None:
        if self._lock._is_owned():
            raise ReentrantWriteError
