"""What all backends share: keys, transform, validation, batches and the store's RV.

A write is worked out in full (`Change` values: key, object, labels, index values) before the
backend sees it, so bad input cannot leave half of it behind. A backend only commits changes and
reads.

Elsewhere: what the methods promise (store.api), the commits (store.scan, indexed, sqlite).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, final

from sqlcache.errors import (
    BackendError,
    IndexerConflictError,
    IndexFunctionError,
    IndexNotFoundError,
    NoSelectorsError,
    ObjectError,
    ObjectKeyError,
    SelectorFunctionError,
    SqlcacheError,
    StoreClosedError,
    TransactionError,
    TransformError,
)
from sqlcache.objects import (
    Indexers,
    IndexFunc,
    KeyFunc,
    Object,
    Objects,
    TransformFunc,
    deletion_handling_meta_namespace_key_func,
    metadata,
    resource_version,
)
from sqlcache.selectors import (
    Selector,
    SelectorFunc,
    SelectorLike,
    as_selector,
    service_selector,
)
from sqlcache.store._mutation import MutationDetector
from sqlcache.store._write_lock import WriteLock
from sqlcache.store.api import Explanation, Keys, StoreSize, StoreStats, Transaction

IndexValues = dict[str, tuple[str, ...]]
Selectors = dict[str, tuple[str, Selector] | None]  # by key: namespace and selector; None: gone

# By resource; others are declared by whoever opens the store.
SELECTOR_FUNCS: Mapping[str, SelectorFunc] = {"services": service_selector}


KEYS_AT_ONCE = 1_000  # that walk_keys yields


class Change(NamedTuple):
    """One key's new state.

    Attributes:
        key: the object's key.
        obj: the object, or None: it is deleted.
        namespace: its namespace; "" when deleted.
        labels: its labels; empty when deleted.
        index_values: values by index name, without repeats; empty when deleted.
        label_text: namespace and labels as one text, for digests; "" when deleted.
    """

    key: str
    obj: Object | None
    namespace: str
    labels: Mapping[str, str]
    index_values: IndexValues
    label_text: str


class BaseStore(ABC):
    """Implements store.api.Indexer on top of a handful of backend methods."""

    backend: str  # the name that open_store knows

    def __init__(
        self,
        resource: str = "pods",
        *,
        key_func: KeyFunc = deletion_handling_meta_namespace_key_func,
        indexers: Indexers | None = None,
        transform: TransformFunc | None = None,
        selector_func: SelectorFunc | None = None,
        detect_mutation: bool = False,
    ) -> None:
        self.resource = _checked_resource(resource)
        self._key_func = key_func
        self._transform = transform
        self._indexers = _checked_indexers(indexers or {})
        self._selector_func = selector_func or SELECTOR_FUNCS.get(resource)
        self._write_lock = WriteLock()
        self._detector = MutationDetector(key_func) if detect_mutation else None
        self._closed = False

    # What a backend implements. Writes come with self._write_lock held.

    @abstractmethod
    def _commit(self, changes: Sequence[Change], rv: str | None) -> None:
        """Apply changes, at most one per key, and set the RV unless None, in one step."""

    @abstractmethod
    def _commit_replace(self, changes: Iterable[Change], rv: str) -> None:
        """Make the content exactly these changes, in one step; of one key, the last wins.

        Taking a change may raise: then nothing is replaced.
        """

    @abstractmethod
    def _commit_indexers(self, indexers: Indexers, values: Mapping[str, IndexValues]) -> None:
        """Add index functions that are new, with their values by key."""

    @abstractmethod
    def _items(self) -> Iterable[tuple[str, Object]]:
        """Return all (key, object) pairs, for new index functions."""

    @abstractmethod
    def _get_by_key(self, key: str) -> Object | None: ...

    @abstractmethod
    def _get_by_keys(self, keys: Sequence[str]) -> dict[str, Object]: ...

    @abstractmethod
    def _list(self) -> Objects: ...

    @abstractmethod
    def _list_keys(self) -> Keys: ...

    def _walk_keys(self) -> Iterator[Keys]:
        keys = self._list_keys()
        while keys:
            yield keys[-KEYS_AT_ONCE:]
            del keys[-KEYS_AT_ONCE:]  # the fewer, the less for the garbage collector to go through

    @abstractmethod
    def _select(self, namespace: str, selector: Selector) -> Objects: ...

    @abstractmethod
    def _count(self, namespace: str, selector: Selector) -> int: ...

    @abstractmethod
    def _selecting(self, namespace: str, labels: Mapping[str, str]) -> Objects:
        """Return the objects whose selector matches. There is a selector function."""

    @abstractmethod
    def _explain(self, namespace: str, selector: Selector) -> Explanation: ...

    @abstractmethod
    def _stats(self) -> StoreStats: ...

    @abstractmethod
    def _size(self) -> StoreSize: ...

    @abstractmethod
    def _by_index(self, index_name: str, values: Sequence[str]) -> Objects:
        """Return the objects with any of the values, each once."""

    @abstractmethod
    def _index_keys(self, index_name: str, value: str) -> Keys: ...

    @abstractmethod
    def _index_values(self, index_name: str) -> Keys: ...

    @abstractmethod
    def _resource_version(self) -> str: ...

    @abstractmethod
    def _source(self) -> str: ...

    @abstractmethod
    def _set_source(self, source: str) -> None: ...

    @abstractmethod
    def _close(self) -> None:
        """Release everything; comes once."""

    # Writes

    def add(self, obj: Any) -> None:
        with self._write_lock.turn():
            self._check_open()
            change = self._put(self._key(obj), self._transformed(obj))
            self._commit([*self._watched([change])], resource_version(change.obj))

    def update(self, obj: Any) -> None:
        self.add(obj)

    def delete(self, obj: Any) -> None:
        with self._write_lock.turn():
            self._check_open()
            self._commit([_deletion(self._key(obj))], _rv_if_meta(obj))

    def replace(self, objs: Iterable[Any], resource_version: str) -> None:
        with self._write_lock.turn():
            self._check_open()
            changes = (self._put(self._key(obj), self._transformed(obj)) for obj in objs)
            self._commit_replace(self._watched(changes), _checked_rv(resource_version))

    def apply(self, events: Iterable[Mapping[str, Any]]) -> None:
        with self._write_lock.turn():
            self._check_open()
            changes: dict[str, Change] = {}
            last = None
            for event in events:
                kind, last = _event(event)
                if kind == "BOOKMARK":
                    continue
                key = self._key(last)
                changes[key] = (
                    _deletion(key) if kind == "DELETED" else self._put(key, self._transformed(last))
                )
            if last is not None:
                self._commit([*self._watched(changes.values())], resource_version(last))

    def transaction(self, *operations: Transaction) -> None:
        with self._write_lock.turn():
            self._check_open()
            changes: dict[str, Change] = {}
            applied: list[int] = []
            errors: list[SqlcacheError] = []
            for position, (kind, obj) in enumerate(operations):
                if kind not in ("add", "update", "delete"):
                    raise ValueError(f"unknown transaction type {kind!r}")
                try:
                    key = self._key(obj)
                except ObjectKeyError as error:
                    errors.append(error)
                    continue
                changes[key] = _deletion(key) if kind == "delete" else self._put(key, obj)
                applied.append(position)
            if applied:
                rv = _rv_if_meta(operations[applied[-1]].object)
                self._commit([*self._watched(changes.values())], rv)
        if errors:
            raise TransactionError(applied, len(operations), errors)

    def bookmark(self, resource_version: str) -> None:
        with self._write_lock.turn():
            self._check_open()
            self._commit([], _checked_rv(resource_version))

    def set_source(self, source: str) -> None:
        if not isinstance(source, str):
            raise _not_text("source", source)
        if reason := unsound(source):
            raise ValueError(f"source {reason}: {source!r:.200}")
        with self._write_lock.turn():
            self._check_open()
            self._set_source(source)

    def add_indexers(self, indexers: Indexers) -> None:
        with self._write_lock.turn():
            self._check_open()
            indexers = _checked_indexers(indexers)
            conflicts = [name for name in indexers if name in self._indexers]
            if conflicts:
                raise IndexerConflictError(conflicts)
            values = {key: index_values(indexers, key, obj) for key, obj in self._items()}
            self._commit_indexers(indexers, values)
            self._indexers = {**self._indexers, **indexers}

    def resync(self) -> None:
        self._check_open()

    # Reads

    def get(self, obj: Any) -> Object | None:
        return self.get_by_key(self._key(obj))

    def get_by_key(self, key: str) -> Object | None:
        self._check_argument("key", key)
        found = self._get_by_key(key)
        if found is not None and self._detector:
            self._detector.check([found])
        return found

    def get_by_keys(self, keys: Sequence[str]) -> dict[str, Object]:
        self._check_open()
        for key in keys:
            if not isinstance(key, str):
                raise _not_text("key", key)
        found = self._get_by_keys(keys)
        self._checked([*found.values()])
        return found

    def list_keys(self) -> Keys:
        self._check_open()
        return self._list_keys()

    def walk_keys(self) -> Iterator[Keys]:
        self._check_open()
        return self._walk_keys()

    def select(self, namespace: str, selector: SelectorLike) -> Objects:
        self._check_argument("namespace", namespace)
        return self._checked(self._select(namespace, as_selector(selector)))

    def selecting(self, namespace: str, labels: Mapping[str, str] | None) -> Objects:
        self._check_argument("namespace", namespace)
        if self._selector_func is None:
            raise NoSelectorsError(self.resource)
        return self._checked(self._selecting(namespace, _checked_labels(labels)))

    def count(self, namespace: str, selector: SelectorLike) -> int:
        self._check_argument("namespace", namespace)
        return self._count(namespace, as_selector(selector))

    def explain(self, namespace: str, selector: SelectorLike) -> Explanation:
        self._check_argument("namespace", namespace)
        return self._explain(namespace, as_selector(selector))

    def stats(self) -> StoreStats:
        self._check_open()
        return self._stats()

    def size(self) -> StoreSize:
        self._check_open()
        return self._size()

    def index(self, index_name: str, obj: Any) -> Objects:
        values = self._index_func(index_name)(obj)
        return self._checked(self._by_index(index_name, _checked_values(values)))

    def by_index(self, index_name: str, value: str) -> Objects:
        self._index_func(index_name)
        self._check_argument("index value", value)
        return self._checked(self._by_index(index_name, (value,)))

    def index_keys(self, index_name: str, value: str) -> Keys:
        self._index_func(index_name)
        self._check_argument("index value", value)
        return sorted(self._index_keys(index_name, value))

    def list_index_func_values(self, index_name: str) -> Keys:
        self._check_open()
        return self._index_values(index_name) if index_name in self._indexers else []

    def get_indexers(self) -> dict[str, IndexFunc]:
        self._check_open()
        return dict(self._indexers)

    def last_store_sync_resource_version(self) -> str:
        self._check_open()
        return self._resource_version()

    def source(self) -> str:
        self._check_open()
        return self._source()

    # Last of the reads: its name hides the builtin in the class body from here on.
    def list(self) -> Objects:
        self._check_open()
        return self._checked(self._list())

    # Life

    @final
    def close(self) -> None:
        with self._write_lock.turn():
            if not self._closed:
                self._closed = True
                self._close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Working a write out

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError

    def _check_argument(self, what: str, value: Any) -> None:
        """Check that the store is open and an argument is text: in one call, for it comes often."""
        if self._closed:
            raise StoreClosedError
        if not isinstance(value, str):
            raise _not_text(what, value)

    def _key(self, obj: Any) -> str:
        try:
            key = self._key_func(obj)
        except Exception as error:
            raise ObjectKeyError(obj, str(error)) from error
        if not isinstance(key, str):
            raise ObjectKeyError(obj, f"the key function returned no string: {key!r:.200}")
        return key

    def _transformed(self, obj: Any) -> Any:
        if self._transform is None:
            return obj
        try:
            return self._transform(obj)
        except Exception as error:
            raise TransformError(obj, str(error)) from error

    def _put(self, key: str, obj: Any) -> Change:
        read = metadata(obj).get
        namespace, rv, labels = read("namespace"), read("resourceVersion"), read("labels")
        if namespace is None:
            namespace = ""
        if labels is None:
            labels = {}
        text = _checked_texts(key, namespace, "" if rv is None else rv, labels)
        values = index_values(self._indexers, key, obj) if self._indexers else {}
        return Change(key, obj, namespace, labels, values, text)

    def _selectors_of(self, changes: Iterable[Change]) -> Selectors:
        """Return what objects select from now on; empty where nothing tells.

        Raises:
            SelectorFunctionError: the function failed on one.
        """
        func = self._selector_func
        if func is None:
            return {}
        return {
            change.key: None
            if change.obj is None
            else (change.namespace, selector_of(func, change.key, change.obj))
            for change in changes
        }

    def _index_func(self, index_name: str) -> IndexFunc:
        self._check_open()
        try:
            return self._indexers[index_name]
        except KeyError:
            raise IndexNotFoundError(index_name) from None

    def _watched(self, changes: Iterable[Change]) -> Iterable[Change]:
        detector = self._detector
        if detector is None:
            return changes

        def noted() -> Iterator[Change]:
            for change in changes:
                if change.obj is not None:
                    detector.watch(change.key, change.obj)
                yield change

        return noted()

    def _checked(self, objs: Objects) -> Objects:
        if self._detector:
            self._detector.check(objs)
        return objs


def _deletion(key: str) -> Change:
    return Change(key, None, "", {}, {}, "")


def _rv_if_meta(obj: Any) -> str | None:
    has_meta = isinstance(obj, dict) and isinstance(obj.get("metadata"), dict)
    return resource_version(obj) if has_meta else None


def _checked_rv(rv: str) -> str:
    if not isinstance(rv, str):
        raise TypeError(f"a resourceVersion is a string, not {rv!r:.200}")
    if reason := unsound(rv):
        raise ObjectError(rv, f"resourceVersion {reason}: {rv!r:.200}")
    return rv


def _event(event: Mapping[str, Any]) -> tuple[str, Any]:
    if not isinstance(event, dict) and not isinstance(event, Mapping):  # the first is told at once
        raise ValueError(f"a watch event is a mapping, not {event!r:.200}")
    kind, obj = event.get("type"), event.get("object")
    if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
        raise ValueError(f"a store takes no watch event of type {kind!r:.200}")
    if kind in ("DELETED", "BOOKMARK"):
        resource_version(obj)
    else:
        metadata(obj)
    return kind, obj


def label_text(namespace: str, labels: Mapping[str, str]) -> str:
    """Return a text that tells these labels, in this order, from all others: none has a NUL."""
    return "\0".join((namespace, *labels, *labels.values()))


def _checked_texts(key: str, namespace: Any, rv: Any, labels: Any) -> str:
    """Return the label text; check that key, namespace, RV and labels are ones that all can keep.

    JSON on its way into SQLite stops at NUL, and UTF-8 has no lone surrogates. The API server
    accepts neither, so no backend does.
    """
    text = ""
    try:
        text = label_text(namespace, labels)
        others = key + rv
        if not (text.isascii() and others.isascii()):
            (text + others).encode()
        sound = text.count("\0") == 2 * len(labels) and "\0" not in others
    except (AttributeError, TypeError, UnicodeEncodeError):
        sound = False
    if not sound:  # one look at all is fast; now find the one
        if not isinstance(labels, dict):
            raise ObjectError(labels, f"object {key!r}: metadata.labels is not a mapping")
        _check_text(key, "key", key)
        _check_text(key, "namespace", namespace)
        _check_text(key, "resourceVersion", rv)
        for name, value in labels.items():
            _check_text(key, "label key", name)
            _check_text(key, f"value of label {name!r:.200}", value)
    return text


def _check_text(key: str, what: str, text: Any) -> None:
    if not isinstance(text, str):
        raise ObjectError(text, f"object {key!r}: {what} is not a string: {text!r:.200}")
    if reason := unsound(text):
        raise ObjectError(text, f"object {key!r}: {what} {reason}: {text!r:.200}")


def unsound(text: str) -> str | None:
    """Return why no backend can keep a text, or None."""
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        return "is not valid Unicode"
    return "contains NUL" if "\0" in text else None


def _not_text(what: str, value: Any) -> TypeError:
    return TypeError(f"{what} is a string, not {value!r:.200}")


def _checked_resource(resource: str) -> str:
    if not isinstance(resource, str):
        raise _not_text("resource", resource)
    if reason := unsound(resource):
        raise BackendError(f"resource {reason}: {resource!r:.200}")
    return resource


def _checked_indexers(indexers: Indexers) -> dict[str, IndexFunc]:
    """Return a copy of index functions; their names are text that every backend can keep."""
    for name in indexers:
        if not isinstance(name, str):
            raise _not_text("name of an index", name)
        if reason := unsound(name):
            raise ValueError(f"name of an index {reason}: {name!r:.200}")
    return dict(indexers)


def _checked_labels(labels: Mapping[str, str] | None) -> Mapping[str, str]:
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise TypeError(f"labels are a mapping, not {labels!r:.200}")
    for text in (*labels, *labels.values()):
        if not isinstance(text, str):
            raise TypeError(f"label keys and values are strings, not {text!r:.200}")
    return labels


def _checked_values(values: Any) -> tuple[str, ...]:
    distinct = () if isinstance(values, str) else tuple(dict.fromkeys(values))
    if isinstance(values, str) or not all(isinstance(value, str) for value in distinct):
        raise TypeError(f"an index function returns a list of strings, not {values!r:.200}")
    return distinct


def index_values(indexers: Indexers, key: str, obj: Object) -> IndexValues:
    """Return an object's index values.

    Raises:
        IndexFunctionError: an index function failed.
    """
    values = {}
    for name, index_func in indexers.items():
        try:
            values[name] = _checked_values(index_func(obj))
            for value in values[name]:
                _check_text(key, f"value of index {name!r}", value)
        except Exception as error:
            raise IndexFunctionError(key, name, str(error)) from error
    return values


def selector_of(func: SelectorFunc, key: str, obj: Object) -> Selector:
    """Return what an object selects.

    Raises:
        SelectorFunctionError: the function failed.
    """
    try:
        selector = func(obj)
        if not isinstance(selector, Selector):
            raise TypeError(f"a selector function returns a Selector, not {selector!r:.200}")
    except Exception as error:
        raise SelectorFunctionError(key, str(error)) from error
    return selector
