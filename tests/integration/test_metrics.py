"""Metrics for Prometheus: names as upstream's, true values, and nothing kept alive."""

from __future__ import annotations

import gc
import inspect
import math
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from sqlcache.errors import ApiStatusError
from sqlcache.informer import HandlerFuncs, SharedInformer
from sqlcache.metrics import PrometheusMetrics
from sqlcache.store.api import Indexer
from sqlcache.store.labels import LabelPolicy
from sqlcache.store.observed import READS, WRITES
from sqlcache.store.scan import DictStore
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.clock import VirtualClock
from sqlcache.testing.factories import event, pod
from sqlcache.testing.scripted import Answer, ScriptedListWatch, page
from sqlcache.workqueue import WorkQueue
from tests.backends import BACKENDS
from tests.integration.test_informers import ERROR_410

Value = Callable[..., float | None]


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> PrometheusMetrics:
    return PrometheusMetrics(registry)


@pytest.fixture
def value(registry: CollectorRegistry) -> Value:
    """Return a function that reads a sample by name and labels, None if there is none."""
    return lambda sample, /, **labels: registry.get_sample_value(sample, labels)


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_of_a_store_are_timed(
    tmp_path: Path, metrics: PrometheusMetrics, value: Value, backend: str
) -> None:
    with metrics.observed(BACKENDS[backend](tmp_path, indexers={"x": lambda obj: ["y"]})) as store:
        assert isinstance(store, Indexer)
        for name in (each for each in dir(Indexer) if not each.startswith("_")):
            inspect.getattr_static(store, name)  # so isinstance looks from Python 3.12 on
        store.replace([pod("a", labels={"app": "web"}), pod("b", labels={"app": "web"})], "5")
        assert len(store.select("default", "app=web")) == 2
        assert store.get_by_key("default/a") == pod("a", labels={"app": "web"})
        assert store.by_index("x", "y")
        with pytest.raises(LookupError):
            store.by_index("nope", "y")
        assert store.last_store_sync_resource_version() == "5"
        labels = {"resource": "pods", "backend": store.backend}  # type: ignore[attr-defined]
        counts = {
            operation: value("sqlcache_query_duration_seconds_count", operation=operation, **labels)
            for operation in (*READS, *WRITES)
        }
        expected = {"replace": 1, "select": 1, "get_by_key": 1, "by_index": 2}
        assert counts == {operation: expected.get(operation, 0) for operation in counts}
        total = value("sqlcache_query_duration_seconds_sum", operation="select", **labels)
        assert total is not None
        assert 0 < total < 10


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_are_those_of_open_stores(
    tmp_path: Path, metrics: PrometheusMetrics, value: Value, backend: str
) -> None:
    first, second = (metrics.observed(BACKENDS[backend](tmp_path)) for _ in range(2))
    labels = {"resource": "pods", "backend": first.backend}  # type: ignore[attr-defined]
    first.replace([pod("a", labels={"app": "web"}), pod("b", labels={"app": "web"})], "5")
    second.add(pod("c", labels={"tier": "x"}))
    assert value("sqlcache_store_objects", **labels) == 3, "one resource twice is added up"
    terms = value("sqlcache_store_label_terms", **labels)
    assert terms == (None if backend == "dict" else 2)
    size = value("sqlcache_store_bytes", **labels)
    sizes = [each.size().database_bytes for each in (first, second)]
    assert size == (None if sizes[0] is None else sum(filter(None, sizes)))
    first.close()
    assert value("sqlcache_store_objects", **labels) == 1
    second.close()
    assert value("sqlcache_store_objects", **labels) is None


def test_label_keys_over_the_limit_are_counted(metrics: PrometheusMetrics, value: Value) -> None:
    name, labels = "sqlcache_store_label_keys_over_limit", {"resource": "pods", "backend": "sqlite"}
    with (
        metrics.observed(SqliteStore(labels=LabelPolicy(distinct_limit=2))) as first,
        metrics.observed(SqliteStore(labels=LabelPolicy(distinct_limit=1))) as second,
    ):
        for store in (first, second):
            store.replace(
                [pod(f"p{number}", labels={"n": str(number)}) for number in range(2)], "1"
            )
        assert value(name, **labels) == 1
        first.add(pod("x", labels={"n": "x", "other": "a"}))
        second.add(pod("x", labels={"n": "x", "other": "a"}))
        second.add(pod("y", labels={"other": "b"}))
        assert value(name, **labels) == 3, "one resource twice is added up"
        assert value("sqlcache_store_label_terms", **labels) == 1
    with metrics.observed(DictStore()):
        assert value(name, resource="pods", backend="dict") is None


def test_registry_keeps_nothing_alive(registry: CollectorRegistry) -> None:
    metrics = PrometheusMetrics(registry)
    store = metrics.observed(SqliteStore())
    list_watch = ScriptedListWatch(lists=[Answer(page("10", [pod("a")]))], watches=[Answer()])
    informer = SharedInformer(list_watch, store, use_watch_list=False, metrics=metrics)
    with informer:
        assert informer.wait_for_sync(30)
    queue = WorkQueue[str]("pods", metrics=metrics)
    store.close()
    gone = [weakref.ref(each) for each in (store, informer, queue, informer._reflector)]
    del store, informer, queue, list_watch
    gc.collect()
    assert [each() for each in gone] == [None] * 4
    text = generate_latest(registry).decode()
    assert 'reflector_last_resource_version{name="informer"} NaN' in text
    assert "sqlcache_store_objects{" not in text


