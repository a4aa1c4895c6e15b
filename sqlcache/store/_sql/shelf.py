"""Where the SQL backends keep objects: parsed in the process, or as bytes in their rows.

`LiveShelf` holds what callers gave, as client-go does, and rows have no body. `PackedShelf`
decodes bodies on the way out and keeps a bounded number of decoded objects for callers that read
them again.

Promises
- What a shelf returns is the state that the caller's `query` sees.
- Objects come back as they were given: `labels: {}` stays apart from no labels.

Elsewhere: which objects (selection), when they change (writer).
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import orjson

from sqlcache.errors import ObjectError
from sqlcache.objects import Object, Objects
from sqlcache.store._sql.counted import Query, to_json

if TYPE_CHECKING:
    from sqlcache.store._sql.writer import Plan

_T = TypeVar("_T")

# What would come back as something else is refused instead.
_STRICT = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_BODIES_PER_STATEMENT = 500  # bounds the text that one statement builds, some MB

_IDS_OF_RESOURCE = "SELECT json_group_array(id) FROM object WHERE resource_id = ?"
_IDS_OF_NAMESPACE = (
    "SELECT json_group_array(o.id) FROM scope s CROSS JOIN object o"
    " WHERE s.resource_id = ? AND s.kind = 0 AND s.namespace = ? AND o.scope_id = s.id"
)
_ID_BY_KEY = "SELECT id FROM object WHERE resource_id = ? AND key = ?"
_VERSIONS = (
    "SELECT json_group_array(json_array(o.id, o.version))"
    " FROM json_each(?) j CROSS JOIN object o WHERE o.id = j.value"
)
_BODIES = (
    "SELECT CAST('[' || ifnull(group_concat('[' || o.id || ',' || CAST(o.body AS TEXT) || ']'), '')"
    " || ']' AS BLOB) FROM json_each(?) j CROSS JOIN object o WHERE o.id = j.value"
)


class Shelf(ABC):
    """Objects by id, for one resource."""

    @abstractmethod
    def keep(self, key: str, obj: Object) -> tuple[Object | None, bytes | None]:
        """Return what is kept of an object: itself in the process, or bytes in its row.

        Raises:
            ObjectError: the object cannot be encoded.
        """

    @abstractmethod
    def stored(self, query: Query, ids: Sequence[int]) -> dict[int, Object]:
        """Return objects by id; those not found are left out."""

    @abstractmethod
    def fetch(self, query: Query, ids: Sequence[int]) -> Objects:
        """Return objects in the order of their ids."""

    @abstractmethod
    def everything_but(
        self, query: Query, resource_id: int, namespace: str, excluded: Collection[int]
    ) -> Objects:
        """Return all objects of a namespace, "" being all, but those with these ids."""

    @abstractmethod
    def get(self, query: Query, resource_id: int, key: str) -> Object | None:
        """Return the object with a key, or None."""

    @abstractmethod
    def follow(self, plan: Plan) -> Callable[[], None]:
        """Return what is to be called when a plan is committed, while no reader runs."""


class LiveShelf(Shelf):
    """The parsed objects themselves. The caller holds the database's lock."""

    def __init__(self) -> None:
        self._by_id: dict[int, Object] = {}
        self._by_namespace: dict[str, dict[int, Object]] = {}
        self._places: dict[str, tuple[int, str]] = {}  # id and namespace by key

    def keep(self, key: str, obj: Object) -> tuple[Object | None, bytes | None]:
        return obj, None

    def stored(self, query: Query, ids: Sequence[int]) -> dict[int, Object]:
        return {object_id: self._by_id[object_id] for object_id in ids if object_id in self._by_id}

    def fetch(self, query: Query, ids: Sequence[int]) -> Objects:
        by_id = self._by_id
        return [by_id[object_id] for object_id in ids]

    def everything_but(
        self, query: Query, resource_id: int, namespace: str, excluded: Collection[int]
    ) -> Objects:
        return [
            obj for object_id, obj in self._members(namespace).items() if object_id not in excluded
        ]

    def get(self, query: Query, resource_id: int, key: str) -> Object | None:
        place = self._places.get(key)
        return self._by_id[place[0]] if place else None

    def follow(self, plan: Plan) -> Callable[[], None]:
        return partial(self._commit, plan)

    def _commit(self, plan: Plan) -> None:
        for object_id, key in plan.dropped:
            place = self._places.pop(key, None)
            if place is not None:
                del self._by_id[object_id]
                self._leave(place[1], object_id)
        for object_id, key, namespace, obj in plan.stored:
            if obj is None:
                raise RuntimeError(f"a plan stores nothing under {key!r}")
            place = self._places.get(key)
            if place is None or place[1] != namespace:
                if place is not None:
                    self._leave(place[1], object_id)
                self._places[key] = (object_id, namespace)
            self._by_id[object_id] = obj
            self._by_namespace.setdefault(namespace, {})[object_id] = obj

    def _members(self, namespace: str) -> dict[int, Object]:
        return self._by_namespace.get(namespace, {}) if namespace else self._by_id

    def _leave(self, namespace: str, object_id: int) -> None:
        members = self._by_namespace[namespace]
        del members[object_id]
        if not members:
            del self._by_namespace[namespace]


