"""The options that commands share, parsed and checked.

Elsewhere: `--from`, and what is found where (_source), `--kubeconfig` and `--context` (_cluster),
the columns of tables (_view).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from sqlcache.cli._resources import name_of
from sqlcache.errors import BackendError, SelectorError
from sqlcache.selectors import Selector, parse
from sqlcache.store import BACKEND_VARIABLE, BACKENDS, DEFAULT_BACKEND
from sqlcache.store.labels import LabelPolicy, policy_of

Command = TypeVar("Command", bound=Callable[..., Any])

FILE_PREFIX = "sqlite:///"
# Those that are whole in JSON everywhere. `random` takes a negative one for its absolute value.
SEED = click.IntRange(0, (1 << 32) - 1)


class NumberRange(click.FloatRange):
    """A `FloatRange` that no NaN gets through: it is neither below nor above anything."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number, or refuse what is none."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is no number.", param, ctx)
        return number


def path_in(backend: str) -> str | None:
    """Return the path in `sqlite:///path`, None where there is none."""
    path = backend.removeprefix(FILE_PREFIX)
    return path if path and path != backend else None


def database_path(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the path in `sqlite:///path`; for click, as a callback."""
    if value is None:
        return None
    if path := path_in(value):
        return path
    hint = "" if ":" in value or not value else f"; did you mean {FILE_PREFIX}{value}?"
    raise click.BadParameter(
        f"{value!r} is no {FILE_PREFIX}PATH (four slashes for an absolute path){hint}"
    )


def backend_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return a name that `open_store` takes; for click, as a callback."""
    if value in BACKENDS or path_in(value):
        return value
    raise click.BadParameter(
        f"no backend {value!r}: choose {', '.join(BACKENDS)} or {FILE_PREFIX}PATH"
    )


def separated(names: str) -> tuple[str, ...]:
    """Return the names between commas, each once."""
    return tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


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


def backend_option(
    file: str, callback: Callable[[click.Context, click.Parameter, str], str] = backend_name
) -> Callable[[Command], Command]:
    """Return the `--backend` option, as a decorator.

    Args:
        file: what a file is to be, or is good for.
        callback: checks the name, see `backend_name`.
    """
    return click.option(
        "--backend",
        metavar="NAME",
        envvar=BACKEND_VARIABLE,
        show_envvar=True,
        default=DEFAULT_BACKEND,
        show_default=True,
        callback=callback,
        help=f"Backend of all caches: {', '.join(BACKENDS)} or {FILE_PREFIX}PATH, {file}.",
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
        help="Namespace to look in. Default: that of the context; where there is none, `default`.",
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
