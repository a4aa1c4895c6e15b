"""Requirements compiled to one Python function that tests labels.

Promises
- A predicate of up to eight terms does dict lookups and comparisons only: no loop, no attribute
  of a requirement. A scan of 150,000 pods calls it as often, and a further call costs more than
  a lookup.
- The code compiled depends on the operators only; keys and values go in as arguments. So
  selectors of one shape share their code, and no text of a caller is ever compiled.

Source: apimachinery Requirement.Matches, internalSelector.Matches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast

from sqlcache._gotext import parse_int64

# Key, operator and values of a requirement.
Term: TypeAlias = tuple[str, str, tuple[str, ...]]
# Key of _TEMPLATES, key of the label, operand.
_Operation: TypeAlias = tuple[str, str, Any]
Predicate: TypeAlias = Callable[[Mapping[str, str] | None], bool]

_MAX_TERMS = 8  # of one function; the shapes of longer ones would be too many to keep
_SHAPES_KEPT = 512
_POSITIVE = {  # need the label, so they fail without labels
    "=": "labels.get({key}) == {operand}",
    "in": "labels.get({key}) in {operand}",
    "exists": "{key} in labels",
    "gt": "(number := parse_int64(labels.get({key}))) is not None and number > {operand}",
    "lt": "(number := parse_int64(labels.get({key}))) is not None and number < {operand}",
}
_NEGATIVE = {  # hold where the label is missing
    "!=": "labels.get({key}) != {operand}",
    "notin": "labels.get({key}) not in {operand}",
    "!": "{key} not in labels",
}
_TEMPLATES = _POSITIVE | _NEGATIVE
_WITH_ONE_VALUE = {"==": "=", "in": "=", "notin": "!="}


def compile_predicate(terms: Sequence[Term]) -> Predicate:
    """Return a function that tells whether labels meet all terms."""
    operations = [_operation(*term) for term in terms]
    if len(operations) > 1:
        # Positive ones first: they refuse most objects, and the rest is then not evaluated.
        operations.sort(key=_is_negative)
    if len(operations) <= _MAX_TERMS:
        return _bind(operations)
    chunks = [operations[i : i + _MAX_TERMS] for i in range(0, len(operations), _MAX_TERMS)]
    return _all_of([_bind(chunk) for chunk in chunks])


def never(_labels: Mapping[str, str] | None) -> bool:
    """Refuse any labels."""
    return False


def _always(_labels: Mapping[str, str] | None) -> bool:
    return True


def _operation(key: str, operator: str, values: tuple[str, ...]) -> _Operation:
    if len(values) == 1:
        operator = _WITH_ONE_VALUE.get(operator, operator)
        value = values[0]
        return operator, key, parse_int64(value) if operator in ("gt", "lt") else value
    return operator, key, frozenset(values)


def _is_negative(operation: _Operation) -> bool:
    return operation[0] in _NEGATIVE


def _bind(operations: Sequence[_Operation]) -> Predicate:
    if not operations:
        return _always
    codes, keys, operands = zip(*operations, strict=True)
    return _factory(codes)(*keys, *operands)


@lru_cache(maxsize=_SHAPES_KEPT)
def _factory(codes: tuple[str, ...]) -> Callable[..., Predicate]:
    """Return a function from all keys and all operands to the predicate with these codes."""
    keys = [f"key{index}" for index in range(len(codes))]
    operands = [f"operand{index}" for index in range(len(codes))]
    tests = " and ".join(
        f"({_TEMPLATES[code].format(key=key, operand=operand)})"
        for code, key, operand in zip(codes, keys, operands, strict=True)
    )
    guard = "labels is None or" if _NEGATIVE.keys() >= set(codes) else "labels is not None and"
    source = f"lambda {', '.join(keys + operands)}: lambda labels: {guard} ({tests})"
    # Made of the templates above and counters only.
    return cast("Callable[..., Predicate]", eval(source, {"parse_int64": parse_int64}))  # noqa: S307


def _all_of(predicates: Sequence[Predicate]) -> Predicate:
    def matches(labels: Mapping[str, str] | None) -> bool:
        return all(predicate(labels) for predicate in predicates)

    return matches
