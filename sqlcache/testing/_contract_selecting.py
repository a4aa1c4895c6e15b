"""Contract: selecting, and the listers on top of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from sqlcache.errors import NoSelectorsError, ObjectError, SelectorFunctionError, StoreClosedError
from sqlcache.lister import Lister, ServiceLister
from sqlcache.objects import DeletedFinalStateUnknown, Object, Objects
from sqlcache.selectors import (
    EVERYTHING,
    NOTHING,
    Selector,
    from_label_selector,
    label_selector,
    parse,
    service_selector,
)
from sqlcache.store.api import Indexer, Transaction
from sqlcache.testing._contract_content import write
from sqlcache.testing._contract_parts import (
    MakeStore,
    StoreFixtures,
    run_together,
    switching_often,
    unchanged,
)
from sqlcache.testing._contract_threads import background
from sqlcache.testing.factories import event, keys, names, pod

_ABSENT = object()
_WRITES = ("add", "update", "replace", "apply", "transaction")

# Each tuple: the labels of a pod, and which of the services in `services_of_shop` select it.
_ANSWERS: list[tuple[Mapping[str, str] | None, str]] = [
    ({"app": "web"}, "aq"),
    ({"app": "web", "tier": "front"}, "abq"),
    ({"app": "web", "tier": "back"}, "aq"),
    ({"app": "db", "tier": "front"}, "cq"),
    ({"tier": "front"}, "q"),
    ({"app": ""}, "dq"),
    ({"app": "Web"}, "q"),
    ({"App": "web"}, "q"),
    ({"app": "not valid, at all"}, "eq"),
    ({"other": "x"}, "q"),
    ({}, "q"),
    (None, "q"),
]


def service(
    name: str, selector: Any = _ABSENT, namespace: str = "shop", rv: str | None = "1"
) -> Object:
    """Return a service, without the field if no selector is given."""
    spec = {} if selector is _ABSENT else {"selector": selector}
    return pod(name, namespace, {"name": name}, rv, spec=spec)


def services_of_shop() -> Objects:
    """Return services of one namespace: a to e select labels, n and o nothing, q everything."""
    return [
        service("a", {"app": "web"}),
        service("b", {"app": "web", "tier": "front"}),
        service("c", {"app": "db"}),
        service("d", {"app": ""}),
        service("e", {"app": "not valid, at all"}),
        service("n"),
        service("o", None),
        service("q", {}),
    ]


def by_app_label(obj: Object) -> Selector:
    """Select what has the same app; fail on one value."""
    labels = obj["metadata"].get("labels") or {}
    if labels.get("app") == "bad":
        raise ValueError("bad label")
    return parse(f"app={labels.get('app', '')}")


def selected_by(store: Indexer, namespace: str, labels: Mapping[str, str] | None) -> str:
    """Return the names of the objects that select labels, as one text."""
    return "".join(names(store.selecting(namespace, labels)))


class SelectingContract(StoreFixtures):
    """selecting: objects by what they select."""

    @pytest.fixture
    def services(self, make_store: MakeStore) -> Indexer:
        return make_store(selector_func=service_selector)

    @pytest.mark.parametrize("call", _WRITES)
    def test_gives_exactly_the_objects_whose_selector_matches(
        self, services: Indexer, call: str
    ) -> None:
        if call in ("add", "update"):
            for each in services_of_shop():
                write(services, call, each)
        else:
            write(services, call, *services_of_shop())
        for labels, expected in _ANSWERS:
            assert selected_by(services, "shop", labels) == expected

    def test_objects_come_whole_and_in_a_list_of_the_callers_own(self, services: Indexer) -> None:
        web = service("a", {"app": "web"})
        services.add(web)
        found = services.selecting("shop", {"app": "web"})
        assert found == [web]
        found.clear()
        assert services.selecting("shop", {"app": "web"}) == [web]

    def test_namespaces_are_kept_apart_and_no_namespace_is_all(self, services: Indexer) -> None:
        namespaces = ("shop", "bank", "shop-2", "Shop", "")
        services.replace([service("a", {"app": "web"}, each) for each in namespaces], "1")
        for namespace in namespaces[:-1]:
            assert keys(services.selecting(namespace, {"app": "web"})) == [f"{namespace}/a"]
        assert services.selecting("none", {"app": "web"}) == []
        assert services.selecting("shop\0", {"app": "web"}) == []
        assert keys(services.selecting("", {"app": "web"})) == [
            "Shop/a",
            "a",
            "bank/a",
            "shop-2/a",
            "shop/a",
        ]

    # Changes

    @pytest.mark.parametrize("call", _WRITES)
    def test_answer_follows_each_change_of_a_selector(self, services: Indexer, call: str) -> None:
        web, db = {"app": "web", "tier": "front"}, {"app": "db"}
        steps: list[tuple[Any, str, str]] = [
            ({"app": "web"}, "s", ""),
            ({"app": "db"}, "", "s"),
            ({}, "s", "s"),
            (None, "", ""),
            ({"app": "web", "tier": "front"}, "s", ""),
            ({"tier": "front"}, "s", ""),
            (_ABSENT, "", ""),
            ({"app": "db"}, "", "s"),
            ({"app": "db"}, "", "s"),
        ]
        for selector, by_web, by_db in steps:
            write(services, call, service("s", selector))
            assert selected_by(services, "shop", web) == by_web
            assert selected_by(services, "shop", db) == by_db

    def test_object_that_changes_otherwise_is_given_as_it_is_now(self, services: Indexer) -> None:
        services.add(service("a", {"app": "web"}))
        services.selecting("shop", {"app": "web"})
        services.update(service("a", {"app": "web"}, rv="2"))
        assert services.selecting("shop", {"app": "web"}) == [service("a", {"app": "web"}, rv="2")]

    def test_object_that_went_selects_nothing(self, services: Indexer) -> None:
        web = {"app": "web"}
        gone: list[Callable[[Object], None]] = [
            services.delete,
            lambda obj: services.delete(DeletedFinalStateUnknown("shop/a", None)),
            lambda obj: services.apply([event("DELETED", obj)]),
            lambda obj: services.transaction(Transaction("delete", obj)),
            lambda obj: services.replace([], "9"),
            lambda obj: services.replace([service("other", {"app": "db"})], "9"),
        ]
        for go in gone:
            services.add(service("a", web))
            assert selected_by(services, "shop", web) == "a"
            go(service("a", web))
            assert services.selecting("shop", web) == []
            services.add(service("a", {"app": "db"}))
            assert services.selecting("", web) == []

    def test_object_that_moves_is_found_where_it_is(self, make_store: MakeStore) -> None:
        store = make_store(
            selector_func=service_selector, key_func=lambda obj: obj["metadata"]["uid"]
        )
        for namespace in ("shop", "bank", "shop"):
            store.update(pod("a", namespace, uid="u", spec={"selector": {"app": "web"}}))
            found = {
                each: names(store.selecting(each, {"app": "web"})) for each in ("shop", "bank", "")
            }
            assert found.pop(namespace) == found.pop("") == ["a"]
            assert list(found.values()) == [[]]

    def test_replace_is_exact(self, services: Indexer) -> None:
        services.replace(services_of_shop(), "1")
        services.replace(
            [
                service("b", {"app": "db"}),
                service("x", {"app": "web"}),
                service("q", {"no": "pod"}),
            ],
            "2",
        )
        assert selected_by(services, "shop", {"app": "web", "tier": "front"}) == "x"
        assert selected_by(services, "shop", {"app": "db"}) == "b"
        assert services.selecting("shop", {}) == []

    def test_last_of_several_changes_of_one_object_counts(self, services: Indexer) -> None:
        both = [service("a", {"app": "web"}), service("a", {"app": "db"})]
        writes: list[Callable[[Objects], None]] = [
            lambda objs: services.replace(objs, "1"),
            lambda objs: services.apply([event("ADDED", obj) for obj in objs]),
            lambda objs: services.transaction(*(Transaction("add", obj) for obj in objs)),
        ]
        for do in writes:
            do(both)
            assert selected_by(services, "shop", {"app": "db"}) == "a"
            do(both[::-1])
            assert selected_by(services, "shop", {"app": "db"}) == ""
        services.apply([event("MODIFIED", both[1]), event("DELETED", both[1])])
        assert services.selecting("", {"app": "db"}) == []

    def test_index_functions_added_later_leave_it(self, services: Indexer) -> None:
        services.replace(services_of_shop(), "1")
        services.add_indexers({"name": lambda obj: [obj["metadata"]["name"]]})
        assert selected_by(services, "shop", {"app": "web"}) == "aq"
        services.update(service("a", {"app": "db"}))
        services.bookmark("7")
        assert selected_by(services, "shop", {"app": "web"}) == "q"

    def test_many_objects_with_many_selectors(self, services: Indexer) -> None:
        random = Random(5)
        texts = [f"k{number}" for number in range(8)]

        def some(most: int) -> dict[str, str]:
            return {
                random.choice(texts): random.choice("xyz") for _ in range(random.randint(0, most))
            }

        objs = {f"s{i}": service(f"s{i}", some(3), f"ns{i % 3}") for i in range(500)}
        services.replace(objs.values(), "1")
        for _ in range(3):
            for labels in [some(12) for _ in range(20)]:
                for namespace in ("ns0", "ns1", ""):
                    expected = [
                        obj
                        for obj in objs.values()
                        if namespace in ("", obj["metadata"]["namespace"])
                        and obj["spec"]["selector"].items() <= labels.items()
                    ]
                    assert keys(services.selecting(namespace, labels)) == keys(expected)
            for number in range(0, 500, 7):
                namespace = random.choice(("ns0", "ns1"))
                changed = service(
                    f"s{number}", some(3), objs[f"s{number}"]["metadata"]["namespace"]
                )
                objs[f"s{number}"] = changed
                services.update(changed)

    def test_everything_may_be_selected(self, services: Indexer) -> None:
        services.replace([service(f"s{number}", {}) for number in range(2_500)], "1")
        assert len(services.selecting("shop", {"app": "web"})) == 2_500

    # What selects

    def test_label_selectors_with_all_operators(self, make_store: MakeStore) -> None:
        store = make_store(selector_func=label_selector)
        expressions: dict[str, Any] = {
            "a": {"matchLabels": {"app": "web"}},
            "b": {
                "matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db", ""]}]
            },
            "c": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]},
            "d": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            "e": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
            "f": {
                "matchLabels": {"tier": "x"},
                "matchExpressions": [
                    {"key": "app", "operator": "In", "values": ["web", "api"]},
                    {"key": "canary", "operator": "DoesNotExist"},
                ],
            },
            "g": {},
            "h": {"matchLabels": {}, "matchExpressions": None},
            "n": None,
        }
        store.replace([service(name, each) for name, each in expressions.items()], "1")
        store.add(service("o"))
        labels = [
            {"app": app, **tier, **canary}
            for app in ("web", "db", "", "api", "none")
            for tier in ({}, {"tier": "x"})
            for canary in ({}, {"canary": "yes"})
        ]
        for each in [*labels, {}, {"tier": "x"}]:
            expected = [
                name
                for name, selector in expressions.items()
                if from_label_selector(selector).matches(each)
            ]
            assert selected_by(store, "shop", each) == "".join(expected)

    def test_function_may_give_any_selector(self, make_store: MakeStore) -> None:
        selectors = {"a": parse("n>5,n<9"), "b": parse("!n"), "c": EVERYTHING, "d": NOTHING}
        store = make_store(selector_func=lambda obj: selectors[obj["metadata"]["name"]])
        store.replace([service(name) for name in selectors], "1")
        assert selected_by(store, "shop", {"n": "7"}) == "ac"
        assert selected_by(store, "shop", {"n": "10"}) == "c"
        assert selected_by(store, "shop", {"n": "abc"}) == "c"
        assert selected_by(store, "shop", None) == "bc"

    def test_transform_runs_first(self, make_store: MakeStore) -> None:
        def changed(obj: Object) -> Object:
            return {**obj, "spec": {"selector": {"app": "changed"}}}

        store = make_store(selector_func=service_selector, transform=changed)
        store.add(service("a", {"app": "web"}))
        assert selected_by(store, "shop", {"app": "changed"}) == "a"
        assert store.selecting("shop", {"app": "web"}) == []

    def test_store_without_a_function_says_so(self, store: Indexer) -> None:
        store.add(service("a", {}))
        with pytest.raises(NoSelectorsError, match="selector_func") as caught:
            store.selecting("shop", {})
        assert isinstance(caught.value, LookupError)

    # Selectors and labels that are none

    @pytest.mark.parametrize("call", _WRITES)
    @pytest.mark.parametrize(
        "spec",
        [
            None,
            5,
            "selector",
            ["selector"],
            {"selector": 5},
            {"selector": "app=web"},
            {"selector": ["app", "web"]},
            {"selector": {"app": 5}},
            {"selector": {"app": None}},
            {"selector": {"app": ["web"]}},
            {"selector": {"app": {"web": "web"}, "tier": "x"}},
        ],
        ids=repr,
    )
    def test_selector_that_is_none_selects_nothing_and_is_written(
        self, make_store: MakeStore, spec: Any, call: str
    ) -> None:
        """The API server stores none of these; a typed client could not even decode them."""
        for func in (service_selector, label_selector):
            store = make_store(selector_func=func)
            store.add(service("a", {}))
            obj = pod("bad", "shop", spec=spec)
            write(store, call, service("a", {}), obj)
            assert store.get_by_key("shop/bad") == obj
            for labels in ({}, {"app": "web"}, {"app": "5"}, {"app": "None"}, {"app": "", "": ""}):
                assert selected_by(store, "shop", labels) == "a"

    def test_label_selector_that_is_not_valid_selects_nothing(self, make_store: MakeStore) -> None:
        store = make_store(selector_func=label_selector)
        invalid: list[Any] = [
            {"matchLabels": {"app": "not valid"}},
            {"matchExpressions": [{"key": "app", "operator": "Near"}]},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]},
            {"matchLabels": {"app": "web"}, "matchFields": {}},
        ]
        for each in invalid:
            store.add(service("a", {"matchLabels": {"app": "web"}}))
            store.update(service("a", each))
            assert store.selecting("shop", {"app": "web"}) == []
            assert store.selecting("shop", {"app": "not valid"}) == []

    @pytest.mark.parametrize("labels", [5, "app=web", ["app"], {"app": 5}, {5: "web"}, {"a": None}])
    def test_labels_must_be_texts(self, services: Indexer, labels: Any) -> None:
        services.replace(services_of_shop(), "1")
        with pytest.raises(TypeError):
            services.selecting("shop", labels)

    def test_labels_that_no_object_can_have_are_compared_like_others(
        self, services: Indexer
    ) -> None:
        services.replace(services_of_shop(), "1")
        for text in ("web\0", "\0", "web\ud800", "\ud800", "x" * 100_000):
            assert selected_by(services, "shop", {"app": text, text: "web"}) == "q"

    @pytest.mark.parametrize("call", _WRITES)
    def test_failing_function_changes_nothing(self, make_store: MakeStore, call: str) -> None:
        store = make_store(selector_func=by_app_label)
        store.add(pod("a", labels={"app": "web"}))
        store.add(pod("b", labels={"app": "web"}))
        with unchanged(store), pytest.raises(SelectorFunctionError) as caught:
            write(store, call, pod("c", labels={"app": "web"}), pod("b", labels={"app": "bad"}))
        assert str(caught.value) == (
            "unable to tell what the object with key 'default/b' selects: bad label"
        )
        assert caught.value.key == "default/b"
        assert isinstance(caught.value.__cause__, ValueError)
        assert selected_by(store, "", {"app": "web"}) == "ab"
        store.delete(pod("b", labels={"app": "bad"}))
        assert selected_by(store, "", {"app": "web"}) == "a"

    @pytest.mark.parametrize("result", [None, "app=web", {"app": "web"}, 5], ids=repr)
    def test_function_must_return_a_selector(self, make_store: MakeStore, result: Any) -> None:
        store = make_store(selector_func=lambda obj: result)
        with unchanged(store), pytest.raises(SelectorFunctionError, match="returns a Selector"):
            store.add(pod("a"))

    def test_write_that_fails_leaves_what_is_selected(self, services: Indexer) -> None:
        services.replace(services_of_shop(), "1")
        bad = pod("z", "shop", {"app": "\0"})
        for call in ("replace", "apply", "transaction"):
            with pytest.raises(ObjectError):
                write(services, call, service("a", {"app": "db"}), service("x", {}), bad)
            for labels, expected in _ANSWERS:
                assert selected_by(services, "shop", labels) == expected

    # Listers

    def test_lister_gives_the_services_of_a_pod(self, services: Indexer) -> None:
        services.replace([*services_of_shop(), service("z", {"app": "web"}, "bank")], "1")
        lister = ServiceLister(services)
        for labels, expected in _ANSWERS:
            assert "".join(names(lister.selecting(pod("p", "shop", labels)))) == expected
        assert names(lister.selecting(pod("p", "bank", {"app": "web"}))) == ["z"]
        assert lister.selecting(pod("p", "none", {"app": "web"})) == []
        assert "".join(names(lister.selecting(pod("p", "", {"app": "web"})))) == "aqz"
        assert names(lister.services("bank").list()) == ["z"]
        with pytest.raises(ObjectError):
            lister.selecting("not an object")

    def test_lister_of_another_resource_gives_what_selects_a_pod(
        self, make_store: MakeStore
    ) -> None:
        store = make_store(selector_func=label_selector)
        store.add(service("budget", {"matchLabels": {"app": "web"}}))
        lister = Lister(store, "poddisruptionbudget")
        assert names(lister.selecting(pod("p", "shop", {"app": "web"}))) == ["budget"]
        assert lister.selecting(pod("p", "shop")) == []

    # Threads

    @pytest.mark.parametrize("call", ["apply", "replace", "transaction"])
    def test_reader_sees_the_selectors_before_or_after_a_batch(
        self, services: Indexer, call: str
    ) -> None:
        """And objects that are of the state that the answer is of."""
        size, batches = 20, 40

        def generation(number: int) -> Objects:
            gen = {"gen": str(number % 2), "all": "x"}
            return [service(f"s{i}", gen, rv=str(number)) for i in range(size)]

        def read() -> None:
            for gen in ("0", "1"):
                found = services.selecting("shop", {"gen": gen, "all": "x"})
                assert len(found) in (0, size)
                assert len({obj["metadata"]["resourceVersion"] for obj in found}) <= 1
                assert all(obj["spec"]["selector"]["gen"] == gen for obj in found)

        def newest() -> None:
            found = services.selecting("", {"gen": "0", "all": "x"})
            seen = int(found[0]["metadata"]["resourceVersion"]) if found else 0
            assert int(services.last_store_sync_resource_version()) >= seen

        write(services, call, *generation(0))
        with switching_often(), background(read, read, newest):
            for number in range(1, batches):
                write(services, call, *generation(number))
                assert len(services.selecting("shop", {"gen": str(number % 2), "all": "x"})) == size

    def test_readers_get_all_or_an_error_while_the_store_closes(self, services: Indexer) -> None:
        services.replace([service(f"s{number}", {"app": "web"}) for number in range(20)], "1")
        reading = threading.Barrier(3)

        def read_on() -> None:
            assert len(services.selecting("shop", {"app": "web"})) == 20
            reading.wait(60.0)
            with suppress(StoreClosedError):  # the loop has no other end
                while True:
                    assert len(services.selecting("shop", {"app": "web"})) == 20

        def close() -> None:
            reading.wait(60.0)
            services.close()

        with switching_often():
            run_together(read_on, read_on, close)
        with pytest.raises(StoreClosedError):
            services.selecting("shop", {})
