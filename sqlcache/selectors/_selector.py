"""A conjunction of requirements, and the two selectors without any.

Promises
- Immutable, hashable, picklable; equal when the requirements are, in their order.
- `NOTHING` is one object, also after copying and unpickling, and equals no other selector.

Source: apimachinery labels.Selector, labels.Everything, labels.Nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from sqlcache.selectors._matching import Predicate, compile_predicate, never
from sqlcache.selectors._requirement import Operator, Requirement

_BY_KEY = attrgetter("key")
_EXACT = frozenset({Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN})


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Selector:
    """A query over labels: all requirements must be met.

    Attributes:
        requirements: sorted by key; those of one key in the order given.
        matches: a function from labels, or None for no labels, to whether they are selected.
            Take it out of the selector before a loop: `matches = selector.matches`.

    `str()` gives the canonical text, "" for both EVERYTHING and NOTHING.
    Source: apimachinery labels.Selector.
    """

    requirements: tuple[Requirement, ...]
    _selectable: bool = field(repr=False)
    matches: Predicate = field(compare=False, repr=False)
    _hash: int = field(compare=False, repr=False)

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        """Keep requirements; none selects everything.

        Source: apimachinery labels.NewSelector().Add().
        """
        ordered = tuple(sorted(requirements, key=_BY_KEY))
        terms = [(each.key, each.operator, each.values) for each in ordered]
        _set(self, ordered, True, compile_predicate(terms))

    @property
    def empty(self) -> bool:
        """Whether this selector restricts nothing; False for NOTHING, as in Go."""
        return self._selectable and not self.requirements

    def requires_exact_match(self, label: str) -> str | None:
        """Return the only value that the first requirement on a label allows, if there is one.

        None says nothing about the label: another requirement may still restrict it.

        Source: apimachinery internalSelector.RequiresExactMatch.
        """
        for requirement in self.requirements:
            if requirement.key == label:
                exact = requirement.operator in _EXACT and len(requirement.values) == 1
                return requirement.values[0] if exact else None
        return None

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return f"Selector({str(self)!r})" if self._selectable else "NOTHING"

    def __reduce__(self) -> str | tuple[Any, ...]:
        # A string tells pickle and copy to look the object up in this module.
        return (Selector, (self.requirements,)) if self._selectable else "NOTHING"


def _set(
    selector: Selector, requirements: tuple[Requirement, ...], selectable: bool, matches: Predicate
) -> None:
    object.__setattr__(selector, "requirements", requirements)
    object.__setattr__(selector, "_selectable", selectable)
    object.__setattr__(selector, "matches", matches)
    # Kept, for a selector is the key of hot views; its enums and tuples are slow to hash.
    object.__setattr__(selector, "_hash", hash((requirements, selectable)))


def _nothing() -> Selector:
    selector = object.__new__(Selector)
    _set(selector, (), False, never)
    return selector


EVERYTHING = Selector()
NOTHING = _nothing()
