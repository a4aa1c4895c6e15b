"""Counted tables: rows that are made when first needed and go when nothing needs them.

`scope`, `label_key` and `label` each give an id to a name and count its members in `n`. They are
changed the same way: look the names of a batch up (counted_rows), work out the new counts, and
write them (batch_trigger). A row whose count becomes 0 goes, when nothing is found through it
(label_keys).

The names of a batch go to SQL as a tree: a JSON object by the first part of a name, of objects by
the next, and so on. json_each reads it in one pass, where json_extract would parse each name again
for each part.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

Name = tuple[Any, ...]
Query = Callable[[str, tuple[Any, ...]], Any]  # gives the first column of the first row
Statement = tuple[str, tuple[Any, ...] | dict[str, Any]]  # with named parameters, a dict


def reader(connection: sqlite3.Connection) -> Query:
    """Return what reads a connection's database."""

    def query(sql: str, parameters: tuple[Any, ...] = ()) -> Any:
        row = connection.execute(sql, parameters).fetchone()
        return row[0] if row else None

    return query


def to_json(value: Any) -> str:
    """Return a list as the JSON array that json_each takes as a parameter."""
    return orjson.dumps(value).decode()


WRITE_SEQUENCES = (
    "INSERT INTO sequence (name, value)"
    " SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]')"
    " FROM json_each(NEW.sequences)"
    " WHERE true ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)


class Sequences:
    """Ids that are never given twice, also by several processes on one file."""

    _READ = "SELECT json_group_object(name, value) FROM sequence"

    def __init__(self, query: Query, last: Mapping[str, int] | None = None) -> None:
        """Make a reader of all sequences.

        The caller's transaction, or its lock, keeps other writers out.

        Args:
            query: reads the database.
            last: the last ids, if they are known.
        """
        self._query = query
        self._last = None if last is None else dict(last)
        self._changed: set[str] = set()

    def next(self, name: str) -> int:
        """Return the next id of a sequence."""
        if self._last is None:
            self._last = orjson.loads(self._query(self._READ, ()))
        self._last[name] = self._last.get(name, 0) + 1
        self._changed.add(name)
        return self._last[name]

    @property
    def last(self) -> Mapping[str, int] | None:
        """The last id of each sequence; None if that is not known."""
        return self._last

    def written(self) -> dict[str, str]:
        """Return what is to be written: what `WRITE_SEQUENCES` takes, by column."""
        if self._last is None or not self._changed:
            return {}
        return {"sequences": to_json([(name, self._last[name]) for name in self._changed])}


Row = tuple[int, int]  # id and n of a name


class Counts(NamedTuple):
    """What a change of counts amounts to.

    Attributes:
        rows: of each name, afterwards.
        written: what is to be written: ids of new names, and counts, by the table's `written`.
        came: positions of the names that had no row before.
        went: positions of those that have none afterwards.
    """

    rows: list[Row]
    written: dict[str, str]
    came: list[int]
    went: list[int]


@dataclass(frozen=True)
class CountedTable:
    """A table with columns that make up a name, an `id` and a count `n`."""

    table: str
    columns: tuple[str, ...]

    def change(
        self,
        rows: Iterable[Row | None],
        sequences: Sequences,
        names: Sequence[Name],
        changes: Iterable[int],
    ) -> Counts:
        """Work out new counts.

        Args:
            rows: of the names; None where one has none yet.
            sequences: gives ids to those.
            names: distinct.
            changes: what is added to each count; 0 only asks for the id of a name that has a row.
        """
        after: list[Row] = []
        came: list[int] = []
        went: list[int] = []
        added: list[tuple[Name, int]] = []
        counted: list[tuple[Name, int]] = []
        for position, (row, name, change) in enumerate(zip(rows, names, changes, strict=True)):
            if row is None:
                row_id, n = sequences.next(self.table), change
                came.append(position)
                added.append((name, row_id))
            else:
                row_id, n = row[0], row[1] + change
            after.append((row_id, n))
            if n <= 0:
                went.append(position)
            if change or n <= 0:
                counted.append((name, n))
        written = {
            column: tree(each)
            for column, each in zip(self.written, (added, counted), strict=True)
            if each
        }
        return Counts(after, written, came, went)

    @property
    def written(self) -> tuple[str, str]:
        """The names of the columns of `Counts.written`."""
        return f"{self.table}_added", f"{self.table}_counted"

    @property
    def writes(self) -> tuple[str, str]:
        """What writes them, as columns of NEW."""
        names = ", ".join(self.columns)
        ids, counts = (tree_rows(f"NEW.{each}", len(self.columns)) for each in self.written)
        into = f"INSERT INTO {self.table} ({names}, id, n) SELECT {self._name}"
        # An UPDATE would have to join, which takes longer than the conflict with the row there.
        counted = f"ON CONFLICT ({names}) DO UPDATE SET n = excluded.n"
        return (
            f"{into}, {self._leaf}, 0 FROM {ids}",
            f"{into}, 0, {self._leaf} FROM {counts} WHERE true {counted}",
        )

    @property
    def removal(self) -> str:
        """What deletes the row of NEW."""
        same = " AND ".join(f"{column} = NEW.{column}" for column in self.columns)
        return f"DELETE FROM {self.table} WHERE {same}"

    @property
    def _name(self) -> str:
        return ", ".join(f"j{depth}.key" for depth in range(len(self.columns)))

    @property
    def _leaf(self) -> str:
        return f"j{len(self.columns) - 1}.value"


def tree_rows(source: str, depth: int) -> str:
    """Return a FROM clause that reads a tree; j0, j1, … are its levels."""
    deeper = (f"json_each(j{level - 1}.value) j{level}" for level in range(1, depth))
    return " CROSS JOIN ".join((f"json_each({source}) j0", *deeper))


def tree(rows: Iterable[tuple[Name, int]]) -> str:
    """Return names and a number for each as nested JSON objects, one level a part of a name.

    The last parts are in key order, so that a large batch fills pages from left to right.
    """
    root: dict[Any, Any] = {}
    for name, number in rows:
        node = root
        for part in name[:-1]:
            node = node.setdefault(part, {})
        node[name[-1]] = number
    return orjson.dumps(root, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS).decode()


SCOPES = CountedTable("scope", ("resource_id", "kind", "namespace"))
LABEL_KEYS = CountedTable("label_key", ("name",))
LABELS = CountedTable("label", ("scope_id", "key_id", "value"))
