"""Schema versions of cache files: what `sqlcache migrate` does.

Stores bring a file up to date themselves when they open it; this is for looking at a file, and for
taking it back before an older release opens it.

Each function takes the path of a file and raises a subclass of `DatabaseError`: `NotACacheError`,
`DamagedDatabaseError`, `SchemaVersionError`, leaving the file as it is.

Elsewhere: the migrations (sqlcache.migrations), running them (store._sql.upgrade).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from sqlcache.errors import DatabaseError, SchemaVersionError
from sqlcache.store._sql import engine
from sqlcache.store._sql import upgrade as _upgrade


class Revision(NamedTuple):
    """A schema version: its id, the one before it (None: no tables), and what it brings."""

    revision: str
    down_revision: str | None
    doc: str


def upgrade(path: str, revision: str = "head") -> None:
    """Bring a file's schema up to a revision. A file that does not exist is made."""
    _check_revision(path, revision, "head")
    engine.prepare_file(path)
    with _connection(path) as connection:
        _upgrade.upgrade(connection, revision)


def downgrade(path: str, revision: str) -> None:
    """Take a file's schema down to a revision; "base" removes all tables and their content.

    Raises:
        DatabaseError: a store has it open, which would go on with tables that are no more.
    """
    _check_revision(path, revision, "base")
    engine.check_file(path)
    with _connection(path) as connection:
        _keep_others_out(path, connection)
        before = _upgrade.current(connection) or "base"
        upwards = ["base", *(each.revision for each in reversed(history()))]
        if upwards.index(before) < upwards.index(revision):
            raise SchemaVersionError(path, f"has schema version {before}, older than {revision}")
        _upgrade.downgrade(connection, revision)


def current(path: str) -> str | None:
    """Return the revision of a file, None if it has no tables."""
    engine.check_file(path)
    with _connection(path) as connection:
        return _upgrade.current(connection)


def history() -> list[Revision]:
    """Return the revisions that this release knows, newest first."""
    return [Revision(*each) for each in _upgrade.history()]


def check(path: str) -> list[str]:
    """Return what is wrong with a file: its schema against this release's, and its pages."""
    engine.check_file(path)
    with _connection(path) as connection:
        found = _upgrade.differences(connection)
        pages = [str(row[0]) for row in connection.execute("PRAGMA integrity_check").fetchall()]
    return found + [page for page in pages if page != "ok"]


@contextmanager
def _connection(path: str) -> Iterator[sqlite3.Connection]:
    try:
        with closing(engine.connect_file(path)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise engine.translated(path, error) from error


def _keep_others_out(path: str, connection: sqlite3.Connection) -> None:
    """Keep others from having the file open until the connection closes.

    Source: sqlite.org/pragma.html#pragma_locking_mode.
    """
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    try:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if engine.is_busy(error):
            raise DatabaseError(path, "is open in a store, here or elsewhere: close it") from error
        raise


def _check_revision(path: str, revision: str, end: str) -> None:
    known = [each.revision for each in history()]
    if revision not in (*known, end):
        raise SchemaVersionError(
            path, f"no schema version {revision!r}; known: {', '.join((*known, end))}"
        )
