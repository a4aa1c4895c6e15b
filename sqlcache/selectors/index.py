"""A set of selectors, filed so that "which of these match these labels?" costs a few look-ups.

Each selector is filed under one of its terms that labels must meet: an equality, or an `in` under
each of its values, the one with the fewest others filed there at that moment; else the key of a
term that needs one, such as `exists`. What is left, negative terms alone and EVERYTHING, is looked
at every time. Asking looks labels up one by one and tests the selectors found there in full, so a
poor choice costs time only.

Promises
- The answer is that of testing every selector: EVERYTHING matches always, NOTHING never.
- Memory is bounded by what is in the set; what is removed leaves nothing behind.
- Adding and removing cost the selector's own terms, whatever the size of the set.
- Who was interrupted while adding or removing does it again: what is half done is made whole.

Not safe for threads: the owner has a lock.

Elsewhere: testing one selector (_matching), objects that select others (owners).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, KeysView, Mapping
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from sqlcache.selectors._matching import Predicate
from sqlcache.selectors._requirement import Operator, Requirement
from sqlcache.selectors._selector import NOTHING, Selector

K = TypeVar("K")
Label: TypeAlias = tuple[str, str]  # key and value
_Members: TypeAlias = dict[K, Predicate]

_BY_VALUE = frozenset({Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN})
_BY_KEY = frozenset({Operator.EXISTS, Operator.GREATER_THAN, Operator.LESS_THAN})
# They tell the values that they name from all else; the others look at any value of their key.
_NAMING = _BY_VALUE | {Operator.NOT_EQUALS, Operator.NOT_IN}


class SelectorIndex(Generic[K]):
    """Selectors by key, in scopes that are asked apart, such as namespaces.

    Example:
        >>> views: SelectorIndex[str] = SelectorIndex()
        >>> views.add("web", parse("app=web,!canary"), scope="shop")
        >>> views.matching({"app": "web"}, scope="shop")
        ['web']
    """

    def __init__(self) -> None:
        """Make an empty set."""
        self._scopes: dict[str, _Scope[K]] = {}
        self._filed: dict[K, _Filed] = {}

    def __len__(self) -> int:
        """Return the number of selectors."""
        return len(self._filed)

    def keys(self) -> KeysView[K]:
        """Return a live view of the keys."""
        return self._filed.keys()

    def add(self, key: K, selector: Selector, scope: str = "") -> None:
        """Put a selector in; one with the same key is replaced.

        Args:
            key: what `matching` returns for it.
            selector: any.
            scope: where it is asked for.
        """
        filed = self._filed.get(key)
        if filed is None or filed.scope != scope or filed.selector != selector:
            self.remove(key)
            term = self._place(scope).term_for(selector)
            filed = self._filed[key] = _Filed(scope, selector, term)
        self._place(scope).add(key, filed.selector, filed.term)

    def remove(self, key: K) -> None:
        """Take a selector out. An absent key is no error."""
        filed = self._filed.get(key)
        if filed is not None:
            members = self._place(filed.scope)
            members.remove(key, filed.selector, filed.term)
            if not members.filed:
                del self._scopes[filed.scope]
            del self._filed[key]

    def matching(self, labels: Mapping[str, str] | None, scope: str | None = None) -> list[K]:
        """Return the keys of the selectors that match labels, in no particular order.

        Args:
            labels: of one object; None is none.
            scope: where to look; None is everywhere.
        """
        found: list[K] = []
        for members in self._places(scope):
            members.match(labels or {}, found)
        return found

    def looks_at(self, labels: Collection[Label], *scopes: str) -> bool:
        """Return whether a selector may tell one of some labels from another value, or from none.

        If not, objects that differ in these labels alone are matched by the same selectors.

        Args:
            labels: key and value of each.
            scopes: where to look.
        """
        for scope in scopes:
            members = self._scopes.get(scope)
            if members is not None and members.looks_at(labels):
                return True
        return False

    def _place(self, scope: str) -> _Scope[K]:
        members = self._scopes.get(scope)
        if members is None:
            members = self._scopes[scope] = _Scope()
        return members

    def _places(self, scope: str | None) -> Collection[_Scope[K]]:
        if scope is None:
            return self._scopes.values()
        members = self._scopes.get(scope)
        return (members,) if members is not None else ()


class _Filed(NamedTuple):
    """A selector, and the term that it is filed under in its scope."""

    scope: str
    selector: Selector
    term: Requirement | None


class _Scope(Generic[K]):
    """The selectors of one scope.

    Attributes:
        filed: their keys.
    """

    __slots__ = ("_by_key", "_by_label", "_keys", "_labels", "_rest", "filed")

    def __init__(self) -> None:
        self.filed: set[K] = set()
        # Who else looks at a label, or at any value of a key, than those filed under it.
        self._labels: dict[Label, dict[K, None]] = {}
        self._keys: dict[str, dict[K, None]] = {}
        self._by_label: dict[Label, _Members[K]] = {}  # as labels.items() has them
        self._by_key: dict[str, _Members[K]] = {}
        self._rest: _Members[K] = {}

    def term_for(self, selector: Selector) -> Requirement | None:
        """Return the term to file a selector under; None if none of its terms needs a label."""
        by_value = [each for each in selector.requirements if each.operator in _BY_VALUE]
        if len(by_value) > 1:
            return min(by_value, key=self._crowd)
        if by_value:
            return by_value[0]
        by_key = [each for each in selector.requirements if each.operator in _BY_KEY]
        return min(by_key, key=lambda each: len(self._by_key.get(each.key, ())), default=None)

    def add(self, key: K, selector: Selector, term: Requirement | None) -> None:
        """File a selector under a term."""
        self.filed.add(key)
        for each in selector.requirements:
            if each.operator not in _NAMING:
                self._keys.setdefault(each.key, {})[key] = None
            elif each != term:
                for label in _labels(each):
                    self._labels.setdefault(label, {})[key] = None
        if selector == NOTHING:
            return
        if term is None:
            self._rest[key] = selector.matches
        elif term.operator in _BY_KEY:
            self._by_key.setdefault(term.key, {})[key] = selector.matches
        else:
            for label in _labels(term):
                self._by_label.setdefault(label, {})[key] = selector.matches

    def remove(self, key: K, selector: Selector, term: Requirement | None) -> None:
        """Take out a selector that is filed under a term."""
        self.filed.discard(key)
        for each in selector.requirements:
            if each.operator not in _NAMING:
                _take(self._keys, each.key, key)
            elif each != term:
                for label in _labels(each):
                    _take(self._labels, label, key)
        if term is None:
            self._rest.pop(key, None)
        elif term.operator in _BY_KEY:
            _take(self._by_key, term.key, key)
        else:
            for label in _labels(term):
                _take(self._by_label, label, key)

    def match(self, labels: Mapping[str, str], found: list[K]) -> None:
        """Append the keys of the selectors that match."""
        for label in labels.items():
            if members := self._by_label.get(label):
                found += [key for key, matches in members.items() if matches(labels)]
        if self._by_key:
            for name in labels:
                if members := self._by_key.get(name):
                    found += [key for key, matches in members.items() if matches(labels)]
        if self._rest:
            found += [key for key, matches in self._rest.items() if matches(labels)]

    def looks_at(self, labels: Collection[Label]) -> bool:
        """Return whether a selector may tell one of some labels from another value, or none."""
        return not (
            self._by_label.keys().isdisjoint(labels)
            and self._labels.keys().isdisjoint(labels)
            and (not self._keys or self._keys.keys().isdisjoint(key for key, _ in labels))
        )

    def _crowd(self, term: Requirement) -> tuple[int, int]:
        """Return how many are filed under a term's values, and how many values it has."""
        others = sum(len(self._by_label.get(label, ())) for label in _labels(term))
        return others, len(term.values)


L = TypeVar("L")
V = TypeVar("V")


def _labels(term: Requirement) -> Iterator[Label]:
    return ((term.key, value) for value in term.values)


def _take(filed: dict[L, dict[K, V]], place: L, key: K) -> None:
    members = filed.get(place)
    if members is not None:
        members.pop(key, None)
        if not members:
            del filed[place]
