"""Hot views answer as the scan does, whatever is written, and never show a part of a write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlcache.objects import Object
from sqlcache.selectors import SelectorIndex, parse, service_selector
from sqlcache.store import ObjectMode, open_store
from sqlcache.store._sql import views
from sqlcache.store._sql.members import DecodedMembers, LiveMembers, Members
from sqlcache.store._sql.object_rows import Row
from sqlcache.store._sql.selecting import FiledSelectors
from sqlcache.store._sql.shelf import LiveShelf
from sqlcache.store._sql.views import HotViews
from sqlcache.store.api import Indexer
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.factories import pod

MODES = ["live", "packed", "file"]
SELECTORS = [
    "app=web",
    "app in (web,db)",
    "app!=web",
    "tier",
    "!tier",
    "tier>1",
    "app=web,tier!=2",
    "app=web,app=db",
    "",
]
NAMESPACES = ["shop", "lab", ""]
QUESTIONS = [(namespace, parse(text)) for namespace in NAMESPACES for text in SELECTORS]

names = st.sampled_from([f"p{number}" for number in range(12)])
labels = st.fixed_dictionaries(
    {},
    optional={
        "app": st.sampled_from(["web", "db", "cron"]),
        "tier": st.sampled_from(["1", "2", "3", "x"]),
    },
)
pods = st.builds(
    lambda name, namespace, labels, rv: pod(name, namespace, labels=labels, rv=str(rv)),
    names,
    st.sampled_from(["shop", "lab", ""]),
    labels,
    st.integers(1, 10**6),
)
events = st.builds(
    lambda kind, obj: {"type": kind, "object": obj},
    st.sampled_from(["ADDED", "MODIFIED", "MODIFIED", "DELETED"]),
    pods,
)
writes: st.SearchStrategy[tuple[str, list[Object]]] = st.one_of(
    st.tuples(st.just("apply"), st.lists(events, min_size=1, max_size=8)),
    st.tuples(st.just("replace"), st.lists(pods, max_size=12)),
    st.tuples(st.just("ask"), st.just([])),
)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Let a dozen members take several blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "_BLOCK", 2)
        yield


def opened(mode: str, folder: Path, **options: Any) -> SqliteStore:
    if mode == "file":
        return SqliteStore(str(folder / "cache.db"), **options)
    return SqliteStore(objects=cast("ObjectMode", mode), **options)


def write(store: Indexer, kind: str, what: list[Object]) -> None:
    if kind == "apply":
        store.apply(what)
    elif kind == "replace":
        store.replace(what, "1")


def keyed(objs: list[Object]) -> dict[tuple[str, str], Object]:
    found = {(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj for obj in objs}
    assert len(found) == len(objs)
    return found


def assert_bounded(store: SqliteStore, limit: int) -> None:
    stats = store.stats().views
    assert stats is not None
    assert stats.members <= limit
    views = store._views
    assert views._bytes <= views._limit_bytes
    shown = [sum(len(block) for block in view.blocks) for view in views._views.values()]
    assert [view.members for view in views._views.values()] == shown
    assert views._count == stats.members == sum(shown)
    members = views._members
    assert views._own_bytes == sum(view.own_bytes for view in views._views.values())
    assert views._bytes == views._own_bytes + 8 * sum(shown) + members.size_bytes
    if isinstance(members, DecodedMembers):
        blocks = [block for view in views._views.values() for block in view.blocks]
        held = {number for block in blocks for number in block}
        assert members.by_id.keys() == members._sizes.keys() == members._views.keys() == held
        assert members.size_bytes == sum(members._sizes.values())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit", [10_000, 300])
@settings(max_examples=25)
@given(history=st.lists(writes, max_size=10))
def test_views_answer_as_the_scan_does(
    mode: str,
    limit: int,
    history: list[tuple[str, list[Object]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("views")
    model = open_store("dict")
    with opened(mode, folder, hot_members=limit, hot_objects=4) as store:
        for kind, what in history:
            write(model, kind, what)
            write(store, kind, what)
            for namespace, selector in QUESTIONS:
                expected = keyed(model.select(namespace, selector))
                for _ in range(2):
                    assert keyed(store.select(namespace, selector)) == expected, str(selector)
                assert store.count(namespace, selector) == len(expected)
            stats = store.stats().views
            assert stats is not None
            assert_bounded(store, limit)
            if limit == 10_000:
                assert stats.views == len(QUESTIONS)


@pytest.mark.parametrize("mode", MODES)
def test_readers_see_whole_writes_only(mode: str, tmp_path: Path) -> None:
    """Each write moves pods from one color to another and stamps all of them.

    So every answer has pods of one stamp, and each color as many as were moved to it.
    """
    random = Random(1)
    colors = ["red", "green"]
    size, rounds = 40, 60

    def painted(stamp: int) -> list[Object]:
        red = set(random.sample(range(size), size // 2))
        return [
            pod(f"p{number}", labels={"color": colors[number not in red]}, rv=str(stamp))
            for number in range(size)
        ]

    wrong: list[str] = []
    done = threading.Event()

    def read(store: Indexer, text: str, members: int) -> None:
        selector, last = parse(text), 0
        while not done.is_set():
            found = store.select("default", selector)
            stamps = {int(obj["metadata"]["resourceVersion"]) for obj in found}
            if len(found) != members or len(stamps) != 1 or min(stamps) < last:
                wrong.append(f"{text}: {len(found)} pods of writes {sorted(stamps)} after {last}")
                return
            last = min(stamps)

    with opened(mode, tmp_path) as store:
        store.replace(painted(1), "1")
        questions = [("color=red", 20), ("color=green", 20), ("color", 40), ("color!=blue", 40)]
        threads = [threading.Thread(target=read, args=(store, *each)) for each in questions]
        for thread in threads:
            thread.start()
        try:
            for stamp in range(2, rounds):
                store.apply([{"type": "MODIFIED", "object": obj} for obj in painted(stamp)])
        finally:
            done.set()
            for thread in threads:
                thread.join()
        stats = store.stats().views
    assert not wrong
    assert stats is not None
    assert stats.hits > 0


def test_views_of_a_file_notice_what_others_write(tmp_path: Path) -> None:
    selector = parse("app=web")
    with opened("file", tmp_path) as store, opened("file", tmp_path) as other:
        for number in range(20):
            writer = other if number % 3 else store
            writer.add(pod(f"p{number}", labels={"app": "web" if number % 2 else "db"}))
            expected = {f"p{each}" for each in range(number + 1) if each % 2}
            for _ in range(3):
                found = store.select("", selector)
                assert {obj["metadata"]["name"] for obj in found} == expected
        stats = store.stats().views
        assert stats is not None
        assert stats.hits >= 20


def test_answers_belong_to_the_caller() -> None:
    with SqliteStore() as store:
        store.replace([pod(name, labels={"app": "web"}) for name in "abc"], "1")
        for _ in range(4):
            found = store.select("", "app=web")
            assert len(found) == 3
            found.clear()


@pytest.mark.parametrize("mode", ["live", "packed"])
def test_views_stay_within_their_bound_whatever_is_asked(mode: str) -> None:
    with opened(mode, Path(), hot_members=1_000) as store:
        store.replace([pod(f"p{n}", labels={"n": str(n % 50)}) for n in range(200)], "1")
        for number in range(3_000):
            for _ in range(2):
                store.select("default", f"n={number % 50},!x{number}")
        stats = store.stats().views
        assert stats is not None
        assert_bounded(store, 1_000)
        assert stats.evictions > 2_000
        assert len(store._views._asked) + len(store._views._asked_before) <= 4_096
        assert len(store._views._index) == stats.views


def test_the_view_in_use_stays_when_others_come_and_go() -> None:
    with SqliteStore(hot_members=1_000) as store:
        store.replace([pod(f"p{n}", labels={"n": str(n % 50)}) for n in range(200)], "1")
        kept = parse("n=1")
        for number in range(300):
            store.select("", f"!x{number // 2}")
            store.select("", kept)
        stats = store.stats().views
        assert stats is not None
        assert stats.hits == 298


def test_without_views() -> None:
    with SqliteStore(hot_members=0) as store:
        store.add(pod("a", labels={"app": "web"}))
        for _ in range(3):
            assert len(store.select("", "app=web")) == 1
        stats = store.stats().views
        assert stats is not None
        assert (stats.views, stats.members, stats.hits) == (0, 0, 0)


def test_views_of_long_selectors_stay_within_their_bound() -> None:
    """What is asked may take more than what is found."""

    def asked(number: int) -> str:
        return f"n in ({','.join(f'v{number}-{each}' for each in range(400))})"

    with SqliteStore(hot_members=100_000) as store:
        store.add(pod("a", labels={"n": "v7-7"}))
        for number in range(40):
            for _ in range(2):
                store.select("default", asked(number))
        assert_bounded(store, 100_000)
        assert 1 <= len(store._views._views) <= 4
        store.select("default", "!x")
        assert all(isinstance(each, int) for each in store._views._asked)


@pytest.mark.parametrize("first", [0, 20])
def test_views_of_members_that_grow_stay_within_their_bound(first: int) -> None:
    """A view that was kept without members, or with small ones."""

    def sized(number: int, size_bytes: int) -> Object:
        obj = pod(f"p{number}", labels={"app": "web"})
        obj["metadata"]["annotations"] = {"text": "x" * size_bytes}
        return obj

    with SqliteStore(objects="packed", hot_objects=50) as store:
        store.add(pod("other"))
        store.apply([{"type": "ADDED", "object": sized(number, 0)} for number in range(first)])
        for size_bytes in (100, 10_000, 100_000, 300_000):
            for number in range(20):
                store.apply([{"type": "MODIFIED", "object": sized(number, size_bytes)}])
                for _ in range(3):
                    found = store.select("", "app=web")
                assert sized(number, size_bytes) in found
                assert_bounded(store, 50)
        assert not store._views._views


class _Interrupted(KeyboardInterrupt):
    pass


STEPS: list[tuple[type, str]] = [
    (HotViews, "_follow"),
    (HotViews, "_edits"),
    (HotViews, "_show"),
    (HotViews, "_make_room"),
    (HotViews, "_clear"),
    (DecodedMembers, "follow"),
    (DecodedMembers, "enter"),
    (DecodedMembers, "leave"),
    (DecodedMembers, "_left"),
    (Members, "show"),
    (SelectorIndex, "add"),
    (SelectorIndex, "remove"),
    (views._Edit, "add"),
    (views._Edit, "remove"),
    (FiledSelectors, "_follow"),
    (LiveShelf, "_follow"),
    (LiveShelf, "_leave"),
    (LiveMembers, "remove"),
    (LiveMembers, "put"),
    (Row, "parsed"),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit", [10_000, 10])
def test_no_wrong_answer_follows_an_interruption(
    mode: str, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One Ctrl-C before, or right after, each step of a write or of keeping a view."""
    random = Random(limit)
    armed: list[tuple[type, str, bool]] = []

    def interrupting(owner: type, name: str) -> None:
        original = getattr(owner, name)

        def step(*args: Any, **options: Any) -> Any:
            if armed == [(owner, name, False)]:
                armed.clear()
                raise _Interrupted
            returned = original(*args, **options)
            if armed == [(owner, name, True)]:
                armed.clear()
                raise _Interrupted
            return returned

        monkeypatch.setattr(owner, name, step)

    def a_pod(rv: int) -> Object:
        app, tier = random.choice(["web", "db"]), random.choice("123")
        obj = pod(
            f"p{random.randrange(8)}",
            random.choice(["shop", "lab"]),
            labels={"app": app, "tier": tier},
            rv=str(rv),
        )
        return {**obj, "spec": {"selector": {"app": random.choice(["web", "db"])}}}

    def event(rv: int) -> dict[str, Any]:
        return {"type": random.choice(["MODIFIED", "DELETED"]), "object": a_pod(rv)}

    def asked(store: Indexer, again: int) -> list[Any]:
        answers: list[Any] = []
        for namespace, selector in QUESTIONS:
            for _ in range(again):
                found = keyed(store.select(namespace, selector))
            answers.append(found)
        selecting = [store.selecting(name, {"app": app}) for name in NAMESPACES for app in ("web",)]
        return [*answers, *map(keyed, selecting)]

    for each in STEPS:
        interrupting(*each)
    interrupted = 0
    model = open_store("dict", selector_func=service_selector)
    with opened(
        mode, tmp_path, hot_members=limit, hot_objects=8, selector_func=service_selector
    ) as store:
        for rv, (owner, name) in enumerate(STEPS * 10, 1):
            events = [event(rv) for _ in range(3)]
            armed[:] = [(owner, name, rv > len(STEPS) * 5)]
            try:
                store.apply(events)
                asked(store, 1)
            except _Interrupted:
                interrupted += 1
            armed.clear()
            model.apply(events)  # all of these steps come after the commit
            assert asked(store, 2) == asked(model, 1), f"after {owner.__name__}.{name}"
            assert_bounded(store, limit)
            store._views.clear()
            assert asked(store, 1) == asked(model, 1), f"after {owner.__name__}.{name}, no views"
            assert sorted(store.list_keys()) == sorted(model.list_keys())
            assert keyed(store.list()) == keyed(model.list())
    assert interrupted > 15
