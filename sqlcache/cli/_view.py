"""How a command shows objects: the columns of its table, and the options that add some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any

import click

from sqlcache.cli._columns import columns_of, format_labels
from sqlcache.cli._fields import mapping, text
from sqlcache.objects import Object, object_name

_WITH_COLUMNS = ("table", "wide", "csv")


@dataclass(frozen=True)
class ViewOptions:
    """What the options ask for.

    Attributes:
        headers: whether the line of headers is wanted.
        show_labels: whether a column with all labels is wanted.
        label_columns: keys of labels that get a column of their own.
    """

    headers: bool
    show_labels: bool
    label_columns: tuple[str, ...]

    def check(self, output: str) -> None:
        """Refuse columns for a form of output that has none.

        Raises:
            click.UsageError: there are some.
        """
        if (self.show_labels or self.label_columns) and output not in _WITH_COLUMNS:
            raise click.UsageError(f"--show-labels and -L add columns: -o {output} has none")


def view_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--no-headers`, `--show-labels` and `-L`; the command gets them as `view`."""

    @wraps(command)
    def with_view(
        *args: Any,
        no_headers: bool,
        show_labels: bool,
        label_columns: tuple[str, ...],
        **options: Any,
    ) -> Any:
        keys = tuple(key for keys in label_columns for key in keys.split(",") if key)
        return command(*args, view=ViewOptions(not no_headers, show_labels, keys), **options)

    columns = click.option(
        "-L",
        "--label-columns",
        metavar="KEY",
        multiple=True,
        help="Add a column with the value of this label; several times, or keys with commas.",
    )
    labels = click.option("--show-labels", is_flag=True, help="Add a column with all labels.")
    headers = click.option("--no-headers", is_flag=True, help="Leave the line of headers out.")
    return headers(labels(columns(with_view)))


@dataclass(frozen=True)
class View:
    """The columns of a table of objects.

    Attributes:
        resource: plural name, which chooses the columns.
        options: what the user asked for.
        wide: whether the columns of `-o wide` are wanted.
        namespaces: whether the first column is the namespace.
    """

    resource: str
    options: ViewOptions
    wide: bool
    namespaces: bool

    def headers(self) -> list[str]:
        """Return the headers."""
        columns = columns_of(self.resource)
        return [
            *(["NAMESPACE"] if self.namespaces else []),
            *columns.headers,
            *(columns.wide_headers if self.wide else []),
            *(key.rpartition("/")[2].upper() for key in self.options.label_columns),
            *(["LABELS"] if self.options.show_labels else []),
        ]

    def row(self, obj: Object, now: datetime) -> list[str]:
        """Return the cells of an object."""
        labels = mapping(obj["metadata"].get("labels"))
        return [
            *([object_name(obj).namespace] if self.namespaces else []),
            *columns_of(self.resource).cells(obj, now, self.wide),
            *(text(labels.get(key)) for key in self.options.label_columns),
            *([format_labels(labels)] if self.options.show_labels else []),
        ]
