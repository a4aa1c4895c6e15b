"""Label selectors: what the golden vectors do not hold. Their cases are not repeated here."""

from __future__ import annotations

import copy
import doctest
import pickle
from collections import OrderedDict
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from sqlcache.errors import SelectorError, SelectorSyntaxError
from sqlcache.selectors import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    as_selector,
    from_label_selector,
    from_labels,
    parse,
    validate_label_key,
    validate_label_value,
)

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "selectors.md"
FIVE_MB = 5_000_000
OPERATORS = '"in", "notin", "=", "==", "!=", "gt", "lt", "exists", "!"'


def pickled(value: Any, protocol: int | None = None) -> Any:
    """Return what is left of a value after pickling it."""
    return pickle.loads(pickle.dumps(value, protocol))  # noqa: S301


def refused(text: str) -> SelectorSyntaxError:
    with pytest.raises(SelectorSyntaxError) as caught:
        parse(text)
    return caught.value


class TestParse:
    @pytest.mark.parametrize("value", [None, b"app=web", 1, ["app=web"], EVERYTHING])
    def test_only_a_string_is_parsed(self, value: Any) -> None:
        with pytest.raises(TypeError, match="a label selector is a str, not"):
            parse(value)

    @pytest.mark.parametrize(
        ("text", "position"),
        [
            (",a", 0),
            ("  ,a", 2),
            ("a,,b", 2),
            ("a , ", 4),
            ("a b", 2),
            ("a in b", 5),
            ("a in (b c)", 8),
            ("a in (b", 7),
            ("é=b", 0),
            ("a,b=é", 4),
            ("x > y", 4),
            ("x>", 2),
            ("x> ,y", 3),
            ("a in (b, -c, d)", 9),
            ("😀", 0),
            ("a=😀 b", 2),
            ("a=b\0c", 4),
        ],
    )
    def test_position_is_that_of_the_offending_token(self, text: str, position: int) -> None:
        assert refused(text).position == position

    def test_position_of_several_bad_values_is_that_of_the_first_in_order(self) -> None:
        """Go sorts the values first, and names the smallest first."""
        error = refused("a in (-c, -b)")
        assert error.position == 10
        assert error.reason.startswith(
            'unable to parse requirement: [values[0][a]: Invalid value: "-b"'
        )

    @pytest.mark.parametrize(
        ("text", "canonical"),
        [
            ("a \0 ] junk", "a"),  # where a token could start, it ends the input
            ("\0a", ""),
            ("a\0=b", "a=b"),  # right after a token, it is dropped
            ("a=\0b", "a=b"),
            ("a in\0(b)", "a in (b)"),
            ("a=b\0\0junk", "a=b"),
        ],
    )
    def test_nul_is_read_as_by_gos_lexer(self, text: str, canonical: str) -> None:
        assert str(parse(text)) == canonical

    @pytest.mark.parametrize("space", ["\v", "\f", "\u00a0", "\u2028", "\x85", "\u3000"])
    def test_other_white_space_is_part_of_an_identifier(self, space: str) -> None:
        assert refused(f"a{space}=b").reason.startswith(
            "unable to parse requirement: Invalid value"
        )

    @pytest.mark.parametrize(
        ("text", "quoted"),
        [
            ('a"\\', r'"a\"\\"'),
            ("a\a\b\f\v", r'"a\a\b\f\v"'),
            ("a\x01\x7f", r'"a\x01\x7f"'),
            ("a\x85\u00a0\u200b\ufeff", r'"a\u0085\u00a0\u200b\ufeff"'),
            ("a\U000e0001", r'"a\U000e0001"'),
            ("aé日😀\ufffd", '"aé日😀\ufffd"'),
            ("a\ud800b\udfff", '"a\ufffdb\ufffd"'),
        ],
    )
    def test_reason_quotes_as_go_does(self, text: str, quoted: str) -> None:
        assert f"Invalid value: {quoted}: name part" in refused(text).reason

    @pytest.mark.parametrize(
        "text", ["\ud800", "a=\udfff", "a in (\ud800", "a \ud800", "a=b \udc00"]
    )
    def test_lone_surrogates_give_an_error_that_can_be_printed(self, text: str) -> None:
        error = refused(text)
        assert error.text == text
        str(error).encode()
        error.reason.encode()

    def test_length_limits_count_bytes(self) -> None:
        assert "no more than 63 bytes" in refused("é" * 32).reason
        assert "no more than 63 bytes" not in refused("é" * 31).reason

    @pytest.mark.parametrize(
        "unit",
        ["a", "(", "!", ",", "=", "/", "\ud800", "😀", "\x01", "a.", "a=-", "-", "a in (b,", "[["],
    )
    def test_five_megabytes_are_refused_in_linear_time(self, unit: str) -> None:
        """Quadratic time would take hours, and fail by the time limit of each test."""
        error = refused(unit * (FIVE_MB // len(unit)))
        assert 0 <= error.position <= FIVE_MB

    def test_many_values_and_requirements_are_parsed_in_linear_time(self) -> None:
        values = ",".join(f"v{number}" for number in range(100_000))
        requirement = parse(f"a in ({values})").requirements[0]
        assert len(requirement.values) == 100_000
        selector = parse(",".join(["a", "!b", "c notin (d,e)"] * 30_000))
        assert len(selector.requirements) == 90_000
        assert selector.matches({"a": ""})
        assert not selector.matches({"a": "", "c": "e"})

    def test_error_pickles(self) -> None:
        error = refused("a b")
        again = pickled(error)
        assert (again.text, again.position, again.reason) == ("a b", 2, error.reason)

    def test_nothing_to_select_by_is_the_shared_everything(self) -> None:
        assert parse("") is EVERYTHING
        assert parse(" \t\r\n") is EVERYTHING


class TestSelector:
    SELECTORS = (
        EVERYTHING,
        NOTHING,
        parse("a=b,!c,d in (e,f),g>1"),
        from_labels({"not valid!": "é"}),
        from_label_selector(
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "b"]}]}
        ),
    )

    @pytest.mark.parametrize("selector", SELECTORS, ids=repr)
    def test_copies_equal_the_original_and_match_alike(self, selector: Selector) -> None:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            again = pickled(selector, protocol)
            assert again == selector
            assert hash(again) == hash(selector)
            assert str(again) == str(selector)
            assert again.matches({"a": "b"}) is selector.matches({"a": "b"})
        assert copy.copy(selector) == copy.deepcopy(selector) == selector

    def test_nothing_stays_one_object(self) -> None:
        assert pickled(NOTHING) is NOTHING
        assert copy.deepcopy([NOTHING])[0] is NOTHING

    def test_everything_and_nothing_differ_though_both_print_empty(self) -> None:
        assert str(EVERYTHING) == str(NOTHING) == ""
        assert EVERYTHING != NOTHING
        assert EVERYTHING.empty
        assert not NOTHING.empty
        assert EVERYTHING.requirements == NOTHING.requirements == ()
        assert repr(EVERYTHING) == "Selector('')"
        assert repr(NOTHING) == "NOTHING"
        assert len({EVERYTHING, NOTHING, Selector(), parse("")}) == 2

    def test_truth_value_says_nothing_about_the_selector(self) -> None:
        assert bool(EVERYTHING)
        assert bool(NOTHING)

    @pytest.mark.parametrize("labels", [None, {}, {"a": "b"}])
    def test_everything_matches_all_and_nothing_none(self, labels: dict[str, str] | None) -> None:
        assert EVERYTHING.matches(labels) is True
        assert NOTHING.matches(labels) is False

    @pytest.mark.parametrize("name", ["requirements", "matches", "anything"])
    def test_selector_cannot_be_changed(self, name: str) -> None:
        with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
            setattr(parse("a"), name, ())

    def test_requirements_are_sorted_by_key_and_keep_their_order_within_one(self) -> None:
        selector = Selector(parse("b,a=2,a=1").requirements + parse("a").requirements)
        assert str(selector) == "a=2,a=1,a,b"

    def test_equality_is_that_of_the_requirements(self) -> None:
        assert parse("b,a") == parse("a , b")
        assert parse("a=b") != parse("a==b")
        assert parse("a=b") != parse("a in (b)")
        text: object = "a=b"
        assert parse("a=b") != text

    def test_matches_takes_any_mapping(self) -> None:
        matches = parse("a=b,!c,d notin (e),f in (g,h)").matches
        assert matches(MappingProxyType(OrderedDict(a="b", f="h")))

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("a", False),
            ("a=", False),
            ("a in (,b)", False),
            ("x>1", False),
            ("!a", True),
            ("a!=b", True),
            ("a notin (b,)", True),
            ("!a,b!=c", True),
            ("!a,b", False),
        ],
    )
    def test_none_matches_like_no_labels(self, text: str, expected: bool) -> None:
        assert parse(text).matches(None) is expected
        assert parse(text).matches({}) is expected

    @pytest.mark.parametrize("terms", [1, 7, 8, 9, 16, 17, 40])
    def test_each_of_many_requirements_counts(self, terms: int) -> None:
        labels = {f"k{number}": "v" for number in range(terms)}
        selector = from_labels(labels)
        assert selector.matches(labels)
        for key in labels:
            assert not selector.matches({**labels, key: "other"})

    def test_exact_match_looks_at_the_first_requirement_of_the_label(self) -> None:
        selector = parse("a in (b,c),a=b,d==e,f in (g),h!=i")
        assert selector.requires_exact_match("a") is None
        assert selector.requires_exact_match("d") == "e"
        assert selector.requires_exact_match("f") == "g"
        assert selector.requires_exact_match("h") is None
        assert selector.requires_exact_match("missing") is None
        assert parse("x=").requires_exact_match("x") == ""
        assert NOTHING.requires_exact_match("x") is None


