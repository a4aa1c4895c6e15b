"""`dict` backend: client-go's store. A selector looks at every object of the namespace.

The namespace's objects are collected under the lock; matching runs afterwards, unlocked. This is
the model that every other backend is compared with.

Source: client-go tools/cache thread_safe_store.go, listers.go (ListAll, ListAllByNamespace).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlcache.objects import Objects
from sqlcache.selectors import NOTHING, Selector
from sqlcache.store._base import Change
from sqlcache.store._memory import MemoryStore
from sqlcache.store.api import Explanation


class DictStore(MemoryStore):
    """Objects in dicts, selectors by scan."""

    backend = "dict"

    def __init__(self, resource: str = "pods", **options: Any) -> None:
        """Make an empty store; see `sqlcache.open_store` for the options."""
        super().__init__(resource, **options)
        self._selectors: dict[str, Selector] = {}  # by key, where something tells

    def _put_labels(self, change: Change) -> None:
        """Do nothing: the scan reads labels from the objects."""

    def _drop_labels(self, key: str) -> None:
        """Do nothing."""

    def _put_selector(self, key: str, namespace: str, selector: Selector) -> None:
        self._selectors[key] = selector

    def _drop_selector(self, key: str) -> None:
        self._selectors.pop(key, None)

    def _selecting(self, namespace: str, labels: Mapping[str, str]) -> Objects:
        with self._lock:
            self._check_open()
            members = self._members(namespace)
            objs, selectors = list(members.values()), [self._selectors[key] for key in members]
        found = zip(objs, selectors, strict=True)
        return [obj for obj, selector in found if selector.matches(labels)]

    def _select(self, namespace: str, selector: Selector) -> Objects:
        if selector == NOTHING:
            return []
        objs = self._snapshot(namespace)
        if selector.empty:
            return objs
        matches = selector.matches
        return [obj for obj in objs if matches(obj["metadata"].get("labels"))]

    def _count(self, namespace: str, selector: Selector) -> int:
        return len(self._select(namespace, selector))

    def _explain(self, namespace: str, selector: Selector) -> Explanation:
        size = len(self._snapshot(namespace))
        return Explanation(
            backend=self.backend,
            namespace=namespace,
            selector=str(selector),
            driving="scan",
            estimated=size,
            matched=self._count(namespace, selector),
            residual=tuple(str(requirement) for requirement in selector.requirements),
            plan=(f"scan of {size} objects",),
            sql=(),
        )
