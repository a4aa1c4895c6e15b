"""Writing: what a batch of changes means for the tables, as a handful of statements.

Flow: look the batch's keys up; objects whose digest is unchanged only get their new body; for the
others the old and new terms are compared, the counted tables are changed by the difference, and
postings are added and removed. Every statement takes its rows from one JSON array: a batch of a
hundred releases the GIL a few times instead of some hundred times.

Promises
- Planning reads and never writes; the statements are run by the caller in one transaction.
- The cost of an update depends on its own labels that changed, not on the size of the cache.

Elsewhere: the objects themselves (shelf), reading (selection).
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat, zip_longest
from types import MappingProxyType
from typing import NamedTuple

import orjson

from sqlcache.objects import Indexers, Object, labels_of, resource_version
from sqlcache.store._base import Change, IndexValues, index_values
from sqlcache.store._sql.counted import (
    LABEL_KEYS,
    LABELS,
    SCOPES,
    Query,
    Sequences,
    Statement,
    to_json,
)
from sqlcache.store._sql.shelf import Shelf
from sqlcache.store._sql.terms import (
    DIGEST_BYTES,
    INDEX_SCOPE,
    Scope,
    Term,
    digest,
    labels_and_values,
    pack_ids,
    scope_name,
    scope_of,
    terms,
    unpack_ids,
)

_FIND_OBJECTS = (
    "SELECT json_group_array(json_array(j.key, o.id, hex(o.digest)))"
    " FROM json_each(?) j CROSS JOIN object o WHERE o.resource_id = ? AND o.key = j.value"
)
_OLD_OBJECTS = (
    "SELECT json_group_array(json_array(o.id, s.namespace, hex(o.digest), hex(o.terms), o.key))"
    " FROM json_each(?) j CROSS JOIN object o CROSS JOIN scope s"
    " WHERE o.id = j.value AND s.id = o.scope_id"
)
_TERMS_BY_ID = (
    "SELECT json_group_array(json_array(l.id, s.kind, s.namespace, k.name, l.value))"
    " FROM scope s CROSS JOIN label l CROSS JOIN label_key k"
    " WHERE s.resource_id = ? AND l.scope_id = s.id AND k.id = l.key_id"
    " AND l.id IN (SELECT value FROM json_each(?))"
)
# Parameters: ?1 the bytes, ?2 the rows, ?3 the version, ?4 the resource. A row is
# [id, key, uid, resourceVersion, scope id, start of its bytes, length of its terms, of its body].
_BYTES = (
    f"substr(?1, json_extract(j.value, '$[5]'), {DIGEST_BYTES})",
    f"substr(?1, json_extract(j.value, '$[5]') + {DIGEST_BYTES}, json_extract(j.value, '$[6]'))",
    (
        f"substr(?1, json_extract(j.value, '$[5]') + {DIGEST_BYTES}"
        " + json_extract(j.value, '$[6]'), json_extract(j.value, '$[7]'))"
    ),
)
_ADD_OBJECTS = (
    "INSERT INTO object (id, key, uid, resource_version, scope_id, digest, terms, body, version,"
    " resource_id) SELECT "
    + ", ".join(f"json_extract(j.value, '$[{position}]')" for position in range(5))
    + f", {', '.join(_BYTES)}, ?3, ?4 FROM json_each(?2) j"
)
_MOVE_OBJECTS = (
    "UPDATE object SET uid = json_extract(j.value, '$[2]'),"
    " resource_version = json_extract(j.value, '$[3]'),"
    f" digest = {_BYTES[0]}, terms = {_BYTES[1]}, body = {_BYTES[2]}, version = ?3"
    " FROM json_each(?2) j WHERE object.id = json_extract(j.value, '$[0]')"
)
# Apart, for naming the column has its index written again even if nothing changes.
_RESCOPE_OBJECTS = (
    "UPDATE object SET scope_id = json_extract(j.value, '$[1]')"
    " FROM json_each(?) j WHERE object.id = json_extract(j.value, '$[0]')"
)
_REFRESH_OBJECTS = (
    "UPDATE object SET uid = json_extract(j.value, '$[1]'),"
    " resource_version = json_extract(j.value, '$[2]'), version = ?3,"
    " body = substr(?1, json_extract(j.value, '$[3]'), json_extract(j.value, '$[4]'))"
    " FROM json_each(?2) j WHERE object.id = json_extract(j.value, '$[0]')"
)
_DELETE_OBJECTS = "DELETE FROM object WHERE id IN (SELECT value FROM json_each(?))"
_ADD_POSTINGS = (
    "INSERT INTO posting (label_id, object_id)"
    " SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)"
)
_REMOVE_POSTINGS = (
    "DELETE FROM posting WHERE (label_id, object_id) IN"
    " (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?))"
)
_SET_VERSION = (
    "INSERT INTO resource (name, resource_version) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE SET resource_version = excluded.resource_version"
)
_ADD_RESOURCE = (
    "INSERT INTO resource (name, resource_version) VALUES (?, '') ON CONFLICT DO NOTHING"
)
_RESOURCE_ID = "SELECT id FROM resource WHERE name = ?"


class Row(NamedTuple):
    """One key's new state, with all that can be worked out without the database.

    Attributes:
        key: the object's key.
        digest: of its terms; None if it goes.
        namespace, labels, index_values: as in the change.
        kept: the object, where the shelf keeps it parsed.
        body: the object as bytes, where its row keeps it.
        identity: its uid and resourceVersion, where its row keeps it.
    """

    key: str
    digest: bytes | None = None
    namespace: str = ""
    labels: Mapping[str, str] = MappingProxyType({})
    index_values: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    kept: Object | None = None
    body: bytes | None = None
    identity: tuple[str, str] = ("", "")


_Numbered = tuple[int, Row]  # an object's id, and what it becomes


class _Old(NamedTuple):
    """What is stored of an object whose terms change or go: its terms, and their label ids."""

    key: str
    namespace: str
    terms: list[Term]
    ids: tuple[int, ...]

    @property
    def indexed(self) -> bool:
        """Return whether any of its terms is an index value; those come last."""
        return bool(self.terms) and self.terms[-1][0] == INDEX_SCOPE


@dataclass
class Plan:
    """What a batch does.

    Attributes:
        statements: to be run in one transaction, in order, before the postings are written.
        added, removed: (label id, object id) pairs.
        stored: (object id, key, namespace, object) of each object that comes or changes; the
            object is None where its row keeps it.
        dropped: (object id, key) of each object that goes.
    """

    statements: list[Statement] = field(default_factory=list)
    added: list[tuple[int, int]] = field(default_factory=list)
    removed: list[tuple[int, int]] = field(default_factory=list)
    stored: list[tuple[int, str, str, Object | None]] = field(default_factory=list)
    dropped: list[tuple[int, str]] = field(default_factory=list)


class Writer:
    """Plans and runs batches for one resource of one database."""

    def __init__(self, resource: str, shelf: Shelf, indexers: Callable[[], Indexers]) -> None:
        self._resource, self._shelf, self._indexers = resource, shelf, indexers

    def row(self, change: Change) -> Row:
        """Work a change out as far as possible without the database.

        Raises:
            ObjectError: the object cannot be encoded.
        """
        key, obj, namespace, labels, values = change
        if obj is None:
            return Row(key)
        kept, body = self._shelf.keep(key, obj)
        terms_digest = digest(namespace, labels, values)
        return Row(key, terms_digest, namespace, labels, values, kept, body, _identity(obj, body))

    def set_version(self, rv: str) -> Statement:
        """Return the statement that sets the store's RV."""
        return _SET_VERSION, (self._resource, rv)

    def plan(
        self, query: Query, resource_id: int, rows: Sequence[Row], gone_ids: Sequence[int] = ()
    ) -> Plan:
        """Work out a batch.

        Args:
            query: reads the database.
            resource_id: of the resource's row.
            rows: at most one a key.
            gone_ids: ids of further objects that go.
        """
        sequences = Sequences(query)
        same, moved, fresh, leaving = _sort_out(query, resource_id, rows, sequences)
        leaving += gone_ids
        old = self._old(query, resource_id, [*leaving, *(object_id for object_id, _ in moved)])
        difference = _Difference()
        for object_id in leaving:
            difference.leave(object_id, old[object_id])
        for object_id, row in moved:
            difference.move(object_id, old[object_id], row)
        for object_id, row in fresh:
            difference.enter(object_id, row)
        scope_ids, term_ids, statements = difference.counted(query, sequences, resource_id)
        packed, added = difference.resolved(term_ids)
        version = sequences.next("version") if rows or gone_ids else 0
        statements += _object_statements(
            resource_id, version, same, moved, fresh, packed, scope_ids, leaving
        )
        if difference.rescoped:
            scoped = [(object_id, scope_ids[scope]) for object_id, scope in difference.rescoped]
            statements.append((_RESCOPE_OBJECTS, (to_json(scoped),)))
        statements += sequences.statements()
        return Plan(
            statements,
            added,
            difference.removed,
            [(number, row.key, row.namespace, row.kept) for number, row in same + moved + fresh],
            [(object_id, old[object_id].key) for object_id in leaving],
        )

    def reindexed(
        self,
        query: Query,
        resource_id: int,
        objects: Mapping[int, Object],
        values: Callable[[str, Object], IndexValues],
    ) -> list[Row]:
        """Return rows that give stored objects other index values and leave their labels.

        Args:
            query: reads the database.
            resource_id: of the resource's row.
            objects: the objects by id.
            values: gives an object's new index values, from its key and itself.
        """
        rows = []
        for object_id, old in self._old(query, resource_id, list(objects)).items():
            obj = objects[object_id]
            labels, _ = labels_and_values(old.terms)
            change = Change(old.key, obj, old.namespace, labels, values(old.key, obj))
            rows.append(self.row(change))
        return rows

    def _old(self, query: Query, resource_id: int, object_ids: Sequence[int]) -> dict[int, _Old]:
        if not object_ids:
            return {}
        objects = self._shelf.stored(query, object_ids)
        old = {}
        for object_id, namespace, stored, packed, key in orjson.loads(
            query(_OLD_OBJECTS, (to_json(object_ids),))
        ):
            ids = unpack_ids(bytes.fromhex(packed))
            names = self._terms_of(objects.get(object_id), namespace, bytes.fromhex(stored))
            if names is None:
                by_id = _terms_by_id(query, resource_id, ids)
                names = [by_id[label_id] for label_id in ids]
            old[object_id] = _Old(key, namespace, names, ids)
        return old

    def _terms_of(self, obj: Object | None, namespace: str, stored: bytes) -> list[Term] | None:
        """Return the terms that an object was stored with, or None if it no longer shows them.

        A caller may have changed it, or an index function may give other values now: only an
        object whose digest is the stored one is believed.
        """
        if obj is None:
            return None
        try:
            labels = labels_of(obj)
            values = index_values(self._indexers(), "", obj)
            if digest(namespace, labels, values) != stored:
                return None
        except Exception:  # noqa: BLE001 - whatever a caller made of it, the tables know better
            return None
        return terms(namespace, labels, values)


