"""A batch as one statement.

Each statement gives the interpreter lock away, and a thread that computes keeps it for a switch
interval: for a write of six statements, 30 ms. So they are the bodies of triggers, and a batch is
one INSERT into the view that has them. View and triggers belong to a connection, not to the file.

Elsewhere: what is in the columns (counted, postings, object_rows).
Source: sqlite.org/lang_createtrigger.html, INSTEAD OF and TEMP triggers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlcache.store._sql import object_rows, postings
from sqlcache.store._sql.counted import LABEL_KEYS, LABELS, SCOPES, WRITE_SEQUENCES, Statement
from sqlcache.store._sql.label_keys import ARE_NEEDED
from sqlcache.store._sql.postings import Postings

_COUNTED = (SCOPES, LABEL_KEYS, LABELS)
_NEEDED_EMPTY = {SCOPES: ARE_NEEDED, LABEL_KEYS: ARE_NEEDED, LABELS: "false"}
_COLUMNS = (
    *(column for each in _COUNTED for column in each.written),
    *postings.COLUMNS,
    "sequences",
    *object_rows.COLUMNS,
)
_VIEW = (
    f"CREATE TEMP VIEW batch ({', '.join(_COLUMNS)})"
    f" AS SELECT {', '.join('NULL' for _ in _COLUMNS)} WHERE false"
)
_INDEX_WRITES = (
    *(write for each in _COUNTED for write in each.writes),
    *postings.WRITES,
    WRITE_SEQUENCES,
)
# OR ROLLBACK: else SQLite keeps what it needs to undo this one statement, maybe in a file.
_WRITE = f"INSERT OR ROLLBACK INTO batch VALUES ({', '.join('?' for _ in _COLUMNS)})"


def prepare(connection: sqlite3.Connection) -> None:
    """Make view and triggers on a connection that is to write."""
    for sql in (
        _VIEW,
        _trigger("write_index", "INSTEAD OF INSERT ON batch", _INDEX_WRITES),
        _trigger(
            "write_objects",
            "INSTEAD OF INSERT ON batch WHEN NEW.version IS NOT NULL",
            object_rows.WRITES,
        ),
        *(
            _trigger(
                f"forget_{each.table}",
                f"AFTER UPDATE OF n ON main.{each.table} WHEN NEW.n <= 0 AND NOT {needed}",
                [each.removal],
            )
            for each, needed in _NEEDED_EMPTY.items()
        ),
    ):
        connection.execute(sql)


def statements(
    columns: Mapping[str, Any], removed: Postings, added: Postings
) -> Iterator[Statement]:
    """Yield what writes a batch: one statement, as long as ids are of usual length.

    Args:
        columns: of the view, but for postings; those that are missing have nothing to do.
        removed, added: the postings.
    """
    removed_flat, removed_long = postings.flat(removed)
    added_flat, added_long = postings.flat(added)
    if removed_long:
        yield postings.REMOVE_LONG, (removed_long,)
    columns = {**columns, "removed": removed_flat, "added": added_flat}
    if any(columns.values()):
        yield _WRITE, tuple(map(columns.get, _COLUMNS))
    if added_long:
        yield postings.ADD_LONG, (added_long,)


def _trigger(name: str, when: str, writes: Iterable[str]) -> str:
    return f"CREATE TEMP TRIGGER {name} {when} BEGIN {'; '.join(writes)}; END"
