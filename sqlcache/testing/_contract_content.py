"""Contract: add, update, delete, replace, apply, transaction, and the resourceVersion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from sqlcache.errors import (
    IndexFunctionError,
    ObjectError,
    ObjectKeyError,
    ReentrantWriteError,
    TransactionError,
    TransformError,
)
from sqlcache.objects import (
    DeletedFinalStateUnknown,
    ExplicitKey,
    Object,
    meta_namespace_index_func,
    meta_namespace_key_func,
)
from sqlcache.store.api import Indexer, Store, Transaction
from sqlcache.testing._contract_parts import MakeStore, StoreFixtures, content, unchanged
from sqlcache.testing.factories import event, keys, names, pod

_NO_META = "object has no meta: object does not implement the Object interfaces"
_RESOURCE_VERSIONS = ("9", "10", "", "abc", "18446744073709551616")


def by_app(obj: Object) -> list[str]:
    """Index by the label `app`; fails on `app=bad`."""
    labels = obj["metadata"].get("labels") or {}
    if labels.get("app") == "bad":
        raise ValueError("bad label")
    return [labels["app"]] if "app" in labels else []


class ContentContract(StoreFixtures):
    """What is in the store after which call."""

    # Adding and getting

    def test_new_store_is_empty(self, store: Indexer) -> None:
        assert store.list() == []
        assert store.list_keys() == []
        assert store.select("", "") == []
        assert store.select("shop", "app=web") == []
        assert store.count("", "") == 0
        assert store.get_by_key("shop/a") is None
        assert store.get(pod("a")) is None
        assert store.last_store_sync_resource_version() == ""
        assert store.get_indexers() == {}
        assert store.list_index_func_values("namespace") == []

    def test_store_has_every_method_of_the_protocols(self, store: Indexer) -> None:
        assert isinstance(store, Store)
        assert isinstance(store, Indexer)

    def test_added_object_is_found_by_every_reader(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app})
        web = pod("a", "shop", {"app": "web"}, rv="5")
        store.add(web)
        assert store.list() == [web]
        assert store.list_keys() == ["shop/a"]
        assert store.get(pod("a", "shop")) == web
        assert store.get_by_key("shop/a") == web
        assert store.select("", "app=web") == [web]
        assert store.select("shop", "") == [web]
        assert store.count("shop", "app=web") == 1
        assert store.by_index("app", "web") == [web]
        assert store.index_keys("app", "web") == ["shop/a"]
        assert store.index("app", web) == [web]

    @pytest.mark.parametrize("method", ["add", "update"])
    def test_add_and_update_are_the_same(self, store: Indexer, method: str) -> None:
        write = getattr(store, method)
        write(pod("a", labels={"app": "web"}))
        write(pod("a", labels={"app": "db"}, rv="2"))
        assert store.list() == [pod("a", labels={"app": "db"}, rv="2")]
        assert store.count("", "app=web") == 0
        assert store.count("", "app=db") == 1

    def test_update_with_the_same_labels_gives_the_new_object(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}, rv="1"))
        new = pod("a", labels={"app": "web"}, rv="2", status={"phase": "Running"})
        store.update(new)
        assert store.get_by_key("default/a") == new
        assert store.list() == [new]
        assert store.select("", "app=web") == [new]
        assert store.by_index("app", "web") == [new]

    def test_reading_before_a_write_does_not_hide_it(self, make_store: MakeStore) -> None:
        """A backend may keep objects for those who read them again."""
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}, rv="0"))
        reads: tuple[Callable[[], list[Object | None]], ...] = (
            lambda: [store.get_by_key("default/a")],
            lambda: list(store.list()),
            lambda: list(store.select("default", "app=web")),
            lambda: list(store.by_index("app", "web")),
        )
        writes: tuple[Callable[[Object], None], ...] = (
            store.add,
            store.update,
            lambda obj: store.replace([obj], "1"),
            lambda obj: store.apply([event("MODIFIED", obj)]),
            lambda obj: store.transaction(Transaction("update", obj)),
        )
        for number, write_object in enumerate(writes * 2):
            new = pod("a", labels={"app": "web", "n": str(number // 3)}, rv=str(number))
            write_object(new)
            for read in reads * 2:
                assert read() == [new]
        store.delete(pod("a"))
        assert [read() for read in reads] == [[None], [], [], []]
        store.add(pod("a", labels={"app": "web"}, rv="again"))
        for read in reads:
            assert read() == [pod("a", labels={"app": "web"}, rv="again")]

    def test_same_name_in_two_namespaces_is_two_objects(self, store: Indexer) -> None:
        store.add(pod("a", "shop", {"app": "web"}))
        store.add(pod("a", "bank", {"app": "web"}))
        store.add(pod("a", "", {"app": "web"}))
        assert sorted(store.list_keys()) == ["a", "bank/a", "shop/a"]
        store.delete(pod("a", "shop"))
        assert keys(store.select("", "app=web")) == ["a", "bank/a"]
        store.update(pod("a", "bank", {"app": "db"}))
        assert keys(store.select("", "app=web")) == ["a"]

    def test_walked_keys_are_all_keys(self, store: Indexer) -> None:
        assert list(store.walk_keys()) == []
        there = [pod(f"p{number}", "shop") for number in range(2_500)]
        store.replace(there, "1")
        parts = list(store.walk_keys())
        assert sorted(key for part in parts for key in part) == sorted(store.list_keys())
        assert max(map(len, parts)) <= 1_000

    def test_keys_are_walked_while_others_write(self, store: Indexer) -> None:
        """What stays is there once, whatever comes and goes meanwhile."""
        staying = [pod(f"p{number}", "shop") for number in range(2_500)]
        going = [pod(f"p{number}x", "shop") for number in range(0, 2_500, 50)]
        store.replace(staying + going, "1")
        found: list[str] = []
        for number, part in enumerate(store.walk_keys()):
            found += part
            store.apply([event("ADDED", pod(f"{place}new{number}", "shop")) for place in "aqz"])
            store.apply([event("DELETED", obj) for obj in going[number::3]])
        stayed = {f"shop/{obj['metadata']['name']}" for obj in staying}
        assert sorted(key for key in found if key in stayed) == sorted(stayed)
        assert len(found) == len(set(found))

    def test_cluster_scoped_object_is_stored_under_its_name(self, store: Indexer) -> None:
        node = pod("n1", "", {"zone": "z1"})
        store.add(node)
        assert store.list_keys() == ["n1"]
        assert store.get_by_key("n1") == node
        assert store.get_by_key("/n1") is None
        assert store.select("", "zone=z1") == [node]
        assert store.select("default", "zone=z1") == []

    def test_names_with_dots_and_dashes_are_kept_apart(self, store: Indexer) -> None:
        odd = ["a.b", "a-b", "a_b", "a%b", "ab", "A.B"]
        for name in odd:
            store.add(pod(name))
        store.delete(pod("a_b"))
        store.delete(pod("a%b"))
        assert names(store.list()) == ["A.B", "a-b", "a.b", "ab"]

    @pytest.mark.parametrize(
        "obj",
        [
            pod("a", "shop", {"other": "x"}, rv="7"),
            DeletedFinalStateUnknown("shop/a", None),
            ExplicitKey("shop/a"),
        ],
        ids=["object", "tombstone", "key"],
    )
    def test_get_asks_for_the_key_only(self, store: Indexer, obj: Any) -> None:
        stored = pod("a", "shop", {"app": "web"})
        assert store.get(obj) is None
        store.add(stored)
        assert store.get(obj) == stored

    def test_get_by_key_compares_the_whole_key(self, store: Indexer) -> None:
        store.add(pod("abc", "shop"))
        for key in ("shop/ab", "shop/abcd", "SHOP/abc", "abc", "shop", "", "shop/abc\0", "\0"):
            assert store.get_by_key(key) is None
        assert store.get_by_key("shop/abc\ud800") is None

    def test_get_by_keys_leaves_out_what_is_not_there(self, store: Indexer) -> None:
        assert store.get_by_keys(["shop/a"]) == {}
        stored = {f"shop/{name}": pod(name, "shop", {"app": name}) for name in ("a", "b", "c")}
        store.replace(stored.values(), "1")
        assert store.get_by_keys([]) == {}
        assert store.get_by_keys(["shop/c", "shop/ab", "shop/a", "a", "\0", "x/\ud800"]) == {
            "shop/c": stored["shop/c"],
            "shop/a": stored["shop/a"],
        }
        assert store.get_by_keys(["shop/a", "shop/a"]) == {"shop/a": stored["shop/a"]}
        store.delete(stored["shop/a"])
        assert store.get_by_keys([*stored]).keys() == {"shop/b", "shop/c"}

    def test_returned_lists_belong_to_the_caller(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}))
        readers = (
            store.list,
            store.list_keys,
            lambda: store.select("", ""),
            lambda: store.select("", "app=web"),
            lambda: store.by_index("app", "web"),
            lambda: store.index_keys("app", "web"),
            lambda: store.list_index_func_values("app"),
        )
        for read in readers:
            result: list[Any] = read()
            result.clear()
            assert len(read()) == 1

    def test_resync_does_nothing(self, store: Indexer) -> None:
        store.add(pod("a", rv="5"))
        with unchanged(store):
            store.resync()

    def test_key_function_decides_where_an_object_is_kept(self, make_store: MakeStore) -> None:
        store = make_store(key_func=lambda obj: obj["metadata"]["uid"])
        store.add(pod("a", "shop", {"app": "web"}, uid="u1"))
        store.add(pod("a", "shop", {"app": "web"}, uid="u2"))
        assert sorted(store.list_keys()) == ["u1", "u2"]
        assert store.get_by_key("shop/a") is None
        assert store.count("shop", "app=web") == 2
        store.add(pod("b", "bank", {"app": "db"}, uid="u1"))
        assert store.count("shop", "app=web") == 1
        assert keys(store.select("bank", "")) == ["bank/b"]

    # Deleting

    def test_delete_removes_the_object_from_every_reader(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}))
        store.delete(pod("a"))
        assert store.list() == []
        assert store.list_keys() == []
        assert store.get_by_key("default/a") is None
        assert store.select("", "app=web") == []
        assert store.select("", "app!=web") == []
        assert store.count("", "") == 0
        assert store.by_index("app", "web") == []
        assert store.list_index_func_values("app") == []
        assert store.stats().label_keys == ()

    def test_deleted_object_can_come_back(self, store: Indexer) -> None:
        store.add(pod("a", labels={"app": "web"}))
        store.delete(pod("a"))
        store.add(pod("a", labels={"app": "db"}))
        assert store.count("", "app=web") == 0
        assert names(store.select("", "app=db")) == ["a"]

    def test_delete_of_an_absent_key_only_moves_the_resource_version(self, store: Indexer) -> None:
        store.add(pod("a", rv="5"))
        store.delete(pod("absent", rv="7"))
        assert store.list() == [pod("a", rv="5")]
        assert store.last_store_sync_resource_version() == "7"

    def test_delete_goes_by_the_stored_labels_not_by_the_given_ones(
        self, make_store: MakeStore
    ) -> None:
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web", "env": "prod"}))
        store.add(pod("b", labels={"app": "db"}))
        store.delete(pod("a", labels={"app": "db"}))
        assert store.count("", "app=web") == 0
        assert store.index_keys("app", "web") == []
        assert store.index_keys("app", "db") == ["default/b"]
        assert [each.key for each in store.stats().label_keys] == ["app"]

    @pytest.mark.parametrize("known", [pod("a", "shop", rv="9"), None], ids=["object", "none"])
    def test_tombstone_removes_the_object(self, store: Indexer, known: Object | None) -> None:
        store.add(pod("a", "shop", {"app": "web"}, rv="5"))
        store.delete(DeletedFinalStateUnknown("shop/a", known))
        assert store.list() == []
        assert store.select("", "app=web") == []
        assert store.last_store_sync_resource_version() == "5"

    def test_tombstone_is_taken_by_its_key_not_by_its_object(self, store: Indexer) -> None:
        store.add(pod("a", "shop"))
        store.delete(DeletedFinalStateUnknown("shop/zzz", pod("a", "shop")))
        assert store.list_keys() == ["shop/a"]

    def test_tombstone_of_an_absent_key_is_no_error(self, store: Indexer) -> None:
        store.add(pod("a", rv="5"))
        with unchanged(store):
            store.delete(DeletedFinalStateUnknown("default/absent", None))

    def test_bare_key_is_deleted_and_leaves_the_resource_version(self, store: Indexer) -> None:
        store.add(pod("a", "shop", rv="5"))
        store.delete(ExplicitKey("shop/a"))
        assert store.list() == []
        assert store.last_store_sync_resource_version() == "5"

    @pytest.mark.parametrize("key", ["a\0b", "a\0", "\0", "a\ud800", "", "a/b/c/d"])
    def test_delete_of_an_odd_key_removes_no_other_object(self, store: Indexer, key: str) -> None:
        store.add(pod("a", ""))
        store.add(pod("b", ""))
        with unchanged(store):
            store.delete(ExplicitKey(key))

    def test_deleted_value_without_metadata_leaves_the_resource_version(
        self, make_store: MakeStore
    ) -> None:
        def by_id(obj: Any) -> str:
            return str(obj.get("id") or obj["metadata"]["name"])

        store = make_store(key_func=by_id)
        store.add(pod("a", rv="5"))
        store.delete({"id": "a"})
        assert store.list() == []
        assert store.last_store_sync_resource_version() == "5"

    # Labels that change

    def test_removed_label_stops_matching(self, store: Indexer) -> None:
        store.add(pod("a", labels={"app": "web", "env": "prod"}))
        store.update(pod("a", labels={"env": "prod"}))
        assert store.select("", "app=web") == []
        assert store.select("", "app") == []
        assert names(store.select("", "!app")) == ["a"]
        assert names(store.select("", "env=prod")) == ["a"]

    def test_label_sets_follow_each_of_many_updates(self, store: Indexer) -> None:
        for step in range(20):
            labels = {f"k{(step + shift) % 7}": f"v{step % 3}" for shift in range(3)}
            store.update(pod("a", labels=labels))
            store.update(pod("b", labels={"k0": "v0"}))
            for number in range(7):
                for value in range(3):
                    key, text = f"k{number}", f"v{value}"
                    expected = ["a"] if labels.get(key) == text else []
                    expected += ["b"] if (key, text) == ("k0", "v0") else []
                    assert names(store.select("default", f"{key}={text}")) == expected

    def test_object_that_changes_its_namespace_under_one_key_is_moved(
        self, make_store: MakeStore
    ) -> None:
        store = make_store(key_func=lambda obj: obj["metadata"]["name"])
        store.add(pod("a", "shop", {"app": "web"}))
        store.update(pod("a", "bank", {"app": "web"}))
        assert store.select("shop", "") == []
        assert store.select("shop", "app=web") == []
        assert keys(store.select("bank", "app=web")) == ["bank/a"]
        assert store.count("", "app=web") == 1
        assert store.stats().namespaces == 1

    # The resourceVersion

    @pytest.mark.parametrize("rv", _RESOURCE_VERSIONS)
    def test_resource_version_is_taken_from_the_last_write(self, store: Indexer, rv: str) -> None:
        store.add(pod("a", rv="10"))
        store.add(pod("b", rv=rv))
        assert store.last_store_sync_resource_version() == rv
        store.bookmark("10")
        store.delete(pod("b", rv=rv))
        assert store.last_store_sync_resource_version() == rv
        store.bookmark("10")
        store.replace([pod("a", rv="3")], rv)
        assert store.last_store_sync_resource_version() == rv
        store.bookmark("10")
        store.bookmark(rv)
        assert store.last_store_sync_resource_version() == rv

    def test_object_without_resource_version_sets_it_to_nothing(self, store: Indexer) -> None:
        store.add(pod("a", rv="5"))
        store.add(pod("b", rv=None))
        assert store.last_store_sync_resource_version() == ""

    def test_source_is_a_note_that_changes_nothing_else(self, store: Indexer) -> None:
        assert store.source() == ""
        store.set_source("https://host/api/v1/pods?labelSelector=a%3Db")
        store.add(pod("a", labels={"app": "web"}, rv="5"))
        with unchanged(store):
            store.set_source("Größe 'quoted'")
        store.replace([pod("b")], "7")
        assert store.source() == "Größe 'quoted'"
        store.set_source("")
        assert (store.source(), store.last_store_sync_resource_version()) == ("", "7")

    @pytest.mark.parametrize("text", ["a\0b", "\ud800"])
    def test_source_that_cannot_be_kept_is_refused(self, store: Indexer, text: str) -> None:
        store.set_source("here")
        with pytest.raises(ValueError, match="source"):
            store.set_source(text)
        assert store.source() == "here"

    def test_bookmark_changes_nothing_else(self, store: Indexer) -> None:
        store.add(pod("a", labels={"app": "web"}, rv="5"))
        store.bookmark("50")
        assert store.list() == [pod("a", labels={"app": "web"}, rv="5")]
        assert store.last_store_sync_resource_version() == "50"
        assert store.stats().resource_version == "50"

    # Replacing

    def test_replace_makes_the_content_exact(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}))
        store.add(pod("b", labels={"app": "db"}))
        store.replace([pod("b", labels={"app": "web"}, rv="2"), pod("c")], "20")
        assert names(store.list()) == ["b", "c"]
        assert sorted(store.list_keys()) == ["default/b", "default/c"]
        assert names(store.select("", "app=web")) == ["b"]
        assert store.select("", "app=db") == []
        assert names(store.select("", "!app")) == ["c"]
        assert store.list_index_func_values("app") == ["web"]
        assert store.index_keys("app", "web") == ["default/b"]
        assert store.last_store_sync_resource_version() == "20"

    def test_replace_with_nothing_empties_the_store(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}))
        store.replace([], "30")
        assert content(store) == content_of_empty(store, rv="30")

    def test_replace_of_an_empty_store_with_nothing_sets_the_version(self, store: Indexer) -> None:
        store.replace([], "30")
        assert store.list() == []
        assert store.last_store_sync_resource_version() == "30"

    def test_replace_keeps_the_last_of_several_with_one_key(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app})
        store.replace(
            [
                pod("a", labels={"app": "web", "env": "prod"}, rv="1"),
                pod("b"),
                pod("a", labels={"app": "db"}, rv="2"),
            ],
            "5",
        )
        assert store.get_by_key("default/a") == pod("a", labels={"app": "db"}, rv="2")
        assert len(store.list()) == 2
        assert store.select("", "app=web") == []
        assert store.select("", "env") == []
        assert store.index_keys("app", "web") == []
        assert store.index_keys("app", "db") == ["default/a"]

    def test_replace_with_a_new_uid_of_the_same_name_gives_the_new_object(
        self, store: Indexer
    ) -> None:
        store.add(pod("a", labels={"app": "web"}, uid="u1"))
        store.replace([pod("a", labels={"app": "db"}, uid="u2")], "20")
        assert store.list() == [pod("a", labels={"app": "db"}, uid="u2")]
        assert store.count("", "app=web") == 0

    def test_replace_after_a_tombstone_brings_the_object_back(self, store: Indexer) -> None:
        store.add(pod("a", labels={"app": "web"}))
        store.delete(DeletedFinalStateUnknown("default/a", None))
        store.replace([pod("a", labels={"app": "web"})], "20")
        store.replace([pod("a", labels={"app": "web"})], "21")
        assert names(store.select("", "app=web")) == ["a"]
        store.replace([], "22")
        assert store.select("", "app=web") == []

    def test_replace_takes_any_iterable(self, store: Indexer) -> None:
        store.replace((pod(name) for name in "abc"), "5")
        assert names(store.list()) == ["a", "b", "c"]
        store.replace(tuple(store.list()), "6")
        assert names(store.list()) == ["a", "b", "c"]

    def test_replace_from_an_iterable_that_fails_changes_nothing(self, store: Indexer) -> None:
        def failing() -> Iterator[Object]:
            yield pod("x")
            raise ConnectionError("page 2 was lost")

        store.add(pod("a", rv="5"))
        with unchanged(store), pytest.raises(ConnectionError, match="page 2 was lost"):
            store.replace(failing(), "20")

    def test_iterables_may_read_but_a_write_within_a_write_is_refused(self, store: Indexer) -> None:
        store.replace([pod("a"), pod("b")], "1")
        writes: dict[str, Callable[[], object]] = {
            "add": lambda: store.add(pod("c")),
            "delete": lambda: store.delete(pod("a")),
            "replace": lambda: store.replace([], "3"),
            "apply": lambda: store.apply([{"type": "ADDED", "object": pod("c")}]),
            "transaction": lambda: store.transaction(Transaction("add", pod("c"))),
            "bookmark": lambda: store.bookmark("3"),
            "add_indexers": lambda: store.add_indexers({"more": meta_namespace_index_func}),
            "close": store.close,
        }

        def objects(write: Callable[[], object]) -> Iterator[Object]:
            yield pod("x")
            assert sorted(store.list_keys()) == ["default/a", "default/b"]
            assert names(store.select("default", "")) == ["a", "b"]
            write()

        def events(write: Callable[[], object]) -> Iterator[dict[str, Any]]:
            return ({"type": "ADDED", "object": obj} for obj in objects(write))

        with ThreadPoolExecutor(1) as pool:  # so that waiting for ever fails
            for write in writes.values():
                for outer in (
                    partial(store.replace, objects(write), "2"),
                    partial(store.apply, events(write)),
                ):
                    with pytest.raises(ReentrantWriteError):
                        pool.submit(outer).result(10)
        assert names(store.list()) == ["a", "b"]
        assert store.last_store_sync_resource_version() == "1"
        store.add(pod("c"))
        assert names(store.list()) == ["a", "b", "c"]

    def test_large_replace_is_exact(self, make_store: MakeStore) -> None:
        """Backends write in portions: objects, repeats and removals must meet across them."""
        store = make_store(indexers={"app": by_app})

        def pods(shift: int) -> Iterator[Object]:
            for number in range(5_000):
                labels = {"app": f"a{(number + shift) % 50}", f"k{number % 3}": "v"}
                yield pod(f"p{number}", f"ns{number % 7}", labels, rv=str(shift))

        store.replace(pods(0), "1")
        repeated = [pod("p0", "ns0", {"app": "again"}), pod("new", "ns0", {"app": "a1"})]
        kept = [obj for number, obj in enumerate(pods(1)) if number % 2 == 0]
        store.replace([*kept, *repeated], "2")
        expected: dict[str, Object] = {}
        for obj in (*kept, *repeated):
            expected[meta_namespace_key_func(obj)] = obj
        assert {meta_namespace_key_func(obj): obj for obj in store.list()} == expected
        assert len(store.list_keys()) == len(expected)
        for app in ("a0", "a1", "a49", "again"):
            wanted = sorted(k for k, o in expected.items() if o["metadata"]["labels"]["app"] == app)
            assert keys(store.select("", f"app={app}")) == wanted
            assert store.index_keys("app", app) == wanted
        assert store.count("", "k0") == sum("k0" in o["metadata"]["labels"] for o in kept[1:])
        assert store.count("ns0", "") == sum(key.startswith("ns0/") for key in expected)

    # Applying watch events

    def test_events_are_applied_in_order(self, store: Indexer) -> None:
        store.add(pod("gone", labels={"app": "web"}))
        store.apply(
            [
                event("ADDED", pod("a", labels={"app": "web"}, rv="2")),
                event("ADDED", pod("b", labels={"app": "web"}, rv="3")),
                event("MODIFIED", pod("a", labels={"app": "db"}, rv="4")),
                event("DELETED", pod("gone", rv="5")),
                event("DELETED", pod("b", rv="6")),
                event("ADDED", pod("b", labels={"app": "cache"}, rv="7")),
                event("ADDED", pod("c", rv="8")),
                event("DELETED", pod("c", rv="9")),
            ]
        )
        assert store.last_store_sync_resource_version() == "9"
        assert names(store.list()) == ["a", "b"]
        assert store.count("", "app=web") == 0
        assert names(store.select("", "app=db")) == ["a"]
        assert names(store.select("", "app=cache")) == ["b"]

    def test_large_batch_is_applied_in_order(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app})
        size = 4_500
        store.apply(event("ADDED", pod(f"p{i}", labels={"app": f"a{i % 9}"})) for i in range(size))
        assert store.count("", "app=a1") == size // 9
        batch = [event("MODIFIED", pod(f"p{i}", labels={"app": "b"})) for i in range(0, size, 2)]
        batch += [event("DELETED", pod(f"p{i}")) for i in range(0, size, 3)]
        batch += [event("ADDED", pod(f"p{i}", labels={"app": "c"})) for i in range(0, size, 5)]
        store.apply(batch)
        expected = {i: f"a{i % 9}" for i in range(size)}
        expected |= dict.fromkeys(range(0, size, 2), "b")
        expected = {i: app for i, app in expected.items() if i % 3}
        expected |= dict.fromkeys(range(0, size, 5), "c")
        for app in ("a1", "b", "c"):
            wanted = sorted(f"p{i}" for i, value in expected.items() if value == app)
            assert names(store.select("default", f"app={app}")) == wanted
            assert names(store.by_index("app", app)) == wanted
        assert len(store.list()) == store.count("", "app") == len(expected)

    def test_bookmark_event_only_moves_the_resource_version(self, store: Indexer) -> None:
        store.add(pod("a", rv="5"))
        store.apply([event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "9"}})])
        assert store.list() == [pod("a", rv="5")]
        assert store.last_store_sync_resource_version() == "9"

    def test_no_events_change_nothing(self, store: Indexer) -> None:
        store.add(pod("a", rv="5"))
        with unchanged(store):
            store.apply([])

    def test_modified_event_of_an_unknown_object_adds_it(self, store: Indexer) -> None:
        store.apply([event("MODIFIED", pod("a"))])
        assert names(store.list()) == ["a"]

    def test_deleted_event_of_an_unknown_object_moves_the_version(self, store: Indexer) -> None:
        store.apply([event("DELETED", pod("a", rv="7"))])
        assert store.list() == []
        assert store.last_store_sync_resource_version() == "7"

    @pytest.mark.parametrize(
        "bad",
        [
            {"type": "ERROR", "object": {"kind": "Status", "metadata": {}, "code": 410}},
            {"type": "added", "object": pod("x")},
            {"type": "ADDED"},
            {"type": "ADDED", "object": None},
            {"type": "ADDED", "object": "a pod"},
            {"type": "BOOKMARK", "object": {}},
            {"type": "DELETED", "object": {"metadata": {"name": 5}}},
            {"object": pod("x")},
            {},
            "ADDED",
            None,
        ],
        ids=repr,
    )
    def test_batch_with_a_malformed_event_changes_nothing(self, store: Indexer, bad: Any) -> None:
        store.add(pod("a", labels={"app": "web"}, rv="5"))
        good = [event("ADDED", pod("b")), event("DELETED", pod("a"))]
        with unchanged(store), pytest.raises(ValueError) as caught:  # noqa: PT011 - any text
            store.apply([*good, bad, event("ADDED", pod("c"))])
        assert str(caught.value)

    # Transactions

    def test_transaction_applies_operations_in_order(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app})
        store.add(pod("gone", labels={"app": "web"}))
        store.transaction(
            Transaction("add", pod("a", labels={"app": "web"}, rv="2")),
            Transaction("update", pod("a", labels={"app": "db"}, rv="3")),
            Transaction("delete", pod("gone", rv="4")),
            Transaction("add", pod("b", rv="5")),
            Transaction("delete", pod("b", rv="6")),
        )
        assert store.list() == [pod("a", labels={"app": "db"}, rv="3")]
        assert store.list_index_func_values("app") == ["db"]
        assert store.last_store_sync_resource_version() == "6"

    def test_transaction_without_operations_changes_nothing(self, store: Indexer) -> None:
        store.add(pod("a", rv="5"))
        with unchanged(store):
            store.transaction()

    def test_transaction_ending_with_a_tombstone_leaves_the_resource_version(
        self, store: Indexer
    ) -> None:
        store.add(pod("a", rv="5"))
        store.add(pod("b", rv="6"))
        store.transaction(
            Transaction("update", pod("a", rv="7")),
            Transaction("delete", DeletedFinalStateUnknown("default/b", pod("b", rv="8"))),
        )
        assert store.list() == [pod("a", rv="7")]
        assert store.last_store_sync_resource_version() == "6"
        store.transaction(Transaction("delete", ExplicitKey("default/a")))
        assert store.list() == []
        assert store.last_store_sync_resource_version() == "6"

    def test_transaction_skips_operations_without_a_key_and_names_them(
        self, store: Indexer
    ) -> None:
        store.add(pod("gone", rv="1"))
        with pytest.raises(TransactionError) as caught:
            store.transaction(
                Transaction("add", pod("a", rv="2")),
                Transaction("add", "just a string"),
                Transaction("delete", pod("gone", rv="4")),
                Transaction("update", None),
            )
        assert caught.value.successful_indices == (0, 2)
        assert caught.value.total_transactions == 4
        assert [str(error) for error in caught.value.errors] == [
            f"couldn't create key for object just a string: {_NO_META}",
            f"couldn't create key for object <nil>: {_NO_META}",
        ]
        assert all(isinstance(error, ObjectKeyError) for error in caught.value.errors)
        assert names(store.list()) == ["a"]
        # Of the last operation that was applied: client-go drops the others before it looks.
        assert store.last_store_sync_resource_version() == "4"

    def test_transaction_error_has_the_text_of_client_go(self, store: Indexer) -> None:
        with pytest.raises(TransactionError) as caught:
            store.transaction(
                Transaction("add", pod("a")), Transaction("add", "x"), Transaction("delete", None)
            )
        assert str(caught.value) == (
            "failed to execute (2/3) transactions failed due to:"
            f" [couldn't create key for object x: {_NO_META}"
            f" couldn't create key for object <nil>: {_NO_META}]"
        )

    def test_transaction_of_which_nothing_can_be_applied_changes_nothing(
        self, store: Indexer
    ) -> None:
        store.add(pod("a", rv="5"))
        with unchanged(store), pytest.raises(TransactionError) as caught:
            store.transaction(Transaction("add", "x"), Transaction("delete", {"metadata": 1}))
        assert caught.value.successful_indices == ()
        assert caught.value.total_transactions == 2

    def test_transaction_goes_by_key_function_for_its_resource_version(
        self, make_store: MakeStore
    ) -> None:
        def by_app_label(obj: Any) -> str:
            return str(obj["metadata"]["labels"]["app"])

        store = make_store(key_func=by_app_label)
        with pytest.raises(TransactionError) as caught:
            store.transaction(
                Transaction("add", pod("a", labels={"app": "web"}, rv="3")),
                Transaction("add", pod("b", labels={}, rv="4")),
            )
        assert caught.value.successful_indices == (0,)
        assert store.list_keys() == ["web"]
        assert store.last_store_sync_resource_version() == "3"

    def test_transaction_of_an_unknown_type_changes_nothing(self, store: Indexer) -> None:
        store.add(pod("a", rv="5"))
        unknown: Any = "patch"
        with unchanged(store), pytest.raises(ValueError, match="patch"):
            store.transaction(Transaction("add", pod("b")), Transaction(unknown, pod("a")))

    def test_transaction_with_a_failing_index_function_changes_nothing(
        self, make_store: MakeStore
    ) -> None:
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}, rv="5"))
        with unchanged(store), pytest.raises(IndexFunctionError):
            store.transaction(
                Transaction("delete", pod("a")),
                Transaction("add", "just a string"),
                Transaction("add", pod("b", labels={"app": "bad"})),
            )

    # The transform

    def test_transform_runs_on_each_way_in_but_transactions(self, make_store: MakeStore) -> None:
        def stripped(obj: Object) -> Object:
            return pod(obj["metadata"]["name"], labels={"seen": "yes"}, rv="t")

        store = make_store(transform=stripped)
        store.add(pod("a", labels={"app": "web"}))
        store.update(pod("b"))
        store.apply([event("ADDED", pod("c")), event("MODIFIED", pod("d"))])
        assert names(store.select("", "seen=yes")) == ["a", "b", "c", "d"]
        assert store.count("", "app") == 0
        store.transaction(Transaction("add", pod("e", labels={"app": "web"})))
        assert names(store.select("", "app=web")) == ["e"]
        store.replace([pod("f", labels={"app": "web"})], "9")
        assert names(store.select("", "seen=yes")) == ["f"]

    def test_transform_runs_after_the_key_is_made(self, make_store: MakeStore) -> None:
        store = make_store(transform=lambda obj: pod("renamed", "elsewhere", rv="9"))
        store.add(pod("a", "shop"))
        assert store.list_keys() == ["shop/a"]
        assert store.get(pod("a", "shop")) == pod("renamed", "elsewhere", rv="9")
        assert keys(store.select("elsewhere", "")) == ["elsewhere/renamed"]
        assert store.last_store_sync_resource_version() == "9"
        store.delete(pod("a", "shop"))
        assert store.list() == []

    def test_transform_does_not_run_on_deletions(self, make_store: MakeStore) -> None:
        def picky(obj: Any) -> Any:
            assert obj["metadata"].get("resourceVersion") != "gone"
            return obj

        store = make_store(transform=picky)
        store.add(pod("a"))
        store.add(pod("b"))
        store.delete(pod("a", rv="gone"))
        store.apply([event("DELETED", pod("b", rv="gone"))])
        store.delete(DeletedFinalStateUnknown("default/a", None))
        assert store.list() == []

    @pytest.mark.parametrize("call", ["add", "update", "replace", "apply"])
    def test_failing_transform_changes_nothing(self, make_store: MakeStore, call: str) -> None:
        def failing(obj: Object) -> Object:
            if obj["metadata"]["name"] == "b":
                raise RuntimeError("no status")
            return obj

        store = make_store(transform=failing, indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}, rv="5"))
        with unchanged(store), pytest.raises(TransformError, match=r"^transforming: no status$"):
            write(store, call, pod("c", rv="7"), pod("b", rv="8"))

    def test_transform_that_returns_no_object_is_refused(self, make_store: MakeStore) -> None:
        store = make_store(transform=lambda obj: None)
        with unchanged(store), pytest.raises(ObjectError):
            store.add(pod("a"))


def write(store: Indexer, call: str, *objs: Any) -> None:
    """Write objects by the method of that name; add and update take the last one only."""
    if call == "replace":
        store.replace(objs, "100")
    elif call == "apply":
        store.apply([event("ADDED", obj) for obj in objs])
    elif call == "transaction":
        store.transaction(*(Transaction("add", obj) for obj in objs))
    else:
        getattr(store, call)(objs[-1])


def content_of_empty(store: Indexer, rv: str) -> Any:
    """Return the content that a store with these index functions has when it is empty."""
    return ({}, 0, rv, {name: {} for name in store.get_indexers()}, {})
