"""Store and Indexer: what every backend promises, in the names of client-go.

A Store maps keys to objects and remembers the resourceVersion it stands at. An Indexer also
answers by index function and by label selector. All backends (`dict`, `dict-index`, `sqlite`,
`sqlite:///file`) implement both and differ in speed and memory only.

Promises
- Every method may be called from any thread. A read sees the state before or after a write or
  batch, never half of it, and returns a new list, in no particular order.
- Returned objects are the cache's own and read-only by convention: copy before you change one.
- A call that raises leaves the store as it was. The one exception is `transaction`, which skips
  operations without a usable key and says which (as client-go does).
- A key, namespace, index value or name that is no string is refused with a TypeError.
- A write from within a write of the same thread, as by what `replace` iterates over, raises
  `ReentrantWriteError`; what it may read there is the state before.
- After `close()` every method but `close` raises `StoreClosedError`.

Index functions
    A function from an object to its index values: a list of none, one or several strings, in
    which repeats count once. It runs at every write of an object and again for all objects when it
    is added later, so it should be quick, and must be pure: same object, same values. It may read
    anything, must not change the object, and must not call the store. If it raises, the write
    fails with `IndexFunctionError` and changes nothing.

The selector function
    Where the objects are such that select others, as services select pods, a function from an
    object to its Selector makes `selecting` answer which of them select given labels. Stores of
    "services" have one; others are given theirs when they are opened. The rules for index functions
    hold for it, with `SelectorFunctionError`.

Elsewhere: choosing a backend (`sqlcache.open_store`), selectors (sqlcache.selectors), read-only
views for controllers (sqlcache.lister).
Source: client-go tools/cache store.go, index.go, thread_safe_store.go, listers.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

from sqlcache.objects import Indexers, Object, Objects
from sqlcache.selectors import SelectorLike

Keys = list[str]


class Transaction(NamedTuple):
    """One operation of a transaction.

    Attributes:
        type: what to do.
        object: the object; for "delete" also a tombstone or an `ExplicitKey`.

    Source: client-go cache.Transaction.
    """

    type: Literal["add", "update", "delete"]
    object: Any


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a backend answers a selector.

    Attributes:
        backend: the backend's name.
        namespace: the namespace asked for, "" for all.
        selector: the selector in canonical form.
        driving: the term that the query starts from, or "scan" where every object is looked at.
        estimated: objects that the driving term yields, from statistics; each is then checked.
        matched: objects that match, counted by running the query.
        residual: terms checked on the objects themselves, in canonical form.
        plan: the steps, in the backend's own words; for SQL the database's query plan.
        sql: the statements behind the plan; empty for backends without SQL.
        unindexed: those of the residual terms whose label key has no index; see `LabelPolicy`.
    """

    backend: str
    namespace: str
    selector: str
    driving: str
    estimated: int
    matched: int
    residual: tuple[str, ...]
    plan: tuple[str, ...]
    sql: tuple[str, ...]
    unindexed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelKeyStats:
    """What one label key costs.

    Attributes:
        key: the label key.
        distinct: number of (namespace, value) pairs.
        objects: number of objects that carry it.
        bytes: bytes of its values and postings, estimated.
        unindexed: why it has no index, "" if it has; see `LabelPolicy`.
        saved_bytes: what an index of it would take, if it has none.
    """

    key: str
    distinct: int
    objects: int
    bytes: int
    unindexed: str = ""
    saved_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ViewStats:
    """What a store's hot views do. Counts are since it was opened.

    Attributes:
        hits: reads answered by a view; under threads some may go uncounted.
        misses: reads that had to ask the database.
        evictions: views that went to make room.
        views: how many there are.
        members: objects in all of them together; one in two views counts twice.
        limit: the most members; their memory is bounded as well.
    """

    hits: int
    misses: int
    evictions: int
    views: int
    members: int
    limit: int