class TestRequirement:
    def test_operator_may_be_given_as_text(self) -> None:
        requirement = Requirement("x", "gt", ["5"])
        assert requirement.operator is Operator.GREATER_THAN
        assert requirement == Requirement("x", Operator.GREATER_THAN, ("5",))
        assert str(requirement) == "x>5"

    def test_values_are_sorted_and_distinct_but_print_as_given(self) -> None:
        """Go prints duplicates, as golden labelSelectors-31 shows."""
        requirement = Requirement("x", "in", ["b", "a", "b"])
        assert requirement.values == ("a", "b")
        assert requirement == Requirement("x", "in", {"a", "b"})
        assert str(requirement) == "x in (a,b,b)"

    @pytest.mark.parametrize(
        ("key", "operator", "values", "message"),
        [
            ("x", "in", [], "values: Invalid value: []: for 'in', 'notin' operators, values set"),
            ("x", "in", None, "values: Invalid value: null: for 'in', 'notin' operators"),
            ("x", "=", [], "values: Invalid value: []: exact-match compatibility requires one"),
            ("x", "!=", ["a", "a"], 'values: Invalid value: ["a","a"]: exact-match compat'),
            ("x", "exists", ["a"], 'values: Invalid value: ["a"]: values set must be empty for'),
            ("x", "gt", [], "values: Invalid value: []: for 'Gt', 'Lt' operators, exactly one"),
            ("x", "lt", ["1", "2"], "values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' oper"),
            ("x", "gt", ["1.5"], "values[0]: Invalid value: \"1.5\": for 'Gt', 'Lt' operators, "),
            ("x", "gt", ["-1"], 'values[0][x]: Invalid value: "-1": a valid label must be'),
            ("x", "lt", ["-"], "[values[0]: Invalid value: \"-\": for 'Gt', 'Lt' operators, the"),
            (
                "x",
                "Gt",
                ["1"],
                f'operator: Unsupported value: "Gt": supported values: {OPERATORS}',
            ),
            ("x", "<&>", [], 'operator: Unsupported value: "\\u003c\\u0026\\u003e": supported'),
            ("", "exists", [], 'key: Invalid value: "": name part must be non-empty; name part'),
            ("-", "in", [], '[key: Invalid value: "-": name part must consist of'),
            ("\ud800", "in", ["\ud800"], '[key: Invalid value: "\ufffd": name part'),
        ],
    )
    def test_broken_rule_is_told_in_gos_words(
        self, key: str, operator: str, values: list[str] | None, message: str
    ) -> None:
        with pytest.raises(SelectorError) as caught:
            Requirement(key, operator, values)
        assert str(caught.value).startswith(message)
        str(caught.value).encode()

    def test_one_message_given_twice_is_told_once(self) -> None:
        """ToAggregate drops repeated texts; two values at different indexes differ."""
        with pytest.raises(SelectorError) as caught:
            Requirement("x", "in", ["a b", "a b"])
        assert str(caught.value).startswith("[values[0][x]: ")
        assert ", values[1][x]: " in str(caught.value)

    @pytest.mark.parametrize(
        ("key", "values"), [(1, ["a"]), (None, ["a"]), ("x", "abc"), ("x", [1]), ("x", [None])]
    )
    def test_key_and_values_are_strings(self, key: Any, values: Any) -> None:
        with pytest.raises(TypeError, match="label"):
            Requirement(key, "in", values)

    def test_requirement_cannot_be_changed(self) -> None:
        with pytest.raises((FrozenInstanceError, AttributeError)):
            Requirement("a", "exists").key = "b"  # type: ignore[misc]

    def test_requirement_pickles_after_use(self) -> None:
        requirement = Requirement("a", "in", ["c", "b", "b"])
        assert requirement.matches({"a": "b"})
        again = pickled(requirement)
        assert again == requirement
        assert str(again) == str(requirement)
        assert hash(again) == hash(requirement)
        assert again.matches({"a": "c"})
        assert not again.matches(None)

    @pytest.mark.parametrize(
        ("value", "number"),
        [
            ("6", True),
            ("+6", True),
            ("006", True),
            ("0" * 5000 + "6", True),  # more digits than int() takes
            ("9223372036854775807", True),
            ("9223372036854775808", False),
            ("4", False),
            ("-9223372036854775808", False),
            ("1" * 5000, False),
            ("", False),
            ("6_0", False),
            (" 6", False),
            ("6\n", False),
            ("٦", False),
            ("0x6", False),
            ("6.0", False),
            ("++6", False),
            ("+", False),
        ],
    )
    def test_order_compares_what_go_parses_as_int64(self, value: str, number: bool) -> None:
        assert parse("x>5").matches({"x": value}) is number

    def test_order_is_strict(self) -> None:
        assert not parse("x>5").matches({"x": "5"})
        assert not parse("x<5").matches({"x": "5"})
        assert parse("x<5").matches({"x": "-9223372036854775808"})
        assert not parse("x<5").matches({"x": "-9223372036854775809"})


