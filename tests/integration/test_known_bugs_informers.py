"""Faults that users of other informers and watches reported, by their number in the list.

Those that only a socket can show are in test_transport.py: I5 (a server that falls silent), I7 (a
line that is cut) and I13 (selectors on lists and watches).
"""

from __future__ import annotations

import gc
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from sqlcache.errors import ApiStatusError
from sqlcache.informer import HandlerFuncs, SharedInformer
from sqlcache.store.api import Indexer
from sqlcache.store.scan import DictStore
from sqlcache.testing.apiserver import ApiServer
from sqlcache.testing.clock import VirtualClock
from sqlcache.testing.factories import event, pod
from sqlcache.testing.scripted import Answer, ScriptedListWatch, page
from tests.backends import BACKENDS
from tests.golden.test_informer import Gate
from tests.integration.lives import pods_of
from tests.integration.test_informers import ERROR_410, Seen, informer_of

EXPIRED = ApiStatusError(410, "Expired", "too old")
FORBIDDEN = ApiStatusError(403, "Forbidden", "no")
TOO_LARGE = ApiStatusError(
    504,
    "Timeout",
    "Too large resource version",
    {"causes": [{"reason": "ResourceVersionTooLarge"}]},
)


@pytest.fixture
def one_store(tmp_path: Path) -> Iterator[Indexer]:
    with BACKENDS["sqlite"](tmp_path) as store:
        yield store


