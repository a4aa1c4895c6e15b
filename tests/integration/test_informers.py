"""Informers with a scripted server: what the golden scenarios do not show."""

from __future__ import annotations

import gc
import logging
import threading
import time
from typing import Any

import pytest

from sqlcache.bench.prepared import PreparedList
from sqlcache.clock import MonotonicClock
from sqlcache.errors import ApiStatusError, DatabaseError, InformerStateError
from sqlcache.informer import Backoff, HandlerFuncs, SharedInformer, SharedInformerFactory
from sqlcache.informer.shared import CHUNK_EVENTS
from sqlcache.objects import DeletedFinalStateUnknown
from sqlcache.store.api import Indexer
from sqlcache.store.scan import DictStore
from sqlcache.testing.clock import VirtualClock
from sqlcache.testing.factories import event, pod
from sqlcache.testing.scripted import Answer, ScriptedListWatch, page
from tests.integration.clusters import eventually

ERROR_410 = {
    "type": "ERROR",
    "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"},
}


class Seen:
    """A handler that writes down key and resourceVersion of all it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_add(self, obj: Any, is_in_initial_list: bool, /) -> None:
        self.calls.append(f"{'initial' if is_in_initial_list else 'add'} {text(obj)}")

    def on_update(self, old: Any, new: Any, /) -> None:
        self.calls.append(f"update {text(old)} {text(new)}")

    def on_delete(self, obj: Any, /) -> None:
        tombstone = isinstance(obj, DeletedFinalStateUnknown)
        self.calls.append(f"tombstone {text(obj.obj)}" if tombstone else f"delete {text(obj)}")


def text(obj: Any) -> str:
    return f"{obj['metadata']['name']}@{obj['metadata']['resourceVersion']}"


def informer_of(
    list_watch: ScriptedListWatch, store: Indexer, clock: VirtualClock, **options: Any
) -> SharedInformer:
    return SharedInformer(list_watch, store, clock=clock, **{"use_watch_list": False, **options})


def test_relist_writes_only_what_differs_and_keeps_stored_objects(clock: VirtualClock) -> None:
    """A relist of a large cluster must neither hold all objects twice nor rewrite them all."""
    pods = [pod(f"p{number}", rv=str(number)) for number in range(1_300)]
    changed = [pod(f"p{number}", rv=f"{number}00") for number in range(1_100)]
    list_watch = ScriptedListWatch(
        clock,
        [Answer(page("10", pods)), Answer(page("20", pods)), Answer(page("30", changed))],
        [Answer(), Answer(), Answer()],
    )
    written: list[int] = []

    class Counting(DictStore):
        def apply(self, events: Any) -> None:
            batch = list(events)
            written.append(len(batch))
            super().apply(batch)

    with Counting() as store, informer_of(list_watch, store, clock) as informer:
        seen: list[bool] = []
        informer.add_handler(HandlerFuncs(on_update=lambda old, new: seen.append(old is new)))
        clock.run_until(informer.has_synced)
        written.clear()
        list_watch.send(ERROR_410)
        clock.run_until(lambda: len(list_watch.requests) == 4)
        assert written == []
        assert seen == [True] * 1_300
        list_watch.send(ERROR_410)
        clock.run_until(lambda: len(list_watch.requests) == 6)
        full, rest = divmod(1_100 + 200, CHUNK_EVENTS)  # changes and deletions, and where it stands
        assert written == [CHUNK_EVENTS + 1] * full + [rest + 1] * bool(rest)
        assert len(store.list_keys()) == 1_100
        assert store.last_store_sync_resource_version() == "30"


def test_unchanged_object_that_changes_before_its_turn_is_told_once(store: Indexer) -> None:
    """It is looked up when its turn comes, and must not be ahead of the update that follows."""
    clock = MonotonicClock()
    go_on = threading.Event()
    seen = Seen()

    def slow_add(obj: Any, initial: bool) -> None:
        go_on.wait(10)
        seen.on_add(obj, initial)

    pods = [pod("a"), pod("b"), pod("c")]
    list_watch = ScriptedListWatch(
        clock,
        [Answer(page("10", pods)), Answer(page("20", pods))],
        [Answer([ERROR_410]), Answer()],
    )
    quick = Backoff(clock, first_s=0.001, longest_s=0.001)
    with SharedInformer(list_watch, store, use_watch_list=False, backoff=quick) as informer:
        informer.add_handler(HandlerFuncs(slow_add, seen.on_update, seen.on_delete))
        while len(list_watch.requests) < 4:
            time.sleep(0.001)
        list_watch.send(event("MODIFIED", pod("a", rv="21")), event("DELETED", pod("b", rv="22")))
        while store.last_store_sync_resource_version() != "22":
            time.sleep(0.001)
        go_on.set()
        while len(seen.calls) < 6:
            time.sleep(0.001)
    assert sorted(seen.calls[:3]) == ["initial a@1", "initial b@1", "initial c@1"]
    assert seen.calls[3:] == ["update c@1 c@1", "update a@1 a@21", "delete b@22"]


class Counted(dict[str, Any]):
    """An object that tells how many of its kind there are."""

    alive = most = 0

    def __init__(self, obj: Any) -> None:
        super().__init__(obj)
        Counted.alive += 1
        Counted.most = max(Counted.most, Counted.alive)

    def __del__(self) -> None:
        Counted.alive -= 1


@pytest.mark.parametrize("streamed", [False, True])
def test_relist_holds_only_what_changed(streamed: bool, store: Indexer) -> None:
    """However the list comes: a large one, all at once, would double the memory of the process."""

    class Listing(PreparedList):
        def list_page(self, **options: Any) -> Any:
            found = super().list_page(**options)
            return {**found, "items": map(Counted, found["items"])}

        def watch(self, **options: Any) -> Any:
            return Watching(super().watch(**options))

    class Watching:
        def __init__(self, inner: Any) -> None:
            self.inner, self.close = inner, inner.close

        def __iter__(self) -> Any:
            for each in self.inner:
                yield {**each, "object": Counted(each["object"])}

    clock, told = MonotonicClock(), list[bool]()
    list_watch = Listing([pod(f"p{number}") for number in range(1_000)], streamed=streamed)
    quick = Backoff(clock, first_s=0.001, longest_s=0.001)
    with SharedInformer(list_watch, store, backoff=quick) as informer:
        informer.add_handler(HandlerFuncs(on_update=lambda old, new: told.append(old is new)))
        assert informer.wait_for_sync(30)
        gc.collect()
        held, Counted.most = Counted.alive, Counted.alive
        list_watch.offer()
        list_watch.expire()
        while len(told) < 1_000:
            time.sleep(0.001)
    assert all(told)
    assert Counted.most - held < 200


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("after_s", [0.0, 0.3, 0.6])
def test_stop_in_the_middle_of_a_long_list_leaves_no_thread(
    streamed: bool, after_s: float, store: Indexer
) -> None:
    """While it is read, compared, written or told."""
    pods = [pod(f"p{number}", labels={"app": f"a{number % 50}"}) for number in range(20_000)]
    informer = SharedInformer(PreparedList(pods, streamed=streamed), store)
    informer.add_handler(HandlerFuncs())
    informer.start()
    time.sleep(after_s)
    started = time.monotonic()
    informer.stop()
    assert time.monotonic() - started < 1
    # On a machine that is held up, a chunk under way may take longer than stop() waits for it.
    eventually(
        lambda: not any(each.name.startswith("informer") for each in threading.enumerate()),
        "no thread of the informer is left",
    )


def test_store_in_the_middle_of_a_relist_stands_where_it_did(clock: VirtualClock) -> None:
    """A process killed in between must resume from before the relist, or it misses deletions."""
    before = [pod(f"p{number}") for number in range(2 * CHUNK_EVENTS + 20)]
    list_watch = ScriptedListWatch(
        clock, [Answer(page("10", before)), Answer(page("20"))], [Answer(), Answer()]
    )
    stood: list[tuple[int, str]] = []

    class Watching(DictStore):
        def apply(self, events: Any) -> None:
            super().apply(events)
            stood.append((len(self.list_keys()), self.last_store_sync_resource_version()))

    with Watching() as store, informer_of(list_watch, store, clock) as informer:
        clock.run_until(informer.has_synced)
        stood.clear()
        list_watch.send(ERROR_410)
        clock.run_until(lambda: len(list_watch.requests) == 4)
        assert store.last_store_sync_resource_version() == "20"
    assert stood == [(CHUNK_EVENTS + 20, "10"), (20, "10"), (0, "10")]


def test_refused_object_does_not_take_others_along(
    store: Indexer, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def picky(obj: Any) -> list[str]:
        if obj["metadata"]["name"] == "bad":
            raise ValueError("no index for this")
        return ["x"]

    list_watch = ScriptedListWatch(
        clock,
        [Answer(page("10", [pod("a"), pod("bad"), pod("b")]))],
        [Answer([event("ADDED", pod("c", rv="11")), event("MODIFIED", pod("bad", rv="12"))])],
    )
    store.add_indexers({"picky": picky})
    with informer_of(list_watch, store, clock) as informer:
        clock.run_until(informer.has_synced)
        clock.settle()
        assert sorted(store.list_keys()) == ["default/a", "default/b", "default/c"]
        assert informer.last_sync_resource_version() == "12"
    assert "the store refused default/bad" in caplog.text


class Failing(DictStore):
    """A store whose disk is full for a while."""

    failures = 1

    def apply(self, events: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise DatabaseError("cache.db", "disk is full")
        super().apply(events)


def test_failing_store_is_not_synced_until_a_relist_is_in_it(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    list_watch = ScriptedListWatch(
        clock,
        [Answer(page("10", [pod("a")])), Answer(page("20", [pod("a", rv="2")]))],
        [Answer(), Answer(), Answer()],
    )
    seen = Seen()
    with Failing() as store, informer_of(list_watch, store, clock) as informer:
        clock.settle()
        informer.add_handler(seen)
        assert not informer.has_synced()
        clock.run_until(informer.has_synced, within=5)
        clock.settle()
        assert seen.calls == ["initial a@2"]
        store.failures = 1
        list_watch.lists.append(Answer(page("30", [pod("a", rv="3")])))
        list_watch.send(event("MODIFIED", pod("a", rv="3")))
        clock.advance(5)
        assert seen.calls == ["initial a@2", "update a@2 a@3"], "the lost event came by the relist"
    assert "the store failed, listing again" in caplog.text


def test_somebody_can_be_told_that_the_store_failed(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    lists = [Answer(page(version, [pod("a")])) for version in ("10", "20")]
    list_watch = ScriptedListWatch(clock, lists, [Answer()])
    told: list[Exception] = []
    options = {"on_store_error": told.append}
    with Failing() as store, informer_of(list_watch, store, clock, **options) as informer:
        clock.run_until(informer.has_synced, within=5)
    assert [str(error) for error in told] == ["cache.db: disk is full"]
    assert not caplog.text


class Cancelled(BaseException):
    """Such as asyncio's and those of test frameworks, which are no `Exception`."""


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, Cancelled])
def test_raising_handler_is_logged_with_the_key_and_goes_on(
    error: type[BaseException],
    store: Indexer,
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    list_watch = ScriptedListWatch(
        clock, [Answer(page("10", [pod("a"), pod("b")]))], [Answer([event("DELETED", pod("a"))])]
    )
    calls: list[str] = []

    def add(obj: Any, initial: bool) -> None:
        calls.append(text(obj))
        if obj["metadata"]["name"] == "a":
            raise error("boom")

    informer = informer_of(list_watch, store, clock, name="pods")
    registration = informer.add_handler(
        HandlerFuncs(on_add=add, on_delete=lambda obj: calls.append("delete"))
    )
    with informer:
        clock.run_until(informer.has_synced)
        clock.settle()
        assert calls == ["a@1", "b@1", "delete"]
        assert registration.has_synced()
    assert "pods-handler-1: handler failed on default/a" in caplog.text


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, Cancelled])
@pytest.mark.parametrize("where", ["list", "watch", "transform of an event"])
def test_cache_does_not_freeze_whatever_foreign_code_raises(
    where: str, error: type[BaseException], store: Indexer, clock: VirtualClock
) -> None:
    """A thread that is gone would leave it as it is for ever, and synced."""

    class Raising(ScriptedListWatch):
        def list_page(self, **options: Any) -> Any:
            self.once("list")
            return super().list_page(**options)

        def watch(self, **options: Any) -> Any:
            self.once("watch")
            return super().watch(**options)

        def once(self, place: str) -> None:
            if place == where and not raised:
                raised.append(place)
                raise error("boom")

    def transform(obj: Any) -> Any:
        if obj["metadata"]["resourceVersion"] == "11":
            list_watch.once("transform of an event")
        return obj

    raised: list[str] = []
    pages = [Answer(page("10", [pod("a")]))] * 2
    news = [event("MODIFIED", pod("a", rv=rv)) for rv in ("11", "12")]
    list_watch = Raising(clock, pages, [Answer(news), Answer(news)])
    told: list[Exception] = []
    options = {"transform": transform, "on_watch_error": told.append}
    with informer_of(list_watch, store, clock, **options):
        clock.run_until(
            lambda: any(o["metadata"]["resourceVersion"] == "12" for o in store.list()), within=10
        )
    assert raised == [where]
    assert all(isinstance(each, Exception) for each in told)


