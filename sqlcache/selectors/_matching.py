"""Requirements compiled to one Python function that tests labels.

Promises
- A predicate does dict lookups and comparisons only: no loop, no attribute of a requirement.
  A scan of 150,000 pods calls it as often, and a further call costs more than a lookup.
- The code compiled depends on the operators only; keys and values go in as arguments. So
  selectors of one shape share their code, and no text of a caller is ever compiled.

Source: apimachinery Requirement.Matches, internalSelector.Matches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

from sqlcache.selectors._gotext import parse_int64

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


class Term(NamedTuple):
    """A requirement as matching sees it."""

    key: str
    operator: str
    values: tuple[str, ...]


class _Operation(NamedTuple):
    code: str  # a key of _TEMPLATES
    key: str
    operand: Any


def compile_predicate(terms: Sequence[Term]) -> Predicate:
    """Return a function that tells whether labels meet all terms."""
    if not terms:
        return _always
    # Positive ones first: they refuse most objects, and then the others are not evaluated.
    operations = sorted(map(_operation, terms), key=lambda each: each.code in _NEGATIVE)
    chunks = [operations[i : i + _MAX_TERMS] for i in range(0, len(operations), _MAX_TERMS)]
    predicates = [_bind(chunk) for chunk in chunks]
    return predicates[0] if len(predicates) == 1 else _all_of(predicates)


def never(_labels: Mapping[str, str] | None) -> bool:
    """Refuse any labels."""
    return False


def _always(_labels: Mapping[str, str] | None) -> bool:
    return True


def _operation(term: Term) -> _Operation:
    code: str = term.operator
    if len(term.values) == 1:
        code = _WITH_ONE_VALUE.get(code, code)
    if code in ("in", "notin"):
        return _Operation(code, term.key, frozenset(term.values))
    if code in ("gt", "lt"):
        return _Operation(code, term.key, parse_int64(term.values[0]))
    return _Operation(code, term.key, term.values[0] if term.values else None)


def _bind(operations: Sequence[_Operation]) -> Predicate:
    factory = _factory(tuple(operation.code for operation in operations))
    return factory(*(part for operation in operations for part in operation[1:]))


@lru_cache(maxsize=_SHAPES_KEPT)
def _factory(shape: tuple[str, ...]) -> Callable[..., Predicate]:
    """Return a function from keys and operands, in turn, to the predicate of a shape."""
    names = [(f"key{i}", f"operand{i}") for i in range(len(shape))]
    tests = " and ".join(
        f"({_TEMPLATES[code].format(key=key, operand=operand)})"
        for code, (key, operand) in zip(shape, names, strict=True)
    )
    guard = "labels is None or" if _NEGATIVE.keys() >= set(shape) else "labels is not None and"
    parameters = ", ".join(f"{key}, {operand}" for key, operand in names)
    source = f"lambda {parameters}: lambda labels: {guard} ({tests})"
    # Made of the templates above and counters only.
    return cast("Callable[..., Predicate]", eval(source, {"parse_int64": parse_int64}))  # noqa: S307


def _all_of(predicates: Sequence[Predicate]) -> Predicate:
    def matches(labels: Mapping[str, str] | None) -> bool:
        return all(predicate(labels) for predicate in predicates)

    return matches
