"""Metrics of queues, informers, stores and leases for Prometheus (extra `metrics`).

    metrics = PrometheusMetrics()  # or PrometheusMetrics(registry)
    queue = WorkQueue("pods", metrics=metrics)
    store = metrics.observed(sqlcache.open_store())
    informer = SharedInformer(list_watch, store, name="pods", metrics=metrics)

Promises
- What is not handed to it costs nothing: no store, queue or informer knows of this module.
- Any number of these may share a registry, and any number of queues, informers and stores a name:
  they are counted together. Gauges that are asked for tell of the newest one.
- A registry keeps nothing alive: a store that is closed or forgotten is no longer counted.

Elsewhere: what is measured and when (sqlcache.workqueue, sqlcache.informer).
Source: names as in client-go's and component-base's metrics; `sqlcache_` ones are ours.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, cast

from sqlcache.errors import SqlcacheError
from sqlcache.store.api import Indexer
from sqlcache.store.observed import ObservedStore

try:
    from prometheus_client import (
        CONTENT_TYPE_LATEST,
        REGISTRY,
        CollectorRegistry,
        Counter,
        Gauge,
        Histogram,
        generate_latest,
    )
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector
except ImportError as error:  # pragma: no cover - depends on the installation
    raise ImportError("sqlcache.metrics needs: pip install 'sqlcache[metrics]'") from error

# Seconds. A dict answers in a microsecond, a relist takes a minute.
_QUERY_BUCKETS = (1e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0)
_QUEUE_BUCKETS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0)  # component-base's
_LIST_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0)
_WATCH_BUCKETS = (1.0, 5.0, 30.0, 60.0, 120.0, 300.0, 450.0, 600.0)
_ITEM_BUCKETS = (0.0, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)


class PrometheusMetrics:
    """See the module. It is a provider for `WorkQueue` and for `SharedInformer`."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        """Make the metrics of a registry, or take those that it has.

        Args:
            registry: what is exposed; default: the process's own.

        Raises:
            ValueError: somebody else registered one of the names.
        """
        self._registry, self._families = registry, _families(registry)

    def exposition(self) -> tuple[str, bytes]:
        """Return content type and text of all metrics of the registry, as Prometheus reads them."""
        return CONTENT_TYPE_LATEST, generate_latest(self._registry)

    # Stores

    def observed(self, store: Indexer) -> Indexer:
        """Return a store that is the given one and times its calls.

        Its size is told as well, as long as it is open. It is the caller's to close, through
        either. One that is observed already is returned as it is.

        Args:
            store: with attributes `resource` and `backend`, as `open_store` gives.
        """
        if isinstance(store, ObservedStore):
            return store
        self._families.sizes.add(store)
        labels, seconds = _labels(store), self._families.query_seconds

        def around(operation: str, call: Callable[..., Any]) -> Callable[..., Any]:
            return _timed(call, seconds.labels(*labels, operation).observe)

        return cast("Indexer", ObservedStore(store, around))

    # Work queues, source: component-base metrics/prometheus/workqueue

    def new_depth_metric(self, name: str) -> Gauge:
        """Make `workqueue_depth`."""
        return self._families.depth.labels(name)

    def new_adds_metric(self, name: str) -> Counter:
        """Make `workqueue_adds_total`."""
        return self._families.adds.labels(name)

    def new_latency_metric(self, name: str) -> Histogram:
        """Make `workqueue_queue_duration_seconds`."""
        return self._families.latency.labels(name)

    def new_work_duration_metric(self, name: str) -> Histogram:
        """Make `workqueue_work_duration_seconds`."""
        return self._families.work_duration.labels(name)

    def new_unfinished_work_seconds_metric(self, name: str) -> Gauge:
        """Make `workqueue_unfinished_work_seconds`."""
        return self._families.unfinished.labels(name)

    def new_longest_running_processor_seconds_metric(self, name: str) -> Gauge:
        """Make `workqueue_longest_running_processor_seconds`."""
        return self._families.longest_running.labels(name)

    def new_retries_metric(self, name: str) -> Counter:
        """Make `workqueue_retries_total`."""
        return self._families.retries.labels(name)

    # Reflectors, source: client-go tools/cache reflector_metrics.go

    def new_lists_metric(self, name: str) -> Counter:
        """Make `reflector_lists_total`."""
        return self._families.lists.labels(name)

    def new_list_duration_metric(self, name: str) -> Histogram:
        """Make `reflector_list_duration_seconds`."""
        return self._families.list_duration.labels(name)

    def new_items_in_list_metric(self, name: str) -> Histogram:
        """Make `reflector_items_per_list`."""
        return self._families.list_items.labels(name)

    def new_watches_metric(self, name: str) -> Counter:
        """Make `reflector_watches_total`."""
        return self._families.watches.labels(name)

    def new_short_watches_metric(self, name: str) -> Counter:
        """Make `reflector_short_watches_total`."""
        return self._families.short_watches.labels(name)

    def new_watch_duration_metric(self, name: str) -> Histogram:
        """Make `reflector_watch_duration_seconds`."""
        return self._families.watch_duration.labels(name)

    def new_items_in_watch_metric(self, name: str) -> Histogram:
        """Make `reflector_items_per_watch`."""
        return self._families.watch_items.labels(name)

    def new_last_resource_version_metric(self, name: str) -> Gauge:
        """Make `reflector_last_resource_version`."""
        return self._families.version.labels(name)

    # Leader election, source: component-base metrics/prometheus/clientgo/leaderelection

    def new_leader_metric(self, name: str) -> Gauge:
        """Make `leader_election_master_status`."""
        return self._families.leader.labels(name)


def _timed(call: Callable[..., Any], observe: Callable[[float], None]) -> Callable[..., Any]:
    def timed(*args: Any, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            return call(*args, **options)
        finally:
            observe(time.perf_counter() - started)

    return timed


def _labels(store: Indexer) -> tuple[str, str]:
    return getattr(store, "resource", ""), getattr(store, "backend", "")


class _Sizes(Collector):
    """The sizes of all open stores, asked for when the registry is read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: weakref.WeakSet[Indexer] = weakref.WeakSet()

    def add(self, store: Indexer) -> None:
        with self._lock:
            self._stores.add(store)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Tell the names, so that registering does not read the stores."""
        return self._families().values()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Ask every store that is open; several of one resource and backend are added up."""
        totals: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        with self._lock:
            stores = list(self._stores)
        for store in stores:
            try:
                size = store.size()
            except SqlcacheError:  # it is closed, or cannot be read: its readers will tell
                continue
            total = totals[_labels(store)]
            total["objects"] += size.objects
            if size.label_terms is not None:
                total["label_terms"] += size.label_terms
            if size.keys_over_limit is not None:
                total["label_keys_over_limit"] += size.keys_over_limit
            if size.database_bytes is not None:
                total["bytes"] += size.database_bytes
        families = self._families()
        for labels, total in totals.items():
            for name, value in total.items():
                families[name].add_metric(labels, value)
        return families.values()

    @staticmethod
    def _families() -> dict[str, GaugeMetricFamily]:
        labels = ("resource", "backend")
        return {
            name: GaugeMetricFamily(f"sqlcache_store_{name}", text, labels=labels)
            for name, text in (
                ("objects", "Objects in the store."),
                ("label_terms", "Different (namespace, label key, value) in the label index."),
                (
                    "label_keys_over_limit",
                    "Label keys that lost their index for having too many values.",
                ),
                ("bytes", "Bytes of all pages of the store's database."),
            )
        }