def run(connection: sqlite3.Connection, plan: Plan) -> None:
    """Run a plan's statements; the caller holds a write transaction."""
    for sql, parameters in plan.statements:
        connection.execute(sql, parameters)
    if plan.removed:
        connection.execute(_REMOVE_POSTINGS, (to_json(plan.removed),))
    add_postings(connection, plan.added)


def add_postings(connection: sqlite3.Connection, pairs: list[tuple[int, int]]) -> None:
    """Write postings in key order, which fills pages from left to right."""
    if pairs:
        connection.execute(_ADD_POSTINGS, (to_json(sorted(pairs)),))


def _sort_out(
    query: Query, resource_id: int, rows: Sequence[Row], sequences: Sequences
) -> tuple[list[_Numbered], list[_Numbered], list[_Numbered], list[int]]:
    """Return rows with unchanged terms, with changed ones, new ones, and ids of those that go."""
    if not rows:
        return [], [], [], []
    keys = to_json([row.key for row in rows])
    found = {
        position: (object_id, stored)
        for position, object_id, stored in orjson.loads(query(_FIND_OBJECTS, (keys, resource_id)))
    }
    same, moved, fresh, leaving = [], [], [], []
    for position, row in enumerate(rows):
        object_id, stored = found.get(position, (None, None))
        if row.digest is None:
            if object_id is not None:
                leaving.append(object_id)
        elif object_id is None:
            fresh.append((sequences.next("object"), row))
        elif bytes.fromhex(stored) == row.digest:
            same.append((object_id, row))
        else:
            moved.append((object_id, row))
    return same, moved, fresh, leaving


