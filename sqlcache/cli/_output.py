"""What commands print: tables, JSON, CSV, YAML.

A table is aligned text, laid out as kubectl's are; on a terminal its headers are bold (rich;
NO_COLOR is heeded). Output is UTF-8 whatever the locale says.

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
import select
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
        rest = memoryview(data)
        # With PYTHONUNBUFFERED this is a bare descriptor, and may take less than it is given: on
        # a disk that is filling up, or when a reader goes away. The next write tells why.
        while rest:
            rest = rest[stdout.buffer.write(rest) :]


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


def reader_is_gone() -> bool:
    """Tell whether nobody can read standard output any more, without writing to it.

    For a command that has nothing to write for hours, as in `sqlcache watch pods | head -3`.
    """
    with _stdout() as stdout:
        try:
            descriptor = stdout.fileno()
        except ValueError:
            return False  # no real file, as in tests
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


class TableWriter:
    """Writes a table row by row: a column is as wide as its widest cell so far.

    Source: cli-runtime pkg/printers tabwriter.go, with RememberWidths.
    """

    def __init__(self, headers: Sequence[str], *, show_headers: bool = True) -> None:
        """Make a table without rows.

        Args:
            headers: one for each column.
            show_headers: whether they go before the first rows.
        """
        with _stdout() as stdout:
            self._is_terminal = stdout.isatty()
        self._headers = list(headers) if show_headers else None
        self._widths = [_MIN_CHARS] * len(headers)

    def write(self, rows: Iterable[Sequence[str]]) -> None:
        """Write rows, all aligned with each other."""
        lines = [[_cell(cell) for cell in row] for row in rows]
        if self._headers is not None:
            lines.insert(0, self._headers)
        for line in lines:
            widths = (self._length(cell) + _GAP_CHARS for cell in line)
            self._widths = [*map(max, self._widths, widths)]
        texts = [self._aligned(line) for line in lines]
        if self._headers is not None and self._is_terminal:
            texts[0] = _bold(texts[0])
        self._headers = None
        write("".join(texts))

    def _aligned(self, line: Sequence[str]) -> str:
        padded = [
            cell + " " * (width - self._length(cell))
            for cell, width in zip(line[:-1], self._widths, strict=False)
        ]
        return f"{''.join(padded)}{line[-1]}\n"

    def _length(self, cell: str) -> int:
        if not self._is_terminal or cell.isascii():
            return len(cell)
        from rich.cells import cell_len

        return cell_len(cell)


def write_table(table: Table, *, headers: bool = True) -> None:
    """Write a table as text."""
    TableWriter(table.headers, show_headers=headers).write(table.rows)


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


def write_json_line(value: Any) -> None:
    """Write a value as JSON in one line."""
    write(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE))


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


def _bold(line: str) -> str:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stdout, soft_wrap=True)
    with console.capture() as captured:
        console.print(Text(line, style="bold"), end="")
    return captured.get()


def some(count: int, noun: str) -> str:
    """Return how many there are, in words: a regular noun, in the singular."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
