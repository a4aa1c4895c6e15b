"""`dict` backend: client-go's store. A selector looks at every object of the namespace.

The namespace's objects are collected under the lock; matching runs afterwards, unlocked. This is
the model that every other backend is compared with.

Source: client-go tools/cache thread_safe_store.go, listers.go (ListAll, ListAllByNamespace).
"""

from __future__ import annotations

from sqlcache.objects import Objects
from sqlcache.selectors import NOTHING, Selector
from sqlcache.store._base import Change
from sqlcache.store._memory import MemoryStore
from sqlcache.store.api import Explanation


class DictStore(MemoryStore):
    """Objects in dicts, selectors by scan."""

    backend = "dict"

    def _put_labels(self, change: Change) -> None:
        """Do nothing: the scan reads labels from the objects."""

    def _drop_labels(self, key: str) -> None:
        """Do nothing."""

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
