"""Schema versions: Alembic on a connection that is already open.

Promises
- A migration is one transaction. Errors of the driver come out as the driver's.
- Alembic is imported when a schema is made or changed, or its history asked for: opening a file of
  today's schema does without it, and importing it takes longer than reading a small file.

Elsewhere: the migrations themselves (sqlcache.migrations), opening files (engine), the public face
for files (store.migrations).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlcache.errors import SchemaVersionError

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from sqlalchemy import Connection

APPLICATION_ID = 0x73716C63  # "sqlc": tells our files from other SQLite databases
HEAD = "0005"  # the newest migration; a test compares it with Alembic's


def upgrade(connection: sqlite3.Connection, revision: str = "head") -> None:
    """Bring the schema up to a revision, in one transaction."""
    from alembic import command

    _run(connection, lambda config: command.upgrade(config, revision))


def downgrade(connection: sqlite3.Connection, revision: str) -> None:
    """Take the schema down to a revision, or to "base": no tables. One transaction."""
    from alembic import command

    _run(connection, lambda config: command.downgrade(config, revision))


def create(connection: sqlite3.Connection) -> None:
    """Make the newest schema in an empty database that nobody else opens: one in memory."""
    connection.executescript(_newest())


@cache
def _newest() -> str:
    """Return what the migrations amount to, as statements.

    All migrations take some 15 ms, these statements 0.3 ms. Text may be kept: unlike a database
    to copy from, threads and forked processes share it without a lock.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        upgrade(connection)
        return "\n".join((f"PRAGMA application_id={APPLICATION_ID};", *connection.iterdump()))


def current(connection: sqlite3.Connection) -> str | None:
    """Return the revision of a database, None where no migration has run."""
    tables = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'alembic_version'"
    if connection.execute(tables).fetchone() is None:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else None


def history() -> list[tuple[str, str | None, str]]:
    """Return (revision, the one before, title), newest first."""
    return [
        (script.revision, script.down_revision, script.doc)  # type: ignore[misc]
        for script in _scripts().walk_revisions()
    ]


def check_known(name: str, revision: str | None) -> None:
    """Check that this release knows a revision.

    Raises:
        SchemaVersionError: it does not.
    """
    if revision in (None, HEAD):
        return
    if revision not in {known for known, _, _ in history()}:
        raise SchemaVersionError(
            name,
            f"has schema version {revision}, made by a newer sqlcache;"
            f" this release knows up to {HEAD}",
        )


def engine_connection(connection: sqlite3.Connection) -> Connection:
    """Return a SQLAlchemy connection on a driver connection, which stays open when it closes."""
    from sqlalchemy import create_engine
    from sqlalchemy.pool import StaticPool

    return create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool).connect()


def differences(connection: sqlite3.Connection) -> list[str]:
    """Return how a database's tables differ from the metadata, in words; [] if they do not."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from sqlcache.store._sql.schema import METADATA

    with _driver_errors(), engine_connection(connection) as outer:
        context = MigrationContext.configure(
            outer, opts={"compare_type": True, "compare_server_default": True}
        )
        found = compare_metadata(context, METADATA)
        # What differs in a column that both have comes as a list of its own.
        flat = chain.from_iterable(each if isinstance(each, list) else [each] for each in found)
        return [_in_words(*each) for each in flat]


def _in_words(kind: str, *what: Any) -> str:
    """Return one of Alembic's differences in words; it tells what would make the tables equal."""
    verb, _, noun = kind.partition("_")
    if verb == "modify":
        _, table, column, _, found, expected = what
        return f"column {table}.{column} has {noun} {found}, not {expected}"
    if noun == "column":
        name = f"{what[1]}.{what[2].name}"
    elif noun == "table":
        name = what[0].name
    else:
        name = f"{what[0].name or 'without name'} of table {what[0].table.name}"
    return f"{noun} {name} is {'missing' if verb == 'add' else 'not expected'}"


@cache
def _scripts() -> ScriptDirectory:
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(_config())


def _config(**attributes: object) -> Config:
    from alembic.config import Config

    config = Config(attributes=attributes)
    config.set_main_option("script_location", str(_migrations()))
    config.set_main_option("path_separator", "os")
    return config


def _migrations() -> Path:
    """Return where the migrations lie: within an installed package, beside it in a checkout."""
    package = Path(__file__).parents[2]
    installed = package / "migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


def _run(connection: sqlite3.Connection, step: Callable[[Config], None]) -> None:
    with _driver_errors(), engine_connection(connection) as outer:
        # IMMEDIATE: of two processes that open a new file at once, the second one waits and then
        # finds nothing to do. Closing the connection rolls back what was not committed.
        outer.exec_driver_sql("BEGIN IMMEDIATE")
        outer.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
        step(_config(connection=outer))
        outer.commit()


@contextmanager
def _driver_errors() -> Iterator[None]:
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except DBAPIError as error:
        raise (error.orig or error) from error
