"""Writing: what a batch of changes means for the tables, as a handful of statements.

Flow: look the batch's keys up; objects whose digest is unchanged only get their new body; for the
others the old terms, which their ids tell (counted_rows), are compared with the new (difference),
and counts and postings are changed by the difference (batch_trigger). Every statement takes its
rows from one JSON array: a batch of a hundred releases the GIL once or twice, not some hundred
times.

Promises
- Planning reads and never writes; the statements are run by the caller in one transaction.
- The cost of an update depends on its own labels that changed, not on the size of the cache.

Elsewhere: the objects themselves (shelf), reading (selection).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import orjson

from sqlcache.errors import CompressedError, DamagedDatabaseError
from sqlcache.objects import Indexers, Object, labels_of
from sqlcache.store._base import Change, IndexValues, index_values, label_text
from sqlcache.store._sql import batch_trigger
from sqlcache.store._sql.counted import Query, Sequences, Statement, to_json
from sqlcache.store._sql.counted_rows import CountedRows, RowsByName
from sqlcache.store._sql.difference import Difference, Old
from sqlcache.store._sql.label_keys import LabelKeys
from sqlcache.store._sql.object_rows import Batch, Numbered, Row, Stored
from sqlcache.store._sql.postings import Postings
from sqlcache.store._sql.shelf import Shelf, Writing
from sqlcache.store._sql.terms import INDEX_SCOPE, Term, scope_of, terms, unpack_ids

_TERMS_BY_ID = (
    "SELECT json_group_array(json_array(l.id, s.kind, s.namespace, k.name, l.value))"
    " FROM scope s CROSS JOIN label l CROSS JOIN label_key k"
    " WHERE s.resource_id = ? AND l.scope_id = s.id AND k.id = l.key_id"
    " AND l.id IN (SELECT value FROM json_each(?))"
)
_ADD_RESOURCE = (
    "INSERT INTO resource (name, resource_version) VALUES (?, '') ON CONFLICT DO NOTHING"
)
_RESOURCE_ID = "SELECT id FROM resource WHERE name = ?"


class Plan(NamedTuple):
    """What a batch of changes does.

    Attributes:
        objects: statements that write the objects.
        counts: what is written of counts and sequences, by column (batch_trigger).
        rows: that are counted, as they are afterwards.
        sequences: the last id of each sequence afterwards; None if that is not known.
        added, removed: object ids by label id.
        batch: the objects.
        old: what those that leave or move had, by id.
        distinct: how many labels came or, below 0, went, by label key; see `Counted`.
    """

    objects: Writing
    counts: Mapping[str, str]
    rows: RowsByName
    sequences: Mapping[str, int] | None
    added: Postings
    removed: Postings
    batch: Batch
    old: dict[int, Old]
    distinct: Mapping[str, int]

    @property
    def statements(self) -> list[Statement]:
        """Return what is to be run in one transaction, in order."""
        before, after = self.objects.before, self.objects.after
        columns = {**self.counts, **self.objects.columns}
        return [*before, *batch_trigger.statements(columns, self.removed, self.added), *after]

    @property
    def known(self) -> bool:
        """Return whether `old` has all labels of all those objects."""
        return all(old.whole for old in self.old.values())


class Writer:
    """Plans and runs batches for one resource of one database."""

    def __init__(self, shelf: Shelf, indexers: Callable[[], Indexers]) -> None:
        self._shelf, self._indexers = shelf, indexers

    def plan(
        self,
        query: Query,
        resource_id: int,
        keys: LabelKeys,
        rows: Sequence[Row],
        gone_ids: Sequence[int] = (),
        known: CountedRows | None = None,
    ) -> Plan:
        """Work out a batch.

        Args:
            query: reads the database.
            resource_id: of the resource's row.
            keys: which label keys are indexed.
            rows: at most one a key.
            gone_ids: ids of further objects that go.
            known: rows that need no looking up; more are noted in it.
        """
        known = known or CountedRows()
        sequences = Sequences(query, known.sequences)
        same: list[Numbered] = []
        moved: list[Numbered] = []
        fresh: list[Numbered] = []
        changed: list[Stored] = []  # those that move, in their order
        leaving = self._shelf.find_ids(query, gone_ids)
        filings = self._shelf.find(query, resource_id, [row.key for row in rows])
        for row, filing in zip(rows, filings, strict=True):
            if filing is None:
                if row.digest is not None:
                    fresh.append((sequences.next("object"), row))
                continue
            object_id, namespace, stamp = filing
            if row.digest is None:
                leaving.append(Stored(row.key, object_id, namespace, stamp))
            elif stamp.startswith(row.digest):
                same.append((object_id, row))
            else:
                moved.append((object_id, row))
                changed.append(Stored(row.key, object_id, namespace, stamp))

        difference = Difference(keys)
        old = self._old(query, resource_id, [*leaving, *changed], known)
        for stored in leaving:
            difference.leave(stored.id, old[stored.id])
        for object_id, row in moved:
            difference.move(object_id, old[object_id], row)
        for object_id, row in fresh:
            difference.enter(object_id, row)
        rescoped, keys_changed = difference.rescoped, difference.changed
        batch = Batch(fresh, moved, same, leaving, rescoped, {}, keys_changed)
        return self._summed_up(query, resource_id, sequences, difference, known, batch, old)

    def filling(
        self,
        query: Query,
        resource_id: int,
        keys: LabelKeys,
        ids: Sequence[int],
        wanted: Collection[str],
    ) -> Plan:
        """Work out the postings that objects lack of some label keys.

        An object that its caller changed since it was stored is left as it is: what it had is
        not known.

        Args:
            query: reads the database.
            resource_id: of the resource's row.
            keys: which label keys are indexed.
            ids: of the objects; those that are gone are passed over.
            wanted: the label keys.
        """
        sequences = Sequences(query)
        stored = self._shelf.find_ids(query, ids)
        known = CountedRows()
        olds = self._old(query, resource_id, stored, known)
        difference = Difference(keys)
        refiled = [
            (each.id, Row(each.key, self._split(each.stamp)[0], each.namespace))
            for each in stored
            if olds[each.id].whole and difference.fill(each.id, olds[each.id], wanted)
        ]
        batch = Batch([], [], [], [], [], {}, {}, refiled)
        return self._summed_up(query, resource_id, sequences, difference, known, batch, {})

    def _summed_up(
        self,
        query: Query,
        resource_id: int,
        sequences: Sequences,
        difference: Difference,
        known: CountedRows,
        batch: Batch,
        old: dict[int, Old],
    ) -> Plan:
        """Return the plan of a batch whose difference is complete; its terms are put in."""
        counted = difference.counted(query, sequences, resource_id, known)
        packed, added = difference.resolved(counted)
        batch = batch._replace(terms=packed)
        objects = self._shelf.writing(query, batch, counted.scope_ids, sequences, resource_id)
        counts = {**counted.written, **sequences.written()}
        return Plan(
            objects,
            counts,
            counted.rows,
            sequences.last,
            added,
            difference.removed,
            batch,
            old,
            counted.distinct,
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
        changes = []
        stored = self._shelf.find_ids(query, list(objects))
        for object_id, old in self._old(query, resource_id, stored, CountedRows()).items():
            obj = objects[object_id]
            labels = old.labels if old.whole else labels_of(obj)
            text = label_text(old.namespace, labels)
            given = values(old.key, obj)
            changes.append(Change(old.key, obj, old.namespace, labels, given, text))
        return [*self._shelf.rows(changes)]

    def _old(
        self, query: Query, resource_id: int, stored: Iterable[Stored], known: CountedRows
    ) -> dict[int, Old]:
        """Return what is stored of objects, by id: what their label ids stand for.

        Args:
            query: reads the database.
            resource_id: of the resource's row.
            stored: the objects.
            known: tells of label ids; what it lacks is noted in it.
        """
        old: dict[int, Old] = {}
        others: list[Stored] = []
        split, term = self._shelf.digest_bytes, known.terms.__getitem__
        for each in stored:
            ids = unpack_ids(each.stamp[split:])
            try:
                found = [*map(term, ids)]
            except KeyError:
                others.append(each)
            else:
                old[each.id] = Old(each.key, each.namespace, found, ids)
        if others:
            objects = self._readable(query, [each.id for each in others])
            indexers = self._indexers()
        for each in others:
            obj = objects.get(each.id)
            shown = self._shown(obj, each, indexers)
            had = old[each.id] = shown or self._read(query, resource_id, each, obj)
            known.note(had.terms, had.ids)
        return old

    def _readable(self, query: Query, ids: Sequence[int]) -> dict[int, Object]:
        """Return stored objects by id, without those that are damaged.

        They can be replaced and deleted: the tables tell what they had.
        """
        try:
            return self._shelf.stored(query, ids)
        except (CompressedError, DamagedDatabaseError):
            if len(ids) == 1:
                return {}
        return {each: obj for one in ids for each, obj in self._readable(query, [one]).items()}

    def _read(
        self,
        query: Query,
        resource_id: int,
        stored: Stored,
        obj: Object | None,
    ) -> Old:
        """Return what the tables tell of an object that shows other terms now."""
        _, packed = self._split(stored.stamp)
        ids = unpack_ids(packed)
        by_id = _terms_by_id(query, resource_id, ids)
        known = [label_id for label_id in ids if label_id in by_id]
        found = [by_id[label_id] for label_id in known]
        if obj is not None and not self._shelf.shared:  # then only its index values are others
            values = [term for term in found if term[0] == INDEX_SCOPE]
            had = terms(stored.namespace, labels_of(obj), {}) + values
            return Old(stored.key, stored.namespace, had, ids)
        whole = len(known) == len(ids)
        return Old(stored.key, stored.namespace, found, tuple(known), whole)

    def _shown(self, obj: Object | None, stored: Stored, indexers: Indexers) -> Old | None:
        """Return what an object was stored with, or None if it shows something else now.

        A caller may have changed it, or an index function may give other values now: only an
        object whose digest is the stored one is believed.
        """
        if obj is None:
            return None
        try:
            labels = dict(labels_of(obj))  # others may change it even now
            values = index_values(indexers, "", obj) if indexers else {}
            digest = self._shelf.digest(label_text(stored.namespace, labels), values)
            if not stored.stamp.startswith(digest):
                return None
            ids = unpack_ids(stored.stamp[len(digest) :])
            had = terms(stored.namespace, labels, values)
            # A label with NUL in it may read as two: then they are not as many as were stored.
            if len(ids) != len(had):
                return None
        except Exception:  # noqa: BLE001 - whatever a caller made of it, the tables know better
            return None
        return Old(stored.key, stored.namespace, had, ids)

    def _split(self, stamp: bytes) -> tuple[bytes, bytes]:
        """Return the digest and the packed ids of a stamp."""
        length = self._shelf.digest_bytes
        return stamp[:length], stamp[length:]


def run(connection: sqlite3.Connection, statements: Iterable[Statement]) -> None:
    """Run statements; the caller holds a write transaction."""
    for sql, parameters in statements:
        connection.execute(sql, parameters)


def add_postings(connection: sqlite3.Connection, added: Postings) -> None:
    """Write postings that are not there; the caller holds a write transaction."""
    run(connection, batch_trigger.statements({}, {}, added))


def resource_id(connection: sqlite3.Connection, resource: str) -> int:
    """Return the id of a resource, which gets a row if it has none.

    The caller holds a write transaction. The row stays, so the id can be kept.
    """
    connection.execute(_ADD_RESOURCE, (resource,))
    return int(connection.execute(_RESOURCE_ID, (resource,)).fetchone()[0])


def _terms_by_id(query: Query, resource_id: int, ids: Sequence[int]) -> dict[int, Term]:
    rows = orjson.loads(query(_TERMS_BY_ID, (resource_id, to_json(ids))))
    return {
        label_id: (scope_of(kind, namespace), key, value)
        for label_id, kind, namespace, key, value in rows
    }
