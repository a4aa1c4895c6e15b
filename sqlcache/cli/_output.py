"""What commands print: tables, JSON, CSV, YAML.

A table goes to a terminal with its headers in bold (rich; NO_COLOR is heeded), and anywhere else
as plain aligned text, laid out as kubectl's are. Output is UTF-8 whatever the locale says.

Promises
- Texts from objects cannot move the cursor or colour the terminal: control characters of a cell
  are escaped, and a cell ends with its first line.

Source: cli-runtime pkg/printers/tableprinter.go, terminal.go.
"""

from __future__ import annotations

import csv
import errno
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

import orjson

from sqlcache.errors import SqlcacheError
from sqlcache.objects import Object

_MIN_CHARS, _GAP_CHARS = 6, 3  # kubectl's tab writer: minwidth and padding
_LINE_END = re.compile(r"[\f\n\r]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LEADING = re.compile(rb"\n( +)")
_ITEM_INDENT = b"\n        "
_LIST_START = '{\n    "apiVersion": "v1",\n    "items": ['
_LIST_END = ',\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n'


class Table(NamedTuple):
    """A table of texts.

    Attributes:
        headers: one for each column.
        rows: cells, as many as headers.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


class OutputError(SqlcacheError, RuntimeError):
    """The output format needs a package that is not installed."""


def write(text: str | bytes) -> None:
    """Write to standard output, in UTF-8."""
    data = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
    with _stdout() as stdout:
        stdout.buffer.write(data)


def flush() -> None:
    """Write out what is still in memory."""
    if sys.stdout is not None:
        with _stdout() as stdout:
            stdout.flush()


@contextmanager
def _stdout() -> Iterator[TextIO]:
    """Return standard output; errors name it."""
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        yield sys.stdout
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from error


def write_table(table: Table, *, headers: bool = True) -> None:
    """Write a table as text, for a terminal or for a pipe."""
    safe = Table(table.headers, [[_cell(cell) for cell in row] for row in table.rows])
    with _stdout() as stdout:
        is_terminal = stdout.isatty()
    if is_terminal:
        write(_for_terminal(safe, headers=headers))
    else:
        write("".join(_aligned(safe, headers=headers)))


def write_csv(table: Table, *, headers: bool = True) -> None:
    """Write a table as comma-separated values."""
    text = io.StringIO()
    # Before Python 3.13, a carriage return alone is not quoted where lines end with "\n".
    returns = any("\r" in cell for row in table.rows for cell in row)
    writer = csv.writer(
        text, lineterminator="\n", quoting=csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL
    )
    if headers:
        writer.writerow(table.headers)
    writer.writerows(table.rows)
    write(text.getvalue())


def write_json(value: Any) -> None:
    """Write a value as indented JSON. Dataclasses become objects."""
    write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def write_object(obj: Object) -> None:
    """Write an object as kubectl's `-o json` does: sorted names, four spaces."""
    write(_LEADING.sub(rb"\n\1\1", _sorted_json(obj)) + b"\n")


def write_list(objects: Iterable[Object]) -> None:
    """Write objects as kubectl's `-o json` writes several: a List, item by item."""
    write(_LIST_START)
    separator = b""
    for obj in objects:
        item = _LEADING.sub(rb"\n\1\1", _sorted_json(obj)).replace(b"\n", _ITEM_INDENT)
        write(separator + _ITEM_INDENT + item)
        separator = b","
    end = "\n    ]" if separator else "]"
    write(end + _LIST_END)


def write_yaml(value: Any) -> None:
    """Write a value as YAML.

    Raises:
        OutputError: PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError as error:
        raise OutputError("-o yaml needs PyYAML: pip install 'sqlcache[yaml]'") from error
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(value, Dumper=dumper, allow_unicode=True, default_flow_style=False)
    write(text)


def _sorted_json(obj: Object) -> bytes:
    return orjson.dumps(obj, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)


def _cell(text: str) -> str:
    line = _LINE_END.search(text)
    if line:
        text = f"{text[: line.start()]}..."
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def _aligned(table: Table, *, headers: bool) -> Iterator[str]:
    lines = [table.headers, *table.rows] if headers else table.rows
    widths = [
        max(_MIN_CHARS, max(map(len, column)) + _GAP_CHARS) for column in zip(*lines, strict=True)
    ][:-1]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=False))
        yield f"{''.join(padded)}{line[-1]}\n"


def _for_terminal(table: Table, *, headers: bool) -> str:
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    padding = (0, _GAP_CHARS, 0, 0)
    rich_table = RichTable(
        box=None, show_header=headers, header_style="bold", pad_edge=False, padding=padding
    )
    for header in table.headers:
        rich_table.add_column(Text(header), no_wrap=True)
    for row in table.rows:
        rich_table.add_row(*map(Text, row))
    # As wide as it needs to be: a name cut to fit the window is no name.
    columns = zip(table.headers, *table.rows, strict=True)
    width = sum(max(map(cell_len, column)) + _GAP_CHARS for column in columns)
    console = Console(file=sys.stdout, width=width)
    with console.capture() as captured:
        console.print(rich_table)
    return captured.get()