class PackedShelf(Shelf):
    """Objects as JSON bytes in their rows, behind a bounded number of decoded ones."""

    def __init__(self, hot_objects: int, *, versioned: bool) -> None:
        """Make a shelf.

        Args:
            hot_objects: how many decoded objects are kept at most.
            versioned: compare each decoded object with the version of its row: readers may see
                different states, and other processes may write.
        """
        self._hot = HotObjects(hot_objects)
        self._versioned = versioned

    def keep(self, key: str, obj: Object) -> tuple[Object | None, bytes | None]:
        try:
            return None, orjson.dumps(obj, option=_STRICT)
        except TypeError as error:
            raise ObjectError(obj, f"object {key!r} cannot be encoded as JSON: {error}") from error

    def stored(self, query: Query, ids: Sequence[int]) -> dict[int, Object]:
        return dict(_decoded(query, ids))

    def fetch(self, query: Query, ids: Sequence[int]) -> Objects:
        if self._versioned:
            versions = dict(orjson.loads(query(_VERSIONS, (to_json(ids),))))
        else:
            versions = dict.fromkeys(ids, 0)
        found: dict[int, Object] = {}
        cold = []
        for object_id in ids:
            obj = self._hot.get(object_id, versions[object_id])
            if obj is None:
                cold.append(object_id)
            else:
                found[object_id] = obj
        if cold:
            keep = len(cold) <= self._hot.limit  # a list larger than that would push all others out
            for object_id, obj in _decoded(query, cold):
                found[object_id] = obj
                if keep:
                    self._hot.put(object_id, versions[object_id], obj)
        return [found[object_id] for object_id in ids]

    def everything_but(
        self, query: Query, resource_id: int, namespace: str, excluded: Collection[int]
    ) -> Objects:
        if namespace:
            ids = query(_IDS_OF_NAMESPACE, (resource_id, namespace))
        else:
            ids = query(_IDS_OF_RESOURCE, (resource_id,))
        return self.fetch(query, [each for each in orjson.loads(ids) if each not in excluded])

    def get(self, query: Query, resource_id: int, key: str) -> Object | None:
        object_id = query(_ID_BY_KEY, (resource_id, key))
        return None if object_id is None else self.fetch(query, [object_id])[0]

    def follow(self, plan: Plan) -> Callable[[], None]:
        ids = [object_id for object_id, *_ in plan.stored]
        ids += [object_id for object_id, _ in plan.dropped]
        return partial(self._hot.drop, ids)


class HotObjects:
    """Decoded objects, the longest unused leaving first, give or take half of them.

    Two generations: what is used moves to the young one; when that is half of the limit, the old
    one is forgotten. A hit costs one or two look-ups and no lock.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._young: dict[int, tuple[int, Object]] = {}
        self._old: dict[int, tuple[int, Object]] = {}

    def get(self, object_id: int, version: int) -> Object | None:
        """Return an object if it is here in that version."""
        entry = self._young.get(object_id)
        if entry is None:
            entry = self._old.get(object_id)
            if entry is None:
                return None
            if entry[0] == version:
                self.put(object_id, *entry)
        return entry[1] if entry[0] == version else None

    def put(self, object_id: int, version: int, obj: Object) -> None:
        """Keep an object."""
        if self.limit:
            with self._lock:
                if len(self._young) >= max(1, self.limit // 2):
                    self._old, self._young = self._young, {}
                self._old.pop(object_id, None)
                self._young[object_id] = (version, obj)

    def drop(self, object_ids: Iterable[int]) -> None:
        """Forget objects."""
        with self._lock:
            for object_id in object_ids:
                self._young.pop(object_id, None)
                self._old.pop(object_id, None)


def batched(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Yield lists of at most that size. (itertools.batched comes with Python 3.12.)"""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _decoded(query: Query, ids: Sequence[int]) -> Iterator[tuple[int, Object]]:
    for batch in batched(ids, _BODIES_PER_STATEMENT):
        yield from orjson.loads(query(_BODIES, (to_json(batch),)))
