"""Hypothesis strategies for labels, selectors and pods.

The alphabets are small, so that keys, namespaces, labels and selectors collide often, and they hold
what other caches got wrong: numbers as text, empty values, LIKE's wildcards, letter case, quotes.

Example:
    >>> @given(pod=pods(), selector=selectors())
    ... def test_store_agrees_with_the_plain_rule(pod, selector): ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError("sqlcache.testing.strategies needs: pip install 'sqlcache[test]'") from error

from sqlcache.objects import Object
from sqlcache.selectors import EVERYTHING, NOTHING, Operator, Requirement, Selector, SelectorLike
from sqlcache.testing.factories import pod

NAMES = ("a", "b", "c")
NAMESPACES = ("shop", "bank", "")  # the last one is cluster-scoped
RESOURCE_VERSIONS = ("", "9", "10", "abc")
LABEL_KEYS = ("app", "App", "n")
# Valid in a selector text.
LABEL_VALUES = ("", "9", "10", "abc", "99999999999999999999", "my_app", "App", "app")
# Refused by an API server, but stored and asked for by labels like any other text.
IRREGULAR_VALUES = ("-1", "a%b", "a'\"b", "ü\U0001f600")
INTEGERS = ("8", "9", "10")

_PRESENCE = (Operator.EXISTS, Operator.DOES_NOT_EXIST)
_EXACT = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS)
_SETS = (Operator.IN, Operator.NOT_IN)
_ORDER = (Operator.GREATER_THAN, Operator.LESS_THAN)


def labels(
    keys: Sequence[str] = LABEL_KEYS,
    values: Sequence[str] = LABEL_VALUES + IRREGULAR_VALUES,
) -> st.SearchStrategy[dict[str, str]]:
    """Return a strategy for the labels of an object."""
    return st.dictionaries(st.sampled_from(keys), st.sampled_from(values), max_size=len(keys))


def requirements(
    keys: Sequence[str] = LABEL_KEYS, values: Sequence[str] = LABEL_VALUES
) -> st.SearchStrategy[Requirement]:
    """Return a strategy for requirements with any operator."""
    value = st.sampled_from(values)
    key = st.sampled_from(keys)

    def made(
        operators: Sequence[Operator], operands: st.SearchStrategy[list[str]]
    ) -> st.SearchStrategy[Requirement]:
        return st.builds(Requirement, key, st.sampled_from(operators), operands)

    return st.one_of(
        made(_EXACT, st.lists(value, min_size=1, max_size=1)),
        made(_SETS, st.lists(value, min_size=1, max_size=4)),
        made(_PRESENCE, st.just([])),
        made(_ORDER, st.lists(st.sampled_from(INTEGERS), min_size=1, max_size=1)),
    )


def selectors(
    keys: Sequence[str] = LABEL_KEYS,
    values: Sequence[str] = LABEL_VALUES,
    irregular: Sequence[str] = IRREGULAR_VALUES,
) -> st.SearchStrategy[SelectorLike]:
    """Return a strategy for what `select` takes: Selectors, texts and mappings of labels.

    Args:
        keys: label keys.
        values: label values that a selector text may contain.
        irregular: further ones, which only a mapping of labels may ask for.
    """
    made = st.lists(requirements(keys, values), max_size=4).map(Selector)
    return st.one_of(
        made,
        made.map(str),
        labels(keys, (*values, *irregular)),
        st.sampled_from((EVERYTHING, NOTHING)),
    )


def spec_selectors() -> st.SearchStrategy[Any]:
    """Return a strategy for what `spec.selector` of an object may be: also what is no selector."""
    return st.one_of(
        labels(),
        st.sampled_from((None, 5, "app=web", ["app"], {"app": 5}, {"app": None})),
        st.fixed_dictionaries(
            {},
            optional={
                "matchLabels": labels(values=(*LABEL_VALUES, "not valid")),
                "matchExpressions": st.lists(_expressions(), max_size=2),
            },
        ),
    )


def _expressions() -> st.SearchStrategy[dict[str, Any]]:
    key = st.sampled_from(LABEL_KEYS)

    def made(
        operators: Sequence[str], values: st.SearchStrategy[list[str]]
    ) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries(
            {"key": key, "operator": st.sampled_from(operators), "values": values}
        )

    some = st.lists(st.sampled_from(LABEL_VALUES), min_size=1, max_size=3)
    return made(("In", "NotIn"), some) | made(("Exists", "DoesNotExist", "Near"), st.just([]))


def pods(
    names: Sequence[str] = NAMES,
    namespaces: Sequence[str] = NAMESPACES,
    label_sets: st.SearchStrategy[dict[str, str]] | None = None,
    selected: st.SearchStrategy[Any] | None = None,
) -> st.SearchStrategy[Object]:
    """Return a strategy for pods: few names, so that one often replaces another.

    Args:
        names: pod names.
        namespaces: "" makes a cluster-scoped object.
        label_sets: strategy for labels. Default: `labels()`.
        selected: strategy for a `spec.selector`, which some have. Default: none has one.
    """
    return st.builds(
        pod,
        st.sampled_from(names),
        st.sampled_from(namespaces),
        st.none() | (labels() if label_sets is None else label_sets),
        st.sampled_from(RESOURCE_VERSIONS),
        st.sampled_from(("u1", "u2")),
        spec=st.fixed_dictionaries(
            {"nodeName": st.sampled_from(("n1", "n2"))},
            optional={} if selected is None else {"selector": selected},
        ),
    )
