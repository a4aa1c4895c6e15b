"""Contract: many threads on one store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from sqlcache.errors import StoreClosedError
from sqlcache.objects import Object
from sqlcache.store.api import Indexer, Transaction
from sqlcache.testing._contract_content import by_app
from sqlcache.testing._contract_parts import (
    MakeStore,
    StoreFixtures,
    run_together,
    switching_often,
)
from sqlcache.testing.factories import event, names, pod

_BATCHES = 40
_PODS = 30


def generation(number: int) -> list[Object]:
    """Return one generation of pods: same keys, one label and RV that name the generation."""
    gen = str(number)
    return [
        pod(f"p{i}", f"ns{i % 3}", {"app": "web", "gen": gen, f"g{number % 3}": "x"}, rv=gen)
        for i in range(_PODS)
    ]


def generations_of(objs: list[Object]) -> set[str]:
    """Return the generations that objects are of."""
    return {obj["metadata"]["labels"]["gen"] for obj in objs}


def by_gen(obj: Object) -> list[str]:
    """Index by generation."""
    return [obj["metadata"]["labels"]["gen"]]


_WAYS: dict[str, Callable[[Indexer, int], None]] = {
    "apply": lambda store, n: store.apply([event("MODIFIED", obj) for obj in generation(n)]),
    "replace": lambda store, n: store.replace(generation(n), str(n)),
    "transaction": lambda store, n: store.transaction(
        *(Transaction("update", obj) for obj in generation(n))
    ),
}


@contextmanager
def background(*calls: Callable[[], object]) -> Iterator[None]:
    """Repeat calls, each in a thread of its own, while the block runs; raise what they raise."""
    done = threading.Event()
    errors: list[BaseException] = []

    def repeat(call: Callable[[], object]) -> None:
        try:
            while not done.is_set():
                call()
        except BaseException as error:  # noqa: BLE001 - raised again below, in the test's thread
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join(60.0)
    assert not [thread for thread in threads if thread.is_alive()], "a thread hangs"
    for error in errors:
        raise error


class ThreadContract(StoreFixtures):
    """No reader sees half a batch, nothing is lost, and closing waits."""

    @pytest.fixture
    def races_show(self) -> Iterator[None]:
        with switching_often():
            yield

    @pytest.mark.usefixtures("races_show")
    @pytest.mark.parametrize("write", _WAYS.values(), ids=_WAYS)
    def test_reader_sees_no_half_of_a_batch(
        self, make_store: MakeStore, write: Callable[[Indexer, int], None]
    ) -> None:
        store = make_store(indexers={"gen": by_gen, "app": by_app})
        write(store, 0)

        def list_all() -> None:
            objs = store.list()
            assert len(objs) == _PODS
            assert len(generations_of(objs)) == 1

        def select() -> None:
            for selector, size in (("app=web", _PODS), ("app!=db", _PODS), ("gen", _PODS)):
                objs = store.select("", selector)
                assert len(objs) == size
                assert len(generations_of(objs)) == 1
            assert generations_of(store.select("ns1", "g0")) in (set(), *({str(n)} for n in gens))

        def index() -> None:
            objs = store.by_index("app", "web")
            assert len(objs) == _PODS
            assert len(generations_of(objs)) == 1
            assert len(store.list_index_func_values("gen")) == 1

        def count() -> None:
            for number in (0, _BATCHES // 2, _BATCHES):
                assert store.count("", f"gen={number}") in (0, _PODS)
                assert len(store.index_keys("gen", str(number))) in (0, _PODS)

        gens = range(_BATCHES + 1)
        with background(list_all, select, index, count):
            for number in gens:
                write(store, number)
        assert generations_of(store.list()) == {str(_BATCHES)}
        assert store.count("", f"gen={_BATCHES}") == _PODS

    @pytest.mark.usefixtures("races_show")
    @pytest.mark.parametrize("write", _WAYS.values(), ids=_WAYS)
    def test_reader_never_goes_back_in_time(
        self, make_store: MakeStore, write: Callable[[Indexer, int], None]
    ) -> None:
        """What one read showed of a batch, the next read of any kind shows in full."""
        store = make_store(indexers={"gen": by_gen})
        write(store, 0)

        def newest(objs: list[Object]) -> int:
            return max(int(gen) for gen in generations_of(objs))

        def read_on() -> None:
            seen = 0
            reads: tuple[Callable[[], int], ...] = (
                lambda: int((store.get_by_key("ns0/p0") or {})["metadata"]["resourceVersion"]),
                lambda: int((store.get_by_key("ns2/p29") or {})["metadata"]["resourceVersion"]),
                lambda: int(store.last_store_sync_resource_version()),
                lambda: newest(store.list()),
                lambda: int((store.get_by_key("ns1/p1") or {})["metadata"]["resourceVersion"]),
                lambda: newest(store.select("", "app=web")),
                lambda: max(map(int, store.list_index_func_values("gen"))),
                lambda: int(store.stats().resource_version),
            )
            for read in reads:
                found = read()
                assert found >= seen
                seen = found

        with background(read_on, read_on):
            for number in range(_BATCHES):
                write(store, number)

    @pytest.mark.usefixtures("races_show")
    def test_reader_sees_one_of_two_sets_while_they_replace_each_other(
        self, store: Indexer
    ) -> None:
        left = [pod(f"l{i}", labels={"side": "left"}) for i in range(20)]
        right = [pod(f"r{i}", labels={"side": "right"}) for i in range(35)]
        store.replace(left, "1")

        def read() -> None:
            for objs in (store.list(), store.select("default", "side"), store.select("", "!x")):
                assert names(objs) in (names(left), names(right))
            assert store.count("", "side=left") in (0, 20)
            assert store.count("", "side in (left,right)") in (20, 35)
            assert len(store.list_keys()) in (20, 35)

        with background(read, read):
            for number in range(_BATCHES):
                store.replace(left if number % 2 else right, str(number))

    @pytest.mark.usefixtures("races_show")
    def test_writes_of_many_threads_are_all_kept(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app})
        writers, steps = 6, 25

        def writer(number: int) -> Callable[[], None]:
            def write() -> None:
                for step in range(steps):
                    labels = {"app": f"w{number}", "step": str(step)}
                    store.add(pod(f"p{step}", f"ns{number}", labels))
                    store.update(pod("same", f"ns{number}", labels))
                    store.apply([event("ADDED", pod(f"q{step}", f"ns{number}", labels))])
                    store.delete(pod(f"q{step}", f"ns{number}"))
                    store.update(pod("shared", "all", {"app": "shared", "step": str(step)}))

            return write

        def read() -> None:
            assert len(store.select("", "app=shared")) <= 1
            assert len(store.by_index("app", "shared")) <= 1
            objs = store.select("ns0", "app!=w0")
            assert objs == []

        with background(read, read):
            run_together(*(writer(number) for number in range(writers)))
        assert len(store.list()) == writers * (steps + 1) + 1
        for number in range(writers):
            assert store.count(f"ns{number}", f"app=w{number}") == steps + 1
            assert names(store.select(f"ns{number}", "step=24")) == ["p24", "same"]
            assert len(store.index_keys("app", f"w{number}")) == steps + 1
        assert store.select("", "app=shared,step!=24") == []

    @pytest.mark.usefixtures("races_show")
    def test_index_functions_may_be_added_while_threads_write(self, store: Indexer) -> None:
        def write() -> None:
            for number in range(60):
                store.add(pod(f"p{number}", labels={"app": f"a{number % 5}", "gen": "1"}))
                store.delete(pod(f"p{number // 2}"))
                store.add(pod(f"p{number // 2}", labels={"app": "again", "gen": "2"}))

        run_together(
            write,
            lambda: store.add_indexers({"app": by_app}),
            lambda: store.add_indexers({"gen": by_gen}),
        )
        for name, index_func in {"app": by_app, "gen": by_gen}.items():
            expected: dict[str, list[str]] = {}
            for obj in store.list():
                for value in index_func(obj):
                    expected.setdefault(value, []).append(obj["metadata"]["name"])
            assert sorted(store.list_index_func_values(name)) == sorted(expected)
            for value, members in expected.items():
                assert names(store.by_index(name, value)) == sorted(members)

    @pytest.mark.usefixtures("races_show")
    @pytest.mark.parametrize(
        "read",
        [
            lambda store: len(store.list()),
            lambda store: len(store.list_keys()),
            lambda store: len(store.select("", "app=web")),
            lambda store: len(store.select("", "app!=db")),
            lambda store: store.count("", "app"),
            lambda store: len(store.by_index("app", "web")),
            lambda store: len(store.index("app", pod("q", labels={"app": "web"}))),
            lambda store: len(store.index_keys("app", "web")),
            lambda store: len(store.list_index_func_values("app")) * _PODS,
            lambda store: 0 if store.get_by_key("ns0/p0") is None else _PODS,
            lambda store: store.stats().objects,
            lambda store: store.explain("", "app=web").matched,
            lambda store: _PODS if store.last_store_sync_resource_version() == "7" else 0,
        ],
        ids=lambda read: None,
    )
    def test_reader_gets_all_or_an_error_while_the_store_closes(
        self, make_store: MakeStore, read: Callable[[Indexer], Any]
    ) -> None:
        store = make_store(indexers={"app": by_app})
        store.replace(generation(1), "7")
        reading = threading.Barrier(4)

        def read_on() -> None:
            assert read(store) == _PODS
            reading.wait(60.0)
            with suppress(StoreClosedError):  # the loop has no other end
                while True:
                    assert read(store) == _PODS

        def close() -> None:
            reading.wait(60.0)
            store.close()

        run_together(read_on, read_on, read_on, close)

    @pytest.mark.usefixtures("races_show")
    def test_write_happens_or_raises_while_the_thread_of_another_closes(
        self, make_store: MakeStore
    ) -> None:
        store = make_store()
        writing = threading.Barrier(3)

        def write(name: str) -> Callable[[], None]:
            def write_on() -> None:
                store.add(pod(name))
                writing.wait(60.0)
                with suppress(StoreClosedError):  # the loop has no other end
                    while True:
                        store.update(pod(name, labels={"app": "web"}))
                        store.apply([event("ADDED", pod(name))])

            return write_on

        def close() -> None:
            writing.wait(60.0)
            store.close()
            store.close()

        run_together(write("a"), write("b"), close)

    @pytest.mark.usefixtures("races_show")
    def test_store_may_be_closed_by_several_threads(self, make_store: MakeStore) -> None:
        store = make_store()
        store.add(pod("a"))
        run_together(store.close, store.close, store.close)
        with pytest.raises(StoreClosedError):
            store.list()
