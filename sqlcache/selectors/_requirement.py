"""One term of a label selector: a key, an operator and values.

Promises
- A Requirement made by its constructor is one that labels.NewRequirement accepts.
- Immutable; equal when key, operator and the set of values are.

Elsewhere: reading requirements from text (_parser), testing labels (_matching).
Source: apimachinery labels.Requirement, selection.Operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from sqlcache._gotext import aggregate, clean, parse_int64, quote, to_json
from sqlcache.errors import SelectorError
from sqlcache.selectors._matching import Predicate, compile_predicate
from sqlcache.selectors.validation import validate_label_key, validate_label_value


class Operator(StrEnum):
    """How a requirement relates its key to its values. The texts are Go's.

    Source: apimachinery selection.Operator.
    """

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER_THAN = "gt"
    LESS_THAN = "lt"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"


_SET_OPERATORS = frozenset({Operator.IN, Operator.NOT_IN})
_EXACT_OPERATORS = frozenset({Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS})
_PRESENCE_OPERATORS = frozenset({Operator.EXISTS, Operator.DOES_NOT_EXIST})
_ORDER_OPERATORS = frozenset({Operator.GREATER_THAN, Operator.LESS_THAN})
_OPERATORS = frozenset(Operator)
_SYMBOLS = {Operator.GREATER_THAN: ">", Operator.LESS_THAN: "<"}


class Problem(NamedTuple):
    """A rule that a requirement breaks.

    Attributes:
        value: the value at fault, or None if it is no single one.
        message: Go's text, with the path of the field.
    """

    value: str | None
    message: str


@dataclass(frozen=True, slots=True, init=False)
class Requirement:
    """A key, an operator and values, with a test of labels against them.

    Attributes:
        key: the label key.
        operator: one of Operator.
        values: sorted, each once.

    `str()` gives the term as `parse` reads it.
    Source: apimachinery labels.Requirement.
    """

    key: str
    operator: Operator
    values: tuple[str, ...]
    # Go prints a value as often as matchExpressions lists it.
    _printed: tuple[str, ...] = field(compare=False, repr=False)
    _predicate: Predicate | None = field(compare=False, repr=False)

    def __init__(self, key: str, operator: str, values: Iterable[str] | None = ()) -> None:
        """Check and keep a key, an operator (an Operator or its text) and values.

        Args:
            key: a valid label key.
            operator: `in` and `notin` want one value or more; `=`, `==` and `!=` exactly one;
                `gt` and `lt` one 64-bit integer; `exists` and `!` none.
            values: valid label values; None prints as Go's nil slice does.

        Raises:
            SelectorError: a rule is broken; the text is Go's.
            TypeError: the key or a value is no string.

        Source: apimachinery labels.NewRequirement.
        """
        given = None if values is None else _strings(values)
        if not isinstance(key, str):
            raise TypeError(f"a label key is a str, not {type(key).__name__}")
        problems = [*key_problems(key, "key"), *value_problems(key, operator, given)]
        if problems:
            raise SelectorError(aggregate(problem.message for problem in problems))
        _set(self, key, Operator(operator), given or ())

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether labels meet this requirement; None means no labels.

        Source: apimachinery Requirement.Matches.
        """
        if self._predicate is None:
            predicate = compile_predicate([(self.key, self.operator, self.values)])
            object.__setattr__(self, "_predicate", predicate)
            return predicate(labels)
        return self._predicate(labels)

    def __reduce__(self) -> tuple[Any, ...]:
        return (unchecked, (self.key, self.operator, self._printed))

    def __str__(self) -> str:
        operator, values = self.operator, ",".join(self._printed)
        if operator in _SET_OPERATORS:
            return f"{self.key} {operator} ({values})"
        if operator is Operator.EXISTS:
            return self.key
        if operator is Operator.DOES_NOT_EXIST:
            return f"!{self.key}"
        return f"{self.key}{_SYMBOLS.get(operator, operator)}{values}"


def _set(requirement: Requirement, key: str, operator: Operator, values: Iterable[str]) -> None:
    printed = tuple(sorted(values))
    distinct = tuple(dict.fromkeys(printed)) if len(printed) > 1 else printed
    object.__setattr__(requirement, "key", key)
    object.__setattr__(requirement, "operator", operator)
    object.__setattr__(requirement, "values", distinct)
    object.__setattr__(requirement, "_printed", printed)
    object.__setattr__(requirement, "_predicate", None)


def _strings(values: Iterable[str]) -> list[str]:
    if isinstance(values, str):
        raise TypeError(f"label values are a list of str, not the str {values!r:.200}")
    given = list(values)
    for value in given:
        if not isinstance(value, str):
            raise TypeError(f"a label value is a str, not {type(value).__name__}")
    return given


def unchecked(key: str, operator: Operator, values: Iterable[str]) -> Requirement:
    """Return a requirement of parts that were checked, or that Go does not check either."""
    requirement = object.__new__(Requirement)
    _set(requirement, key, operator, values)
    return requirement


def key_problems(key: str, path: str = "") -> list[Problem]:
    """Return what is wrong with a key, with its path in front.

    Source: apimachinery labels.validateLabelKey.
    """
    errors = validate_label_key(key)
    if not errors:
        return []
    where = f"{path}: " if path else ""
    return [Problem(None, f"{where}Invalid value: {quote(key)}: {'; '.join(errors)}")]


def value_problems(key: str, operator: str, values: Sequence[str] | None) -> Iterator[Problem]:
    """Yield what is wrong with an operator and its values, in Go's order.

    Source: apimachinery labels.NewRequirement, labels.validateLabelValue.
    """
    given = values or ()
    if rule := _count_rule(operator, len(given)):
        yield Problem(None, f"values: Invalid value: {to_json(values)}: {rule}")
    if operator in _ORDER_OPERATORS:
        yield from _integer_problems(given)
    if operator not in _OPERATORS:
        supported = ", ".join(quote(known) for known in Operator)
        yield Problem(
            None,
            f"operator: Unsupported value: {to_json(operator)}: supported values: {supported}",
        )
    for index, value in enumerate(given):
        if errors := validate_label_value(value):
            where = f"values[{index}][{clean(key)}]"
            yield Problem(value, f"{where}: Invalid value: {quote(value)}: {'; '.join(errors)}")


def _count_rule(operator: str, count: int) -> str | None:
    if operator in _SET_OPERATORS and count == 0:
        return "for 'in', 'notin' operators, values set can't be empty"
    if operator in _EXACT_OPERATORS and count != 1:
        return "exact-match compatibility requires one single value"
    if operator in _PRESENCE_OPERATORS and count != 0:
        return "values set must be empty for exists and does not exist"
    if operator in _ORDER_OPERATORS and count != 1:
        return "for 'Gt', 'Lt' operators, exactly one value is required"
    return None


def _integer_problems(values: Iterable[str]) -> Iterator[Problem]:
    for index, value in enumerate(values):
        if parse_int64(value) is None:
            yield Problem(
                value,
                f"values[{index}]: Invalid value: {quote(value)}:"
                " for 'Gt', 'Lt' operators, the value must be an integer",
            )
