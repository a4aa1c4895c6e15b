"""What a batch changes in counts and postings, as one statement.

Each statement gives the interpreter lock away, and a thread that computes keeps it for a switch
interval: for a write of six statements, 30 ms. So the six are the body of a trigger, and a batch is
one INSERT into the view that has it. View and triggers belong to a connection and not to the file.

Source: sqlite.org/lang_createtrigger.html, INSTEAD OF and TEMP triggers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping

from sqlcache.store._sql import postings
from sqlcache.store._sql.counted import LABEL_KEYS, LABELS, SCOPES, WRITE_SEQUENCES, Statement
from sqlcache.store._sql.postings import Postings

_COUNTED = (SCOPES, LABEL_KEYS, LABELS)
# What is done with each column of the view, in order.
_PARTS = {
    **{f"{each.table}_added": each.add_sql for each in _COUNTED},
    **{f"{each.table}_counted": each.count_sql for each in _COUNTED},
    "removed": postings.REMOVE,
    "added": postings.ADD,
    "sequences": WRITE_SEQUENCES,
}
_VIEW = (
    f"CREATE TEMP VIEW change ({', '.join(_PARTS)})"
    f" AS SELECT {', '.join('NULL' for _ in _PARTS)} WHERE false"
)
_TRIGGER = "CREATE TEMP TRIGGER apply_change INSTEAD OF INSERT ON change BEGIN {} END".format(
    " ".join(sql.replace("?", f"NEW.{part}") + ";" for part, sql in _PARTS.items())
)
# OR ROLLBACK: else SQLite keeps what it needs to undo this one statement, maybe in a file.
_CHANGE = f"INSERT OR ROLLBACK INTO change VALUES ({', '.join('?' for _ in _PARTS)})"


def prepare(connection: sqlite3.Connection) -> None:
    """Make view and triggers on a connection that is to write."""
    connection.execute(_VIEW)
    connection.execute(_TRIGGER)
    for each in _COUNTED:
        same = " AND ".join(f"{column} = NEW.{column}" for column in each.columns)
        connection.execute(
            f"CREATE TEMP TRIGGER forget_{each.table} AFTER UPDATE OF n ON main.{each.table}"
            f" WHEN NEW.n <= 0 BEGIN DELETE FROM {each.table} WHERE {same}; END"
        )


def statements(
    counts: Mapping[str, str], removed: Postings, added: Postings
) -> Iterator[Statement]:
    """Yield what writes a batch: one statement, as long as ids are of usual length.

    Args:
        counts: what goes into columns of the view, by column, but for postings.
        removed, added: the postings.
    """
    removed_flat, removed_long = postings.flat(removed)
    added_flat, added_long = postings.flat(added)
    if removed_long:
        yield postings.REMOVE_LONG, (removed_long,)
    columns = {**counts, "removed": removed_flat, "added": added_flat}
    if any(columns.values()):
        yield _CHANGE, tuple(map(columns.get, _PARTS))
    if added_long:
        yield postings.ADD_LONG, (added_long,)