@pytest.mark.parametrize("refusal", [ConnectionRefusedError(), ApiStatusError(429, "", "later")])
def test_long_outage_is_met_with_the_back_off_alone(
    refusal: Exception, store: Indexer, clock: VirtualClock
) -> None:
    """However long it was: the server that is there again is found within the longest delay."""
    list_watch = ScriptedListWatch(clock, [], [Answer(error=refusal) for _ in range(14)])
    backoff = Backoff(clock, jitter=0.0)
    with informer_of(list_watch, store, clock, use_watch_list=True, backoff=backoff):
        clock.run_until(lambda: len(list_watch.requests) == 15, within=1_000)
    delays = [each.waited for each in list_watch.requests[1:]]
    assert delays == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, *[30.0] * 8])


def test_handler_finds_the_store_as_new_as_its_event(store: Indexer, clock: VirtualClock) -> None:
    """Elsewhere a deleted object was still in the cache when its handler ran."""
    list_watch = ScriptedListWatch(
        clock, [Answer(page("10", [pod("a")]))], [Answer([event("DELETED", pod("a", rv="11"))])]
    )
    found: list[Any] = []
    informer = informer_of(list_watch, store, clock)
    informer.add_handler(HandlerFuncs(on_delete=lambda obj: found.append(store.list_keys())))
    with informer:
        clock.run_until(lambda: bool(found))
    assert found == [[]]


