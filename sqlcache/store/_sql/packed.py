"""Objects as bytes in their rows, JSON or compressed, behind a bounded number of decoded ones.

A body is decoded on the way out; what is read again is found decoded. Decoded objects are checked
against the version of their row wherever somebody else may have written it. They are bounded in
number and in bytes of their JSON: decoded, they take some six times as much.

Elsewhere: what a shelf promises (shelf), the rows (object_rows), compression (dictionaries).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

import orjson

from sqlcache.errors import ObjectError
from sqlcache.objects import Object, Objects, labels_of, resource_version
from sqlcache.store._base import Change, unsound
from sqlcache.store._sql import dictionaries, object_rows
from sqlcache.store._sql.counted import Query, Sequences, Statement, to_json
from sqlcache.store._sql.dictionaries import Dictionaries, StoredBody
from sqlcache.store._sql.members import DecodedMembers
from sqlcache.store._sql.object_rows import Batch, Filing, Row, Stored
from sqlcache.store._sql.shelf import Matches, Shelf, Writing
from sqlcache.store._sql.terms import DIGEST_BYTES, Scope, digest

_T = TypeVar("_T")

OBJECT_BYTES = 8 * 1024  # of JSON, that an object takes of what is kept decoded, on average

# What would come back as something else is refused instead.
_STRICT = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_ENCODED_AT_ONCE = 100  # bounds what their JSON takes before it is compressed
_BODIES_PER_STATEMENT = 500  # bounds the text that one statement builds, some MB

_STORED = "json_array(o.key, o.id, s.namespace, hex(o.digest) || hex(o.terms))"
_FIND = (
    f"SELECT json_group_array({_STORED}) FROM json_each(?) j CROSS JOIN object o CROSS JOIN scope s"
    " WHERE o.key = j.value AND o.resource_id = ? AND s.id = o.scope_id"
)
_FIND_IDS = (
    f"SELECT json_group_array({_STORED}) FROM json_each(?) j CROSS JOIN object o CROSS JOIN scope s"
    " WHERE o.id = j.value AND s.id = o.scope_id"
)
_KEYS = "SELECT json_group_array(key) FROM object WHERE resource_id = ?"
_SOME_KEYS = (
    "SELECT json_group_array(key) FROM"
    " (SELECT key FROM object WHERE resource_id = ? {} ORDER BY key LIMIT ?)"
)
_FIRST_KEYS = _SOME_KEYS.format("")
_NEXT_KEYS = _SOME_KEYS.format("AND key > ?")
_KEYS_OF = (
    "SELECT json_group_array(o.key) FROM json_each(?) j CROSS JOIN object o WHERE o.id = j.value"
)
_IDS = "SELECT json_group_array(id) FROM object WHERE resource_id = ?"
_IDS_OF_NAMESPACE = (
    "SELECT json_group_array(o.id) FROM scope s CROSS JOIN object o"
    " WHERE s.resource_id = ? AND s.kind = 0 AND s.namespace = ? AND o.scope_id = s.id"
)
_ID_BY_KEY = "SELECT id FROM object WHERE resource_id = ? AND key = ?"
_VERSIONS = (
    "SELECT json_group_array(json_array(o.id, o.version))"
    " FROM json_each(?) j CROSS JOIN object o WHERE o.id = j.value"
)
# One line of JSON that tells about the bodies, then the bodies one after the other. The text is not
# looked at on the way, so it may be any bytes.
_BODIES = (
    "SELECT CAST("
    "json_group_array(json_array(o.id, length(o.body), o.dictionary_id, o.plain_bytes))"
    " || char(10) || ifnull(group_concat(CAST(o.body AS TEXT), ''), '') AS BLOB)"
    " FROM json_each(?) j CROSS JOIN object o WHERE o.id = j.value"
)
_BYTES = (
    "SELECT ifnull(sum(ifnull(o.plain_bytes, length(o.body))), 0)"
    " FROM json_each(?) j CROSS JOIN object o WHERE o.id = j.value"
)


class PackedShelf(Shelf):
    """Objects as bytes in their rows."""

    shared = False
    digest_bytes = DIGEST_BYTES

    def __init__(self, hot_objects: int, dictionaries: Dictionaries, *, versioned: bool) -> None:
        """Make a shelf.

        Args:
            hot_objects: how many decoded objects are kept at most; see `HotObjects`.
            dictionaries: what compresses and decompresses objects.
            versioned: compare each decoded object with the version of its row: readers may see
                different states, and other processes may write.
        """
        self.members = DecodedMembers()
        self._hot = HotObjects(hot_objects)
        self._dictionaries = dictionaries
        self._versioned = versioned

    def start(self, query: Query, resource_id: int) -> None:
        self._dictionaries.start(query, resource_id)

    def rows(self, changes: Iterable[Change]) -> Iterator[Row]:
        for some in batched(changes, _ENCODED_AT_ONCE):
            plains = [_json(each.key, each.obj) for each in some if each.obj is not None]
            bodies = iter(self._dictionaries.bodies(plains))
            for key, obj, namespace, labels, values, text in some:
                if obj is not None:
                    body, identity = next(bodies), _identity(obj)
                    terms = digest(text, values)
                    yield Row(key, terms, namespace, labels, values, None, body, identity)
                elif not unsound(key):  # which no store can hold, so it is not there
                    yield Row(key)

    def digest(self, label_text: str, index_values: Mapping[str, tuple[str, ...]]) -> bytes:
        return digest(label_text, index_values)

    def find(self, query: Query, resource_id: int, keys: Sequence[str]) -> list[Filing | None]:
        if not keys:
            return []
        found = dict(_filings(query(_FIND, (to_json(keys), resource_id))))
        return [found.get(key) for key in keys]

    def find_ids(self, query: Query, ids: Sequence[int]) -> list[Stored]:
        if not ids:
            return []
        found = _filings(query(_FIND_IDS, (to_json(ids),)))
        return [Stored(key, *filing) for key, filing in found]

    def stored(self, query: Query, ids: Sequence[int]) -> dict[int, Object]:
        return {object_id: obj for object_id, obj, _ in self._decoded(query, ids)}

    def forget_decoded(self) -> None:
        """Drop all decoded objects."""
        self._hot.clear()

    def writing(
        self,
        query: Query,
        batch: Batch,
        scope_ids: Mapping[Scope, int],
        sequences: Sequences,
        resource_id: int,
    ) -> Writing:
        version = sequences.next("version")
        bodies = [row.body for _, row in (*batch.fresh, *batch.same, *batch.moved)]
        missing = self._dictionaries.missing(query, resource_id, bodies, shared=self._versioned)
        columns = object_rows.columns(batch, scope_ids)
        return Writing(
            {**columns, "version": version, "resource_id": resource_id},
            list(dictionaries.add(missing, version, resource_id)),
            [self._dictionaries.sweep(resource_id)] if missing else (),
        )

    def replaced(self, resource_id: int) -> Iterator[Statement]:
        yield self._dictionaries.sweep(resource_id)

    def follow(self, batch: Batch) -> Callable[[], None]:
        # Not the batch itself: a replace writes many, and would keep all rows until it commits.
        changed = (*batch.same, *batch.moved)
        ids = [object_id for object_id, _ in changed] + [stored.id for stored in batch.leaving]
        used = dictionaries.used(row.body for _, row in (*batch.fresh, *changed))
        return partial(self._follow, ids, [each.id for each in used])

    def _follow(self, ids: Sequence[int], dictionary_ids: Sequence[int]) -> None:
        self._hot.drop(ids)
        self._dictionaries.noted(dictionary_ids)

    def ids(self, query: Query, resource_id: int) -> list[int]:
        ids: list[int] = orjson.loads(query(_IDS, (resource_id,)))
        return ids

    def ids_but(
        self, query: Query, resource_id: int, namespace: str, excluded: Collection[int]
    ) -> list[int]:
        if namespace:
            ids = orjson.loads(query(_IDS_OF_NAMESPACE, (resource_id, namespace)))
        else:
            ids = self.ids(query, resource_id)
        return [each for each in ids if each not in excluded]

    def keys(self, query: Query, resource_id: int) -> list[str]:
        keys: list[str] = orjson.loads(query(_KEYS, (resource_id,)))
        return keys

    def keys_of(self, query: Query, ids: Sequence[int]) -> list[str]:
        keys: list[str] = orjson.loads(query(_KEYS_OF, (to_json(ids),)))
        return keys

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
            for object_id, obj, plain_bytes in self._decoded(query, cold):
                found[object_id] = obj
                if keep:
                    self._hot.put(object_id, versions[object_id], obj, plain_bytes)
        return [found[object_id] for object_id in ids]

    def weigh(self, query: Query, ids: Sequence[int]) -> int:
        size: int = query(_BYTES, (to_json(ids),))
        return size

    def matching(
        self, query: Query, ids: Sequence[int], matches: Matches
    ) -> tuple[list[int], Objects]:
        found: list[int] = []
        objs: Objects = []
        # Many pass by the hot objects, and are let go at once: all would take too much memory.
        many = len(ids) > self._hot.limit
        for batch in batched(ids, _BODIES_PER_STATEMENT):
            read: Iterable[tuple[int, Object]]
            if many:
                read = ((object_id, obj) for object_id, obj, _ in self._decoded(query, batch))
            else:
                read = zip(batch, self.fetch(query, batch), strict=True)
            for object_id, obj in read:
                if matches(labels_of(obj)):
                    found.append(object_id)
                    objs.append(obj)
        return found, objs

    def everything_but(
        self, query: Query, resource_id: int, namespace: str, excluded: Collection[int]
    ) -> Objects:
        return self.fetch(query, self.ids_but(query, resource_id, namespace, excluded))

    def get(self, query: Query, resource_id: int, key: str) -> Object | None:
        object_id = query(_ID_BY_KEY, (resource_id, key))
        return None if object_id is None else self.fetch(query, [object_id])[0]

    def _decoded(self, query: Query, ids: Sequence[int]) -> Iterator[tuple[int, Object, int]]:
        """Yield ids, objects, and the lengths of their JSON in bytes."""
        for batch in batched(ids, _BODIES_PER_STATEMENT):
            found = query(_BODIES, (to_json(batch),))
            start = found.index(b"\n") + 1
            content = memoryview(found)
            found_ids, bodies = [], []
            for object_id, length, dictionary_id, plain_bytes in orjson.loads(content[:start]):
                end = start + length
                found_ids.append(object_id)
                bodies.append(StoredBody(content[start:end], dictionary_id, plain_bytes or length))
                start = end
            objs = self._dictionaries.decoded(query, bodies)
            for object_id, obj, body in zip(found_ids, objs, bodies, strict=True):
                yield object_id, obj, body.plain_bytes


def _identity(obj: Object) -> tuple[str, str]:
    uid = obj["metadata"].get("uid")
    return uid if isinstance(uid, str) else "", resource_version(obj)


def _json(key: str, obj: Object | None) -> bytes:
    try:
        return orjson.dumps(obj, option=_STRICT)
    except TypeError as error:
        raise ObjectError(obj, f"object {key!r} cannot be encoded as JSON: {error}") from error


_Hot = tuple[int, Object, int]  # version, object, bytes of its JSON


class HotObjects:
    """Decoded objects, the longest unused leaving first, give or take half of them.

    Two generations: what is used moves to the young one; when that is half of the limit, the old
    one is forgotten. A hit costs one or two look-ups and no lock.
    """

    def __init__(self, limit: int) -> None:
        """Start empty.

        Args:
            limit: of objects, and of bytes of their JSON in units of 8 KiB.
        """
        self.limit = limit
        self._limit_bytes = limit * OBJECT_BYTES
        self._lock = threading.Lock()
        self._young: dict[int, _Hot] = {}
        self._old: dict[int, _Hot] = {}
        self._young_bytes = 0  # of all that was put into it

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

    def put(self, object_id: int, version: int, obj: Object, plain_bytes: int) -> None:
        """Keep an object, unless it is larger than half of all that is kept."""
        half = self._limit_bytes // 2
        if plain_bytes <= half:
            with self._lock:
                full = len(self._young) >= max(1, self.limit // 2)
                if full or self._young_bytes + plain_bytes > half:
                    self._old, self._young, self._young_bytes = self._young, {}, 0
                self._old.pop(object_id, None)
                self._young[object_id] = (version, obj, plain_bytes)
                self._young_bytes += plain_bytes

    def drop(self, object_ids: Iterable[int]) -> None:
        """Forget objects."""
        with self._lock:
            for object_id in object_ids:
                self._young.pop(object_id, None)
                self._old.pop(object_id, None)

    def clear(self) -> None:
        """Forget all objects."""
        with self._lock:
            self._young, self._old, self._young_bytes = {}, {}, 0


def keys_after(query: Query, resource_id: int, after: str | None, limit: int) -> list[str]:
    """Return the keys of packed objects that follow one in their order; None: the first ones."""
    if after is None:
        found = query(_FIRST_KEYS, (resource_id, limit))
    else:
        found = query(_NEXT_KEYS, (resource_id, after, limit))
    keys: list[str] = orjson.loads(found)
    return keys


def batched(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Yield lists of at most that size. (itertools.batched comes with Python 3.12.)"""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _filings(rows: str) -> Iterator[tuple[str, Filing]]:
    for key, object_id, namespace, stamp in orjson.loads(rows):
        yield key, (object_id, namespace, bytes.fromhex(stamp))
