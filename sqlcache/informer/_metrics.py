"""What a reflector tells about itself, through a provider that the application supplies.

Elsewhere: a provider on prometheus_client (sqlcache.metrics).
Source: client-go tools/cache reflector_metrics.go.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Protocol

from sqlcache.workqueue import Counter, FunctionGauge, Histogram


class MetricsProvider(Protocol):
    """Makes the metrics of one reflector, by its informer's name.

    Source: client-go cache.MetricsProvider.
    """

    def new_lists_metric(self, name: str) -> Counter:
        """Make `reflector_lists_total`: lists begun, streaming ones too."""

    def new_list_duration_metric(self, name: str) -> Histogram:
        """Make `reflector_list_duration_seconds`: from the request to the last object."""

    def new_items_in_list_metric(self, name: str) -> Histogram:
        """Make `reflector_items_per_list`: objects of each complete list."""

    def new_watches_metric(self, name: str) -> Counter:
        """Make `reflector_watches_total`: watches opened, streaming lists too."""

    def new_short_watches_metric(self, name: str) -> Counter:
        """Make `reflector_short_watches_total`: watches that ended at once and empty."""

    def new_watch_duration_metric(self, name: str) -> Histogram:
        """Make `reflector_watch_duration_seconds`: how long each watch lasted."""

    def new_items_in_watch_metric(self, name: str) -> Histogram:
        """Make `reflector_items_per_watch`: events of each watch."""

    def new_last_resource_version_metric(self, name: str) -> FunctionGauge:
        """Make `reflector_last_resource_version`: of the last event or list, as a number."""


class ReflectorMetrics:
    """The metrics of one reflector."""

    def __init__(self, provider: MetricsProvider, name: str) -> None:
        """Make them.

        Args:
            provider: makes each.
            name: of the informer.
        """
        self.lists = provider.new_lists_metric(name)
        self.watches = provider.new_watches_metric(name)
        self.short_watches = provider.new_short_watches_metric(name)
        self._list_duration = provider.new_list_duration_metric(name)
        self._list_items = provider.new_items_in_list_metric(name)
        self._watch_duration = provider.new_watch_duration_metric(name)
        self._watch_items = provider.new_items_in_watch_metric(name)
        self._version = provider.new_last_resource_version_metric(name)

    def listed(self, seconds: float, items: int) -> None:
        """Take note of a complete list."""
        self._list_duration.observe(seconds)
        self._list_items.observe(items)

    def watched(self, seconds: float, items: int) -> None:
        """Take note of a watch that has ended."""
        self._watch_duration.observe(seconds)
        self._watch_items.observe(items)

    def follow(self, version: Callable[[], str]) -> None:
        """Have a method asked for the resourceVersion; the metric does not keep its object."""
        reference = weakref.WeakMethod(version)

        def number() -> float:
            method = reference()
            text = method() if method is not None else ""
            return float(text) if text.isdecimal() else math.nan

        self._version.set_function(number)
