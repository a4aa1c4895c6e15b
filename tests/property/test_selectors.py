"""Label and field selectors against independent descriptions of what they mean."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlcache.errors import SelectorSyntaxError
from sqlcache.selectors import (
    EVERYTHING,
    Operator,
    Requirement,
    Selector,
    as_selector,
    from_label_selector,
    from_labels,
    parse,
    parse_field_selector,
)

settings.register_profile("selectors", derandomize=True, deadline=None, max_examples=300)
SELECTORS = settings.get_profile("selectors")

# Few of each, so that labels and selectors meet often.
KEYS = st.sampled_from(["a", "b", "in", "notin", "example.com/a", "A_b.c-d"])
VALUES = st.sampled_from(["", "0", "1", "2", "10", "007", "x", "in", "X"])
NUMBERS = st.sampled_from(["0", "1", "2", "9", "007", "9223372036854775807"])
LABELS = st.none() | st.dictionaries(
    KEYS, VALUES | st.sampled_from(["-5", "+3", "1_0", "٣", "9223372036854775808", "not valid"])
)
SET_OPERATORS = st.sampled_from([Operator.IN, Operator.NOT_IN])
EXACT_OPERATORS = st.sampled_from([Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS])
PRESENCE_OPERATORS = st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])
ORDER_OPERATORS = st.sampled_from([Operator.GREATER_THAN, Operator.LESS_THAN])

REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, SET_OPERATORS, st.lists(VALUES, min_size=1, max_size=4)),
    st.builds(Requirement, KEYS, EXACT_OPERATORS, st.lists(VALUES, min_size=1, max_size=1)),
    st.builds(Requirement, KEYS, PRESENCE_OPERATORS),
    st.builds(Requirement, KEYS, ORDER_OPERATORS, st.lists(NUMBERS, min_size=1, max_size=1)),
)
CONJUNCTIONS = st.builds(Selector, st.lists(REQUIREMENTS, max_size=10))

TOKENS = st.sampled_from(
    [
        *("a", "b", "in", "notin", "a/b", "/", "1", "-5", ".", "é", "😀", "\ud800", '"', "\\"),
        *("(", ")", ",", "=", "==", "!=", "!", "<", ">"),
        *(" ", "\t", "\n", "\r", "\0", "\v"),
        *("a in (b)", "x" * 64),
    ]
)
SOUP = st.lists(TOKENS, max_size=14).map("".join)


def number(text: str) -> int | None:
    """Read what Go's ParseInt reads, written without a regular expression."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or any(char not in "0123456789" for char in digits):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def holds(requirement: Requirement, labels: dict[str, str]) -> bool:
    """Tell what the Kubernetes documentation says of an operator."""
    present = requirement.key in labels
    value = labels.get(requirement.key, "")
    match requirement.operator:
        case Operator.IN | Operator.EQUALS | Operator.DOUBLE_EQUALS:
            return present and value in requirement.values
        case Operator.NOT_IN | Operator.NOT_EQUALS:
            return not present or value not in requirement.values
        case Operator.EXISTS:
            return present
        case Operator.DOES_NOT_EXIST:
            return not present
    left, right = number(value), number(requirement.values[0])
    if not present or left is None or right is None:
        return False
    return left > right if requirement.operator is Operator.GREATER_THAN else left < right


@SELECTORS
@given(CONJUNCTIONS)
def test_canonical_text_parses_to_the_same_selector(selector: Selector) -> None:
    assert parse(str(selector)) == selector
    assert pickle.loads(pickle.dumps(selector)) == selector  # noqa: S301


@SELECTORS
@given(CONJUNCTIONS, LABELS)
def test_selector_matches_when_all_requirements_hold(
    selector: Selector, labels: dict[str, str] | None
) -> None:
    expected = [holds(requirement, labels or {}) for requirement in selector.requirements]
    assert selector.matches(labels) is all(expected)
    assert [each.matches(labels) for each in selector.requirements] == expected


