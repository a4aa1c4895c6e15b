"""Threads that work on a queue, with retries.

Source: the workers of Kubernetes' controllers, such as endpoint.Controller.processNextWorkItem.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from sqlcache.errors import QueueShutDownError
from sqlcache.workqueue._queue import WorkQueue

_LOG = logging.getLogger(__name__)

T = TypeVar("T", bound=Hashable)

MAX_RETRIES = 15  # with the default limiter after 5 ms, 10 ms, … 82 s


class Workers(Generic[T]):
    """Takes items from a queue, has each handled, and retries those that fail.

    A handler that raises is logged and its item comes again after the queue's back-off, until it
    has failed too often in a row.
    """

    def __init__(
        self,
        queue: WorkQueue[T],
        handle: Callable[[T], None],
        *,
        threads: int = 1,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        """Make workers. Nothing happens before `start`, or `process_next`.

        Args:
            queue: where items come from.
            handle: does the work for one item; an item is never handled twice at once.
            threads: how many items are handled at a time.
            max_retries: how often a failing item is tried again before it is dropped.
        """
        self.queue, self._handle = queue, handle
        self._max_retries = max_retries
        self._threads = [
            threading.Thread(target=self._run, name=f"{queue.name}-worker-{number}", daemon=True)
            for number in range(1, threads + 1)
        ]

    def start(self) -> None:
        """Start the threads. They end when the queue is shut down and empty."""
        for thread in self._threads:
            thread.start()

    def join(self, timeout_s: float) -> list[str]:
        """Wait, in real time, for the threads to end, and return the names of those that do not."""
        deadline = time.monotonic() + timeout_s
        started = [thread for thread in self._threads if thread.ident is not None]
        for thread in started:
            thread.join(min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX))
        return [thread.name for thread in started if thread.is_alive()]

    def process_next(self, timeout: float | None = None) -> None:
        """Handle one item in the calling thread. Whatever the handler raises is not passed on.

        Args:
            timeout: seconds to wait for an item; None waits for ever.

        Raises:
            QueueShutDownError: the queue was shut down and is empty.
            TimeoutError: no item came in time.
        """
        item = self.queue.get(timeout)
        try:
            self._handle(item)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it must not end the worker
            self._failed(item, error)
        else:
            self.queue.forget(item)
        finally:
            self.queue.done(item)

    def _failed(self, item: T, error: BaseException) -> None:
        name = self.queue.name
        if self.queue.num_requeues(item) < self._max_retries:
            _LOG.info("%s: cannot handle %s, trying again: %s", name, item, error)
            self.queue.add_rate_limited(item)
        else:
            _LOG.error("%s: dropping %s, it failed too often", name, item, exc_info=error)
            self.queue.forget(item)

    def _run(self) -> None:
        while True:
            try:
                self.process_next()
            except QueueShutDownError:
                return
