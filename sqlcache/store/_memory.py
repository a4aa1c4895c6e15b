"""Objects in Python dicts: what the scanning and the indexed dict store share.

As in client-go's threadSafeMap: the objects by key, by namespace, and one set of keys for each
value of an index function, all behind one lock that is held for the look-up and for building the
result, never while labels are matched.

Unlike client-go, the values that an object was indexed under are remembered, so a caller that
changes a stored object cannot leave stale entries behind.

Elsewhere: answering a selector (store.scan, store.indexed).
Source: client-go tools/cache thread_safe_store.go.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from sqlcache.objects import Indexers, Object, Objects, labels_of
from sqlcache.selectors import Selector
from sqlcache.store._base import BaseStore, Change, IndexValues, Selectors
from sqlcache.store.api import Keys, LabelKeyStats, StoreSize, StoreStats

_POSTING_BYTES = 33  # one entry of a large set: 16 bytes at the usual fill


# What an object was stored under, whatever its caller does to it later: namespace, index values. A
# plain tuple of these leaves the garbage collector's sight; a named one stays.
_Record = tuple[str, IndexValues]


class MemoryStore(BaseStore):
    """A store in dicts; subclasses answer selectors."""

    def __init__(self, resource: str = "pods", **options: Any) -> None:
        super().__init__(resource, **options)
        self._lock = threading.Lock()
        self._rv = self._from = ""
        self._objects: dict[str, Object] = {}
        self._records: dict[str, _Record] = {}
        self._by_namespace: dict[str, dict[str, Object]] = {}
        self._indices: dict[str, dict[str, set[str]]] = {name: {} for name in self._indexers}

    @abstractmethod
    def _put_labels(self, change: Change) -> None:
        """Note the labels of an object that comes or changes. self._lock is held."""

    @abstractmethod
    def _drop_labels(self, key: str) -> None:
        """Forget the labels of an object that goes. self._lock is held."""

    @abstractmethod
    def _put_selector(self, key: str, namespace: str, selector: Selector) -> None:
        """Note what an object selects that comes or changes. self._lock is held."""

    @abstractmethod
    def _drop_selector(self, key: str) -> None:
        """Forget what an object selects that goes. self._lock is held."""

    def _commit(self, changes: Sequence[Change], rv: str | None) -> None:
        selectors = self._selectors_of(changes)
        with self._lock:
            for change in changes:
                if change.obj is None:
                    self._remove(change.key)
                else:
                    self._store(change, change.obj, selectors)
            if rv is not None:
                self._rv = rv

    def _commit_replace(self, changes: Iterable[Change], rv: str) -> None:
        latest = {change.key: change for change in changes}
        selectors = self._selectors_of(latest.values())
        with self._lock:
            for key in self._objects.keys() - latest.keys():
                self._remove(key)
            for change in latest.values():
                if change.obj is not None:
                    self._store(change, change.obj, selectors)
            self._rv = rv

    def _commit_indexers(self, indexers: Indexers, values: Mapping[str, IndexValues]) -> None:
        with self._lock:
            for name in indexers:
                self._indices[name] = {}
            for key, added in values.items():
                namespace, values_before = self._records[key]
                self._index(key, {}, added)
                self._records[key] = (namespace, {**values_before, **added})

    def _store(self, change: Change, obj: Object, selectors: Selectors) -> None:
        key, namespace = change.key, change.namespace
        old = self._records.get(key)
        if old is None:
            self._index(key, {}, change.index_values)
        else:
            old_namespace, old_values = old
            if old_namespace != namespace:
                self._leave_namespace(key, old_namespace)
            if old_values != change.index_values:
                self._index(key, old_values, change.index_values)
        self._objects[key] = obj
        self._records[key] = (namespace, change.index_values)
        self._by_namespace.setdefault(namespace, {})[key] = obj
        self._put_labels(change)
        if selected := selectors.get(key):
            self._put_selector(key, *selected)

    def _remove(self, key: str) -> None:
        record = self._records.pop(key, None)
        if record is not None:
            del self._objects[key]
            namespace, values = record
            self._leave_namespace(key, namespace)
            self._index(key, values, {})
            self._drop_labels(key)
            self._drop_selector(key)

    def _leave_namespace(self, key: str, namespace: str) -> None:
        members = self._by_namespace[namespace]
        del members[key]
        if not members:
            del self._by_namespace[namespace]

    def _index(self, key: str, old: IndexValues, new: IndexValues) -> None:
        for name, values in old.items():
            for value in values:
                keys = self._indices[name][value]
                keys.discard(key)
                if not keys:
                    del self._indices[name][value]
        for name, values in new.items():
            for value in values:
                self._indices[name].setdefault(value, set()).add(key)

    def _members(self, namespace: str) -> dict[str, Object]:
        return self._by_namespace.get(namespace, {}) if namespace else self._objects

    def _snapshot(self, namespace: str) -> Objects:
        with self._lock:
            self._check_open()
            return list(self._members(namespace).values())

    def _items(self) -> Iterable[tuple[str, Object]]:
        with self._lock:
            self._check_open()
            return list(self._objects.items())

    def _get_by_key(self, key: str) -> Object | None:
        with self._lock:
            self._check_open()
            return self._objects.get(key)

    def _get_by_keys(self, keys: Sequence[str]) -> dict[str, Object]:
        with self._lock:
            self._check_open()
            return {key: self._objects[key] for key in keys if key in self._objects}

    def _list_keys(self) -> Keys:
        with self._lock:
            self._check_open()
            return list(self._objects)

    def _list(self) -> Objects:
        return self._snapshot("")

    def _by_index(self, index_name: str, values: Sequence[str]) -> Objects:
        with self._lock:
            self._check_open()
            index = self._indices[index_name]
            if len(values) == 1:
                keys: Iterable[str] = index.get(values[0], ())
            else:
                keys = set(chain.from_iterable(index.get(value, ()) for value in values))
            return [self._objects[key] for key in keys]

    def _index_keys(self, index_name: str, value: str) -> Keys:
        with self._lock:
            self._check_open()
            return list(self._indices[index_name].get(value, ()))

    def _index_values(self, index_name: str) -> Keys:
        with self._lock:
            self._check_open()
            return list(self._indices[index_name])

    def _resource_version(self) -> str:
        with self._lock:
            self._check_open()
            return self._rv

    def _source(self) -> str:
        with self._lock:
            self._check_open()
            return self._from

    def _set_source(self, source: str) -> None:
        with self._lock:
            self._from = source

    def _label_terms(self) -> int | None:
        """Return how many terms are indexed. self._lock is held."""
        return None

    def _size(self) -> StoreSize:
        with self._lock:
            self._check_open()
            return StoreSize(len(self._objects), self._label_terms(), None)

    def _stats(self) -> StoreStats:
        with self._lock:
            self._check_open()
            objs = list(self._objects.values())
            namespaces, rv = len(self._by_namespace), self._rv
        pairs: Counter[tuple[str, str, str]] = Counter()
        for obj in objs:
            namespace = obj["metadata"].get("namespace") or ""
            pairs.update((namespace, key, value) for key, value in labels_of(obj).items())
        keys: dict[str, LabelKeyStats] = {}
        for (_, key, value), count in pairs.items():
            cost = len(value.encode()) + count * _POSTING_BYTES
            seen = keys.get(key, LabelKeyStats(key, 0, 0, 0))
            keys[key] = LabelKeyStats(
                key, seen.distinct + 1, seen.objects + count, seen.bytes + cost
            )
        return StoreStats(
            backend=self.backend,
            resource=self.resource,
            resource_version=rv,
            objects=len(objs),
            namespaces=namespaces,
            label_keys=tuple(sorted(keys.values(), key=lambda stats: (-stats.bytes, stats.key))),
            database_bytes=None,
        )

    def _close(self) -> None:
        with self._lock:
            self._objects, self._records, self._by_namespace, self._indices = {}, {}, {}, {}
