"""Two models of client-go's indexer, small enough to be checked by reading.

`ClientGo` does what client-go does, also where an index function fails: client-go panics then, with
the object stored and its indexes half done. `Careful` differs in exactly that: a write that fails
changes nothing, and what is no API object is refused. Careful is what this package promises, so it
tells what the vectors would say after a panic; ClientGo proves that the difference is no other.

Both take the calls of `sqlcache.store.api.Indexer` that the vectors make, and raise its errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlcache.errors import (
    IndexerConflictError,
    IndexFunctionError,
    IndexNotFoundError,
    ObjectError,
    ObjectKeyError,
    TransactionError,
)
from sqlcache.objects import (
    IndexFunc,
    KeyFunc,
    Object,
    labels_of,
    metadata,
    object_name,
    resource_version,
)
from sqlcache.selectors import SelectorLike, as_selector
from sqlcache.store.api import Transaction

Objects = list[Object]
Keys = list[str]


class UnspecifiedError(Exception):
    """client-go keeps something here that the vectors do not describe."""


class Careful:
    """An indexer that works everything out before it changes anything, and scans."""

    def __init__(self, key_func: KeyFunc, indexers: Mapping[str, IndexFunc]) -> None:
        self.key_func, self.indexers = key_func, dict(indexers)
        self.items: dict[str, Any] = {}
        self.rv = ""

    # Writes

    def add(self, obj: Any) -> None:
        self.write([(self.key(obj), obj)], lambda: self.moved_by(obj))

    update = add

    def delete(self, obj: Any) -> None:
        self.write([(self.key(obj), None)], lambda: self.moved_by(obj))

    def replace(self, objs: Iterable[Any], resource_version: str) -> None:
        items = {self.key(obj): obj for obj in objs}
        for key, obj in items.items():
            self.check(key, obj)
        self.items, self.rv = items, resource_version

    def transaction(self, *operations: Transaction) -> None:
        changes, applied, errors = [], [], []
        for position, (kind, obj) in enumerate(operations):
            try:
                changes.append((self.key(obj), None if kind == "delete" else obj))
            except ObjectKeyError as error:
                errors.append(error)
            else:
                applied.append(position)
        if applied:
            last = operations[applied[-1]].object
            self.write(changes, lambda: self.moved_by(last))
        if errors:
            raise TransactionError(applied, len(operations), errors)

    def bookmark(self, resource_version: str) -> None:
        self.rv = resource_version

    def add_indexers(self, indexers: Mapping[str, IndexFunc]) -> None:
        if taken := [name for name in indexers if name in self.indexers]:
            raise IndexerConflictError(taken)
        for key, obj in self.items.items():
            for name, index_func in indexers.items():
                values_of(name, index_func, key, obj)
        self.indexers.update(indexers)

    def resync(self) -> None:
        pass

    def write(self, changes: list[tuple[str, Any]], finish: Callable[[], None]) -> None:
        """Apply changes, None deletes, then finish."""
        for key, obj in changes:
            if obj is not None:
                self.check(key, obj)
        for key, obj in changes:
            self.items.pop(key, None)
            if obj is not None:
                self.items[key] = obj
        finish()

    def check(self, key: str, obj: Any) -> None:
        metadata(obj)
        for name, index_func in self.indexers.items():
            values_of(name, index_func, key, obj)

    def moved_by(self, obj: Any) -> None:
        if isinstance(obj, dict):
            self.rv = resource_version(obj)

    def key(self, obj: Any) -> str:
        try:
            return self.key_func(obj)
        except ObjectError as error:
            raise ObjectKeyError(obj, str(error)) from error

    # Reads

    def list(self) -> Objects:
        return list(self.items.values())

    def list_keys(self) -> Keys:
        return [*self.items]

    def get(self, obj: Any) -> Object | None:
        return self.items.get(self.key(obj))

    def get_by_key(self, key: str) -> Object | None:
        return self.items.get(key)

    def last_store_sync_resource_version(self) -> str:
        return self.rv

    def get_indexers(self) -> dict[str, IndexFunc]:
        return dict(self.indexers)

    def index(self, index_name: str, obj: Any) -> Objects:
        values = self.index_func(index_name)(obj)
        found = {key for value in values for key in self.keys_of(index_name, value)}
        return [self.items[key] for key in found]

    def by_index(self, index_name: str, value: str) -> Objects:
        return [self.items[key] for key in self.index_keys(index_name, value)]

    def index_keys(self, index_name: str, value: str) -> Keys:
        self.index_func(index_name)
        return sorted(self.keys_of(index_name, value))

    def list_index_func_values(self, index_name: str) -> Keys:
        if index_name not in self.indexers:
            return []
        index_func = self.indexers[index_name]
        return [*{value for obj in self.items.values() for value in index_func(obj)}]

    def select(self, namespace: str, selector: SelectorLike) -> Objects:
        matches = as_selector(selector).matches
        return [
            obj
            for obj in self.items.values()
            if namespace in ("", object_name(obj).namespace) and matches(labels_of(obj))
        ]

    def index_func(self, index_name: str) -> IndexFunc:
        if index_name not in self.indexers:
            raise IndexNotFoundError(index_name)
        return self.indexers[index_name]

    def keys_of(self, index_name: str, value: str) -> Keys:
        index_func = self.indexers[index_name]
        return [key for key, obj in self.items.items() if value in index_func(obj)]


class ClientGo(Careful):
    """client-go: each object is stored first and then filed under each index in turn.

    Source: client-go tools/cache thread_safe_store.go.
    """

    def __init__(self, key_func: KeyFunc, indexers: Mapping[str, IndexFunc]) -> None:
        super().__init__(key_func, indexers)
        self.indices: dict[str, dict[str, set[str]]] = {}

    def replace(self, objs: Iterable[Any], resource_version: str) -> None:
        self.items = {self.key(obj): obj for obj in objs}
        self.rv, self.indices = resource_version, {}
        for key, obj in self.items.items():
            self.file(key, None, obj)

    def add_indexers(self, indexers: Mapping[str, IndexFunc]) -> None:
        if taken := [name for name in indexers if name in self.indexers]:
            raise IndexerConflictError(taken)
        self.indexers.update(indexers)
        for key, obj in self.items.items():
            for name in indexers:
                self.file_under(name, key, None, obj)

    def write(self, changes: list[tuple[str, Any]], finish: Callable[[], None]) -> None:
        for key, obj in changes:
            old = self.items.get(key)
            if obj is not None:
                if not isinstance(obj, dict):
                    raise UnspecifiedError
                self.items[key] = obj
                self.file(key, old, obj)
            elif old is not None:
                self.file(key, old, None)
                del self.items[key]
        finish()

    def file(self, key: str, old: Any, new: Any) -> None:
        for name in self.indexers:
            self.file_under(name, key, old, new)

    def file_under(self, name: str, key: str, old: Any, new: Any) -> None:
        index_func = self.indexers[name]
        before = [] if old is None else values_of(name, index_func, key, old)
        after = [] if new is None else values_of(name, index_func, key, new)
        index = self.indices.setdefault(name, {})
        for value in before:
            index.get(value, set()).discard(key)
            if not index.get(value):
                index.pop(value, None)
        for value in after:
            index.setdefault(value, set()).add(key)

    def list_index_func_values(self, index_name: str) -> Keys:
        return [*self.indices.get(index_name, {})]

    def keys_of(self, index_name: str, value: str) -> Keys:
        return [*self.indices.get(index_name, {}).get(value, ())]


def values_of(name: str, index_func: IndexFunc, key: str, obj: Any) -> Keys:
    """Return the index values of an object.

    Raises:
        IndexFunctionError: the function failed.
    """
    try:
        return index_func(obj)
    except ValueError as error:
        raise IndexFunctionError(key, name, str(error)) from error