class TestAsSelector:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("a=b", "a=b"),
            (parse("a=b"), "a=b"),
            ({"a": "b", "c": ""}, "a=b,c="),
            ({"matchLabels": {"a": "b"}}, "a=b"),
            ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, "a"),
            ({"matchLabels": {"a": "b"}, "matchExpressions": []}, "a=b"),
            ({"matchLabels": None, "matchExpressions": None}, ""),
            ({"matchLabels": {}}, ""),
            ({}, ""),
            ({"matchLabels": "b"}, "matchLabels=b"),
            ({"matchLabels": "b", "a": "c"}, "a=c,matchLabels=b"),
            (MappingProxyType({"matchLabels": {"a": "b"}}), "a=b"),
        ],
    )
    def test_value_is_understood(self, value: Any, text: str) -> None:
        selector = as_selector(value)
        assert str(selector) == text
        assert selector != NOTHING

    def test_selector_is_returned_as_it_is(self) -> None:
        assert as_selector(NOTHING) is NOTHING

    @pytest.mark.parametrize("value", [None, 1, ["a"], b"a", ("a", "b")])
    def test_other_values_are_refused(self, value: Any) -> None:
        with pytest.raises(TypeError, match="use EVERYTHING or NOTHING"):
            as_selector(value)

    def test_labels_beside_a_label_selector_field_are_refused(self) -> None:
        with pytest.raises(TypeError, match="label keys and values are str"):
            as_selector({"matchLabels": {"a": "b"}, "a": "b"})