def test_stop_in_a_handler_is_possible(store: Indexer, clock: VirtualClock) -> None:
    list_watch = ScriptedListWatch(clock, [Answer(page("10", [pod("a")]))], [Answer()])
    informer = informer_of(list_watch, store, clock)
    informer.add_handler(HandlerFuncs(on_add=lambda obj, _: informer.stop()))
    informer.start()
    clock.run_until(informer.is_stopped)
    informer.stop()
    assert store.list_keys() == ["default/a"]


def test_stop_does_not_wait_for_a_stuck_handler(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    list_watch = ScriptedListWatch(clock, [Answer(page("10", [pod("a")]))], [Answer()])
    leave, inside = threading.Event(), threading.Event()

    def stuck(obj: Any, initial: bool) -> None:
        inside.set()
        leave.wait(10)

    with DictStore() as store:
        informer = informer_of(list_watch, store, clock)
        informer.add_handler(HandlerFuncs(on_add=stuck))
        informer.start()
        assert inside.wait(10)
        started = time.monotonic()
        informer.stop()
        assert time.monotonic() - started < 1
        leave.set()
    assert "still busy after stop(): informer-handler-1" in caplog.text


def test_states_are_guarded(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    list_watch = ScriptedListWatch(clock, [Answer(page("10"))], [Answer()])
    with DictStore() as store:
        informer = informer_of(list_watch, store, clock)
        assert (informer.is_started(), informer.last_sync_resource_version()) == (False, "")
        informer.set_transform(None)
        informer.set_watch_error_handler(lambda error: None)
        with informer:
            for call in (informer.set_transform, informer.set_watch_error_handler):
                with pytest.raises(InformerStateError, match="informer has already started"):
                    call(lambda obj: None)
            informer.start()
            assert "can be started only once" in caplog.text
        informer.stop()
        with pytest.raises(InformerStateError, match="has stopped already"):
            informer.add_handler(HandlerFuncs())
        with pytest.raises(InformerStateError, match="has stopped already"):
            informer.add_indexers({})
        never = informer_of(list_watch, store, clock)
        never.stop()
        assert not never.wait_for_sync()
        never.start()
        assert not never.is_started()


def test_wait_for_sync_waits_on_the_real_clock() -> None:
    list_watch = ScriptedListWatch(
        lists=[Answer(page("10", [pod("a")]), held=True)], watches=[Answer()]
    )
    with DictStore() as store, SharedInformer(list_watch, store, use_watch_list=False) as informer:
        registration = informer.add_handler(HandlerFuncs())
        assert not informer.wait_for_sync(0.01)
        assert not registration.wait_for_sync(0.01)
        list_watch.release()
        assert informer.wait_for_sync(10)
        assert registration.wait_for_sync(10)


def test_removed_handler_drops_what_waits(clock: VirtualClock) -> None:
    list_watch = ScriptedListWatch(clock, [Answer(page("10", [pod("a"), pod("b")]))], [Answer()])
    leave, calls = threading.Event(), []

    def slow(obj: Any, initial: bool) -> None:
        leave.wait(10)
        calls.append(text(obj))

    with DictStore() as store, informer_of(list_watch, store, clock) as informer:
        registration = informer.add_handler(HandlerFuncs(on_add=slow))
        while not informer.has_synced():
            time.sleep(0.001)
        informer.remove_handler(registration)
        informer.remove_handler(registration)
        leave.set()
        assert registration.join(10)
    assert calls in (["a@1"], []), "at most the one in hand"


def test_factory_shares_informers_and_ends_them() -> None:
    made: list[str] = []

    def list_watch(resource: str) -> ScriptedListWatch:
        made.append(resource)
        return ScriptedListWatch(
            lists=[Answer(page("10", [pod("a", labels={"of": resource})]))], watches=[Answer()]
        )

    with SharedInformerFactory(list_watch, store=DictStore, use_watch_list=False) as factory:
        pods = factory.informer("pods")
        assert factory.informer("pods") is pods
        factory.start()
        nodes = factory.informer("nodes", resync_period_s=60.0)
        factory.start()
        assert factory.wait_for_sync(10) == {"pods": True, "nodes": True}
        assert made == ["pods", "nodes"]
        assert [text(each) for each in factory.lister("nodes", "node").list("of=nodes")] == ["a@1"]
    assert pods.is_stopped()
    assert nodes.is_stopped()


def test_store_from_an_earlier_life_is_reconciled(store: Indexer, clock: VirtualClock) -> None:
    store.replace([pod("kept"), pod("changed"), pod("gone")], "7")
    listed = [pod("kept"), pod("changed", rv="8"), pod("new")]
    list_watch = ScriptedListWatch(clock, [Answer(page("10", listed), held=True)], [Answer()])
    seen = Seen()
    informer = informer_of(list_watch, store, clock)
    informer.add_handler(seen)
    with informer:
        clock.settle()
        assert (len(store.list()), informer.has_synced()) == (3, False)
        list_watch.release()
        clock.run_until(informer.has_synced)
        clock.settle()
        assert sorted(map(text, store.list())) == ["changed@8", "kept@1", "new@1"]
        assert store.last_store_sync_resource_version() == "10"
    expected = ["tombstone gone@1", "initial kept@1", "initial changed@8", "initial new@1"]
    assert seen.calls == expected


def test_items_of_a_typed_list_learn_their_type(store: Indexer, clock: VirtualClock) -> None:
    """The API server leaves kind and apiVersion out of list items, but not of events."""
    bare = pod("a")
    del bare["kind"], bare["apiVersion"]
    list_watch = ScriptedListWatch(clock, [Answer(page("10", [bare]))], [Answer()])
    with informer_of(list_watch, store, clock) as informer:
        clock.run_until(informer.has_synced)
        assert store.get_by_key("default/a") == pod("a")


def test_answers_that_make_no_sense_are_survived(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    nonsense: list[Any] = [None, 7, {}, {"type": "ADDED"}, {"type": "ADDED", "object": {}}]
    table = {"apiVersion": "meta.k8s.io/v1", "kind": "Table", "metadata": {}}
    list_watch = ScriptedListWatch(
        clock,
        [Answer({"metadata": None}), Answer(table), Answer(page("10"))],
        [Answer([*nonsense, event("ADDED", table), event("ADDED", pod("a", rv="11"))])],
    )
    with DictStore() as store, informer_of(list_watch, store, clock) as informer:
        clock.run_until(informer.has_synced)
        clock.settle()
        assert store.list_keys() == ["default/a"]
    assert "unable to understand list result" in caplog.text
    assert "unsupported list of tables" in caplog.text
    assert "tables are not supported" in caplog.text
