"""Where a command finds objects: `--db`, a file that `sqlcache load` made, or `--from`, a dump.

The options that commands share are here as well: `-n`, `-A`, `-l`, `--resource`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from sqlcache.cli._resources import plural
from sqlcache.errors import DatabaseError, SelectorError
from sqlcache.selectors import Selector, parse
from sqlcache.store import open_store
from sqlcache.store.api import Indexer

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_NAMESPACE = "default"
_PREFIX = "sqlite:///"


def database_path(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the path in `sqlite:///path`; for click, as a callback."""
    if value is None:
        return None
    path = value.removeprefix(_PREFIX)
    if path and path != value:
        return path
    hint = "" if ":" in value or not value else f"; did you mean {_PREFIX}{value}?"
    raise click.BadParameter(
        f"{value!r} is no {_PREFIX}PATH (four slashes for an absolute path){hint}"
    )


def _selector(ctx: click.Context, param: click.Parameter, value: str) -> Selector:
    try:
        return parse(value)
    except SelectorError as error:
        raise click.BadParameter(str(error)) from error


def database_option(help_text: str, *, required: bool) -> Callable[[Command], Command]:
    """Return the `--db` option, as a decorator."""
    return click.option(
        "--db",
        metavar="sqlite:///PATH",
        required=required,
        callback=database_path,
        help=f"{help_text} Four slashes make the path absolute.",
    )


def resource_option(command: Command) -> Command:
    """Add `--resource`."""
    return click.option(
        "--resource",
        metavar="NAME",
        default="pods",
        show_default=True,
        callback=plural,
        help="Resource, by its plural name. A file keeps each resource apart.",
    )(command)


def source_options(command: Command) -> Command:
    """Add `--db` and `--from`; `open_source` takes both."""
    dump = click.option(
        "--from",
        "dump",
        metavar="DUMP",
        help="Dump to read into memory instead: a file, a directory, or - for standard input.",
    )
    return database_option("Database file to read.", required=False)(dump(command))


def namespace_options(command: Command) -> Command:
    """Add `-n` and `-A`; `chosen_namespace` takes both."""
    one = click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        default=DEFAULT_NAMESPACE,
        show_default=True,
        help="Namespace to look in.",
    )
    all_of_them = click.option(
        "-A", "--all-namespaces", is_flag=True, help="Look in all namespaces, whatever -n says."
    )
    return one(all_of_them(command))


def selector_option(command: Command) -> Command:
    """Add `-l`, parsed."""
    return click.option(
        "-l",
        "--selector",
        metavar="SELECTOR",
        default="",
        callback=_selector,
        help="Label selector, such as 'app=web,tier in (a,b),!canary'. Default: all objects.",
    )(command)


def open_source(db: str | None, dump: str | None, resource: str) -> Indexer:
    """Open a database file, or read a dump into memory.

    Raises:
        click.UsageError: neither or both are given.
        DatabaseError: the file does not exist, or cannot be opened.
        DumpError, OSError: the dump cannot be read.
    """
    if (db is None) == (dump is None):
        raise click.UsageError("give either --db sqlite:///PATH or --from DUMP")
    if dump is not None:
        return _loaded(dump, resource)
    if not Path(str(db)).exists():
        raise DatabaseError(str(db), "no such file; `sqlcache load` makes one")
    return open_store(f"{_PREFIX}{db}", resource, hot_objects=0)


def _loaded(dump: str, resource: str) -> Indexer:
    from sqlcache.dumps import DumpReader

    reader = DumpReader([dump], resource)
    store = open_store("sqlite", resource, objects="packed", hot_objects=0)
    try:
        store.replace(reader, "")
    except BaseException:
        store.close()
        raise
    return store