class TestFromLabels:
    def test_nothing_to_require_selects_everything(self) -> None:
        assert from_labels({}) is EVERYTHING
        assert from_labels(None) is EVERYTHING

    def test_content_is_not_validated(self) -> None:
        assert from_labels({"not valid": "é!"}).matches({"not valid": "é!"})

    @pytest.mark.parametrize("labels", [{"a": 1}, {1: "a"}, {"a": None}, "a=b", [("a", "b")]])
    def test_other_types_are_refused(self, labels: Any) -> None:
        with pytest.raises(TypeError, match="label"):
            from_labels(labels)


class TestFromLabelSelector:
    def test_none_selects_nothing_and_empty_everything(self) -> None:
        assert from_label_selector(None) is NOTHING
        assert from_label_selector({}) is EVERYTHING
        assert from_label_selector({"matchLabels": {}, "matchExpressions": None}) is EVERYTHING

    def test_both_parts_must_match(self) -> None:
        selector = from_label_selector(
            {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}],
            }
        )
        assert str(selector) == "app=web,tier notin (db)"

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ([], "label selector must be a mapping, not []"),
            ("a=b", "label selector must be a mapping, not 'a=b'"),
            ({"matchLabel": {}}, "field of label selector must be one of matchLabels, matchExpr"),
            ({"matchLabels": ["a"]}, "matchLabels must be a mapping, not ['a']"),
            ({"matchLabels": {"a": 1}}, "matchLabels['a'] must be a string, not 1"),
            ({"matchLabels": {"a": None}}, "matchLabels['a'] must be a string, not None"),
            ({"matchLabels": {1: "a"}}, "key of matchLabels must be a string, not 1"),
            ({"matchExpressions": {}}, "matchExpressions must be a list, not {}"),
            ({"matchExpressions": ["a"]}, "matchExpressions[0] must be a mapping, not 'a'"),
            (
                {"matchExpressions": [{"key": "a", "op": "In"}]},
                "field of matchExpressions[0] must be one of key, operator, values, not 'op'",
            ),
            (
                {"matchExpressions": [{"key": "a", "operator": "In", "values": "b"}]},
                "matchExpressions[0].values must be a list, not 'b'",
            ),
            (
                {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", 1]}]},
                "matchExpressions[0].values[1] must be a string, not 1",
            ),
            (
                {"matchExpressions": [{"key": ["a"], "operator": "In"}]},
                "matchExpressions[0].key must be a string, not ['a']",
            ),
            (
                {"matchExpressions": [{"key": "a", "operator": 1}]},
                "matchExpressions[0].operator must be a string, not 1",
            ),
        ],
    )
    def test_malformed_shape_is_refused_naming_the_field_and_the_input(
        self, value: Any, message: str
    ) -> None:
        with pytest.raises(SelectorError) as caught:
            from_label_selector(value)
        assert str(caught.value).startswith(message)
        assert repr(value)[:200] in str(caught.value)

    def test_long_input_is_cut_in_the_message(self) -> None:
        with pytest.raises(SelectorError) as caught:
            from_label_selector({"matchLabels": {"a": ["x" * FIVE_MB]}})
        assert len(str(caught.value)) < 1000

    def test_absent_fields_of_an_expression_are_empty_as_in_go(self) -> None:
        with pytest.raises(SelectorError, match='"" is not a valid label selector operator'):
            from_label_selector({"matchExpressions": [{}]})


class TestValidation:
    @pytest.mark.parametrize(
        "key", ["a", "A-b_c.d", "a.b/c", "0", "x" * 63, f"{'a.' * 126}a/{'x' * 63}"]
    )
    def test_valid_keys(self, key: str) -> None:
        assert validate_label_key(key) == []

    @pytest.mark.parametrize(
        "key", ["a\n", "a/b\n", "٣", "a/b/c", "/", "a/", "/a", "A/b", f"{'a' * 254}/b"]
    )
    def test_invalid_keys(self, key: str) -> None:
        assert validate_label_key(key)

    @pytest.mark.parametrize("value", ["", "a", "A-b_c.d", "x" * 63])
    def test_valid_values(self, value: str) -> None:
        assert validate_label_value(value) == []

    @pytest.mark.parametrize("value", ["\n", "a\n", "٣", "x" * 64, "-", "a/b", "\ud800"])
    def test_invalid_values(self, value: str) -> None:
        assert validate_label_value(value)


def test_examples_of_the_document_are_true() -> None:
    results = doctest.testfile(str(DOCUMENT), module_relative=False)
    assert results.attempted > 20
    assert results.failed == 0