class _Difference:
    """What a batch changes about scopes, terms and postings, summed up.

    Attributes:
        removed: (label id, object id) of the postings that go.
        rescoped: (object id, new namespace) of the objects that changed it.
    """

    def __init__(self) -> None:
        self.removed: list[tuple[int, int]] = []
        self.rescoped: list[tuple[int, Scope]] = []
        self._entered: list[Scope] = []  # one entry for each object that comes into a scope
        self._left: list[Scope] = []
        self._gained: list[Term] = []  # one entry for each posting that comes
        self._lost: list[Term] = []
        # (object id, its terms, the label ids already known of them; [] if it is new)
        self._terms: list[tuple[int, list[Term], list[int | None]]] = []

    def enter(self, object_id: int, row: Row) -> None:
        """An object comes."""
        found = terms(row.namespace, row.labels, row.index_values)
        self._entered.append(row.namespace)
        if any(row.index_values.values()):
            self._entered.append(INDEX_SCOPE)
        self._gained += found
        self._terms.append((object_id, found, []))

    def leave(self, object_id: int, old: _Old) -> None:
        """An object goes."""
        self._left.append(old.namespace)
        if old.indexed:
            self._left.append(INDEX_SCOPE)
        self._lost += old.terms
        self.removed += zip(old.ids, repeat(object_id))

    def move(self, object_id: int, old: _Old, row: Row) -> None:
        """An object gets other terms.

        Terms are compared place by place, which takes no hashing. One that only moved is removed
        and added again, in this order; that is rare.
        """
        found = terms(row.namespace, row.labels, row.index_values)
        if row.namespace != old.namespace:
            self._entered.append(row.namespace)
            self._left.append(old.namespace)
            self.rescoped.append((object_id, row.namespace))
        indexed = any(row.index_values.values())
        if indexed != old.indexed:
            (self._entered if indexed else self._left).append(INDEX_SCOPE)
        ids: list[int | None] = [None] * len(found)
        for position, (before, after) in enumerate(zip_longest(old.terms, found)):
            if before == after:
                ids[position] = old.ids[position]
                continue
            if before is not None:
                self._lost.append(before)
                self.removed.append((old.ids[position], object_id))
            if after is not None:
                self._gained.append(after)
        self._terms.append((object_id, found, ids))

    def counted(
        self, query: Query, sequences: Sequences, resource_id: int
    ) -> tuple[dict[Scope, int], dict[Term, int], list[Statement]]:
        """Return the ids of scopes and of terms that come or go, and what counts them."""
        by_term = Counter(self._gained)
        by_term.subtract(self._lost)
        by_scope = Counter(self._entered)
        by_scope.subtract(self._left)
        by_key: Counter[str] = Counter()
        for (scope, key, _), change in by_term.items():
            by_key[key] += change
            by_scope[scope] += 0
        scopes, statements = SCOPES.change(
            query,
            sequences,
            {(resource_id, *scope_name(scope)): change for scope, change in by_scope.items()},
        )
        key_ids, more = LABEL_KEYS.change(
            query, sequences, {(key,): change for key, change in by_key.items()}
        )
        statements += more
        scope_ids = {
            scope_of(kind, namespace): row_id for (_, kind, namespace), row_id in scopes.items()
        }
        names = {
            (scope_ids[scope], key_ids[key,], value): (scope, key, value)
            for scope, key, value in by_term
        }
        label_ids, more = LABELS.change(
            query, sequences, {name: by_term[term] for name, term in names.items()}
        )
        statements += more
        return scope_ids, {names[name]: row_id for name, row_id in label_ids.items()}, statements

    def resolved(
        self, term_ids: Mapping[Term, int]
    ) -> tuple[dict[int, bytes], list[tuple[int, int]]]:
        """Return the packed term ids by object id, and (label id, object id) of new postings."""
        packed: dict[int, bytes] = {}
        added: list[tuple[int, int]] = []
        for object_id, found, known in self._terms:
            if known:
                gained = [
                    term_ids[term] for term, each in zip(found, known, strict=True) if not each
                ]
                fresh = iter(gained)
                ids = [each or next(fresh) for each in known]
            else:
                ids = gained = [term_ids[term] for term in found]
            added += zip(gained, repeat(object_id))
            packed[object_id] = pack_ids(ids)
        return packed, added


