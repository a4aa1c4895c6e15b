"""Informers on stores that an earlier informer filled: the watch goes on, or a list sets all right.

What only a killed process shows is in test_crashes.py.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from sqlcache.client.transport import ApiListWatch, Resource
from sqlcache.errors import ApiStatusError, DatabaseError, StoreClosedError
from sqlcache.informer import HandlerFuncs, SharedInformer, strip_managed_fields
from sqlcache.informer.shared import CHUNK_EVENTS
from sqlcache.store.api import Indexer
from sqlcache.store.scan import DictStore
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.apiserver import ApiServer
from sqlcache.testing.clock import VirtualClock
from sqlcache.testing.factories import event, names, pod
from sqlcache.testing.scripted import Answer, ScriptedListWatch, page
from tests.integration.lives import pods_of
from tests.integration.test_informers import ERROR_410, Seen, informer_of, text
from tests.integration.test_known_bugs_informers import EXPIRED, FORBIDDEN, TOO_LARGE

SOURCE = "https://here/api/v1/pods"
BOOKMARK = event("BOOKMARK", pod("", rv="15"))
CHANGED = event("MODIFIED", pod("a", rv="11"))


def scripted(
    clock: VirtualClock, lists: list[Answer], watches: list[Answer], source: str = SOURCE
) -> ScriptedListWatch:
    return ScriptedListWatch(clock, lists, watches, source=source)


def first_life(store: Indexer, clock: VirtualClock, **options: Any) -> None:
    """Fill a store with the pods a and b at 10, by an informer that ends."""
    list_watch = scripted(clock, [Answer(page("10", [pod("a"), pod("b")]))], [Answer()])
    with informer_of(list_watch, store, clock, **options) as informer:
        clock.run_until(informer.has_synced)
    assert store.last_store_sync_resource_version() == "10"


def asked(list_watch: ScriptedListWatch) -> list[str]:
    """Return verb and resourceVersion of each request."""
    return [f"{each.verb} {each.options['resource_version']}" for each in list_watch.requests]


def resumes(store: Indexer, clock: VirtualClock, **options: Any) -> bool:
    """Return whether an informer on this store watches before it lists; it gets no answer."""
    list_watch = scripted(clock, [Answer(held=True)], [Answer(held=True)])
    with informer_of(list_watch, store, clock, **options):
        clock.settle()
    return asked(list_watch)[0].startswith("watch")


# The server goes on


@pytest.mark.parametrize("first", [CHANGED, BOOKMARK], ids=["event", "bookmark"])
def test_watch_goes_on_where_the_store_stands(
    store: Indexer, clock: VirtualClock, first: Any
) -> None:
    first_life(store, clock)
    list_watch = scripted(clock, [], [Answer(), Answer()])
    seen = Seen()
    informer = informer_of(list_watch, store, clock, resync_period_s=0.0)
    registration = informer.add_handler(seen)
    with informer:
        clock.settle()
        assert sorted(seen.calls) == ["initial a@1", "initial b@1"]
        assert not informer.has_synced(), "nobody has said that 10 is still known"
        assert not registration.has_synced()
        list_watch.send(first)
        clock.settle()
        assert informer.has_synced()
        assert registration.has_synced()
        list_watch.send(event("DELETED", pod("b", rv="16")))
        list_watch.end_watch()
        clock.settle()
        assert store.list_keys() == ["default/a"]
    assert asked(list_watch) == ["watch 10", "watch 16"]
    short, usual = (each.options["timeout_seconds"] for each in list_watch.requests)
    assert short == 3
    assert 300 <= usual <= 600
    updates = ["update a@1 a@11"] if first is CHANGED else []
    assert seen.calls[2:] == [*updates, "delete b@16"]


def test_bookmark_moves_the_store(store: Indexer, clock: VirtualClock) -> None:
    """With no event for hours, a store would otherwise stand at what the server has forgotten."""
    first_life(store, clock)
    list_watch = scripted(clock, [], [Answer([BOOKMARK])])
    with informer_of(list_watch, store, clock) as informer:
        clock.run_until(informer.has_synced)
    assert store.last_store_sync_resource_version() == "15"
    assert resumes(store, clock)


@pytest.mark.parametrize("same_place", [False, True], ids=["silent", "bookmark of 10"])
@pytest.mark.parametrize("known", [Answer(page("99")), Answer(error=EXPIRED)], ids=["200", "410"])
def test_quiet_resource_is_confirmed_by_a_list_of_one(
    store: Indexer, clock: VirtualClock, known: Answer, same_place: bool
) -> None:
    first_life(store, clock)
    first = [event("BOOKMARK", pod("", rv="10"))] if same_place else []
    list_watch = scripted(clock, [known], [Answer(first), Answer()])
    with informer_of(list_watch, store, clock) as informer:
        clock.advance(3)
        assert not informer.has_synced()
        list_watch.end_watch()
        clock.settle()
        assert informer.has_synced()
    assert asked(list_watch) == ["watch 10", "list 10", "watch 10"]
    assert list_watch.requests[1].options["limit"] == 1


def test_handler_of_a_late_comer_gets_what_is_stored(store: Indexer, clock: VirtualClock) -> None:
    first_life(store, clock)
    list_watch = scripted(clock, [], [Answer()])
    with informer_of(list_watch, store, clock) as informer:
        clock.settle()
        seen = Seen()
        registration = informer.add_handler(seen)
        clock.settle()
        assert sorted(seen.calls) == ["initial a@1", "initial b@1"]
        assert not registration.has_synced()
        list_watch.send(BOOKMARK)
        clock.settle()
        assert registration.has_synced()


@pytest.mark.parametrize(
    "trouble",
    [
        Answer(error=ConnectionRefusedError("refused")),
        Answer(error=ConnectionResetError("reset")),
        Answer(error=ApiStatusError(429, "TooManyRequests", "slow down")),
        Answer(error=TimeoutError("silent")),
    ],
    ids=["refused", "reset", "429", "timeout"],
)
def test_server_that_cannot_be_reached_is_asked_again(
    store: Indexer, clock: VirtualClock, trouble: Answer
) -> None:
    first_life(store, clock)
    list_watch = scripted(clock, [], [trouble, trouble, Answer([BOOKMARK])])
    with informer_of(list_watch, store, clock) as informer:
        clock.settle()
        assert not informer.has_synced()
        clock.run_until(informer.has_synced, within=10)
    assert asked(list_watch) == ["watch 10"] * 3


def test_silent_watch_that_breaks_off_confirms_nothing(store: Indexer, clock: VirtualClock) -> None:
    first_life(store, clock)
    list_watch = scripted(clock, [], [Answer(), Answer([BOOKMARK])])
    with informer_of(list_watch, store, clock) as informer:
        clock.advance(2)
        list_watch.end_watch(ConnectionResetError("cut"))
        clock.settle()
        assert informer.has_synced()
    assert asked(list_watch) == ["watch 10", "watch 10"]


# The server does not go on


@pytest.mark.parametrize("stream", [False, True], ids=["list", "stream"])
@pytest.mark.parametrize(
    "refusal",
    [Answer([ERROR_410]), Answer(error=EXPIRED), Answer([], ends=True)],
    ids=["event", "status", "very short"],
)
def test_forgotten_version_is_followed_by_a_list_and_told_as_changes(
    store: Indexer, clock: VirtualClock, refusal: Answer, stream: bool
) -> None:
    first_life(store, clock)
    listed = [pod("a", rv="18"), pod("c", rv="17")]
    answers = Answer(page("20", listed), held=True)
    watches = [refusal, Answer()]
    if stream:
        end = pod("", rv="20")
        end["metadata"]["annotations"] = {"k8s.io/initial-events-end": "true"}
        added = [event("ADDED", each) for each in listed]
        watches[1] = Answer([*added, event("BOOKMARK", end)], held=True)
    list_watch = scripted(clock, [answers], watches)
    seen = Seen()
    informer = informer_of(list_watch, store, clock, use_watch_list=stream)
    registration = informer.add_handler(seen)
    with informer:
        clock.settle()
        assert (len(store.list()), informer.has_synced()) == (2, False)
        list_watch.release()
        clock.run_until(informer.has_synced)
        clock.settle()
        assert sorted(map(text, store.list())) == ["a@18", "c@17"]
        assert registration.has_synced()
        assert list_watch.requests[1].at == list_watch.requests[0].at, "at once"
    assert sorted(seen.calls[:2]) == ["initial a@1", "initial b@1"]
    assert seen.calls[2] == "tombstone b@1"
    assert sorted(seen.calls[3:]) == ["initial c@17", "update a@1 a@18"]
    assert asked(list_watch)[:2] == ["watch 10", f"{'watch' if stream else 'list'} 10"]
    assert store.last_store_sync_resource_version() == "20"
    assert resumes(store, clock)


def test_readers_see_no_empty_moment_when_a_list_follows(clock: VirtualClock) -> None:
    sizes: list[int] = []

    class Watching(DictStore):
        def apply(self, events: Any) -> None:
            super().apply(events)
            sizes.append(len(self.list_keys()))

    with Watching() as store:
        size = 2 * CHUNK_EVENTS + 40
        pods = [pod(f"p{number}") for number in range(size)]
        filling = scripted(clock, [Answer(page("10", pods))], [Answer()])
        with informer_of(filling, store, clock) as informer:
            clock.run_until(informer.has_synced)
        sizes.clear()
        new = [pod(f"p{number}", rv="20") for number in range(20, size + 20)]
        list_watch = scripted(clock, [Answer(page("20", new))], [Answer([ERROR_410]), Answer()])
        with informer_of(list_watch, store, clock) as informer:
            clock.run_until(informer.has_synced)
        assert len(store.list_keys()) == size
    assert sizes == [size - 20, size - 20, size]


def test_version_of_the_future_is_found_out(store: Indexer, clock: VirtualClock) -> None:
    """A watch from it is silent: for the cluster that was set up anew under the same address."""
    first_life(store, clock)
    lists = [Answer(error=TOO_LARGE), Answer(page("5", [pod("x")]))]
    list_watch = scripted(clock, lists, [Answer(), Answer()])
    seen = Seen()
    informer = informer_of(list_watch, store, clock)
    informer.add_handler(seen)
    with informer:
        clock.advance(3)
        list_watch.end_watch()
        clock.run_until(informer.has_synced)
        clock.settle()
        assert store.list_keys() == ["default/x"]
        assert store.last_store_sync_resource_version() == "5"
    assert asked(list_watch) == ["watch 10", "list 10", "list ", "watch 5"]
    assert sorted(seen.calls[2:4]) == ["tombstone a@1", "tombstone b@1"]
    assert seen.calls[4:] == ["initial x@1"]


@pytest.mark.parametrize("error", [FORBIDDEN, ApiStatusError(500, "InternalError", "abc")])
@pytest.mark.parametrize("opened", [False, True], ids=["status", "event"])
def test_other_refusals_are_followed_by_the_newest_list(
    store: Indexer, clock: VirtualClock, error: ApiStatusError, opened: bool
) -> None:
    """A resourceVersion that is none to this server must not be asked for again and again."""
    first_life(store, clock)
    status = {"kind": "Status", "code": error.code, "reason": error.reason}
    refusal = Answer([{"type": "ERROR", "object": status}]) if opened else Answer(error=error)
    list_watch = scripted(clock, [Answer(page("20", [pod("a")]))], [refusal, Answer()])
    with informer_of(list_watch, store, clock) as informer:
        clock.run_until(informer.has_synced)
        assert store.list_keys() == ["default/a"]
    assert asked(list_watch) == ["watch 10", "list ", "watch 20"]


def test_failing_list_of_one_is_no_confirmation(store: Indexer, clock: VirtualClock) -> None:
    first_life(store, clock)
    unreachable = Answer(error=ConnectionResetError("reset"))
    list_watch = scripted(clock, [unreachable], [Answer(), Answer([BOOKMARK])])
    with informer_of(list_watch, store, clock) as informer:
        clock.advance(3)
        list_watch.end_watch()
        clock.settle()
        assert not informer.has_synced()
        clock.run_until(informer.has_synced, within=5)
    assert asked(list_watch) == ["watch 10", "list 10", "watch 10"]


def test_trouble_after_the_confirmation_is_as_ever(store: Indexer, clock: VirtualClock) -> None:
    first_life(store, clock)
    lists = [Answer(page("20", [pod("a", rv="11"), pod("b")]))]
    list_watch = scripted(clock, lists, [Answer([CHANGED, ERROR_410]), Answer()])
    seen = Seen()
    informer = informer_of(list_watch, store, clock)
    informer.add_handler(seen)
    with informer:
        clock.run_until(lambda: len(list_watch.requests) == 3)
        clock.settle()
    assert asked(list_watch) == ["watch 10", "list 11", "watch 20"]
    assert 0.8 <= list_watch.requests[1].waited <= 1.6
    assert seen.calls[2:] == ["update a@1 a@11", "update a@11 a@11", "update b@1 b@1"]


# Stores that are not what they seem


def test_unnamed_source_is_never_resumed(store: Indexer, clock: VirtualClock) -> None:
    for _ in range(2):
        list_watch = scripted(clock, [Answer(page("10", [pod("a")]))], [Answer()], source="")
        with informer_of(list_watch, store, clock) as informer:
            clock.run_until(informer.has_synced)
        assert asked(list_watch)[0] == "list 0"
    assert store.source() == ""


def test_store_of_another_source_is_listed_and_becomes_ours(
    store: Indexer, clock: VirtualClock
) -> None:
    """Another cluster, namespace, or selector: its resourceVersion means nothing here."""
    first_life(store, clock)
    other = "https://here/api/v1/pods?labelSelector=app"
    list_watch = scripted(clock, [Answer(page("7", [pod("b")]))], [Answer()], source=other)
    seen = Seen()
    informer = informer_of(list_watch, store, clock)
    informer.add_handler(seen)
    with informer:
        clock.run_until(informer.has_synced)
        clock.settle()
    assert asked(list_watch) == ["list 0", "watch 7"]
    assert seen.calls == ["tombstone a@1", "initial b@1"]
    assert (store.source(), store.last_store_sync_resource_version()) == (other, "7")
    assert not resumes(store, clock)


def strip_labels(obj: Any) -> Any:
    obj["metadata"].pop("labels", None)
    return obj


def test_late_handler_hears_nothing_of_what_is_not_ours(
    store: Indexer, clock: VirtualClock
) -> None:
    """It would hear of everything again when the first list comes."""
    store.replace([pod("a"), pod("b")], "7")
    list_watch = scripted(clock, [Answer(page("10", [pod("b")]), held=True)], [Answer()])
    seen = Seen()
    with informer_of(list_watch, store, clock) as informer:
        registration = informer.add_handler(seen)
        clock.settle()
        assert seen.calls == []
        list_watch.release()
        clock.run_until(registration.has_synced)
    assert seen.calls == ["tombstone a@1", "initial b@1"]


def test_transform_is_part_of_the_source(store: Indexer, clock: VirtualClock) -> None:
    first_life(store, clock, transform=strip_managed_fields)
    assert resumes(store, clock, transform=strip_managed_fields)
    assert not resumes(store, clock, transform=strip_labels)
    assert not resumes(store, clock)


@pytest.mark.parametrize(
    "nameless", [lambda obj: obj, functools.partial(strip_labels)], ids=["lambda", "partial"]
)
def test_transform_without_a_name_rules_resuming_out(
    store: Indexer, clock: VirtualClock, nameless: Any
) -> None:
    first_life(store, clock, transform=nameless)
    assert not resumes(store, clock, transform=nameless)


@pytest.mark.parametrize("rv", ["", "0"])
def test_store_without_a_usable_version_is_listed(
    store: Indexer, clock: VirtualClock, rv: str
) -> None:
    first_life(store, clock)
    store.replace([pod("a")], rv)  # such as a dump that was loaded
    assert not resumes(store, clock)


def test_list_without_a_version_is_not_resumed(store: Indexer, clock: VirtualClock) -> None:
    """A watch from "0" begins with events in no order, whose versions say nothing."""
    watch = Answer([event("ADDED", pod("b", rv="8")), event("ADDED", pod("c", rv="3"))])
    list_watch = scripted(clock, [Answer(page("0", [pod("a")]))], [watch])
    with informer_of(list_watch, store, clock) as informer:
        clock.run_until(lambda: len(store.list_keys()) == 3)
        assert informer.has_synced()
    assert not resumes(store, clock)


def refuse_bad(obj: Any) -> Any:
    if obj["metadata"]["name"] == "bad":
        raise ValueError("cannot make anything of this")
    return obj


def bad_index(obj: Any) -> list[str]:
    refuse_bad(obj)
    return ["x"]


@pytest.mark.parametrize("by_store", [False, True], ids=["transform", "store"])
@pytest.mark.parametrize("when", ["event", "list", "stream"])
def test_store_that_lacks_an_object_is_not_resumed(
    store: Indexer, clock: VirtualClock, when: str, by_store: bool
) -> None:
    """The next life may have the mended function: only a list brings what was refused."""
    options: dict[str, Any] = {} if by_store else {"transform": refuse_bad}
    first_life(store, clock, **options)
    if by_store:
        store.add_indexers({"bad": bad_index})
    assert resumes(store, clock, **options)
    watches = [Answer([event("ADDED", pod("bad", rv="11")), BOOKMARK])]
    listed = [pod("a"), pod("bad", rv="11"), pod("b")]
    if when == "stream":
        end = pod("", rv="20")
        end["metadata"]["annotations"] = {"k8s.io/initial-events-end": "true"}
        added = [event("ADDED", each) for each in listed]
        watches = [Answer([ERROR_410]), Answer([*added, event("BOOKMARK", end)])]
    elif when == "list":
        watches = [Answer([ERROR_410]), Answer()]
    list_watch = scripted(clock, [Answer(page("20", listed))], watches)
    use = {"use_watch_list": when == "stream", **options}
    with informer_of(list_watch, store, clock, **use) as informer:
        clock.settle()
        if when != "list" or by_store:
            assert informer.has_synced()
        assert sorted(store.list_keys()) == ["default/a", "default/b"]
    listed_whole = when == "list" and not by_store  # such a list fails: the store is as it was
    assert resumes(store, clock, **options) == listed_whole
    reached = event("BOOKMARK", pod("", rv="31"))
    mended = scripted(clock, [Answer(page("30", [pod("a")]))], [Answer([reached])])
    with informer_of(mended, store, clock, **options) as informer:
        clock.run_until(informer.has_synced)
    assert resumes(store, clock, **options)


class Dying(DictStore):
    """A store whose process dies in a write: nothing more is written in this life."""

    writes_left = 1 << 30

    def apply(self, events: Any) -> None:
        self._write()
        super().apply(events)

    def bookmark(self, resource_version: str) -> None:
        self._write()
        super().bookmark(resource_version)

    def set_source(self, source: str) -> None:
        self._write()
        super().set_source(source)

    def _write(self) -> None:
        if not self.writes_left:
            raise DatabaseError("cache.db", "the process is dead")
        self.writes_left -= 1


@pytest.mark.parametrize("writes", range(6))
def test_relist_cut_short_is_not_taken_for_whole(clock: VirtualClock, writes: int) -> None:
    with Dying() as store:
        size = 2 * CHUNK_EVENTS
        pods = [pod(f"p{number}") for number in range(size)]
        filling = scripted(clock, [Answer(page("10", pods))], [Answer()])
        with informer_of(filling, store, clock) as informer:
            clock.run_until(informer.has_synced)
        store.writes_left = writes
        new = [pod(f"p{number}", rv="20") for number in range(size)]
        relist = scripted(clock, [Answer(page("20", new))], [Answer([ERROR_410])])
        with informer_of(relist, store, clock):
            clock.settle()
        store.writes_left = 1 << 30
        states = {each["metadata"]["resourceVersion"] for each in store.list()}
        stands = store.last_store_sync_resource_version()
        resumed = resumes(store, clock)
        # 1: the source is taken back; 2 and 3: half of the objects each; 4: the version; 5: source
        assert resumed == (writes in (0, 5))
        assert states == ({"1"}, {"1"}, {"1", "20"}, {"20"}, {"20"}, {"20"})[writes]
        assert stands == ("20" if writes >= 4 else "10")


def test_write_that_failed_is_not_passed_over(clock: VirtualClock) -> None:
    """Later events are written before the relist comes; a death in between must not hide it."""

    class FailingOnce(DictStore):
        failing = False

        def apply(self, events: Any) -> None:
            failing, self.failing = self.failing, False
            if failing:
                raise DatabaseError("cache.db", "the disk is full")
            super().apply(events)

    with FailingOnce() as store:
        first_life(store, clock)
        store.failing = True
        events = [
            event("ADDED", pod("c", rv="11")),
            event("MODIFIED", pod("a", rv="12")),
            event("MODIFIED", pod("a", rv="13")),  # a batch of its own
        ]
        list_watch = scripted(clock, [Answer(held=True)], [Answer(events)])
        with informer_of(list_watch, store, clock):
            clock.run_until(lambda: len(list_watch.requests) == 2)
        assert asked(list_watch)[1].startswith("list")
        assert sorted(map(text, store.list())) == ["a@13", "b@1"]
        assert store.last_store_sync_resource_version() == "13"
        assert not resumes(store, clock)


def test_unreadable_store_is_listed(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    class Unreadable(DictStore):
        failing = False

        def list(self) -> Any:
            if self.failing:
                raise DatabaseError("cache.db", "is damaged")
            return super().list()

    with Unreadable() as store:
        first_life(store, clock)
        store.failing = True
        list_watch = scripted(clock, [Answer(page("20", [pod("a")]))], [Answer()])
        seen = Seen()
        informer = informer_of(list_watch, store, clock)
        informer.add_handler(seen)
        with informer:
            clock.run_until(informer.has_synced)
            clock.settle()
        assert seen.calls == ["tombstone b@1", "initial a@1"]
    assert "what the store holds cannot be read" in caplog.text


def test_closed_store_cannot_be_started(clock: VirtualClock) -> None:
    with DictStore() as store:
        informer = informer_of(scripted(clock, [], []), store, clock)
        informer.add_handler(HandlerFuncs())
    with pytest.raises(StoreClosedError):
        informer.start()
    informer.stop()


# Handlers and failing stores


def test_handlers_hear_of_the_half_of_a_relist_that_was_written(clock: VirtualClock) -> None:
    """The list that follows finds no difference there: nobody else would tell them."""
    with Dying() as store:
        size = CHUNK_EVENTS + 40
        pods = [pod(f"p{number}") for number in range(size)]
        lists = [Answer(page("10", pods)), Answer(page("20")), Answer(page("30"))]
        list_watch = scripted(clock, lists, [Answer(), Answer(), Answer()])
        seen = Seen()
        informer = informer_of(list_watch, store, clock)
        informer.add_handler(seen)
        with informer:
            clock.run_until(informer.has_synced)
            store.writes_left = 2  # the source is taken back, and the first chunk of deletions
            list_watch.send(ERROR_410)
            clock.run_until(lambda: len(store.list_keys()) == 40)
            assert len(seen.calls) == size + CHUNK_EVENTS
            store.writes_left = 1 << 30
            clock.run_until(lambda: not store.list_keys())
            clock.settle()
        told = seen.calls[size:]
        assert sorted(told) == sorted(f"tombstone p{number}@1" for number in range(size))


def test_handlers_are_not_told_of_what_the_store_refused(
    store: Indexer, clock: VirtualClock
) -> None:
    store.add_indexers({"bad": bad_index})
    lists = [
        Answer(page("10", [pod("a"), pod("bad")])),
        Answer(page("20", [pod("a"), pod("bad", rv="2"), pod("b")])),
    ]
    list_watch = scripted(clock, lists, [Answer([ERROR_410]), Answer()])
    seen = Seen()
    informer = informer_of(list_watch, store, clock)
    registration = informer.add_handler(seen)
    with informer:
        clock.run_until(lambda: len(list_watch.requests) == 4)
        clock.settle()
        assert registration.has_synced()
        assert sorted(store.list_keys()) == ["default/a", "default/b"]
        assert store.last_store_sync_resource_version() == "20"
    assert seen.calls == ["initial a@1", "update a@1 a@1", "add b@1"]


# Files


def by_app(obj: Any) -> list[str]:
    return [obj["metadata"]["labels"]["app"]]


def test_file_is_taken_up_again_and_again(tmp_path: Path, clock: VirtualClock) -> None:
    """As `sqlcache mirror` that is restarted every now and then: one list in all its lives."""
    path = str(tmp_path / "cache.db")
    expected = {}
    for life in range(12):
        expected[f"p{life % 5}"] = f"{100 + life}"
        changed = pod(f"p{life % 5}", labels={"app": f"a{life}"}, rv=f"{100 + life}")
        lists = [] if life else [Answer(page("10", [pod("x", labels={"app": "x"})]))]
        list_watch = scripted(clock, lists, [Answer([event("MODIFIED", changed)])])
        with SqliteStore(path) as store:
            seen = Seen()
            informer = informer_of(list_watch, store, clock)
            informer.add_handler(seen)
            with informer:
                clock.run_until(informer.has_synced)
                clock.settle()
            assert {
                each["metadata"]["name"]: each["metadata"]["resourceVersion"]
                for each in store.list()
            } == {"x": "1", **expected}
            assert store.count("", f"app=a{life}") == 1
        assert asked(list_watch) == ([f"watch {99 + life}"] if life else ["list 0", "watch 10"])
        known = 1 + min(life, 5)
        assert sum(call.startswith("initial") for call in seen.calls) == known
        assert len(seen.calls) == known + 1


@pytest.mark.parametrize("late", [False, True], ids=["at once", "after the start"])
def test_index_functions_of_the_next_life_cover_what_is_stored(
    tmp_path: Path, clock: VirtualClock, late: bool
) -> None:
    path = str(tmp_path / "cache.db")
    pods = [pod("a", labels={"app": "web"}), pod("b", labels={"app": "db"})]
    filling = scripted(clock, [Answer(page("10", pods))], [Answer()])
    with SqliteStore(path) as store, informer_of(filling, store, clock) as informer:
        clock.run_until(informer.has_synced)
    indexers = {"app": by_app}
    with SqliteStore(path, indexers=None if late else indexers) as store:
        list_watch = scripted(clock, [], [Answer([BOOKMARK])])
        with informer_of(list_watch, store, clock) as informer:
            if late:
                informer.add_indexers(indexers)
            assert store.index_keys("app", "web") == ["default/a"]
            clock.run_until(informer.has_synced)
            list_watch.send(event("MODIFIED", pod("a", labels={"app": "db"}, rv="16")))
            clock.settle()
            assert store.index_keys("app", "db") == ["default/a", "default/b"]


def test_mirrors_of_two_resources_share_a_file(tmp_path: Path, clock: VirtualClock) -> None:
    path = str(tmp_path / "cache.db")
    with SqliteStore(path, "pods") as pods, SqliteStore(path, "services") as services:
        first_life(pods, clock)
        assert not resumes(services, clock)
        assert resumes(pods, clock)


def test_informer_without_handlers_reads_no_object_of_the_file(clock: VirtualClock) -> None:
    class Counting(DictStore):
        reads = 0

        def list(self) -> Any:
            self.reads += 1
            return super().list()

    with Counting() as store:
        first_life(store, clock)
        informer: SharedInformer
        with informer_of(scripted(clock, [], [Answer([BOOKMARK])]), store, clock) as informer:
            clock.run_until(informer.has_synced)
        assert store.reads == 0


# Over HTTP


def mirror_once(server: ApiServer, path: str) -> list[str]:
    """Take a file up until it is synced; return verb and resourceVersion of what was asked."""
    before = len(server.requests)
    list_watch = pods_of(server.url)
    with SqliteStore(path) as store, SharedInformer(list_watch, store) as informer:
        assert informer.wait_for_sync(30)
        assert names(store.list()) == names(server.list("pods"))
        assert store.source() == f"{server.url}/api/v1/pods"
    list_watch.close()
    return [
        f"{each.verb} {each.query.get('resourceVersion', '')}" for each in server.requests[before:]
    ]


def test_quiet_server_confirms_within_seconds(tmp_path: Path) -> None:
    path = str(tmp_path / "cache.db")
    with ApiServer() as server:
        server.load("pods", [pod("a"), pod("b")])
        rv = server.resource_version
        mirror_once(server, path)
        assert mirror_once(server, path)[:2] == [f"watch {rv}", f"list {rv}"]
        server.skip_versions(5)  # as a cluster's leases do all the time
        assert mirror_once(server, path) == [f"watch {rv}"]


def test_cluster_set_up_anew_under_the_same_address_is_found_out(tmp_path: Path) -> None:
    path = str(tmp_path / "cache.db")
    with ApiServer() as server:
        server.skip_versions(1_000)
        server.load("pods", [pod("a"), pod("b")])
        mirror_once(server, path)
        old, port = server.resource_version, server.port
    with ApiServer(port=port, fresh_wait_s=0.1) as server:
        server.load("pods", [pod("c")])
        asked = mirror_once(server, path)
    assert asked[:3] == [f"watch {old}", f"list {old}", "watch "]
    assert len(asked) == 3


def test_source_tells_what_is_listed_and_no_secret() -> None:
    configuration: Any = kubernetes.client.Configuration()
    configuration.host = "https://user:secret@host:6443/prefix"
    client: Any = kubernetes.client.ApiClient(configuration)
    deployments = Resource("apps", "v1", "deployments")
    list_watch = ApiListWatch(
        client, deployments, namespace="shop", label_selector="a in (b,c)", field_selector="x=y"
    )
    assert list_watch.source == (
        "https://host:6443/prefix/apis/apps/v1/namespaces/shop/deployments"
        "?labelSelector=a+in+%28b%2Cc%29&fieldSelector=x%3Dy"
    )
