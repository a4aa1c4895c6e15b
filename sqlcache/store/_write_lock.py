"""The lock of a store's writers, which tells a thread that would wait for itself."""

from __future__ import annotations

import threading
from types import TracebackType

from sqlcache.errors import ReentrantWriteError


class WriteLock:
    """Held while changes are worked out and committed. Not reentrant: half a write is no state."""

    def __init__(self) -> None:
        """Make a lock that nobody holds."""
        self._lock = threading.Lock()
        self._owner: int | None = None  # only the owner itself can find its own number here

    def acquire(self, timeout_s: float = -1) -> bool:
        """Wait for the lock; return whether it is held now.

        Args:
            timeout_s: how long to wait; below 0: as long as it takes.

        Raises:
            ReentrantWriteError: this thread holds it.
        """
        me = threading.get_ident()
        if self._owner == me:
            raise ReentrantWriteError
        taken = self._lock.acquire(timeout=timeout_s)
        if taken:
            self._owner = me
        return taken

    def release(self) -> None:
        """Give the lock to others."""
        self._owner = None
        self._lock.release()

    def locked(self) -> bool:
        """Return whether any thread holds it."""
        return self._lock.locked()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()
