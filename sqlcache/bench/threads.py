"""Threads of the bench, and waiting for what they do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from sqlcache.errors import SqlcacheError

_LIMIT_S = 60.0
_POLL_S = 0.005


class WaitError(SqlcacheError, TimeoutError):
    """What was waited for did not come."""


class Thread(threading.Thread):
    """A thread whose exception reaches who waits for it."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        """Take what the thread does."""
        super().__init__(daemon=True)
        self._work, self._arguments = work, arguments
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do it."""
        try:
            self._work(*self._arguments)
        except BaseException as error:  # noqa: BLE001 - raised again by finish()
            self._error = error

    def finish(self) -> None:
        """Wait for the end; raise what the thread raised."""
        self.join()
        if self._error is not None:
            raise self._error


def wait_until(
    condition: Callable[[], Any], what: str, limit_s: float = _LIMIT_S, *, fails: bool = True
) -> None:
    """Wait for a condition.

    Args:
        condition: looked at again and again.
        what: for the message.
        limit_s: seconds to wait.
        fails: raise when it does not come; else go on.

    Raises:
        WaitError: it did not come.
    """
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            if fails:
                raise WaitError(f"{what} did not come within {limit_s:g} s")
            return
        time.sleep(_POLL_S)