def _object_statements(
    resource_id: int,
    version: int,
    same: Sequence[_Numbered],
    moved: Sequence[_Numbered],
    fresh: Sequence[_Numbered],
    packed: Mapping[int, bytes],
    scope_ids: Mapping[Scope, int],
    leaving: Sequence[int],
) -> Iterator[Statement]:
    # JSON carries no bytes: they go in one parameter, and each row tells where its part begins.
    changed = [numbered for numbered in same if numbered[1].body is not None]
    if changed:
        content, refreshed = bytearray(), []
        for object_id, row in changed:
            refreshed.append((object_id, *row.identity, *_part(content, row.body)))
        yield _REFRESH_OBJECTS, (bytes(content), to_json(refreshed), version)
    for sql, numbered, more in ((_MOVE_OBJECTS, moved, ()), (_ADD_OBJECTS, fresh, (resource_id,))):
        if numbered:
            content, written = bytearray(), []
            for object_id, row in numbered:
                ids = packed[object_id]
                start, _ = _part(content, row.digest)
                _part(content, ids)
                _, length = _part(content, row.body)
                place = (scope_ids.get(row.namespace), start, len(ids), length)
                written.append((object_id, row.key, *row.identity, *place))
            yield sql, (bytes(content), to_json(written), version, *more)
    if leaving:
        yield _DELETE_OBJECTS, (to_json(leaving),)


def _part(content: bytearray, part: bytes | None) -> tuple[int, int | None]:
    """Append a part; return where it starts, counted from 1, and its length."""
    start = len(content) + 1
    if part is None:
        return start, None
    content += part
    return start, len(part)


def _identity(obj: Object, body: bytes | None) -> tuple[str, str]:
    if body is None:
        return "", ""
    uid = obj["metadata"].get("uid")
    return uid if isinstance(uid, str) else "", resource_version(obj)


def _terms_by_id(query: Query, resource_id: int, ids: Sequence[int]) -> dict[int, Term]:
    rows = orjson.loads(query(_TERMS_BY_ID, (resource_id, to_json(ids))))
    return {
        label_id: (scope_of(kind, namespace), key, value)
        for label_id, kind, namespace, key, value in rows
    }


def resource_id(connection: sqlite3.Connection, resource: str) -> int:
    """Return the id of a resource, which gets a row if it has none.

    The caller holds a write transaction. The row stays, so the id can be kept.
    """
    connection.execute(_ADD_RESOURCE, (resource,))
    return int(connection.execute(_RESOURCE_ID, (resource,)).fetchone()[0])
