"""`dict-index` backend: the label index of kubernetes PR #132396, as strong as Python allows.

A set of keys for each (namespace, label key, value). A selector intersects the sets of its terms,
the rarest first, instead of looking up one label and filtering; negative terms subtract.

Promises
- A selector with at least one positive term never looks at the labels of other objects.
- With negative terms alone, it costs one pass over the namespace's keys.

Elsewhere: objects, namespaces and index functions (store._memory).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlcache.objects import Objects
from sqlcache.selectors import NOTHING, Operator, Requirement, Selector, SelectorIndex
from sqlcache.store._base import Change
from sqlcache.store._memory import MemoryStore
from sqlcache.store.api import Explanation

_Postings = dict[str, dict[str, set[str]]]  # label key -> value -> object keys
_EQUALITY = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN)
_NEGATIVE = (Operator.NOT_EQUALS, Operator.NOT_IN, Operator.DOES_NOT_EXIST)


class DictIndexStore(MemoryStore):
    """Objects in dicts, selectors by sets of keys."""

    backend = "dict-index"

    def __init__(self, resource: str = "pods", **options: Any) -> None:
        """Make an empty store; see `sqlcache.open_store` for the options."""
        super().__init__(resource, **options)
        self._postings: dict[str, _Postings] = {}  # by namespace
        self._labels: dict[str, tuple[str, tuple[str, ...]]] = {}  # namespace, then key, value, …
        self._selectors: SelectorIndex[str] = SelectorIndex()  # by key; scopes are namespaces

    def _put_labels(self, change: Change) -> None:
        key, namespace = change.key, change.namespace
        new = tuple(part for label in change.labels.items() for part in label)
        old = self._labels.get(key)
        if old is not None:
            if old == (namespace, new):
                return
            self._unlink(key, *old)
        if new:
            self._labels[key] = (namespace, new)
            postings = self._postings.setdefault(namespace, {})
            for name, value in change.labels.items():
                postings.setdefault(name, {}).setdefault(value, set()).add(key)

    def _drop_labels(self, key: str) -> None:
        old = self._labels.get(key)
        if old is not None:
            self._unlink(key, *old)

    def _put_selector(self, key: str, namespace: str, selector: Selector) -> None:
        self._selectors.add(key, selector, namespace)

    def _drop_selector(self, key: str) -> None:
        self._selectors.remove(key)

    def _selecting(self, namespace: str, labels: Mapping[str, str]) -> Objects:
        with self._lock:
            self._check_open()
            objects = self._objects
            return [objects[key] for key in self._selectors.matching(labels, namespace or None)]

    def _unlink(self, key: str, namespace: str, labels: tuple[str, ...]) -> None:
        del self._labels[key]
        postings = self._postings[namespace]
        for name, value in zip(labels[::2], labels[1::2], strict=True):
            values = postings[name]
            keys = values[value]
            keys.discard(key)
            if not keys:
                del values[value]
            if not values:
                del postings[name]
        if not postings:
            del self._postings[namespace]

    def _label_terms(self) -> int:
        return sum(len(values) for each in self._postings.values() for values in each.values())

    def _select(self, namespace: str, selector: Selector) -> Objects:
        if selector == NOTHING:
            return []
        with self._lock:
            self._check_open()
            if selector.empty:
                return list(self._members(namespace).values())
            objects = self._objects
            return [objects[key] for key in self._matching(namespace, selector)]

    def _count(self, namespace: str, selector: Selector) -> int:
        if selector == NOTHING:
            return 0
        with self._lock:
            self._check_open()
            if selector.empty:
                return len(self._members(namespace))
            return sum(1 for _ in self._matching(namespace, selector))

    def _matching(self, namespace: str, selector: Selector) -> Iterable[str]:
        if namespace:
            return self._matching_in(namespace, selector)
        return [key for each in self._by_namespace for key in self._matching_in(each, selector)]

    def _matching_in(self, namespace: str, selector: Selector) -> Iterable[str]:
        postings = self._postings.get(namespace, {})
        positive, negative = [], []
        for requirement in selector.requirements:
            sets = _sets(postings, requirement)
            if requirement.operator in _NEGATIVE:
                negative.extend(sets)
            elif sets:
                positive.append(sets)
            else:
                return ()
        if not positive:
            excluded = set().union(*negative)
            return [key for key in self._by_namespace.get(namespace, {}) if key not in excluded]
        positive.sort(key=_size)
        first, *rest = positive
        keys = first[0] if len(first) == 1 else set().union(*first)
        for sets in rest:
            keys = keys & sets[0] if len(sets) == 1 else {k for k in keys if _in_any(k, sets)}
        for excluded in negative:
            keys = keys - excluded
        return keys

    def _explain(self, namespace: str, selector: Selector) -> Explanation:
        with self._lock:
            self._check_open()
            namespaces = [namespace] if namespace else list(self._by_namespace)
            total = len(self._members(namespace))
            sizes = {
                str(requirement): sum(
                    _size(_sets(self._postings.get(each, {}), requirement)) for each in namespaces
                )
                for requirement in selector.requirements
                if requirement.operator not in _NEGATIVE
            }
        driving = min(sizes, key=sizes.__getitem__) if sizes else "scan"
        estimated = sizes.get(driving, total)
        others = [str(each) for each in selector.requirements if str(each) != driving]
        return Explanation(
            backend=self.backend,
            namespace=namespace,
            selector=str(selector),
            driving=driving,
            estimated=estimated,
            matched=self._count(namespace, selector),
            residual=(),
            plan=(
                f"{driving}: {estimated} keys",
                *(f"intersect or subtract {other}" for other in others),
            ),
            sql=(),
        )


def _sets(postings: Mapping[str, dict[str, set[str]]], requirement: Requirement) -> list[set[str]]:
    """Return the key sets of the label values that a term names, negative or not."""
    values = postings.get(requirement.key)
    if not values:
        return []
    operator = requirement.operator
    if operator in _EQUALITY or operator in (Operator.NOT_EQUALS, Operator.NOT_IN):
        return [values[value] for value in requirement.values if value in values]
    if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        return list(values.values())
    key = requirement.key
    return [keys for value, keys in values.items() if requirement.matches({key: value})]


def _size(sets: Iterable[set[str]]) -> int:
    return sum(map(len, sets))


def _in_any(key: str, sets: Iterable[set[str]]) -> bool:
    return any(key in keys for keys in sets)