@SELECTORS
@given(CONJUNCTIONS, st.lists(LABELS, max_size=5))
def test_exact_match_is_required_of_all_that_is_selected(
    selector: Selector, label_sets: list[dict[str, str] | None]
) -> None:
    for labels in label_sets:
        if selector.matches(labels):
            for requirement in selector.requirements:
                value = selector.requires_exact_match(requirement.key)
                assert value is None or (labels or {})[requirement.key] == value


def checked(text: str) -> Selector | None:
    """Return the selector of a text, or None if it is refused in the proper way."""
    try:
        return parse(text)
    except SelectorSyntaxError as error:
        str(error).encode()
        if not 0 <= error.position <= len(text):
            pytest.fail(f"position {error.position} is outside {text!r}")
        return None


@SELECTORS
@given(SOUP)
def test_any_text_parses_or_is_refused_as_a_selector(text: str) -> None:
    selector = checked(text)
    if selector is not None:
        assert parse(str(selector)) == selector


@SELECTORS
@given(st.text(alphabet=st.characters(), max_size=20))
def test_no_character_breaks_the_parser(text: str) -> None:
    for candidate in (text, f"a={text}", f"a in ({text})", f"a,{text}"):
        checked(candidate)


@SELECTORS
@given(SOUP)
def test_white_space_around_tokens_changes_nothing(text: str) -> None:
    selector = checked(text)
    if selector is not None and "\0" not in text:
        assert parse(f" \t{text}\r\n") == selector


@SELECTORS
@given(st.dictionaries(KEYS, VALUES), LABELS)
def test_equivalent_forms_of_labels_agree(
    wanted: dict[str, str], labels: dict[str, str] | None
) -> None:
    from_text = parse(",".join(f"{key}={value}" for key, value in wanted.items()))
    as_expressions = from_label_selector(
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()
            ]
        }
    )
    assert from_labels(wanted) == from_text
    assert from_label_selector({"matchLabels": wanted}) == from_text
    assert as_selector(wanted) == from_text
    assert as_expressions.matches(labels) is from_text.matches(labels)
    assert (from_text == EVERYTHING) is (not wanted)


EXPRESSIONS = {
    Operator.IN: "In",
    Operator.NOT_IN: "NotIn",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
}


def as_expression(requirement: Requirement) -> dict[str, Any]:
    operator = EXPRESSIONS[requirement.operator]
    expression = {"key": requirement.key, "operator": operator, "values": [*requirement.values]}
    return expression if requirement.values else expression | {"values": None}


@SELECTORS
@given(st.lists(REQUIREMENTS.filter(lambda each: each.operator in EXPRESSIONS), max_size=6))
def test_expressions_agree_with_their_text(requirements: list[Requirement]) -> None:
    expressions = [as_expression(requirement) for requirement in requirements]
    text = ",".join(map(str, requirements))
    assert from_label_selector({"matchExpressions": expressions}) == parse(text)


FIELDS = ["metadata.name", "spec.nodeName"]
FIELD_VALUES = st.text(alphabet="ab\\,= !é", max_size=5)


@SELECTORS
@given(
    st.lists(st.tuples(st.sampled_from(FIELDS), st.booleans(), FIELD_VALUES), max_size=4),
    FIELD_VALUES,
    FIELD_VALUES,
)
def test_field_selector_compares_what_was_escaped(
    terms: list[tuple[str, bool, str]], name: str, node: str
) -> None:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")

    text = ",".join(
        f"{path}{'=' if equal else '!='}{escaped(value)}" for path, equal, value in terms
    )
    actual = {"metadata.name": name, "spec.nodeName": node}
    selector = parse_field_selector(text, fields=FIELDS)
    assert selector.matches({"metadata": {"name": name}, "spec": {"nodeName": node}}) is all(
        (actual[path] == value) is equal for path, equal, value in terms
    )
    assert parse_field_selector(str(selector), fields=FIELDS) == selector
    assert len(selector.requirements) == len(terms)


@SELECTORS
@given(st.text(alphabet="ab.\\,=! \ud800", max_size=12))
def test_any_text_is_a_field_selector_or_refused_as_one(text: str) -> None:
    try:
        selector = parse_field_selector(text, fields=["a", "b"])
    except SelectorSyntaxError as error:
        str(error).encode()
        return
    assert parse_field_selector(str(selector), fields=["a", "b"]) == selector