@dataclass(frozen=True, slots=True)
class BodyStats:
    """Packed objects that are stored in one way.

    Attributes:
        dictionary: id of the zstd dictionary that they are compressed with; None: not compressed.
        objects: how many there are.
        bytes: of all of them as they are stored.
        plain_bytes: of all of them as JSON.
    """

    dictionary: int | None
    objects: int
    bytes: int
    plain_bytes: int


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What a store holds.

    Attributes:
        backend: the backend's name.
        resource: the plural resource name the store was opened for.
        resource_version: as `last_store_sync_resource_version()`.
        objects: number of objects.
        namespaces: number of namespaces with objects.
        label_keys: one entry a label key, first those that cost or, without an index, save most.
        database_bytes: bytes of all database pages; None for backends without a database.
        views: of the hot views; None for backends without a database.
        bodies: of packed objects, one entry for each way in which some are stored.
    """

    backend: str
    resource: str
    resource_version: str
    objects: int
    namespaces: int
    label_keys: tuple[LabelKeyStats, ...]
    database_bytes: int | None
    views: ViewStats | None = None
    bodies: tuple[BodyStats, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreSize:
    """How large a store is.

    Attributes:
        objects: number of objects.
        label_terms: number of different (namespace, label key, value); None where labels are not
            indexed.
        database_bytes: as in `StoreStats`.
        keys_over_limit: label keys that lost their index for having too many values; None for
            backends without a limit.
    """

    objects: int
    label_terms: int | None
    database_bytes: int | None
    keys_over_limit: int | None = None


@runtime_checkable
class Store(Protocol):
    """Objects by key, with one resourceVersion. Source: client-go cache.Store."""

    def add(self, obj: Any) -> None:
        """Store an object; one with the same key is replaced. The store's RV becomes its own.

        Args:
            obj: a Kubernetes object as decoded JSON.

        Raises:
            ObjectKeyError: no key can be made of it.
            ObjectError: it cannot be kept, for instance because a label is not a string.
            TransformError: the transform failed.
            IndexFunctionError: an index function failed.
            SelectorFunctionError: the selector function failed.
            DatabaseError: the database refused.
        """

    def update(self, obj: Any) -> None:
        """Do the same as `add`, as in client-go."""

    def delete(self, obj: Any) -> None:
        """Remove an object. An absent key is no error.

        Args:
            obj: the object, a `DeletedFinalStateUnknown` or an `ExplicitKey`. Only an object with
                metadata moves the store's RV.

        Raises:
            ObjectKeyError: no key can be made of it.
        """

    def replace(self, objs: Iterable[Any], resource_version: str) -> None:
        """Make the store hold exactly these objects, in one step for readers.

        Args:
            objs: the new content; of several with one key the last wins.
            resource_version: the RV of the list.

        Raises: as `add`; nothing is replaced then.
        """

    def get(self, obj: Any) -> Object | None:
        """Return the stored object with the key of this one, or None.

        Raises:
            ObjectKeyError: no key can be made of it.
        """

    def get_by_key(self, key: str) -> Object | None:
        """Return the object stored under a key, or None."""

    def get_by_keys(self, keys: Sequence[str]) -> dict[str, Object]:
        """Return the objects stored under keys, by key; keys without one are left out.

        All are of one state, and readers of a store in memory wait until all are found: ask for
        some hundred at a time. client-go has no such method; an informer looks up here what a whole
        batch of events changes.
        """

    def list(self) -> Objects:
        """Return all objects."""

    def list_keys(self) -> Keys:
        """Return all keys."""

    def walk_keys(self) -> Iterator[Keys]:
        """Yield all keys, some at a time; nobody waits until all are read.

        A key that is added or goes meanwhile may be there or not; any other is, once. client-go has
        no such method; a relist of an informer looks here for what is gone.
        """

    def resync(self) -> None:
        """Do nothing, as in client-go; a resync belongs to the informer."""

    def transaction(self, *operations: Transaction) -> None:
        """Apply operations in order under one lock, without the transform.

        Raises:
            TransactionError: some had no usable key and were skipped; the others were applied.
            IndexFunctionError, SelectorFunctionError, ObjectError, DatabaseError: nothing was
                applied.

        The store's RV becomes that of the last operation's object, if it has metadata.
        Source: client-go cache.TransactionStore.
        """

    def bookmark(self, resource_version: str) -> None:
        """Set the store's RV. No comparison: the last writer wins."""

    def last_store_sync_resource_version(self) -> str:
        """Return the store's RV: opaque, "" at first."""

    def set_source(self, source: str) -> None:
        """Note where the content comes from; a file keeps it.

        Args:
            source: any text that names a cluster, a resource and selectors. "" takes it back: what
                is stored may not be all that the source had at the store's RV.

        Raises:
            ValueError: text that no backend can keep.
        """

    def source(self) -> str:
        """Return what `set_source` noted, "" at first.

        If it is not "", a watch of that source may go on from the store's RV.
        """

    def apply(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Apply watch events as one batch: one transaction, one step for readers.

        Args:
            events: decoded watch events, `{"type": "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK",
                "object": {...}}`, in order. The transform runs; the store's RV becomes that of
                the last event.

        Raises:
            ValueError: an event of another type, or malformed.
            as `add`; nothing was applied then.
        """

    def close(self) -> None:
        """Release everything. Calls under way in other threads finish first; twice is harmless."""

    def __enter__(self) -> Self:
        """Return the store; leaving the `with` closes it."""

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the store."""


@runtime_checkable
class Indexer(Store, Protocol):
    """A Store that also answers by index function and label selector.

    Source: client-go cache.Indexer.
    """

    def select(self, namespace: str, selector: SelectorLike) -> Objects:
        """Return the objects of a namespace whose labels match.

        Args:
            namespace: exact name; "" means all namespaces.
            selector: what `sqlcache.selectors.as_selector` takes.

        Raises:
            SelectorError: the selector is not valid.

        Source: client-go cache.ListAll, ListAllByNamespace.
        """

    def selecting(self, namespace: str, labels: Mapping[str, str] | None) -> Objects:
        """Return the objects of a namespace whose own selector matches labels.

        Args:
            namespace: exact name; "" means all namespaces.
            labels: those of the object that may be selected; None is none, which selectors without
                a positive term match.

        Raises:
            NoSelectorsError: the store has no selector function.
            SelectorFunctionError: it failed on an object that another process put into the file.
            TypeError: the labels are no mapping from strings to strings.

        Source: k8s.io/endpointslice util getServicesForPod.
        """

    def count(self, namespace: str, selector: SelectorLike) -> int:
        """Return the number of objects that `select` would return."""

    def explain(self, namespace: str, selector: SelectorLike) -> Explanation:
        """Tell how `select` answers this, running it once."""

    def stats(self) -> StoreStats:
        """Tell what the store holds and which label keys cost most. Reads everything: slow."""

    def size(self) -> StoreSize:
        """Tell how large the store is, for monitoring. Reads no objects; counts the terms."""

    def index(self, index_name: str, obj: Any) -> Objects:
        """Return the objects that share an index value with this one.

        Args:
            index_name: a registered index function, which runs on `obj`.
            obj: need not be stored.

        Raises:
            IndexNotFoundError: no such index function.
            Exception: whatever the index function raises on `obj`.
        """

    def by_index(self, index_name: str, value: str) -> Objects:
        """Return the objects with an index value.

        Raises:
            IndexNotFoundError: no such index function.
        """

    def index_keys(self, index_name: str, value: str) -> Keys:
        """Return the keys of the objects with an index value, sorted.

        Raises:
            IndexNotFoundError: no such index function.
        """

    def list_index_func_values(self, index_name: str) -> Keys:
        """Return the values of an index that some object has; [] for an unknown index."""

    def get_indexers(self) -> dict[str, Any]:
        """Return a copy of the registered index functions by name."""

    def add_indexers(self, indexers: Indexers) -> None:
        """Register index functions; objects already stored are indexed.

        Raises:
            IndexerConflictError: a name is in use; none was added.
            IndexFunctionError: one failed on a stored object; none was added.
        """
