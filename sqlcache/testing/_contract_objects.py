"""Contract: what is kept, that it comes back equal, and what mutation does to it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from sqlcache.errors import MutatedObjectError, ObjectError, ObjectKeyError, TransactionError
from sqlcache.objects import DeletedFinalStateUnknown, ExplicitKey, Object
from sqlcache.selectors import EVERYTHING
from sqlcache.store.api import Indexer, Transaction
from sqlcache.testing._contract_content import by_app, write
from sqlcache.testing._contract_parts import (
    MakeStore,
    StoreFixtures,
    in_another_thread,
    unchanged,
)
from sqlcache.testing.factories import names, pod

_WRITES = ("add", "update", "replace", "apply", "transaction")
_NO_META = "object has no meta: object does not implement the Object interfaces"

_NO_OBJECTS: dict[str, Any] = {
    "text": "just a string",
    "none": None,
    "number": 5,
    "list": [],
    "empty": {},
    "metadata is none": {"metadata": None},
    "metadata is a list": {"metadata": []},
    "metadata is text": {"metadata": "a"},
}
# Calls that take a text.
_TEXTS: dict[str, Callable[[Indexer, Any], object]] = {
    "get_by_key": lambda store, value: store.get_by_key(value),
    "get_by_keys": lambda store, value: store.get_by_keys(["default/a", value]),
    "select": lambda store, value: store.select(value, "app=web"),
    "select all": lambda store, value: store.select(value, ""),
    "count": lambda store, value: store.count(value, "!app"),
    "explain": lambda store, value: store.explain(value, "app"),
    "selecting": lambda store, value: store.selecting(value, {}),
    "by_index": lambda store, value: store.by_index("app", value),
    "index_keys": lambda store, value: store.index_keys("app", value),
    "bookmark": lambda store, value: store.bookmark(value),
    "replace": lambda store, value: store.replace([], value),
    "set_source": lambda store, value: store.set_source(value),
    "add_indexers": lambda store, value: store.add_indexers({value: by_app}),
}
_BAD_METADATA: dict[str, dict[str, Any]] = {
    "name is a number": {"name": 5},
    "name is bytes": {"name": b"a"},
    "namespace is a list": {"namespace": ["shop"]},
    "resourceVersion is a number": {"resourceVersion": 7},
    "labels are a list": {"labels": ["app=web"]},
    "labels are an empty list": {"labels": []},
    "labels are text": {"labels": "app=web"},
    "labels are an empty text": {"labels": ""},
    "labels are zero": {"labels": 0},
    "label value is a number": {"labels": {"app": 1}},
    "label value is a boolean": {"labels": {"app": True}},
    "label value is none": {"labels": {"app": None}},
    "label value is a list": {"labels": {"app": ["web"]}},
    "label key is a number": {"labels": {1: "web"}},
    "label key is none": {"labels": {None: "web"}},
    "label value has NUL": {"labels": {"app": "web\0x"}},
    "label key has NUL": {"labels": {"app\0": "web"}},
    "label value has a lone surrogate": {"labels": {"app": "web\ud800"}},
    "label key has a lone surrogate": {"labels": {"\udfff": "web"}},
    "name has NUL": {"name": "a\0b"},
    "name has a lone surrogate": {"name": "a\ud800"},
    "namespace has NUL": {"namespace": "shop\0"},
    "namespace has a lone surrogate": {"namespace": "\ud83d"},
    "resourceVersion has a lone surrogate": {"resourceVersion": "1\ud800"},
}
_BODIES: dict[str, Any] = {
    "nothing": {},
    "null": None,
    "empty list": [],
    "empty object": {},
    "empty text": "",
    "zero": 0,
    "false": False,
    "true": True,
    "integer over 2**53": 2**53 + 1,
    "largest integer of 64 bits": 2**63 - 1,
    "smallest integer of 64 bits": -(2**63),
    "unsigned integer of 64 bits": 2**64 - 1,
    "float": 0.1,
    "float that is whole": 1.0,
    "large float": 1e300,
    "small float": -5e-324,
    "non-ASCII text": "žluťoučký kůň 馬 \U0001f40e",
    "control characters": 'a\0b\t"\\\n\x1f\x7f\u2028',
    "long text": "x" * 300_000,
    "unordered keys": {"b": 1, "a": {"d": [], "c": None}},
    "empty key": {"": {"": ""}},
    "list of lists": [[[], [None]], [{"a": [0, 0.0, "0", False]}]],
}
_UNUSUAL_BODIES: dict[str, Any] = {
    "integer of more than 64 bits": 2**70,
    "negative integer of more than 64 bits": -(2**70),
    "lone surrogate": "a\ud800",
    "key with a lone surrogate": {"\ud800": 1},
    "key that is a number": {1: "a"},
    "set": {1},
    "bytes": b"a",
    "timestamp": datetime(2026, 1, 2, tzinfo=UTC),  # what a YAML reader makes of one
    "any Python object": object(),
}


def nested(depth: int) -> Any:
    """Return a list in a list in a list."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


