"""Where the SQL backends keep objects, and what each of them is indexed under.

`LiveShelf`, here, holds the parsed objects that callers gave, as client-go does; the database holds
the label index alone. `PackedShelf` (packed) keeps objects as bytes in rows of their own.

Promises
- What a shelf returns is the state that the caller's `query` sees.
- Objects come back as they were given: `labels: {}` stays apart from no labels.

Elsewhere: which objects (selection), when they change (writer).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

from sqlcache.objects import Object, Objects, labels_of
from sqlcache.store._base import Change
from sqlcache.store._sql.counted import Query, Sequences, Statement
from sqlcache.store._sql.members import LiveMembers, Members
from sqlcache.store._sql.object_rows import Batch, Filing, Row, Stored
from sqlcache.store._sql.terms import FINGERPRINT_BYTES, Scope, fingerprint

Matches = Callable[[Mapping[str, str]], bool]  # tells whether labels match


class Writing(NamedTuple):
    """What writes objects.

    Attributes:
        columns: of what writes the batch (batch_trigger).
        before, after: statements run before and after it.
    """

    columns: Mapping[str, Any]
    before: Sequence[Statement] = ()
    after: Sequence[Statement] = ()


class Shelf(ABC):
    """Objects by id, for one resource.

    Attributes:
        members: what hot views read; what `follow` prepares is to be shown there after it.
        shared: callers have the very objects that are kept, and may have changed them.
        digest_bytes: the length of digests.
    """

    members: Members
    shared: bool
    digest_bytes: int

    @abstractmethod
    def start(self, query: Query, resource_id: int) -> None:
        """Take in what the database has for the shelf to go on with.

        Raises:
            CompressedError: objects are compressed, and there is no library.
        """

    @abstractmethod
    def rows(self, changes: Iterable[Change]) -> Iterator[Row]:
        """Work changes out as far as possible without the database.

        Raises:
            ObjectError: an object cannot be encoded.
        """

    @abstractmethod
    def digest(self, label_text: str, index_values: Mapping[str, tuple[str, ...]]) -> bytes:
        """Return bytes that tell equal terms in equal order from others, while it keeps them."""

    @abstractmethod
    def find(self, query: Query, resource_id: int, keys: Sequence[str]) -> list[Filing | None]:
        """Return what is stored under keys, in their order; None under one that is not there."""

    @abstractmethod
    def find_ids(self, query: Query, ids: Sequence[int]) -> list[Stored]:
        """Return what is stored under ids; those not found are left out."""

    @abstractmethod
    def stored(self, query: Query, ids: Sequence[int]) -> dict[int, Object]:
        """Return objects by id; those not found are left out."""

    @abstractmethod
    def writing(
        self,
        query: Query,
        batch: Batch,
        scope_ids: Mapping[Scope, int],
        sequences: Sequences,
        resource_id: int,
    ) -> Writing:
        """Return what writes a batch's objects to the database.

        Args:
            batch: the objects.
            scope_ids: the id of each namespace that an object comes into.
            sequences: gives the version of this write.
            resource_id: of the resource's row.
        """

    @abstractmethod
    def replaced(self, resource_id: int) -> Iterator[Statement]:
        """Yield what remains to be done when all objects were written anew, in one transaction."""

    @abstractmethod
    def follow(self, batch: Batch) -> Callable[[], None]:
        """Return what is to be called when a batch is committed, while no reader runs."""

    @abstractmethod
    def ids(self, query: Query, resource_id: int) -> list[int]:
        """Return the ids of all objects."""

    @abstractmethod
    def ids_but(
        self, query: Query, resource_id: int, namespace: str, excluded: Collection[int]
    ) -> list[int]:
        """Return the ids of all objects of a namespace, "" being all, but these."""

    @abstractmethod
    def keys(self, query: Query, resource_id: int) -> list[str]:
        """Return the keys of all objects."""

    @abstractmethod
    def keys_of(self, query: Query, ids: Sequence[int]) -> list[str]:
        """Return the keys of objects, in any order."""

    @abstractmethod
    def fetch(self, query: Query, ids: Sequence[int]) -> Objects:
        """Return objects in the order of their ids."""

    @abstractmethod
    def weigh(self, query: Query, ids: Sequence[int]) -> int:
        """Return what holding objects takes, as bytes of their JSON; 0 if they are kept anyway."""

    @abstractmethod
    def matching(
        self, query: Query, ids: Sequence[int], matches: Matches
    ) -> tuple[list[int], Objects]:
        """Return the ids of objects whose labels match, and these objects, in the same order."""

    @abstractmethod
    def everything_but(
        self, query: Query, resource_id: int, namespace: str, excluded: Collection[int]
    ) -> Objects:
        """Return all objects of a namespace, "" being all, but those with these ids."""

    @abstractmethod
    def get(self, query: Query, resource_id: int, key: str) -> Object | None:
        """Return the object with a key, or None."""


class _Filings(dict[str, Filing]):
    """The filings of all objects, by key.

    The garbage collector lets go of a dict without tracked values, and has it back as a young one
    with the next tuple put in, to go through all of it each time. It never lets go of a subclass.
    """


class LiveShelf(Shelf):
    """The parsed objects themselves. The caller holds the database's lock, or is the writer."""

    shared = True
    digest_bytes = FINGERPRINT_BYTES

    def __init__(self) -> None:
        self.members = self._shown = LiveMembers()
        self._by_namespace: dict[str, dict[int, Object]] = {}
        self._filings = _Filings()
        self._keys: dict[int, str] = {}

    def start(self, query: Query, resource_id: int) -> None:
        pass

    def rows(self, changes: Iterable[Change]) -> Iterator[Row]:
        for key, obj, namespace, labels, values, text in changes:
            if obj is None:
                yield Row(key)
            else:
                yield Row(key, fingerprint(text, values), namespace, labels, values, obj)

    def digest(self, label_text: str, index_values: Mapping[str, tuple[str, ...]]) -> bytes:
        return fingerprint(label_text, index_values)

    def find(self, query: Query, resource_id: int, keys: Sequence[str]) -> list[Filing | None]:
        return list(map(self._filings.get, keys))

    def find_ids(self, query: Query, ids: Sequence[int]) -> list[Stored]:
        keys = [self._keys[object_id] for object_id in ids if object_id in self._keys]
        return [Stored(key, *self._filings[key]) for key in keys]

    def stored(self, query: Query, ids: Sequence[int]) -> dict[int, Object]:
        found = self._shown.by_id.get
        return {each: obj for each in ids if (obj := found(each)) is not None}

    def writing(
        self,
        query: Query,
        batch: Batch,
        scope_ids: Mapping[Scope, int],
        sequences: Sequences,
        resource_id: int,
    ) -> Writing:
        return Writing({})

    def replaced(self, resource_id: int) -> Iterator[Statement]:
        return iter(())

    def follow(self, batch: Batch) -> Callable[[], None]:
        return partial(self._follow, batch)

    def _follow(self, batch: Batch) -> None:
        # May be interrupted at any point and called once more: nothing here minds being done twice.
        for stored in batch.leaving:
            self._shown.remove(stored.id)
            self._leave(stored.namespace, stored.id)
            self._keys.pop(stored.id, None)
            self._filings.pop(stored.key, None)
        for object_id, row in batch.fresh:
            self._keys[object_id] = row.key
        for object_id, row in batch.moved:
            before = self._filings[row.key][1]
            if before != row.namespace:
                self._leave(before, object_id)
        for object_id, row in (*batch.fresh, *batch.moved, *batch.refiled):
            stamp = (row.digest or b"") + batch.terms[object_id]
            self._filings[row.key] = (object_id, row.namespace, stamp)
        coming: dict[int, Object] = {}
        members: dict[int, Object] = {}
        namespace: str | None = None
        for object_id, row in (*batch.fresh, *batch.moved, *batch.same):
            if row.namespace != namespace:  # most often, many of one come together
                namespace = row.namespace
                members = self._by_namespace.setdefault(namespace, {})
            members[object_id] = coming[object_id] = row.parsed()
        self._shown.put(coming)

    def ids(self, query: Query, resource_id: int) -> list[int]:
        return list(self._shown.by_id)

    def ids_but(
        self, query: Query, resource_id: int, namespace: str, excluded: Collection[int]
    ) -> list[int]:
        return [each for each in self._members(namespace) if each not in excluded]

    def keys(self, query: Query, resource_id: int) -> list[str]:
        return list(self._filings)

    def keys_of(self, query: Query, ids: Sequence[int]) -> list[str]:
        return [self._keys[object_id] for object_id in ids]

    def fetch(self, query: Query, ids: Sequence[int]) -> Objects:
        by_id = self._shown.by_id
        return [by_id[object_id] for object_id in ids]

    def weigh(self, query: Query, ids: Sequence[int]) -> int:
        return 0

    def matching(
        self, query: Query, ids: Sequence[int], matches: Matches
    ) -> tuple[list[int], Objects]:
        objs = self.fetch(query, ids)
        matched = [matches(labels_of(obj)) for obj in objs]
        return list(compress(ids, matched)), list(compress(objs, matched))

    def everything_but(
        self, query: Query, resource_id: int, namespace: str, excluded: Collection[int]
    ) -> Objects:
        members = self._members(namespace)
        return [obj for object_id, obj in members.items() if object_id not in excluded]

    def get(self, query: Query, resource_id: int, key: str) -> Object | None:
        filing = self._filings.get(key)
        return self._shown.by_id[filing[0]] if filing else None

    def _members(self, namespace: str) -> dict[int, Object]:
        return self._by_namespace.get(namespace, {}) if namespace else self._shown.by_id

    def _leave(self, namespace: str, object_id: int) -> None:
        members = self._by_namespace.get(namespace, {})
        members.pop(object_id, None)
        if not members:
            self._by_namespace.pop(namespace, None)
