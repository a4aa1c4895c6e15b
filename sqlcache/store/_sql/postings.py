"""Postings: which object has which label, written a batch at a time.

Elsewhere: which ones come and go (difference), how they answer selectors (selection).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from sqlcache.store._sql.counted import to_json

Postings = Mapping[int, Sequence[int]]  # object ids by label id; none is empty

# Both ids as one number, so that a batch is one flat array: SQLite reads an array of arrays in
# twice the time.
_LABEL_BITS, _OBJECT_BITS = 31, 32
_PAIRS = f"SELECT value >> {_OBJECT_BITS}, value & {2**_OBJECT_BITS - 1} FROM json_each(?)"
_ADD = f"INSERT INTO posting (label_id, object_id) {_PAIRS}"
_REMOVE = f"DELETE FROM posting WHERE (label_id, object_id) IN ({_PAIRS})"
_ADD_ONE = "INSERT INTO posting (label_id, object_id) VALUES (?, ?)"
_REMOVE_ONE = "DELETE FROM posting WHERE label_id = ? AND object_id = ?"


def add(connection: sqlite3.Connection, postings: Postings) -> None:
    """Write postings that are not there."""
    _write(connection, postings, _ADD, _ADD_ONE)


def remove(connection: sqlite3.Connection, postings: Postings) -> None:
    """Delete postings."""
    _write(connection, postings, _REMOVE, _REMOVE_ONE)


def _write(connection: sqlite3.Connection, postings: Postings, flat: str, single: str) -> None:
    """Run a statement for all postings in key order, which fills pages from left to right."""
    if not postings:
        return
    if max(postings) < 2**_LABEL_BITS and max(map(max, postings.values())) < 2**_OBJECT_BITS:
        numbers = [
            label_id << _OBJECT_BITS | object_id
            for label_id, object_ids in postings.items()
            for object_id in object_ids
        ]
        numbers.sort()
        connection.execute(flat, (to_json(numbers),))
    else:  # ids are never given twice, so after years of changes they are too long for that
        pairs = [(label_id, each) for label_id, ids in postings.items() for each in ids]
        connection.executemany(single, sorted(pairs))