class ObjectContract(StoreFixtures):
    """Objects that come back equal or are refused, and objects that a caller changes."""

    # Coming back equal

    @pytest.mark.parametrize("value", [None, 5, True, b"default", ("a",)], ids=repr)
    @pytest.mark.parametrize("call", _TEXTS)
    def test_what_is_no_text_is_refused(
        self, make_store: MakeStore, call: str, value: object
    ) -> None:
        """A namespace of None, say, could be taken for all of them, or for none."""
        store = make_store(indexers={"app": by_app}, selector_func=lambda obj: EVERYTHING)
        store.add(pod("a", labels={"app": "web"}, rv="1"))
        with unchanged(store), pytest.raises(TypeError, match="is a string, not"):
            _TEXTS[call](store, value)
        store.add(pod("b", labels={"app": "web"}, rv="2"))
        assert store.index_keys("app", "web") == ["default/a", "default/b"]

    @pytest.mark.parametrize("body", _BODIES.values(), ids=_BODIES)
    def test_object_comes_back_equal(self, store: Indexer, body: Any) -> None:
        """`repr` tells 1, 1.0 and True apart, and the order of keys."""
        obj = pod("a", labels={"app": "web"}, spec={"before": 1, "field": body, "after": [body]})
        shown = repr(obj)
        store.add(obj)
        for found in (
            store.get_by_key("default/a"),
            *store.list(),
            *store.select("", ""),
            *store.select("", "app=web"),
            *store.select("", "app!=db"),
        ):
            assert repr(found) == shown

    def test_deep_object_comes_back_equal(self, store: Indexer) -> None:
        obj = pod("a", spec=nested(100))
        store.add(obj)
        assert store.get_by_key("default/a") == obj

    @pytest.mark.parametrize("labels", [{}, None], ids=["empty", "null"])
    def test_empty_labels_stay_as_they_are(self, store: Indexer, labels: Any) -> None:
        obj = pod("a")
        obj["metadata"]["labels"] = labels
        without = pod("b")
        store.replace([obj, without], "1")
        assert repr(store.get_by_key("default/a")) == repr(obj)
        assert repr(store.get_by_key("default/b")) == repr(without)
        assert names(store.select("", "app!=web")) == ["a", "b"]
        assert names(store.select("", "!app")) == ["a", "b"]
        assert store.select("", "app") == []

    @pytest.mark.parametrize("field", ["namespace", "resourceVersion", "uid", "annotations"])
    @pytest.mark.parametrize("value", ["", None], ids=["empty", "null"])
    def test_empty_metadata_stays_as_it_is(self, store: Indexer, field: str, value: Any) -> None:
        obj = pod("a", "")
        obj["metadata"][field] = value
        store.add(obj)
        assert repr(store.get_by_key("a")) == repr(obj)

    def test_labels_may_be_any_text(self, store: Indexer) -> None:
        labels = {
            "ключ": "значение",
            "k": "x" * 100_000,
            "e": "",
            "q": "'\"%_\\",
            "s": "\U0001f40e",
        }
        store.add(pod("a", labels=labels))
        for key, value in labels.items():
            assert names(store.select("", {key: value})) == ["a"]
            assert store.select("", {key: value + "x"}) == []

    # Being refused

    @pytest.mark.parametrize("obj", _NO_OBJECTS.values(), ids=_NO_OBJECTS)
    def test_value_that_is_no_object_is_refused(self, store: Indexer, obj: Any) -> None:
        store.add(pod("a", rv="5"))
        calls = (
            store.add,
            store.update,
            store.delete,
            store.get,
            lambda value: store.replace([pod("b"), value], "9"),
        )
        for call in calls:
            with unchanged(store), pytest.raises(ObjectKeyError) as caught:
                call(obj)
            assert str(caught.value).startswith("couldn't create key for object ")
            assert str(caught.value).endswith(_NO_META)

    def test_message_shows_what_was_no_object(self, store: Indexer) -> None:
        for value, shown in (("just a string", "just a string"), (None, "<nil>")):
            with pytest.raises(ObjectKeyError) as caught:
                store.add(value)
            assert str(caught.value) == f"couldn't create key for object {shown}: {_NO_META}"
            assert caught.value.obj == value

    @pytest.mark.parametrize("bad", _BAD_METADATA.values(), ids=_BAD_METADATA)
    def test_object_with_bad_metadata_is_refused(
        self, make_store: MakeStore, bad: dict[str, Any]
    ) -> None:
        """The good objects beside it are not stored either."""
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}, rv="5"))
        obj = pod("b", labels={"app": "web"}, rv="6")
        obj["metadata"].update(bad)
        for call in ("add", "update", "replace", "apply"):
            with unchanged(store), pytest.raises(ObjectError):
                write(store, call, pod("c", labels={"app": "db"}), obj)
        # Of a transaction the others are applied if the key is bad, and none for another reason.
        with unchanged(store), pytest.raises((ObjectError, TransactionError)):
            store.transaction(Transaction("add", obj))

    @pytest.mark.parametrize("call", _WRITES)
    def test_key_without_an_object_cannot_be_stored(self, store: Indexer, call: str) -> None:
        store.add(pod("a", rv="5"))
        for value in (ExplicitKey("default/c"), DeletedFinalStateUnknown("default/c", pod("c"))):
            with unchanged(store), pytest.raises(ObjectError):
                write(store, call, pod("b"), value)

    @pytest.mark.parametrize("rv", [None, 7, b"7"], ids=repr)
    def test_resource_version_must_be_text(self, store: Indexer, rv: Any) -> None:
        store.add(pod("a", rv="5"))
        with unchanged(store), pytest.raises(TypeError, match="resourceVersion"):
            store.bookmark(rv)
        with unchanged(store), pytest.raises(TypeError, match="resourceVersion"):
            store.replace([pod("b")], rv)

    def test_resource_version_must_be_unicode(self, store: Indexer) -> None:
        store.add(pod("a", rv="5"))
        with unchanged(store), pytest.raises(ValueError, match="resourceVersion"):
            store.bookmark("\ud800")
        with unchanged(store), pytest.raises(ValueError, match="resourceVersion"):
            store.replace([pod("b")], "\ud800")

    @pytest.mark.parametrize("key", [None, 5, ["a"], b"a"], ids=repr)
    def test_key_function_must_return_text(self, make_store: MakeStore, key: Any) -> None:
        store = make_store(key_func=lambda obj: key)
        for call in (store.add, store.delete, store.get):
            with unchanged(store), pytest.raises(ObjectKeyError):
                call(pod("a"))

    def test_failing_key_function_is_named(self, make_store: MakeStore) -> None:
        def failing(obj: Any) -> str:
            raise RuntimeError("no key today")

        store = make_store(key_func=failing)
        for call in (store.add, store.update, store.delete, store.get):
            with pytest.raises(ObjectKeyError, match=r"^couldn't create key .*: no key today$"):
                call(pod("a"))
        assert store.list() == []

    @pytest.mark.parametrize("body", _UNUSUAL_BODIES.values(), ids=_UNUSUAL_BODIES)
    def test_body_that_no_server_sends_is_refused_or_comes_back_equal(
        self, make_store: MakeStore, body: Any
    ) -> None:
        """A backend that keeps parsed objects takes it, one that keeps bytes cannot."""
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}, rv="5"))
        obj = pod("b", labels={"app": "web"}, spec={"field": body})
        for call in _WRITES:
            with unchanged(store):
                try:
                    write(store, call, pod("c", labels={"app": "db"}), obj)
                except ObjectError:
                    continue
                found = store.get_by_key("default/b")
                assert found == obj
                assert type(found["spec"]["field"]) is type(body)
                store.replace([pod("a", labels={"app": "web"}, rv="5")], "5")

    # Objects that a caller changes

    def test_changing_an_object_cannot_corrupt_the_indexes(self, make_store: MakeStore) -> None:
        """It may be seen by readers until the next write, but entries are never left behind."""
        store = make_store(indexers={"app": by_app})
        given = pod("a", labels={"app": "web", "env": "prod"})
        store.replace([given, pod("b", labels={"app": "web"})], "1")
        for obj in (given, store.get_by_key("default/a"), *store.list(), *store.select("", "")):
            assert obj is not None
            obj["metadata"]["labels"] = {"app": "mutated", "extra": "x"}
        store.update(pod("a", labels={"app": "db"}))
        store.delete(pod("b"))
        assert names(store.list()) == ["a"]
        assert store.list_index_func_values("app") == ["db"]
        assert store.index_keys("app", "db") == ["default/a"]
        assert names(store.by_index("app", "db")) == ["a"]
        for gone in ("app=web", "env=prod", "app=mutated", "extra", "env"):
            assert store.select("", gone) == []
        assert names(store.select("", "app=db")) == ["a"]
        assert [each.key for each in store.stats().label_keys] == ["app"]
        store.replace([], "2")
        assert store.list_index_func_values("app") == []
        assert store.stats().label_keys == ()

    def test_updating_with_the_changed_object_itself_is_an_update(
        self, make_store: MakeStore
    ) -> None:
        """What Python programs do: get, change, put back, all with one object."""
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web", "env": "prod"}))
        obj = store.get_by_key("default/a")
        assert obj is not None
        obj["metadata"]["labels"] = {"app": "db"}
        store.update(obj)
        assert store.select("", "app=web") == []
        assert store.select("", "env") == []
        assert names(store.select("", "app=db")) == ["a"]
        assert store.index_keys("app", "web") == []
        assert store.index_keys("app", "db") == ["default/a"]
        store.delete(pod("a"))
        assert store.list_index_func_values("app") == []
        assert store.stats().label_keys == ()

    def test_changing_an_object_after_a_failed_write_changes_nothing(self, store: Indexer) -> None:
        obj = pod("a", labels={"app": "web"})
        obj["metadata"]["labels"]["n"] = 1
        with pytest.raises(ObjectError):
            store.add(obj)
        assert store.list() == []

    @pytest.mark.parametrize("reader", ["get_by_key", "get", "list", "select", "index", "by_index"])
    def test_mutation_detector_finds_a_changed_object(
        self, make_store: MakeStore, reader: str
    ) -> None:
        """Or the store gave out copies: then no reader sees the change."""
        store = make_store(indexers={"app": by_app}, detect_mutation=True)
        store.add(pod("a", labels={"app": "web"}))
        expected = pod("a", labels={"app": "web"})
        readers: dict[str, Callable[[], Any]] = {
            "get_by_key": lambda: store.get_by_key("default/a"),
            "get": lambda: store.get(pod("a")),
            "list": lambda: store.list()[0],
            "select": lambda: store.select("default", "")[0],
            "index": lambda: store.index("app", pod("q", labels={"app": "web"}))[0],
            "by_index": lambda: store.by_index("app", "web")[0],
        }
        read = readers[reader]
        obj = read()
        assert obj == expected
        assert read() == expected
        obj["metadata"]["labels"]["app"] = "mutated"
        with suppress(MutatedObjectError):
            assert in_another_thread(read) == expected

    def test_mutation_detector_lets_honest_readers_pass(self, make_store: MakeStore) -> None:
        store = make_store(indexers={"app": by_app}, detect_mutation=True)
        for step in range(5):
            store.update(pod("a", labels={"app": f"v{step}"}, rv=str(step)))
            store.apply([{"type": "ADDED", "object": pod("b", labels={"app": "web"})}])
            store.replace([*store.list(), pod("c", labels={"app": "web"})], str(step))
            assert names(store.list()) == ["a", "b", "c"]
            assert names(store.by_index("app", "web")) == ["b", "c"]
            assert names(store.select("", f"app=v{step}")) == ["a"]
            store.delete(pod("c"))
        assert store.get_by_key("default/c") is None

    def test_mutation_detector_forgives_an_object_that_is_put_back(
        self, make_store: MakeStore
    ) -> None:
        store = make_store(detect_mutation=True)
        store.add(pod("a", labels={"app": "web"}))
        obj = store.get_by_key("default/a")
        assert obj is not None
        obj["metadata"]["labels"] = {"app": "db"}
        store.update(obj)
        assert names(store.select("", "app=db")) == ["a"]
        assert names(store.list()) == ["a"]

    def test_mutation_detector_takes_what_the_store_takes(self, make_store: MakeStore) -> None:
        """Objects that the key function refuses once transformed, and odd bodies, are no reason."""

        def by_app_label(obj: Any) -> str:
            return str(obj["metadata"]["labels"]["app"])

        def stripped(obj: Object) -> Object:
            return pod(obj["metadata"]["name"])

        store = make_store(key_func=by_app_label, transform=stripped, detect_mutation=True)
        store.add(pod("a", labels={"app": "web"}))
        assert names(store.list()) == ["a"]
        odd = make_store(detect_mutation=True)
        obj = pod("a", spec={"number": 2**70})
        try:
            odd.add(obj)
        except ObjectError:
            assert odd.list() == []
        else:
            assert odd.list() == [obj]
            assert odd.get_by_key("default/a") == obj
