"""What a demo measures: queues, calls of the cache of pods, memory.

Promises
- All is measured where it happens, nothing is estimated. A sample is 8 bytes, so that measuring
  does not show in what is measured.

Elsewhere: who reads it (demo.run).
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable
from typing import Any, cast

from sqlcache.store.api import Indexer
from sqlcache.store.observed import WRITES, Call, ObservedStore
from sqlcache.workqueue import Counter, FunctionGauge, Histogram

SYNC_QUEUES = ("endpoint", "endpoint_slice")  # those whose items are services to be synced


class Samples:
    """Durations in seconds, as they come. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds = array("d")
        self._seen = 0

    def observe(self, value: float) -> None:
        """Add one."""
        with self._lock:
            self._seconds.append(value)

    def __len__(self) -> int:
        """Return how many there are."""
        with self._lock:
            return len(self._seconds)

    def clear(self) -> None:
        """Forget all so far."""
        with self._lock:
            self._seconds, self._seen = array("d"), 0

    def all(self) -> array[float]:
        """Return all."""
        with self._lock:
            return self._seconds[:]

    def new(self) -> array[float]:
        """Return those that were not returned by this before."""
        with self._lock:
            found = self._seconds[self._seen :]
            self._seen = len(self._seconds)
            return found


class Count:
    """A number, and the highest that it was. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = self.peak = 0

    def inc(self) -> None:
        """Add one."""
        with self._lock:
            self.value += 1
            self.peak = max(self.peak, self.value)

    def dec(self) -> None:
        """Take one away."""
        with self._lock:
            self.value -= 1

    def restart_peak(self) -> None:
        """Let the peak be what is now."""
        with self._lock:
            self.peak = self.value


class _Unread:
    """A metric that nobody reads here."""

    def inc(self) -> None:
        """Count something."""

    def observe(self, value: float) -> None:
        """Take a value."""

    def set_function(self, function: Callable[[], float]) -> None:
        """Take a function."""


class Measures:
    """The measures of one run. It is the provider of the metrics of all queues.

    Attributes:
        depth: items that wait, in all queues together.
        syncs: how long each sync of a service took.
        lists: how long each look-up of pods by a selector took.
        writer_waits: what each write of pods waited: its time less the time its thread computed, so
            locks, the interpreter's lock, and the disk.
    """

    def __init__(self) -> None:
        self.depth = Count()
        self.syncs, self.lists, self.writer_waits = Samples(), Samples(), Samples()

    def restart(self) -> None:
        """Count and measure from here on."""
        self.depth.restart_peak()
        for samples in (self.syncs, self.lists, self.writer_waits):
            samples.clear()

    def observed(self, store: Indexer) -> Indexer:
        """Return a store that is the given one, and whose look-ups and writes are measured."""
        return cast("Indexer", ObservedStore(store, self._around))

    def _around(self, operation: str, call: Call) -> Call:
        if operation == "select":
            return _timed(call, self.lists, waiting=False)
        return _timed(call, self.writer_waits, waiting=True) if operation in WRITES else call

    # Of work queues

    def new_depth_metric(self, name: str) -> Count:
        """Make `workqueue_depth`: one for all."""
        return self.depth

    def new_work_duration_metric(self, name: str) -> Histogram:
        """Make `workqueue_work_duration_seconds`."""
        return self.syncs if name in SYNC_QUEUES else _Unread()

    def new_adds_metric(self, name: str) -> Counter:
        """Make `workqueue_adds_total`."""
        return _Unread()

    def new_latency_metric(self, name: str) -> Histogram:
        """Make `workqueue_queue_duration_seconds`."""
        return _Unread()

    def new_unfinished_work_seconds_metric(self, name: str) -> FunctionGauge:
        """Make `workqueue_unfinished_work_seconds`."""
        return _Unread()

    def new_longest_running_processor_seconds_metric(self, name: str) -> FunctionGauge:
        """Make `workqueue_longest_running_processor_seconds`."""
        return _Unread()

    def new_retries_metric(self, name: str) -> Counter:
        """Make `workqueue_retries_total`."""
        return _Unread()


def _timed(call: Call, samples: Samples, *, waiting: bool) -> Call:
    """Return a call that is timed; waiting counts only what its thread did not compute."""

    def timed(*args: Any, **options: Any) -> Any:
        started, computed = time.perf_counter(), time.thread_time()
        try:
            return call(*args, **options)
        finally:
            took = time.perf_counter() - started
            samples.observe(max(0.0, took - (time.thread_time() - computed)) if waiting else took)

    return timed
