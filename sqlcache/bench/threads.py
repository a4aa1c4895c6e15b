"""Threads of the bench: their exceptions reach who waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


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
