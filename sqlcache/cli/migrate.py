"""`sqlcache migrate`: schema versions of a database file."""

from __future__ import annotations

from pathlib import Path

import click

from sqlcache.cli._options import database_option
from sqlcache.cli._output import some, write
from sqlcache.errors import DatabaseError

_FILE = database_option("Database file.", required=True)


class SchemaDiffersError(DatabaseError):
    """The tables of a file are not those that its migrations make."""


@click.group(short_help="Bring a database file to another schema version.")
def migrate() -> None:
    """Bring a database file to another schema version.

    Opening a file upgrades it already, also to read it; these commands are for doing it at a time
    of one's choice, for going back to an older release, and for looking.

    \b
    Examples:
      sqlcache migrate current --db sqlite:///cluster.db
      sqlcache migrate upgrade --db sqlite:///cluster.db
    """


@migrate.command()
@_FILE
@click.argument("revision", default="head")
def upgrade(db: str, revision: str) -> None:
    """Bring a file up to REVISION, or to the newest one.

    In one transaction: done in full, or not at all.

    \b
    Example:
      sqlcache migrate upgrade --db sqlite:///cluster.db
    """
    from sqlcache.store import migrations

    _check_exists(db)
    before = migrations.current(db)
    migrations.upgrade(db, revision)
    _report(db, before, migrations.current(db))


@migrate.command()
@_FILE
@click.argument("revision")
def downgrade(db: str, revision: str) -> None:
    """Take a file down to REVISION, or to base: no tables, no data.

    Data that the older schema has no room for is lost.

    \b
    Example:
      sqlcache migrate downgrade 0001 --db sqlite:///cluster.db
    """
    from sqlcache.store import migrations

    _check_exists(db)
    before = migrations.current(db)
    migrations.downgrade(db, revision)
    _report(db, before, migrations.current(db))


@migrate.command()
@_FILE
def current(db: str) -> None:
    """Print the revision of a file.

    \b
    Example:
      sqlcache migrate current --db sqlite:///cluster.db
    """
    from sqlcache.store import migrations

    _check_exists(db)
    write(f"{migrations.current(db) or 'base'}\n")


@migrate.command()
def history() -> None:
    """Print the revisions that this release knows, newest first.

    \b
    Example:
      sqlcache migrate history
    """
    from sqlcache.store import migrations

    for revision, before, title in migrations.history():
        write(f"{revision} (after {before or 'base'}): {title}\n")


@migrate.command()
@_FILE
def check(db: str) -> None:
    """Compare a file's tables with those that this release expects.

    Prints the differences, one a line, and fails if there are any.

    \b
    Example:
      sqlcache migrate check --db sqlite:///cluster.db
    """
    from sqlcache.store import migrations

    _check_exists(db)
    differences = migrations.check(db)
    write("".join(f"{difference}\n" for difference in differences))
    if differences:
        places = some(len(differences), "place")
        raise SchemaDiffersError(db, f"differs from the schema in {places}")
    click.echo(f"{db}: as expected", err=True)


def _check_exists(db: str) -> None:
    if not Path(db).exists():
        raise DatabaseError(db, "no such file; `sqlcache load` or `sqlcache mirror` makes one")


def _report(db: str, before: str | None, after: str | None) -> None:
    click.echo(f"{db}: {before or 'base'} -> {after or 'base'}", err=True)
