"""What objects select, read from any JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlcache.selectors import (
    EVERYTHING,
    NOTHING,
    Selector,
    from_labels,
    label_selector,
    parse,
    service_selector,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("app", "matchLabels", "matchExpressions", "key", "operator", "values")
            ),
            inner | st.sampled_from(("In", "Exists")),
            max_size=3,
        )
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, NOTHING),
        ({"selector": None}, NOTHING),
        ({"selector": {}}, EVERYTHING),
        ({"selector": {"app": "web"}}, parse("app=web")),
        ({"selector": {"b": "1", "a": "2"}}, parse("a=2,b=1")),
        ({"selector": {"not valid": ""}}, from_labels({"not valid": ""})),
        ({"selector": {"matchLabels": "x"}}, parse("matchLabels=x")),
        ({"selector": {"matchLabels": {"app": "web"}}}, NOTHING),
        ({"selector": {"app": 1}}, NOTHING),
        ({"selector": []}, NOTHING),
    ],
)
def test_services_select_by_labels(spec: Any, expected: Selector) -> None:
    assert service_selector({"spec": spec}) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, NOTHING),
        ({"selector": None}, NOTHING),
        ({"selector": {}}, EVERYTHING),
        ({"selector": {"matchLabels": {"app": "web"}}}, parse("app=web")),
        ({"selector": {"matchLabels": {"app": "not valid"}}}, NOTHING),
        ({"selector": {"app": "web"}}, NOTHING),
        ({"selector": []}, NOTHING),
        ({"selector": False}, NOTHING),
    ],
)
def test_others_select_by_a_label_selector(spec: Any, expected: Selector) -> None:
    assert label_selector({"spec": spec}) == expected


@pytest.mark.parametrize("func", [service_selector, label_selector])
def test_object_without_a_spec_selects_nothing(func: Any) -> None:
    assert func({}) == func({"spec": None}) == func({"spec": [1]}) == NOTHING


@given(spec=json_values, selector=json_values)
def test_any_json_gives_a_selector(spec: Any, selector: Any) -> None:
    for func in (service_selector, label_selector):
        for obj in ({"spec": spec}, {"spec": {"selector": selector}}):
            func(obj).matches({"app": "web"})
