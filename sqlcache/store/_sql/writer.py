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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    Scope,
    Term,
    digest,
    labels_and_values,
    namespace_scope,
    pack_ids,
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
_FIELDS = ", ".join(f"json_extract(value, '$[{position}]')" for position in range(5))
_BYTES = (
    f"substr(?1, json_extract(value, '$[5]'), {DIGEST_BYTES}),"
    f" substr(?1, json_extract(value, '$[5]') + {DIGEST_BYTES}, json_extract(value, '$[6]')),"
    f" substr(?1, json_extract(value, '$[5]') + {DIGEST_BYTES} + json_extract(value, '$[6]'),"
    " json_extract(value, '$[7]'))"
)
_WRITE_OBJECTS = (
    "INSERT INTO object (id, scope_id, key, uid, resource_version, digest, terms, body,"
    f" resource_id, version) SELECT {_FIELDS}, {_BYTES}, ?3, ?4 FROM json_each(?2)"
    " WHERE true ON CONFLICT (id) DO UPDATE SET scope_id = excluded.scope_id,"
    " uid = excluded.uid, resource_version = excluded.resource_version,"
    " version = excluded.version, digest = excluded.digest, terms = excluded.terms,"
    " body = excluded.body"
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
        key: the object's key; all else is empty if it is deleted.
        deleted: it goes.
        namespace, labels, index_values: as in the change.
        uid, resource_version: of the object.
        digest: of its terms.
        kept: the object, where the shelf keeps it parsed.
        body: the object as bytes, where its row keeps it.
    """

    key: str
    deleted: bool = True
    namespace: str = ""
    labels: Mapping[str, str] = {}
    index_values: IndexValues = {}
    uid: str = ""
    resource_version: str = ""
    digest: bytes = b""
    kept: Object | None = None
    body: bytes | None = None


_Numbered = tuple[int, Row]  # an object's id, and what it becomes


class _Old(NamedTuple):
    """What is stored of an object whose terms change or go: ids are its label ids by term."""

    key: str
    namespace: str
    ids: dict[Term, int]


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
        uid = obj["metadata"].get("uid")
        kept, body = self._shelf.keep(key, obj)
        return Row(
            key,
            False,
            namespace,
            labels,
            values,
            uid if isinstance(uid, str) else "",
            resource_version(obj),
            digest(namespace, labels, values),
            kept,
            body,
        )

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
        plan = Plan()
        sequences = Sequences(query)
        same, moved, fresh, leaving = _sort_out(query, resource_id, rows, sequences)
        leaving += gone_ids
        old = self._old(query, resource_id, [*leaving, *(object_id for object_id, _ in moved)])
        written = moved + fresh
        new_terms = {
            object_id: terms(row.namespace, row.labels, row.index_values)
            for object_id, row in written
        }
        scope_ids, term_ids, plan.statements = _count(
            query, sequences, resource_id, written, old, new_terms
        )
        packed = {}
        for object_id, _ in written:
            before = old[object_id].ids if object_id in old else {}
            ids = [before.get(term) or term_ids[term] for term in new_terms[object_id]]
            packed[object_id] = pack_ids(ids)
            added, removed = set(ids).difference(before.values()), set(before.values()) - set(ids)
            plan.added += [(label_id, object_id) for label_id in added]
            plan.removed += [(label_id, object_id) for label_id in removed]
        for object_id in leaving:
            plan.removed += [(label_id, object_id) for label_id in old[object_id].ids.values()]
            plan.dropped.append((object_id, old[object_id].key))
        version = sequences.next("version")
        plan.statements += _object_statements(
            resource_id, version, same, written, packed, scope_ids, leaving
        )
        plan.statements += sequences.statements()
        plan.stored = [
            (object_id, row.key, row.namespace, row.kept) for object_id, row in (*same, *written)
        ]
        return plan

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
            labels, _ = labels_and_values(old.ids)
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
            old[object_id] = _Old(key, namespace, dict(zip(names, ids, strict=True)))
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
        if row.deleted:
            if object_id is not None:
                leaving.append(object_id)
        elif object_id is None:
            fresh.append((sequences.next("object"), row))
        elif bytes.fromhex(stored) == row.digest:
            same.append((object_id, row))
        else:
            moved.append((object_id, row))
    return same, moved, fresh, leaving


def _count(
    query: Query,
    sequences: Sequences,
    resource_id: int,
    written: Sequence[_Numbered],
    old: Mapping[int, _Old],
    new_terms: Mapping[int, list[Term]],
) -> tuple[dict[Scope, int], dict[Term, int], list[Statement]]:
    """Return the ids of scopes and of terms that come or go, and the statements that count them."""
    by_term: Counter[Term] = Counter()
    by_scope: Counter[Scope] = Counter()
    for object_id, stored in old.items():
        by_scope.subtract(_scopes(stored.namespace, stored.ids))
        by_term.subtract(stored.ids.keys() - set(new_terms.get(object_id, ())))
    for object_id, row in written:
        found = new_terms[object_id]
        by_scope.update(_scopes(row.namespace, found))
        before = old[object_id].ids if object_id in old else {}
        by_term.update(term for term in found if term not in before)
    by_key: Counter[str] = Counter()
    for (_, key, _), change in by_term.items():
        by_key[key] += change
    scopes, statements = SCOPES.change(
        query, sequences, {(resource_id, *scope): change for scope, change in by_scope.items()}
    )
    key_ids, more = LABEL_KEYS.change(
        query, sequences, {(key,): change for key, change in by_key.items()}
    )
    statements += more
    scope_ids = {(kind, namespace): row_id for (_, kind, namespace), row_id in scopes.items()}
    names = {
        (scope_ids[scope], key_ids[key,], value): (scope, key, value)
        for scope, key, value in by_term
    }
    label_ids, more = LABELS.change(
        query, sequences, {name: by_term[term] for name, term in names.items()}
    )
    statements += more
    return scope_ids, {names[name]: row_id for name, row_id in label_ids.items()}, statements


def _scopes(namespace: str, found: Iterable[Term]) -> set[Scope]:
    # An object counts in its namespace even without labels.
    return {namespace_scope(namespace)} | {scope for scope, _, _ in found}


def _object_statements(
    resource_id: int,
    version: int,
    same: Sequence[_Numbered],
    written: Sequence[_Numbered],
    packed: Mapping[int, bytes],
    scope_ids: Mapping[Scope, int],
    leaving: Sequence[int],
) -> Iterator[Statement]:
    # JSON carries no bytes: they go in one parameter, and each row tells where its part begins.
    if same:
        content, refreshed = bytearray(), []
        for object_id, row in same:
            start = len(content) + 1
            content += row.body or b""
            refreshed.append((object_id, row.uid, row.resource_version, start, _length(row.body)))
        yield _REFRESH_OBJECTS, (bytes(content), to_json(refreshed), version)
    if written:
        content, inserted = bytearray(), []
        for object_id, row in written:
            ids = packed[object_id]
            start = len(content) + 1
            content += row.digest + ids + (row.body or b"")
            inserted.append(
                (
                    object_id,
                    scope_ids[namespace_scope(row.namespace)],
                    row.key,
                    row.uid,
                    row.resource_version,
                    start,
                    len(ids),
                    _length(row.body),
                )
            )
        yield _WRITE_OBJECTS, (bytes(content), to_json(inserted), resource_id, version)
    if leaving:
        yield _DELETE_OBJECTS, (to_json(leaving),)


def _length(body: bytes | None) -> int | None:
    return None if body is None else len(body)


def _terms_by_id(query: Query, resource_id: int, ids: Sequence[int]) -> dict[int, Term]:
    rows = orjson.loads(query(_TERMS_BY_ID, (resource_id, to_json(ids))))
    return {
        label_id: ((kind, namespace), key, value) for label_id, kind, namespace, key, value in rows
    }


def resource_id(connection: sqlite3.Connection, resource: str) -> int:
    """Return the id of a resource, which gets a row if it has none.

    The caller holds a write transaction. The row stays, so the id can be kept.
    """
    connection.execute(_ADD_RESOURCE, (resource,))
    return int(connection.execute(_RESOURCE_ID, (resource,)).fetchone()[0])
