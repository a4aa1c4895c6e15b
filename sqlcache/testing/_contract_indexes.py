"""Contract: index functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sqlcache.errors import IndexerConflictError, IndexFunctionError, IndexNotFoundError
from sqlcache.objects import NAMESPACE_INDEX, Object, meta_namespace_index_func
from sqlcache.store.api import Indexer
from sqlcache.testing._contract_content import by_app, write
from sqlcache.testing._contract_parts import MakeStore, StoreFixtures, content, unchanged
from sqlcache.testing.factories import event, keys, names, pod

_ODD_VALUES = ("", "my_app", "a%b", "a'b", 'a"b', "App", "app", "9", "10", "ü", "a b", "x" * 10_000)


def by_pair(obj: Object) -> list[str]:
    """Index by `key=value` of each label."""
    return [f"{key}={value}" for key, value in (obj["metadata"].get("labels") or {}).items()]


def by_node(obj: Object) -> list[str]:
    """Index by node name, "" if there is none."""
    return [(obj.get("spec") or {}).get("nodeName", "")]


def returning(value: Any) -> Callable[[Any], Any]:
    """Return an index function that always returns the same."""
    return lambda obj: value


class IndexContract(StoreFixtures):
    """by_index, index_keys, index, list_index_func_values, get_indexers, add_indexers."""

    def test_values_are_found_by_each_index_reader(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app, "node": by_node})
        store.replace(
            [
                pod("b", "shop", {"app": "web"}, spec={"nodeName": "n1"}),
                pod("a", "shop", {"app": "web"}),
                pod("a", "bank", {"app": "db"}, spec={"nodeName": "n1"}),
                pod("c", "bank"),
            ],
            "1",
        )
        assert keys(store.by_index("app", "web")) == ["shop/a", "shop/b"]
        assert store.index_keys("app", "web") == ["shop/a", "shop/b"]
        assert store.index_keys("node", "n1") == ["bank/a", "shop/b"]
        assert store.index_keys("node", "") == ["bank/c", "shop/a"]
        assert sorted(store.list_index_func_values("app")) == ["db", "web"]
        assert sorted(store.list_index_func_values("node")) == ["", "n1"]
        probe = pod("probe", labels={"app": "db"})
        assert keys(store.index("app", probe)) == ["bank/a"]
        assert store.index("app", pod("probe")) == []

    def test_index_keys_are_sorted(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app})
        wanted = sorted(f"ns{number % 3}/p{number}" for number in range(50))
        for number in (*range(25, 50), *range(25)):
            store.add(pod(f"p{number}", f"ns{number % 3}", {"app": "web"}))
        assert store.index_keys("app", "web") == wanted

    def test_missing_value_gives_nothing(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}))
        for value in ("", "we", "webs", "WEB", "web\0", "web\0x", "\0", "%", "w_b", "web\ud800"):
            assert store.by_index("app", value) == []
            assert store.index_keys("app", value) == []

    def test_object_may_have_several_values(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"pair": by_pair})
        store.add(pod("a", labels={"x": "1"}))
        store.add(pod("b", labels={"y": "2"}))
        store.add(pod("c", labels={"x": "1", "y": "2"}))
        assert store.index_keys("pair", "x=1") == ["default/a", "default/c"]
        probe = pod("probe", labels={"x": "1", "y": "2", "z": "3"})
        assert names(store.index("pair", probe)) == ["a", "b", "c"]
        assert names(store.index("pair", pod("probe", labels={"x": "1"}))) == ["a", "c"]
        store.update(pod("c", labels={"y": "2", "z": "3"}))
        assert store.index_keys("pair", "x=1") == ["default/a"]
        assert store.index_keys("pair", "z=3") == ["default/c"]
        assert sorted(store.list_index_func_values("pair")) == ["x=1", "y=2", "z=3"]
        store.delete(pod("c"))
        assert sorted(store.list_index_func_values("pair")) == ["x=1", "y=2"]

    def test_values_of_one_object_coming_and_going_leave_those_of_others(
        self, make_store: MakeStore
    ) -> None:
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"env": "prod"}))
        store.add(pod("b", labels={"app": "web"}))
        store.update(pod("a", labels={"app": "web"}))
        store.delete(pod("b"))
        assert store.index_keys("app", "web") == ["default/a"]
        store.add(pod("c", labels={"app": "db"}))
        store.update(pod("a", labels={"env": "prod"}))
        assert store.list_index_func_values("app") == ["db"]
        store.update(pod("c"))
        assert store.list_index_func_values("app") == []
        store.replace([pod("c", labels={"app": "web"}), pod("a", labels={"app": "db"})], "1")
        store.replace([pod("a", labels={"app": "web"})], "2")
        assert store.index_keys("app", "web") == ["default/a"]
        assert store.list_index_func_values("app") == ["web"]

    def test_labels_and_values_that_read_alike_are_told_apart(self, make_store: MakeStore) -> None:
        """A backend may compare objects by a digest of them: one text must not stand for two."""
        store = make_store(
            indexers={"a": lambda obj: [] if obj["metadata"].get("labels") else ["x", "y"]}
        )
        store.add(pod("p", labels={}))
        assert sorted(store.list_index_func_values("a")) == ["x", "y"]
        store.update(pod("p", labels={"a": "x", "2": "y"}))
        assert store.list_index_func_values("a") == []
        assert names(store.select("", "a=x,2=y")) == ["p"]
        store.update(pod("p", labels={"a": "b", "c": "d"}))
        store.update(pod("p", labels={"a": "d", "c": "b"}))
        assert names(store.select("", "a=d,c=b")) == ["p"]
        store.update(pod("p", labels={"a": "c", "b": "d"}))
        assert names(store.select("", "a=c,b=d")) == ["p"]
        assert store.select("", "c") == []

    def test_repeated_values_count_once(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"twice": lambda obj: by_app(obj) * 2})
        store.add(pod("a", labels={"app": "web"}))
        assert store.index_keys("twice", "web") == ["default/a"]
        assert names(store.by_index("twice", "web")) == ["a"]
        assert names(store.index("twice", pod("probe", labels={"app": "web"}))) == ["a"]
        store.update(pod("a", labels={"app": "db"}))
        assert store.list_index_func_values("twice") == ["db"]
        store.delete(pod("a"))
        assert store.list_index_func_values("twice") == []

    def test_object_without_values_is_stored_but_not_indexed(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"none": returning([])})
        store.add(pod("a"))
        assert names(store.list()) == ["a"]
        assert store.list_index_func_values("none") == []
        assert store.by_index("none", "") == []
        assert store.index("none", pod("a")) == []

    @pytest.mark.parametrize("value", _ODD_VALUES, ids=lambda value: value[:10])
    def test_value_may_be_any_text(self, make_store: MakeStore, value: str) -> None:
        store = make_store(indexers={"app": by_app})
        for number, each in enumerate(_ODD_VALUES):
            store.add(pod(f"p{number}", labels={"app": each}))
        name = f"p{_ODD_VALUES.index(value)}"
        assert names(store.by_index("app", value)) == [name]
        assert store.index_keys("app", value) == [f"default/{name}"]
        assert sorted(store.list_index_func_values("app")) == sorted(_ODD_VALUES)

    def test_same_value_in_two_indexes_is_kept_apart(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app, "name": lambda obj: [obj["metadata"]["name"]]})
        store.add(pod("web", labels={"app": "x"}))
        store.add(pod("x", labels={"app": "web"}))
        assert store.index_keys("app", "web") == ["default/x"]
        assert store.index_keys("name", "web") == ["default/web"]

    def test_index_and_label_of_one_name_are_kept_apart(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": returning(["indexed"])})
        store.add(pod("a", "", {"app": "label"}))
        assert store.select("", "app=indexed") == []
        assert names(store.select("", "app=label")) == ["a"]
        assert store.index_keys("app", "label") == []
        assert store.index_keys("app", "indexed") == ["a"]
        assert [(each.key, each.objects) for each in store.stats().label_keys] == [("app", 1)]
        store.update(pod("a", "", {}))
        assert store.select("", "app") == []
        assert store.index_keys("app", "indexed") == ["a"]

    def test_index_name_may_be_any_text(self, make_store: MakeStore) -> None:
        odd = ["", "a b", "a%", "ü", "'", '"', "namespace"]
        store = make_store(indexers={name: returning([name]) for name in odd})
        store.add(pod("a"))
        for name in odd:
            assert store.index_keys(name, name) == ["default/a"]
            assert store.list_index_func_values(name) == [name]
        assert sorted(store.get_indexers()) == sorted(odd)

    @pytest.mark.parametrize("name", ["a\0b", "\ud800"], ids=ascii)
    def test_index_name_that_cannot_be_kept_is_refused(
        self, make_store: MakeStore, name: str
    ) -> None:
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}))
        with unchanged(store), pytest.raises(ValueError, match="name of an index"):
            store.add_indexers({"fine": by_app, name: by_app})
        assert list(store.get_indexers()) == ["app"]
        with pytest.raises(ValueError, match="name of an index"):
            make_store(indexers={name: by_app})

    def test_namespace_index_gives_the_namespace(self, make_store: MakeStore) -> None:
        store = make_store(indexers={NAMESPACE_INDEX: meta_namespace_index_func})
        for obj in (pod("a", "shop"), pod("b", "shop"), pod("c", "bank"), pod("d", "")):
            store.add(obj)
        assert keys(store.by_index(NAMESPACE_INDEX, "shop")) == ["shop/a", "shop/b"]
        assert keys(store.index(NAMESPACE_INDEX, pod("x", "bank"))) == ["bank/c"]
        assert keys(store.by_index(NAMESPACE_INDEX, "")) == ["d"]

    # Unknown names and added functions

    def test_unknown_index_is_an_error_for_all_but_its_values(self, store: Indexer) -> None:
        store.add(pod("a"))
        calls = (
            lambda: store.by_index("nope", "x"),
            lambda: store.index_keys("nope", "x"),
            lambda: store.index("nope", pod("a")),
        )
        for call in calls:
            with pytest.raises(IndexNotFoundError, match=r"^Index with name nope does not exist$"):
                call()
        assert store.list_index_func_values("nope") == []

    def test_function_added_after_data_indexes_what_is_there(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"node": by_node})
        store.add(pod("a", labels={"app": "web"}))
        store.add(pod("b", labels={"app": "db"}, spec={"nodeName": "n1"}))
        store.add_indexers({"app": by_app, "pair": by_pair})
        assert store.index_keys("app", "web") == ["default/a"]
        assert sorted(store.list_index_func_values("pair")) == ["app=db", "app=web"]
        assert store.index_keys("node", "n1") == ["default/b"]
        assert sorted(store.get_indexers()) == ["app", "node", "pair"]
        store.update(pod("a", labels={"app": "db"}))
        assert store.list_index_func_values("app") == ["db"]
        store.delete(pod("b"))
        assert store.index_keys("app", "db") == ["default/a"]
        store.replace([], "9")
        assert store.list_index_func_values("app") == []
        assert store.list_index_func_values("pair") == []

    def test_function_added_to_an_empty_store_indexes_what_comes(self, store: Indexer) -> None:
        store.add_indexers({"app": by_app})
        store.add_indexers({})
        store.add(pod("a", labels={"app": "web"}))
        assert names(store.by_index("app", "web")) == ["a"]

    def test_name_in_use_adds_none_of_the_functions(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app, "node": by_node})
        store.add(pod("a", labels={"app": "web"}))
        with (
            unchanged(store),
            pytest.raises(IndexerConflictError, match=r"^indexer conflict: map\[app:{}\]$"),
        ):
            store.add_indexers({"pair": by_pair, "app": by_node})
        with (
            unchanged(store),
            pytest.raises(IndexerConflictError, match=r"^indexer conflict: map\[app:{} node:{}\]$"),
        ):
            store.add_indexers({"node": by_node, "app": by_app})
        assert store.get_indexers() == {"app": by_app, "node": by_node}
        store.add_indexers({"pair": by_pair})
        assert store.index_keys("pair", "app=web") == ["default/a"]

    def test_indexers_are_given_as_a_copy(self, make_store: MakeStore) -> None:
        given = {"app": by_app}
        store = make_store(indexers=given)
        given["node"] = by_node
        store.get_indexers()["pair"] = by_pair
        store.get_indexers().clear()
        assert store.get_indexers() == {"app": by_app}
        added = {"node": by_node}
        store.add_indexers(added)
        added.clear()
        assert sorted(store.get_indexers()) == ["app", "node"]

    # Functions that fail

    @pytest.mark.parametrize("call", ["add", "update", "replace", "apply", "transaction"])
    def test_failing_function_changes_nothing(self, make_store: MakeStore, call: str) -> None:
        """client-go panics here, with the object stored and some indexes updated."""
        store = make_store(indexers={"node": by_node, "app": by_app, "pair": by_pair})
        store.add(pod("a", labels={"app": "web"}, rv="5"))
        store.add(pod("b", labels={"app": "web"}, rv="6"))
        with unchanged(store), pytest.raises(IndexFunctionError) as caught:
            write(store, call, pod("c", labels={"app": "db"}), pod("b", labels={"app": "bad"}))
        assert str(caught.value) == (
            'unable to calculate an index entry for key "default/b" on index "app": bad label'
        )
        assert (caught.value.key, caught.value.index) == ("default/b", "app")
        assert isinstance(caught.value.__cause__, ValueError)

    def test_object_that_a_function_refused_can_be_deleted(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}))
        with pytest.raises(IndexFunctionError):
            store.update(pod("a", labels={"app": "bad"}))
        store.delete(pod("a", labels={"app": "bad"}))
        assert store.list() == []
        assert store.list_index_func_values("app") == []

    def test_added_function_that_fails_is_not_added(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"node": by_node})
        store.add(pod("a", labels={"app": "web"}))
        store.add(pod("b", labels={"app": "bad"}))
        with unchanged(store), pytest.raises(IndexFunctionError, match='key "default/b" on index'):
            store.add_indexers({"pair": by_pair, "app": by_app})
        assert sorted(store.get_indexers()) == ["node"]
        store.update(pod("b", labels={"app": "db"}))
        store.add_indexers({"app": by_app})
        assert store.index_keys("app", "db") == ["default/b"]

    @pytest.mark.parametrize(
        "result",
        ["text", None, 5, [1], [None], ["a", b"b"], ["a\0b"], ["\ud800"]],
        ids=repr,
    )
    def test_function_must_return_a_list_of_texts(self, make_store: MakeStore, result: Any) -> None:
        store = make_store(indexers={"odd": returning(result), "app": by_app})
        with unchanged(store), pytest.raises(IndexFunctionError):
            store.add(pod("a", labels={"app": "web"}))
        with unchanged(store), pytest.raises(IndexFunctionError):
            store.apply([event("ADDED", pod("a", labels={"app": "web"}))])

    @pytest.mark.parametrize(
        "kind", [tuple, dict.fromkeys, iter], ids=["tuple", "dict", "iterator"]
    )
    def test_other_iterables_of_texts_are_read_once(self, make_store: MakeStore, kind: Any) -> None:
        store = make_store(indexers={"odd": lambda obj: kind(["x", "y", "x"])})
        store.add(pod("a"))
        assert sorted(store.list_index_func_values("odd")) == ["x", "y"]
        assert names(store.index("odd", pod("probe"))) == ["a"]

    def test_probe_that_the_function_refuses_raises_its_own_error(
        self, make_store: MakeStore
    ) -> None:
        store = make_store(indexers={"app": by_app, NAMESPACE_INDEX: meta_namespace_index_func})
        store.add(pod("a", labels={"app": "web"}))
        with unchanged(store), pytest.raises(ValueError, match=r"^bad label$"):
            store.index("app", pod("probe", labels={"app": "bad"}))
        with pytest.raises(ValueError, match=r"^object has no meta: object does"):
            store.index(NAMESPACE_INDEX, "just a string")

    def test_impure_function_leaves_no_stale_values(self, make_store: MakeStore) -> None:
        """Values are remembered: removing them does not depend on getting them once more."""
        count = iter(range(100))
        store = make_store(indexers={"n": lambda obj: [f"v{next(count)}"]})
        store.add(pod("a"))
        store.add(pod("b"))
        store.update(pod("a", rv="2"))
        (last,) = store.list_index_func_values("n")[-1:]
        assert len(store.list_index_func_values("n")) == 2
        assert len(store.index_keys("n", last)) == 1
        store.delete(pod("a"))
        store.delete(pod("b"))
        assert store.list_index_func_values("n") == []

    def test_values_that_come_and_go_leave_nothing(self, make_store: MakeStore) -> None:
        """Source: kubernetes issue 84959, an index that grew with every value ever seen."""
        store = make_store(indexers={"app": by_app})
        empty = content(store)
        for number in range(200):
            store.add(pod("a", f"ns{number}", {"app": f"v{number}", f"k{number}": "x"}, rv=""))
            store.delete(pod("a", f"ns{number}", rv=""))
        assert content(store) == empty
        assert store.stats().namespaces == 0