def test_one_registry_serves_any_number_of_users(registry: CollectorRegistry, value: Value) -> None:
    one, two = PrometheusMetrics(registry), PrometheusMetrics(registry)
    with DictStore() as store:
        assert one.observed(one.observed(store)) is not store
        observed = two.observed(one.observed(store))
        observed.add(pod("a"))
        labels = {"resource": "pods", "backend": "dict"}
        assert value("sqlcache_store_objects", **labels) == 1
        name = "sqlcache_query_duration_seconds_count"
        assert value(name, operation="add", **labels) == 1
    for metrics in (one, two):
        queue = WorkQueue[str]("pods", metrics=metrics)
        queue.add("a")
    assert value("workqueue_adds_total", name="pods") == 2
    assert value("workqueue_depth", name="pods") == 2


def test_default_registry_is_that_of_the_process() -> None:
    with PrometheusMetrics().observed(DictStore("widgets")) as store:
        store.add(pod("a"))
        labels = {"resource": "widgets", "backend": "dict"}
        assert REGISTRY.get_sample_value("sqlcache_store_objects", labels) == 1


def test_queue_tells_what_it_does(metrics: PrometheusMetrics, value: Value) -> None:
    clock = VirtualClock()
    queue = WorkQueue[str]("pods", metrics=metrics, clock=clock)
    queue.add("a")
    queue.add("a")
    queue.add("b")
    clock.advance(2)
    queue.get()
    clock.advance(3)
    assert value("workqueue_adds_total", name="pods") == 2
    assert value("workqueue_depth", name="pods") == 1
    assert value("workqueue_queue_duration_seconds_sum", name="pods") == 2
    assert value("workqueue_unfinished_work_seconds", name="pods") == 3
    assert value("workqueue_longest_running_processor_seconds", name="pods") == 3
    queue.done("a")
    queue.add_rate_limited("a")
    assert value("workqueue_work_duration_seconds_count", name="pods") == 1
    assert value("workqueue_work_duration_seconds_sum", name="pods") == 3
    assert value("workqueue_unfinished_work_seconds", name="pods") == 0
    assert value("workqueue_retries_total", name="pods") == 1


@pytest.mark.parametrize("stream", [False, True], ids=["list", "stream"])
def test_reflector_tells_of_lists_and_watches(
    metrics: PrometheusMetrics, value: Value, stream: bool
) -> None:
    clock = VirtualClock()
    pods = [pod("a"), pod("b")]
    lists = [Answer(error=ApiStatusError(403, "Forbidden", "no")), Answer(page("10", pods))]
    watches = [Answer(), Answer(ends=True)]
    if stream:
        end = pod("", rv="10")
        end["metadata"]["annotations"] = {"k8s.io/initial-events-end": "true"}
        added = [event("ADDED", each) for each in pods]
        watches[0] = Answer([*added, event("BOOKMARK", end)])
        lists = []
    list_watch = ScriptedListWatch(clock, lists, watches)

    def count(name: str) -> float | None:
        return value(f"reflector_{name}", name="pods")

    with (
        DictStore() as store,
        SharedInformer(
            list_watch, store, name="pods", clock=clock, use_watch_list=stream, metrics=metrics
        ) as informer,
    ):
        informer.add_handler(HandlerFuncs())
        clock.run_until(informer.has_synced)
        assert count("lists_total") == (1 if stream else 2), "refused ones too"
        assert count("list_duration_seconds_count") == 1
        assert count("items_per_list_sum") == 2
        assert count("last_resource_version") == 10
        assert (count("watches_total"), count("items_per_watch_count")) == (1, 0)
        clock.advance(60)
        list_watch.send(event("MODIFIED", pod("a", rv="12")), event("BOOKMARK", pod("", rv="15")))
        list_watch.end_watch()
        clock.settle()
        assert count("last_resource_version") == 15
        assert (count("watches_total"), count("short_watches_total")) == (2, 1)
        assert count("watch_duration_seconds_sum") == pytest.approx(60)
        assert (count("items_per_watch_count"), count("items_per_watch_sum")) == (2, 2)


def test_refused_and_resumed_watches_are_counted(metrics: PrometheusMetrics, value: Value) -> None:
    clock = VirtualClock()
    with DictStore() as store:
        for watches in ([Answer()], [Answer([ERROR_410]), Answer()]):
            list_watch = ScriptedListWatch(
                clock, [Answer(page("10", [pod("a")]))], watches, source="here"
            )
            with SharedInformer(
                list_watch, store, name="pods", clock=clock, use_watch_list=False, metrics=metrics
            ) as informer:
                clock.run_until(informer.has_synced)
                clock.settle()
    assert value("reflector_watches_total", name="pods") == 3
    assert value("reflector_lists_total", name="pods") == 2
    assert value("reflector_short_watches_total", name="pods") == 0


def test_version_that_is_no_number_is_none(metrics: PrometheusMetrics, value: Value) -> None:
    clock = VirtualClock()
    list_watch = ScriptedListWatch(clock, [Answer(page("abc"))], [Answer()])
    with (
        DictStore() as store,
        SharedInformer(
            list_watch, store, clock=clock, use_watch_list=False, metrics=metrics
        ) as informer,
    ):
        clock.run_until(informer.has_synced)
        version = value("reflector_last_resource_version", name="informer")
        assert version is not None
        assert math.isnan(version)


def test_reading_a_registry_beside_writers_is_safe(
    metrics: PrometheusMetrics, registry: CollectorRegistry
) -> None:
    done = threading.Event()

    def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            with metrics.observed(SqliteStore()) as store:
                store.add(pod(f"p{number}", labels={"n": str(number)}))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(20):
            assert b"sqlcache_query_duration_seconds" in generate_latest(registry)
    finally:
        done.set()
        thread.join()
