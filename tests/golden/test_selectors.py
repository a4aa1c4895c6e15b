"""Selectors against the vectors that the real apimachinery computed.

SQLCACHE_GOLDEN names the folder of the vectors; the default is ../shared/golden beside the
repository, or else the sample in tests/data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from sqlcache.errors import SelectorError, SelectorSyntaxError
from sqlcache.selectors import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    from_label_selector,
    from_labels,
    parse,
    validate_label_key,
    validate_label_value,
)
from tests.golden.vectors import vector_file

Case = dict[str, Any]

FILE = vector_file("selectors.json")
VECTORS: dict[str, Any] = json.loads(FILE.read_bytes()) if FILE.is_file() else {}
LABEL_SETS: list[dict[str, str] | None] = VECTORS.get("labelSets", [])

pytestmark = pytest.mark.skipif(not VECTORS, reason=f"no golden vectors: {FILE} is absent")


def cases(group: str, keep: Callable[[Case], bool] = lambda case: True) -> list[Any]:
    """Return the cases of a group as parameters, with ids such as `parse-gtlt-17`."""

    def name(index: int, case: Case) -> str:
        parts = (group, case.get("group"), str(case.get("id", index)))
        return "-".join(part for part in parts if part)

    return [
        pytest.param(case, id=name(index, case))
        for index, case in enumerate(VECTORS.get(group, []))
        if keep(case)
    ]


def go_error(case: Case) -> str:
    """Return the Go error text as this package words it: without the path that is nil."""
    return str(case["error"]).replace(
        "unable to parse requirement: <nil>: ", "unable to parse requirement: "
    )


def matches(selector: Selector) -> str:
    return "".join("01"[selector.matches(labels)] for labels in LABEL_SETS)


def described(selector: Selector) -> list[Case]:
    return [
        {
            "key": requirement.key,
            "operator": requirement.operator.value,
            "string": str(requirement),
            "values": list(requirement.values),
        }
        for requirement in selector.requirements
    ]


def requirements_of(expected: Case) -> list[Case]:
    return expected.get("requirements") or []  # absent where there are none


def in_any_order(requirements: Iterable[Case]) -> list[Case]:
    """Sort requirements fully: Go leaves the order of those with equal keys unspecified."""
    return sorted(requirements, key=lambda each: (each["key"], each["string"]))


def terms(requirements: Iterable[Case]) -> list[str]:
    return [each["string"] for each in requirements]


def assert_same(selector: Selector, expected: Case) -> None:
    assert matches(selector) == expected["matches"]
    assert selector.empty is expected["empty"]
    requirements, wanted = described(selector), requirements_of(expected)
    assert [each["key"] for each in requirements] == [each["key"] for each in wanted]
    assert in_any_order(requirements) == in_any_order(wanted)
    if terms(requirements) == terms(wanted):
        assert str(selector) == expected["string"]
    assert (selector is NOTHING) is not expected.get("selectable", True)
    assert (selector == EVERYTHING) is expected["empty"]


@pytest.mark.parametrize("case", cases("parse", lambda case: bool(case["ok"])))
def test_text_parses_to_the_same_selector(case: Case) -> None:
    selector = parse(case["selector"])
    assert_same(selector, case)
    # Where Go's does not round-trip, only its unstable sort is to blame.
    assert parse(str(selector)) == selector
    for requirement in selector.requirements:
        built = Requirement(requirement.key, requirement.operator, requirement.values)
        assert built == requirement
        assert str(built) == str(requirement)


@pytest.mark.parametrize("case", cases("parse", lambda case: bool(case["ok"])))
def test_selector_tells_the_same_exact_matches(case: Case) -> None:
    selector = parse(case["selector"])
    first_of_key_unspecified = terms(described(selector)) != terms(requirements_of(case))
    if first_of_key_unspecified:
        pytest.skip("Go sorted requirements of one key differently, and looks at the first only")
    for expected in case.get("requiresExactMatch") or []:
        value = expected["value"] if expected["found"] else None
        assert selector.requires_exact_match(expected["label"]) == value


@pytest.mark.parametrize("case", cases("parse", lambda case: not case["ok"]))
def test_text_is_refused_with_the_same_reason(case: Case) -> None:
    with pytest.raises(SelectorSyntaxError) as caught:
        parse(case["selector"])
    assert caught.value.reason == go_error(case)
    assert caught.value.text == case["selector"]
    assert 0 <= caught.value.position <= len(case["selector"])


@pytest.mark.parametrize("case", cases("labelSelectors", lambda case: bool(case["ok"])))
def test_label_selector_converts_to_the_same_selector(case: Case) -> None:
    selector = from_label_selector(case["labelSelector"])
    assert_same(selector, case)
    assert case["formatLabelSelector"] == (str(selector) or "<none>")


@pytest.mark.parametrize("case", cases("labelSelectors", lambda case: not case["ok"]))
def test_label_selector_is_refused_with_the_same_text(case: Case) -> None:
    with pytest.raises(SelectorError) as caught:
        from_label_selector(case["labelSelector"])
    assert str(caught.value) == case["error"]


@pytest.mark.parametrize("case", cases("sets"))
def test_labels_convert_to_the_same_selector(case: Case) -> None:
    selector = from_labels(case["set"])
    assert_same(selector, case["selectorFromSet"])
    assert_same(selector, case["validatedSetSelector"])


@pytest.mark.parametrize("case", cases("sets"))
def test_labels_are_validated_as_by_validated_selector_from_set(case: Case) -> None:
    """Go visits the labels in random order, so any invalid one may have given the text."""
    requirements, errors = [], []
    for key, value in (case["set"] or {}).items():
        try:
            requirements.append(Requirement(key, Operator.EQUALS, [value]))
        except SelectorError as error:
            errors.append(str(error))
    assert (not errors) is case["validatedSelectorFromSetOK"]
    if errors:
        assert case["validatedSelectorFromSetError"] in errors
    else:
        assert str(Selector(requirements)) == case["validatedSelectorFromSetString"]


@pytest.mark.parametrize("case", cases("strings"))
def test_string_breaks_the_same_rules(case: Case) -> None:
    assert validate_label_key(case["value"]) == case["isQualifiedName"]
    assert validate_label_value(case["value"]) == case["isValidLabelValue"]
