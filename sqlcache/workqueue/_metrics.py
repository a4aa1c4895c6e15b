"""What a queue tells about itself, through a provider that the application supplies.

Elsewhere: a provider on prometheus_client (the metrics extra).
Source: client-go util/workqueue metrics.go; names as registered by component-base.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol


class Gauge(Protocol):
    """A value that goes up and down."""

    def inc(self) -> None:
        """Add one."""

    def dec(self) -> None:
        """Take one away."""


class Counter(Protocol):
    """A value that only goes up."""

    def inc(self) -> None:
        """Add one."""


class Histogram(Protocol):
    """A distribution of values."""

    def observe(self, value: float) -> None:
        """Add one value."""


class FunctionGauge(Protocol):
    """A value that is asked for whenever somebody reads the metric.

    client-go sets these gauges from a goroutine every 500 ms instead.
    """

    def set_function(self, function: Callable[[], float]) -> None:
        """Have the value computed by a function, which may be called from any thread."""


class MetricsProvider(Protocol):
    """Makes the metrics of one queue, by its name.

    Source: client-go workqueue.MetricsProvider.
    """

    def new_depth_metric(self, name: str) -> Gauge:
        """Make `workqueue_depth`: items waiting to be processed."""

    def new_adds_metric(self, name: str) -> Counter:
        """Make `workqueue_adds_total`: adds that were not merged."""

    def new_latency_metric(self, name: str) -> Histogram:
        """Make `workqueue_queue_duration_seconds`: from add to get."""

    def new_work_duration_metric(self, name: str) -> Histogram:
        """Make `workqueue_work_duration_seconds`: from get to done."""

    def new_unfinished_work_seconds_metric(self, name: str) -> FunctionGauge:
        """Make `workqueue_unfinished_work_seconds`: age of all work in progress, summed."""

    def new_longest_running_processor_seconds_metric(self, name: str) -> FunctionGauge:
        """Make `workqueue_longest_running_processor_seconds`: age of the oldest work."""

    def new_retries_metric(self, name: str) -> Counter:
        """Make `workqueue_retries_total`: delayed and rate-limited adds."""


class QueueMetrics:
    """Keeps the metrics of one queue. The queue calls it with its lock held."""

    def __init__(self, provider: MetricsProvider, name: str) -> None:
        self._depth = provider.new_depth_metric(name)
        self._adds = provider.new_adds_metric(name)
        self._latency = provider.new_latency_metric(name)
        self._work_duration = provider.new_work_duration_metric(name)
        self._retries = provider.new_retries_metric(name)
        self._added: dict[Hashable, float] = {}
        self._started: dict[Hashable, float] = {}

    def add(self, item: Hashable, now: float) -> None:
        self._adds.inc()
        self._depth.inc()
        self._added.setdefault(item, now)

    def get(self, item: Hashable, now: float) -> None:
        self._depth.dec()
        self._started[item] = now
        added = self._added.pop(item, None)
        if added is not None:
            self._latency.observe(now - added)

    def done(self, item: Hashable, now: float) -> None:
        started = self._started.pop(item, None)
        if started is not None:
            self._work_duration.observe(now - started)

    def retry(self) -> None:
        self._retries.inc()

    def ages(self, now: float) -> list[float]:
        """Return the seconds that each item has been worked on."""
        return [now - started for started in self._started.values()]
