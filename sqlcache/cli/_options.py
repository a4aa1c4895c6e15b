"""The options that commands share, parsed and checked.

Elsewhere: `--from`, and what is found where (_source), `--kubeconfig` and `--context` (_cluster),
the columns of tables (_view).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from sqlcache.cli._resources import name_of
from sqlcache.errors import BackendError, SelectorError
from sqlcache.selectors import Selector, parse
from sqlcache.store.labels import LabelPolicy, policy_of

Command = TypeVar("Command", bound=Callable[..., Any])

FILE_PREFIX = "sqlite:///"


def database_path(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the path in `sqlite:///path`; for click, as a callback."""
    if value is None:
        return None
    path = value.removeprefix(FILE_PREFIX)
    if path and path != value:
        return path
    hint = "" if ":" in value or not value else f"; did you mean {FILE_PREFIX}{value}?"
    raise click.BadParameter(
        f"{value!r} is no {FILE_PREFIX}PATH (four slashes for an absolute path){hint}"
    )


def _selector(ctx: click.Context, param: click.Parameter, value: str) -> Selector:
    try:
        return parse(value)
    except SelectorError as error:
        raise click.BadParameter(str(error)) from error


def database_option(
    help_text: str, *, required: bool, names: tuple[str, ...] = ("--db",)
) -> Callable[[Command], Command]:
    """Return the `--db` option, as a decorator."""
    return click.option(
        *names,
        "db",
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
        callback=name_of,
        help="Resource, by one of its names. A file keeps each resource apart.",
    )(command)


def _policy(ctx: click.Context, param: click.Parameter, value: str | None) -> LabelPolicy | None:
    if value is None:
        return None
    try:
        return policy_of(value)
    except BackendError as error:
        raise click.BadParameter(str(error)) from error


def labels_option(command: Command) -> Command:
    """Add `--labels`, which gives a `LabelPolicy` or None."""
    return click.option(
        "--labels",
        metavar="POLICY",
        callback=_policy,
        help="Which label keys are indexed: 'all', or some of allow=KEY,..., deny=KEY,..., limit=N "
        "(distinct values of a key) and on-demand, with spaces between; deny=churning stands for "
        "pod-template-hash and its like. Answers stay the same. Default: as the file has it, else "
        "all.",
    )(command)


def namespace_options(command: Command) -> Command:
    """Add `-n` and `-A`."""
    one = click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        help="Namespace to look in. Default: that of the context; of a file or dump, default.",
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


def field_selector_option(command: Command) -> Command:
    """Add `--field-selector`, as text."""
    return click.option(
        "--field-selector",
        metavar="SELECTOR",
        default="",
        help="Field selector, such as 'spec.nodeName=n1,status.phase!=Running'. Default: all"
        " objects.",
    )(command)