def wait_until(reached: Callable[[], bool], within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class ForEver(list[Answer]):
    """The same answer to every request."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, number: Any) -> Any:
        return self._answer


@pytest.mark.parametrize("stream", [False, True], ids=["list", "stream"])
@pytest.mark.parametrize(
    ("error", "opened"),
    [(FORBIDDEN, False), (EXPIRED, False), (TOO_LARGE, False), (EXPIRED, True), (FORBIDDEN, True)],
    ids=["403", "410", "too-large", "410-event", "403-event"],
)
def test_i1_i9_refusals_for_ever_are_backed_off(
    one_store: Indexer, clock: VirtualClock, error: ApiStatusError, opened: bool, stream: bool
) -> None:
    """1,400 requests in 2 s elsewhere; or a loop without end at "too large resource version"."""
    status = {"kind": "Status", "code": error.code, "reason": error.reason}
    ended = Answer([{"type": "ERROR", "object": status}]) if opened else Answer(error=error)
    pages = Answer(page("10", [pod("a")])) if opened else Answer(error=error)
    list_watch = ScriptedListWatch(clock, ForEver(pages), ForEver(ended))
    errors: list[Exception] = []
    options = {"use_watch_list": stream, "on_watch_error": errors.append}
    with informer_of(list_watch, one_store, clock, **options):
        clock.advance(120)
        assert 5 < len(list_watch.requests) < 60


def test_i1_short_watches_for_ever_are_backed_off(one_store: Indexer, clock: VirtualClock) -> None:
    list_watch = ScriptedListWatch(clock, ForEver(Answer(page("10"))), ForEver(Answer(ends=True)))
    with informer_of(list_watch, one_store, clock):
        clock.advance(120)
        assert len(list_watch.requests) < 30


def test_i1_streaming_lists_that_are_cut_for_ever_are_backed_off(
    one_store: Indexer, clock: VirtualClock
) -> None:
    cut = Answer([event("ADDED", pod("a"))], ends=True)
    list_watch = ScriptedListWatch(clock, [], ForEver(cut))
    with informer_of(list_watch, one_store, clock, use_watch_list=True):
        clock.advance(120)
        assert len(list_watch.requests) < 30


def test_i2_resync_comes_though_watches_keep_ending(store: Indexer, clock: VirtualClock) -> None:
    list_watch = ScriptedListWatch(
        clock, [Answer(page("10", [pod("a")]))], [Answer() for _ in range(100)]
    )
    seen = Seen()
    informer = informer_of(list_watch, store, clock, resync_period_s=1.0)
    informer.add_handler(seen)
    with informer:
        clock.run_until(informer.has_synced)
        for number in range(10):
            clock.advance(0.31)
            list_watch.send(event("BOOKMARK", pod("", rv=str(11 + number))))
            clock.settle()
            list_watch.end_watch()
            clock.settle()
    assert seen.calls == ["initial a@1", *["update a@1 a@1"] * 3]


def test_i3_deletion_missed_while_disconnected_is_a_tombstone(
    store: Indexer, clock: VirtualClock
) -> None:
    list_watch = ScriptedListWatch(
        clock,
        [Answer(page("10", [pod("a"), pod("b")])), Answer(page("20", [pod("b")]))],
        [Answer(), Answer()],
    )
    seen = Seen()
    informer = informer_of(list_watch, store, clock)
    informer.add_handler(seen)
    with informer:
        clock.run_until(informer.has_synced)
        list_watch.send(ERROR_410)
        clock.run_until(lambda: len(list_watch.requests) == 4)
        assert store.list_keys() == ["default/b"]
    assert seen.calls == ["initial a@1", "initial b@1", "tombstone a@1", "update b@1 b@1"]


def test_i4_late_handler_gets_what_is_there(store: Indexer, clock: VirtualClock) -> None:
    list_watch = ScriptedListWatch(clock, [Answer(page("10", [pod("a"), pod("b")]))], [Answer()])
    with informer_of(list_watch, store, clock) as informer:
        clock.run_until(informer.has_synced)
        seen = Seen()
        registration = informer.add_handler(seen)
        clock.settle()
        assert sorted(seen.calls) == ["initial a@1", "initial b@1"]
        assert registration.has_synced()
        list_watch.send(event("MODIFIED", pod("a", rv="11")))
        clock.settle()
        assert seen.calls[2:] == ["update a@1 a@11"]


@pytest.mark.parametrize("state", ["listing", "watching", "backing off", "opening"])
def test_i6_stop_takes_no_time_in_any_state(
    store: Indexer, clock: VirtualClock, state: str
) -> None:
    first = Answer(page("10", [pod("a")]), held=state == "listing")
    if state == "backing off":
        first = Answer(error=FORBIDDEN)
    list_watch = ScriptedListWatch(clock, [first], [Answer(held=state == "opening")])
    with informer_of(list_watch, store, clock, resync_period_s=5.0) as informer:
        informer.add_handler(HandlerFuncs())
        clock.settle()
        started = time.monotonic()
        informer.stop()
        assert time.monotonic() - started < 1


@pytest.mark.parametrize("broken", [ConnectionResetError("reset"), TimeoutError("silent"), None])
def test_i7_broken_stream_is_resumed_from_the_last_event(
    store: Indexer, clock: VirtualClock, broken: Exception | None
) -> None:
    events = [event("ADDED", pod("a", rv="11")), event("BOOKMARK", pod("", rv="15"))]
    list_watch = ScriptedListWatch(
        clock,
        [Answer(page("10"))],
        [Answer(events, ends=True, breaks=broken), Answer([event("MODIFIED", pod("a", rv="16"))])],
    )
    seen = Seen()
    informer = informer_of(list_watch, store, clock)
    informer.add_handler(seen)
    with informer:
        clock.run_until(lambda: len(seen.calls) == 2)
    assert seen.calls == ["add a@11", "update a@11 a@16"]
    assert [each.options["resource_version"] for each in list_watch.requests] == ["0", "10", "15"]


def test_i8_410_on_the_second_page_gives_the_whole_list(
    store: Indexer, clock: VirtualClock
) -> None:
    pods = [pod(f"p{number}") for number in range(5_000)]
    list_watch = ScriptedListWatch(
        clock,
        [Answer(page("10", pods[:500], "t")), Answer(error=EXPIRED), Answer(page("12", pods))],
        [Answer()],
    )
    with informer_of(list_watch, store, clock) as informer:
        clock.run_until(informer.has_synced)
        assert len(store.list_keys()) == 5_000
        assert len(list_watch.requests) == 4


def test_i9_too_large_resource_version_falls_back_to_the_newest(
    store: Indexer, clock: VirtualClock
) -> None:
    list_watch = ScriptedListWatch(
        clock, [Answer(error=TOO_LARGE), Answer(page("5", [pod("a")]))], [Answer()]
    )
    with informer_of(list_watch, store, clock) as informer:
        clock.run_until(informer.has_synced, within=0.001)
        assert [each.options["resource_version"] for each in list_watch.requests[:2]] == ["0", ""]


def test_i10_events_queued_before_a_relist_come_first(store: Indexer, clock: VirtualClock) -> None:
    """Elsewhere the added object became a ghost, and the deletion or the addition was lost."""
    gate = Gate(clock)

    def gated(obj: Any) -> list[str]:
        gate.pass_through()
        return ["x"]

    store.add_indexers({"gate": gated})
    queued = [
        event("ADDED", pod("ghost", rv="11")),
        event("DELETED", pod("back", rv="12")),
        event("ADDED", pod("brief", rv="13")),
        event("DELETED", pod("brief", rv="14")),
        ERROR_410,
    ]
    list_watch = ScriptedListWatch(
        clock,
        [Answer(page("10", [pod("back")])), Answer(page("20", [pod("back", rv="19")]))],
        [Answer(), Answer()],
    )
    seen = Seen()
    informer = informer_of(list_watch, store, clock)
    informer.add_handler(seen)
    with informer:
        clock.run_until(informer.has_synced)
        gate.set(shut=True)
        list_watch.send(*queued)
        clock.run_until(lambda: len(list_watch.requests) == 4)
        assert seen.calls == ["initial back@1"]
        gate.set(shut=False)
        clock.settle()
        assert store.list_keys() == ["default/back"]
    assert seen.calls[1:] == [
        "add ghost@11",
        "delete back@12",
        "add brief@13",
        "delete brief@14",
        "tombstone ghost@11",
        "add back@19",
    ]


def test_i11_registration_is_synced_only_when_its_handler_was_called(
    store: Indexer, clock: VirtualClock
) -> None:
    list_watch = ScriptedListWatch(clock, [Answer(page("10", [pod("a")]))], [Answer()])
    gate, calls = Gate(clock), []
    gate.set(shut=True)

    def add(obj: Any, initial: bool) -> None:
        gate.pass_through()
        calls.append(obj)

    informer = informer_of(list_watch, store, clock)
    registration = informer.add_handler(HandlerFuncs(on_add=add))
    with informer:
        clock.run_until(informer.has_synced)
        assert not registration.has_synced()
        gate.set(shut=False)
        clock.settle()
        assert (registration.has_synced(), len(calls)) == (True, 1)


def test_i12_raising_handler_misses_nothing_else(store: Indexer, clock: VirtualClock) -> None:
    events = [event("ADDED", pod(f"p{number}", rv=str(number))) for number in range(5)]
    list_watch = ScriptedListWatch(clock, [Answer(page("10"))], [Answer(events)])
    calls: list[str] = []

    def add(obj: Any, initial: bool) -> None:
        calls.append(obj["metadata"]["name"])
        raise RuntimeError("boom")

    informer = informer_of(list_watch, store, clock)
    informer.add_handler(HandlerFuncs(on_add=add))
    with informer:
        clock.run_until(lambda: len(calls) == 5)
    assert calls == [f"p{number}" for number in range(5)]


def test_i14_late_answer_of_a_write_brings_nothing_back() -> None:
    """Elsewhere writers put what the server answered into the cache; a deletion seen before that
    answer came was undone. Here only list and watch write, in one thread."""

    class Recording(DictStore):
        def __init__(self) -> None:
            super().__init__()
            self.writers: set[str] = set()

        def _commit(self, *arguments: Any) -> None:
            self.writers.add(threading.current_thread().name)
            super()._commit(*arguments)

        def _commit_replace(self, *arguments: Any) -> None:
            self.writers.add(threading.current_thread().name)
            super()._commit_replace(*arguments)

    seen = Seen()
    with ApiServer() as server, Recording() as store:
        list_watch = pods_of(server.url)
        configuration = kubernetes.client.Configuration()
        configuration.host = server.url
        api = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))
        with SharedInformer(list_watch, store, name="pods", resync_period_s=1.0) as informer:
            informer.add_handler(seen)
            container = {"name": "c", "image": "i"}
            body = {"metadata": {"name": "a"}, "spec": {"containers": [container]}}
            api.create_namespaced_pod("default", body)
            patch = {"metadata": {"labels": {"x": "y"}}}
            answer = api.patch_namespaced_pod("a", "default", patch)
            api.delete_namespaced_pod("a", "default", grace_period_seconds=0)
            gone = f"delete a@{server.resource_version}"
            wait_until(lambda: seen.calls[-1:] == [gone])
            # Only now the writer has the time to look at its answer.
            assert answer.metadata.labels == {"x": "y"}
            assert store.list() == []
            with server.refusing():
                server.create("pods", {**body, "metadata": {"name": "b"}})
                server.compact()  # so a relist follows, and after it a resync
            wait_until(lambda: any(call.startswith("update b") for call in seen.calls))
            assert store.list_keys() == ["default/b"]
            relist = [each for each in server.requests if each.query.get("sendInitialEvents")][-1]
            assert relist.query["resourceVersion"] == gone.partition("@")[2], "none from before it"
        assert [call for call in seen.calls if " a@" in call][-1] == gone
        assert store.writers == {"pods-store"}
        list_watch.close()


def test_i15_nothing_piles_up(store: Indexer, clock: VirtualClock) -> None:
    """Adds and deletes in ever new namespaces, and relist after relist."""
    rounds, size = 12, 200
    pods = [pod(f"p{number}") for number in range(size)]
    list_watch = ScriptedListWatch(clock, ForEver(Answer(page("10", pods))), ForEver(Answer()))

    def churn(informer: SharedInformer, number: int) -> None:
        brief = [pod("x", f"ns-{number}-{each}", {"app": f"{number}-{each}"}) for each in range(50)]
        list_watch.send(*(event("ADDED", each) for each in brief))
        list_watch.send(*(event("DELETED", each) for each in brief))
        asked = len(list_watch.requests)
        list_watch.send(ERROR_410)
        clock.run_until(lambda: len(list_watch.requests) == asked + 2)
        list_watch.requests.clear()
        gc.collect()

    informer = informer_of(list_watch, store, clock)
    gc.freeze()  # thousands of other tests, which each collection below would walk
    informer.add_handler(HandlerFuncs())
    with informer:
        clock.run_until(informer.has_synced)
        for number in range(3):
            churn(informer, number)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for number in range(3, rounds):
                churn(informer, number)
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert len(store.list_keys()) == size
        assert store.stats().namespaces == 1
        # Objects that a relist brought and that took the place of equal ones may be counted once.
        assert grown < 600 * size * 2