class _Families:
    """All metrics of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(name, text, ("name",), registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, ("name",), registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, ("name",), registry=registry, buckets=buckets)

        self.depth = gauge("workqueue_depth", "Items that wait.")
        self.adds = counter("workqueue_adds_total", "Adds that were not merged.")
        self.latency = histogram(
            "workqueue_queue_duration_seconds", "Seconds from add to get.", _QUEUE_BUCKETS
        )
        self.work_duration = histogram(
            "workqueue_work_duration_seconds", "Seconds from get to done.", _QUEUE_BUCKETS
        )
        self.unfinished = gauge(
            "workqueue_unfinished_work_seconds", "Age of all work in progress, summed."
        )
        self.longest_running = gauge(
            "workqueue_longest_running_processor_seconds", "Age of the oldest work in progress."
        )
        self.retries = counter("workqueue_retries_total", "Delayed and rate-limited adds.")

        self.lists = counter("reflector_lists_total", "Lists begun.")
        self.list_duration = histogram(
            "reflector_list_duration_seconds", "Seconds that each list took.", _LIST_BUCKETS
        )
        self.list_items = histogram(
            "reflector_items_per_list", "Objects of each list.", _ITEM_BUCKETS
        )
        self.watches = counter("reflector_watches_total", "Watches opened.")
        self.short_watches = counter(
            "reflector_short_watches_total", "Watches that ended within a second without events."
        )
        self.watch_duration = histogram(
            "reflector_watch_duration_seconds", "Seconds that each watch lasted.", _WATCH_BUCKETS
        )
        self.watch_items = histogram(
            "reflector_items_per_watch", "Events of each watch.", _ITEM_BUCKETS
        )
        self.version = gauge("reflector_last_resource_version", "The resourceVersion seen last.")

        self.leader = gauge(
            "leader_election_master_status", "Whether this process holds the lease: 1 or 0."
        )

        self.query_seconds = Histogram(
            "sqlcache_query_duration_seconds",
            "Seconds of each call of a store.",
            ("resource", "backend", "operation"),
            registry=registry,
            buckets=_QUERY_BUCKETS,
        )
        self.sizes = _Sizes()
        registry.register(self.sizes)


_LOCK = threading.Lock()
_OF_REGISTRY: weakref.WeakKeyDictionary[CollectorRegistry, _Families] = weakref.WeakKeyDictionary()


def _families(registry: CollectorRegistry) -> _Families:
    with _LOCK:
        families = _OF_REGISTRY.get(registry)
        if families is None:
            families = _OF_REGISTRY[registry] = _Families(registry)
        return families
