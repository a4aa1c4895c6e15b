"""Contract: select, count, explain, stats, and the listers on top of them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from sqlcache.errors import NotFoundError, SelectorError
from sqlcache.lister import Lister, PodLister
from sqlcache.objects import Object
from sqlcache.selectors import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    SelectorLike,
    as_selector,
    parse,
)
from sqlcache.store.api import Indexer
from sqlcache.testing._contract_parts import MakeStore, StoreFixtures
from sqlcache.testing.factories import event, keys, names, pod

_MANY_REQUIREMENTS = (70, 1_200)  # SQLite joins 64 tables, and nests expressions 1,000 deep
_MANY_VALUES = 40_000  # SQLite binds 32,766 parameters at most
_MANY_NAMESPACES = 1_500  # more than 1,000, as above

# Each tuple: a selector, and which of the pods in `pods_of_shop` it selects.
_ANSWERS: list[tuple[SelectorLike, str]] = [
    ("", "abcdef"),
    ("app=web", "ab"),
    ("app==web", "ab"),
    ("app!=web", "cdef"),
    ("app in (web,db)", "abc"),
    ("app notin (web,db)", "def"),
    ("app in (web)", "ab"),
    ("app notin (web)", "cdef"),
    ("app", "abcd"),
    ("!app", "ef"),
    ("app=", "d"),
    ("app!=", "abcef"),
    ("app in ()", "d"),
    ("app notin ()", "abcef"),
    ("app in (,web)", "abd"),
    ("app in (nope,web)", "ab"),
    ("app in (nope)", ""),
    ("app notin (nope)", "abcdef"),
    ("app=nope", ""),
    ("app!=nope", "abcdef"),
    ("nope", ""),
    ("!nope", "abcdef"),
    ("nope=x", ""),
    ("nope!=x", "abcdef"),
    ("nope>1", ""),
    ("App=web", ""),
    ("app=Web", ""),
    ("n>1", "ab"),
    ("n<3", "ace"),
    ("n>1,n<3", "a"),
    ("app=web,env=prod", "a"),
    ("app=web,env!=prod", "b"),
    ("app=web,!env", "b"),
    ("app=web,env", "a"),
    ("app!=web,env!=prod", "def"),
    ("app!=web,app!=db", "def"),
    ("!app,!env", "f"),
    ("app,!env", "bd"),
    ("app=web,app!=web", ""),
    ("app=web,app=db", ""),
    ("app,!app", ""),
    ("app in (web,db),app notin (db)", "ab"),
    ("env=prod", "ac"),
    ("env in (prod,dev)", "ace"),
    ("env in (prod,dev),app in (web,db),n<3", "ac"),
    ("env,n,app", "ac"),
    ("app=web,app=web", "ab"),
    (EVERYTHING, "abcdef"),
    (NOTHING, ""),
    (Selector([Requirement("app", Operator.IN, ["web", ""])]), "abd"),
    ({"app": "web", "env": "prod"}, "a"),
    ({}, "abcdef"),
    ({"matchLabels": {"app": "web"}}, "ab"),
    ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, "ef"),
    (
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}],
        },
        "b",
    ),
]


def pods_of_shop() -> list[Object]:
    """Return six pods of the namespace `shop` with different labels."""
    label_sets: dict[str, dict[str, str] | None] = {
        "a": {"app": "web", "env": "prod", "n": "2"},
        "b": {"app": "web", "n": "10"},
        "c": {"app": "db", "env": "prod", "n": "-1"},
        "d": {"app": ""},
        "e": {"env": "dev", "n": "0"},
        "f": None,
    }
    return [pod(name, "shop", labels) for name, labels in label_sets.items()]


def _namespace(random: Random) -> str:
    return random.choices(("large", "middle", "small"), (90, 9, 1))[0]


def _skewed_labels(random: Random) -> dict[str, str]:
    """Return labels of which some are on nearly all objects and some on a few."""
    shares = {"all": 0.98, "half": 0.5, "some": 0.05, "few": 0.005}
    labels = {
        key: str(min(int(random.expovariate(0.7)), 9))
        for key, share in shares.items()
        if random.random() < share
    }
    if random.random() < 0.3:
        labels["unique"] = str(random.randrange(1_000))
    return labels


def _requirement(random: Random) -> Requirement:
    key = random.choice(("all", "all", "half", "half", "some", "few", "unique", "absent"))
    # More sets than others: they can be answered in the most ways.
    operator = random.choice([*Operator, *[Operator.IN] * 8, Operator.NOT_IN, Operator.NOT_IN])
    number = {Operator.EXISTS: 0, Operator.DOES_NOT_EXIST: 0}.get(operator, 1)
    if operator in (Operator.IN, Operator.NOT_IN):
        number = random.choice((1, 2, 8, 60))
    return Requirement(key, operator, [str(random.randrange(number + 4)) for _ in range(number)])


def plainly_selected(objs: list[Object], namespace: str, selector: SelectorLike) -> list[str]:
    """Return the keys of the objects that a selector matches, by looking at each."""
    matches = as_selector(selector).matches
    return keys(
        obj
        for obj in objs
        if namespace in ("", obj["metadata"].get("namespace", ""))
        and matches(obj["metadata"].get("labels"))
    )


class SelectorContract(StoreFixtures):
    """Which objects a selector gives, and how the store says it found them."""

    @pytest.mark.parametrize(("selector", "expected"), _ANSWERS, ids=lambda value: str(value)[:60])
    def test_selector_gives_exactly_what_matches(
        self, store: Indexer, selector: SelectorLike, expected: str
    ) -> None:
        other = [pod("x", "bank", {"app": "web", "env": "prod"}), pod("y", "", {"app": "web"})]
        store.replace([*pods_of_shop(), *other], "1")
        assert "".join(names(store.select("shop", selector))) == expected
        assert store.count("shop", selector) == len(expected)
        everywhere = keys(store.select("", selector))
        assert everywhere == plainly_selected(pods_of_shop() + other, "", selector)
        assert store.count("", selector) == len(everywhere)
        for namespace in ("bank", "none"):
            assert keys(store.select(namespace, selector)) == plainly_selected(
                pods_of_shop() + other, namespace, selector
            )

    def test_answers_follow_the_writes_when_they_are_asked_again(self, store: Indexer) -> None:
        """A backend may remember answers: they must stay true."""

        def check(objs: list[Object]) -> None:
            for selector, _ in _ANSWERS:
                expected = plainly_selected(objs, "shop", selector)
                for namespace in ("shop", "", "shop"):
                    found = keys(store.select(namespace, selector))
                    assert (selector, found) == (selector, expected)
                    assert (selector, store.count(namespace, selector)) == (selector, len(expected))

        shop = pods_of_shop()
        for step, obj in enumerate(shop):
            store.add(obj)
            check(shop[: step + 1])
        moved = [pod(name, "shop", {"moved": "yes", "n": "2"}) for name in "abcdef"]
        store.apply([event("MODIFIED", obj) for obj in moved])
        check(moved)
        for obj in shop[:3]:
            store.update(obj)
        check(shop[:3] + moved[3:])
        store.delete(shop[0])
        check(shop[1:3] + moved[3:])
        store.replace(shop, "2")
        check(shop)
        store.replace([], "3")
        check([])

    @pytest.mark.parametrize(
        "value", ["my_app", "my%app", "a'b", 'a"b', "a.b", "a-b", "a\\b", "*", "?", "[a]", "%", "_"]
    )
    def test_values_are_compared_exactly(self, store: Indexer, value: str) -> None:
        """Other caches escaped values for LIKE and compared the result with `=`."""
        store.add(pod("a", labels={"app": value}))
        store.add(pod("b", labels={"app": "myXapp"}))
        store.add(pod("c", labels={"app": value + "x"}))
        assert names(store.select("", {"app": value})) == ["a"]
        assert store.count("", {"app": value}) == 1
        if value in ("my_app", "a.b", "a-b"):
            assert names(store.select("", f"app={value}")) == ["a"]
            assert names(store.select("", f"app!={value}")) == ["b", "c"]
            assert names(store.select("", f"app in ({value},myXapp)")) == ["a", "b"]
            assert names(store.select("", f"app notin ({value},x)")) == ["b", "c"]

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("n>8", ["10", "9"]),
            ("n>9", ["10"]),
            ("n<9223372036854775807", ["-1", "0", "10", "9"]),
            ("n<10", ["-1", "0", "9"]),
            ("n>0,n<10", ["9"]),
        ],
    )
    def test_order_is_that_of_whole_numbers(
        self, store: Indexer, selector: str, expected: list[str]
    ) -> None:
        """Values that are no 64-bit integer are never less or greater."""
        values = ["9", "10", "0", "-1", "abc", "", "99999999999999999999", "9.5", "0x10", " 10"]
        store.replace([pod(f"p{i}", labels={"n": v}) for i, v in enumerate(values)], "1")
        store.add(pod("without"))
        found = store.select("default", selector)
        assert sorted(obj["metadata"]["labels"]["n"] for obj in found) == expected
        assert store.count("", selector) == len(expected)

    def test_letter_case_tells_keys_values_and_namespaces_apart(self, store: Indexer) -> None:
        store.add(pod("a", "shop", {"app": "web"}))
        store.add(pod("b", "shop", {"App": "web"}))
        store.add(pod("c", "shop", {"app": "Web"}))
        store.add(pod("d", "Shop", {"app": "web"}))
        assert names(store.select("shop", "app=web")) == ["a"]
        assert names(store.select("shop", "App=web")) == ["b"]
        assert names(store.select("shop", "app=Web")) == ["c"]
        assert names(store.select("Shop", "app=web")) == ["d"]
        assert names(store.select("shop", "app")) == ["a", "c"]
        assert store.select("SHOP", "") == []

    def test_keys_with_dots_and_slashes_are_kept_apart(self, store: Indexer) -> None:
        odd = ["example.com/app", "example.com.app", "example-com/app", "app", "example.com/ap"]
        for number, key in enumerate(odd):
            store.add(pod(f"p{number}", labels={key: "x"}))
        for number, key in enumerate(odd):
            assert names(store.select("", {key: "x"})) == [f"p{number}"]
            assert names(store.select("", Selector([Requirement(key, "exists", [])]))) == [
                f"p{number}"
            ]

    def test_empty_value_is_no_missing_key(self, store: Indexer) -> None:
        store.add(pod("empty", labels={"app": ""}))
        store.add(pod("missing", labels={"other": "x"}))
        store.add(pod("bare"))
        assert names(store.select("", "app=")) == ["empty"]
        assert names(store.select("", "app")) == ["empty"]
        assert names(store.select("", "!app")) == ["bare", "missing"]
        assert names(store.select("", "app!=")) == ["bare", "missing"]

    def test_namespaces_are_compared_exactly(self, store: Indexer) -> None:
        for namespace in ("a", "ab", "a_b", "a%", "b"):
            store.add(pod("x", namespace, {"app": "web"}))
        for namespace in ("a", "ab", "a_b", "a%"):
            for selector in ("", "app=web", "app!=db", "!env"):
                assert keys(store.select(namespace, selector)) == [f"{namespace}/x"]
        for namespace in ("%", "_", "A", "a\0", "a\0b", "a\ud800"):
            for selector in ("", "app=web", "app!=db"):
                assert store.select(namespace, selector) == []
                assert store.count(namespace, selector) == 0

    @pytest.mark.parametrize("value", ["web\0", "web\0x", "\0", "web\ud800"], ids=ascii)
    def test_labels_that_no_object_can_have_match_nothing(self, store: Indexer, value: str) -> None:
        """A Service may ask for any text: it is not validated."""
        store.add(pod("a", labels={"app": "web"}))
        store.add(pod("b", labels={"app": ""}))
        for selector in ({"app": value}, {value: "web"}, {"app": "web", "x": value}):
            assert store.select("default", selector) == []
            assert store.count("", selector) == 0

    @pytest.mark.parametrize(
        "selector", ["app=web,", "app in (web", "=", "a b", "app>x", {"matchLabels": {"/": "x"}}]
    )
    def test_selector_that_is_not_valid_is_refused(
        self, store: Indexer, selector: SelectorLike
    ) -> None:
        for call in (store.select, store.count, store.explain):
            with pytest.raises(SelectorError):
                call("", selector)

    @pytest.mark.parametrize("selector", [None, 5, ["app=web"], b"app=web"], ids=repr)
    def test_value_that_is_no_selector_is_refused(self, store: Indexer, selector: Any) -> None:
        for call in (store.select, store.count, store.explain):
            with pytest.raises(TypeError):
                call("", selector)

    # Sizes at which SQL gives up

    @pytest.mark.parametrize("size", _MANY_REQUIREMENTS)
    def test_selector_may_have_many_requirements(self, store: Indexer, size: int) -> None:
        labels = {f"k{number}": "v" for number in range(size)}
        store.add(pod("all", labels=labels))
        store.add(pod("most", labels={key: "v" for key in labels if key != "k69"}))
        store.add(pod("none"))
        for term, expected in (
            ("{}=v", ["all"]),
            ("{}", ["all"]),
            ("{} in (v,w)", ["all"]),
            ("{}!=v", ["none"]),
            ("!{}", ["none"]),
            ("{} notin (w,x)", ["all", "most", "none"]),
        ):
            selector = parse(",".join(term.format(key) for key in labels))
            for namespace in ("default", ""):
                assert names(store.select(namespace, selector)) == expected
                assert store.count(namespace, selector) == len(expected)
        repeated = ",".join(f"k0 in (v,w{number})" for number in range(size))
        assert names(store.select("", repeated)) == ["all", "most"]

    def test_set_may_have_many_values(self, store: Indexer) -> None:
        for number in (1, 39_999, 40_000):
            store.add(pod(f"p{number}", labels={"n": f"v{number}"}))
        store.add(pod("without"))
        values = [f"v{number}" for number in range(_MANY_VALUES)]
        inside = Selector([Requirement("n", Operator.IN, values)])
        outside = Selector([Requirement("n", Operator.NOT_IN, values)])
        for namespace in ("default", ""):
            assert names(store.select(namespace, inside)) == ["p1", "p39999"]
            assert names(store.select(namespace, outside)) == ["p40000", "without"]
            assert store.count(namespace, inside) == 2
            assert store.count(namespace, outside) == 2

    def test_many_namespaces_may_be_asked_at_once(self, store: Indexer) -> None:
        labels = [{"app": "web"}, {"app": "db", "n": "9"}, None]
        objs = [pod("a", f"ns{i}", labels[i % 3]) for i in range(_MANY_NAMESPACES)]
        store.replace(objs, "1")
        for selector in ("app=web", "app!=web", "!app", "n>8", "app in (web,db)", "app,n!=9"):
            assert keys(store.select("", selector)) == plainly_selected(objs, "", selector)
            assert store.count("", selector) == len(plainly_selected(objs, "", selector))
        assert store.stats().namespaces == _MANY_NAMESPACES

    def test_label_may_have_many_values(self, store: Indexer) -> None:
        objs = [pod(f"p{i}", labels={"n": str(i), "app": "web"}) for i in range(3_000)]
        store.replace(objs, "1")
        assert names(store.select("default", "n=2999")) == ["p2999"]
        assert store.count("default", "n>1499") == 1_500
        assert store.count("default", "app=web,n<10") == 10
        assert store.count("default", "app=web,n!=5") == 2_999
        assert store.count("", "n") == 3_000
        assert store.count("", "!n") == 0

    def test_many_objects_give_the_answers_of_a_scan(self, store: Indexer) -> None:
        """Backends choose their way by sizes: common and rare labels, in all combinations."""
        random = Random(20_261)
        objs = [pod(f"p{i}", _namespace(random), _skewed_labels(random)) for i in range(1_500)]
        store.replace(objs, "1")
        for _ in range(150):
            selector = Selector(_requirement(random) for _ in range(random.randint(1, 5)))
            for namespace in ("large", "small", ""):
                expected = plainly_selected(objs, namespace, selector)
                found = keys(store.select(namespace, selector))
                assert (str(selector), found) == (str(selector), expected)
                assert store.count(namespace, selector) == len(expected)

    # How it was found

    def test_explain_tells_what_select_does(self, store: Indexer) -> None:
        store.replace([*pods_of_shop(), pod("x", "bank", {"app": "web"})], "1")
        for selector, expected in _ANSWERS:
            canonical = as_selector(selector)
            for namespace in ("shop", "bank", "", "none"):
                explanation = store.explain(namespace, selector)
                assert explanation.backend
                assert explanation.namespace == namespace
                assert explanation.selector == str(canonical)
                assert explanation.matched == store.count(namespace, selector)
                assert namespace != "shop" or explanation.matched == len(expected)
                terms = {str(requirement) for requirement in canonical.requirements}
                assert set(explanation.residual) <= terms
                assert explanation.driving
                assert all(isinstance(step, str) for step in (*explanation.plan, *explanation.sql))

    @pytest.mark.parametrize(
        "selector", ["app!=web", "app notin (web,db)", "!app", "app!=web,!env"]
    )
    def test_negative_selector_costs_its_namespace_only(
        self, store: Indexer, selector: str
    ) -> None:
        """Others subtracted from all objects of the cluster."""
        store.replace(
            [
                *pods_of_shop(),
                *(pod(f"p{number}", "large", {"env": "prod"}) for number in range(500)),
            ],
            "1",
        )
        explanation = store.explain("shop", selector)
        assert explanation.matched == store.count("shop", selector)
        assert explanation.estimated <= len(pods_of_shop())
        assert store.explain("large", selector).estimated >= 0

    def test_estimate_of_one_label_is_its_number_of_objects(self, store: Indexer) -> None:
        """A scan looks at every object of the namespace, and says so."""
        store.replace([*pods_of_shop(), pod("x", "bank", {"app": "web"})], "1")
        for selector, matched in (("app=web", 2), ("app=nope", 0), ("app in (web,db)", 3)):
            explanation = store.explain("shop", selector)
            scanned = explanation.driving == "scan"
            assert explanation.estimated == (6 if scanned else matched)

    def test_query_starts_from_the_rarest_term(self, store: Indexer) -> None:
        objs = [pod(f"p{i}", labels={"app": "web", "n": str(i % 100)}) for i in range(500)]
        store.replace(objs, "1")
        for selector in ("app=web,n=7", "n=7,app=web", "app=web,n=7,app!=db"):
            explanation = store.explain("default", selector)
            assert explanation.matched == 5
            assert explanation.estimated in (5, 500)
            assert set(explanation.unindexed) <= set(explanation.residual)
            assert explanation.driving not in explanation.unindexed
            # A term without an index may be the rarest.
            if not explanation.unindexed:
                assert (explanation.driving == "scan") == (explanation.estimated == 500)

    def test_stats_count_objects_namespaces_and_labels(self, store: Indexer) -> None:
        store.replace(
            [
                pod("a", "shop", {"app": "web", "env": "prod"}),
                pod("b", "shop", {"app": "web"}),
                pod("c", "shop", {"app": "db"}),
                pod("a", "bank", {"app": "web"}),
                pod("d", "bank"),
                pod("e", "empty"),
            ],
            "7",
        )
        stats = store.stats()
        assert stats.backend
        assert stats.resource == "pods"
        assert stats.resource_version == "7"
        assert stats.objects == 6
        assert stats.namespaces == 3
        assert {each.key: (each.distinct, each.objects) for each in stats.label_keys} == {
            "app": (3, 4),
            "env": (1, 1),
        }
        costs = [each.bytes + each.saved_bytes for each in stats.label_keys]
        assert costs == sorted(costs, reverse=True)
        for each in stats.label_keys:
            assert (each.bytes > 0) == (each.unindexed == "")
            assert (each.saved_bytes > 0) == (each.unindexed != "")
        assert stats.database_bytes is None or stats.database_bytes > 0

    def test_stats_follow_the_writes(self, store: Indexer) -> None:
        store.replace(pods_of_shop(), "1")
        store.update(pod("a", "shop", {"app": "db"}))
        store.delete(pod("e", "shop"))
        stats = store.stats()
        assert (stats.objects, stats.namespaces) == (5, 1)
        assert {each.key: (each.distinct, each.objects) for each in stats.label_keys} == {
            "app": (3, 4),
            "env": (1, 1),
            "n": (2, 2),
        }
        store.replace([], "2")
        assert store.stats().label_keys == ()
        assert store.stats().objects == store.stats().namespaces == 0
        assert store.size().objects == (store.size().label_terms or 0) == 0

    # Listers

    def test_lister_lists_what_the_store_selects(self, store: Indexer) -> None:
        store.replace([*pods_of_shop(), pod("x", "bank", {"zone": "z1"})], "1")
        lister = PodLister(store)
        for selector, expected in _ANSWERS:
            assert "".join(names(lister.pods("shop").list(selector))) == expected
            everywhere = keys(store.select("", selector))
            assert keys(lister.list(selector)) == everywhere
            assert keys(lister.pods("").list(selector)) == everywhere
            assert keys(lister.by_namespace("bank").list(selector)) == keys(
                store.select("bank", selector)
            )

    def test_lister_without_a_selector_lists_all(self, store: Indexer) -> None:
        store.replace([*pods_of_shop(), pod("x", "bank")], "1")
        assert len(PodLister(store).list()) == 7
        assert names(PodLister(store).pods("bank").list()) == ["x"]
        assert PodLister(store).pods("none").list() == []
        assert PodLister(store).list(NOTHING) == []

    def test_lister_gets_by_name(self, store: Indexer) -> None:
        a, node = pod("a", "shop"), pod("n1", "")
        store.replace([a, node], "1")
        assert PodLister(store).pods("shop").get("a") == a
        assert Lister(store, "node").get("n1") == node
        assert Lister(store, "node").by_namespace("").get("n1") == node

    @pytest.mark.parametrize(
        ("namespace", "name"), [("shop", "zz"), ("", "a"), ("bank", "a"), ("shop", "A"), ("", "")]
    )
    def test_lister_names_what_it_does_not_find(
        self, store: Indexer, namespace: str, name: str
    ) -> None:
        store.add(pod("a", "shop"))
        with pytest.raises(NotFoundError) as caught:
            PodLister(store).pods(namespace).get(name)
        assert str(caught.value) == f'pod "{name}" not found'
        assert isinstance(caught.value, LookupError)
        with pytest.raises(NotFoundError, match=f'^service "{name}" not found$'):
            Lister(store, "service").by_namespace(namespace).get(name)

    def test_lister_needs_no_namespace_index(self, make_store: MakeStore) -> None:
        """client-go warns and scans; here a namespace is always indexed."""
        store = make_store(indexers={})
        store.replace(pods_of_shop(), "1")
        assert names(PodLister(store).pods("shop").list(parse("app=web"))) == ["a", "b"]
        assert PodLister(store).pods("none").list(parse("app=web")) == []

    def test_lister_refuses_a_selector_that_is_not_valid(self, store: Indexer) -> None:
        with pytest.raises(SelectorError):
            PodLister(store).list("app in (")
        with pytest.raises(SelectorError):
            PodLister(store).pods("shop").list("=")
