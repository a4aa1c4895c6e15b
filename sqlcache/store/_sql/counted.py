"""Counted tables: rows that are made when first needed and go when nothing needs them.

`scope`, `label_key` and `label` each give an id to a name and count its members in `n`. They are
changed the same way: look the names of a batch up in one statement, work out the new counts, and
write them in one more.

The names of a batch go to SQL as a tree: a JSON object by the first part of a name, of objects by
the next, and so on. json_each reads it in one pass, where json_extract would parse each name again
for each part.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
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


class Sequences:
    """Ids that are never given twice, also by several processes on one file."""

    _READ = "SELECT json_group_object(name, value) FROM sequence"
    _WRITE = (
        "INSERT INTO sequence (name, value)"
        " SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)"
        " WHERE true ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    )

    def __init__(self, query: Query) -> None:
        """Make a reader of all sequences.

        The caller's transaction, or its lock, keeps other writers out.
        """
        self._query = query
        self._last: dict[str, int] | None = None
        self._changed: set[str] = set()

    def next(self, name: str) -> int:
        """Return the next id of a sequence."""
        if self._last is None:
            self._last = orjson.loads(self._query(self._READ, ()))
        self._last[name] = self._last.get(name, 0) + 1
        self._changed.add(name)
        return self._last[name]

    def statements(self) -> Iterator[Statement]:
        """Yield the statement that writes the sequences used."""
        if self._last is not None and self._changed:
            yield self._WRITE, (to_json([(name, self._last[name]) for name in self._changed]),)


class Counts(NamedTuple):
    """What a change of counts amounts to.

    Attributes:
        ids: of each name.
        statements: write the counts.
        came: positions of the names that had no row before.
        went: positions of those that have none afterwards.
    """

    ids: list[int]
    statements: list[Statement]
    came: list[int]
    went: list[int]


@dataclass(frozen=True)
class CountedTable:
    """A table with columns that make up a name, an `id` and a count `n`."""

    table: str
    columns: tuple[str, ...]

    def find(self, query: Query, names: Sequence[Name]) -> dict[int, tuple[int, int]]:
        """Return (id, n) of those names that have a row, by position, in one statement."""
        if not names:
            return {}
        tree = _tree((name, position) for position, name in enumerate(names))
        positions, ids, counts = orjson.loads(query(self._find_sql, (tree,)))
        return dict(zip(positions, zip(ids, counts, strict=True), strict=True))

    def change(
        self, query: Query, sequences: Sequences, names: Sequence[Name], changes: Iterable[int]
    ) -> Counts:
        """Work out new counts.

        Args:
            query: reads the table.
            sequences: gives ids to names that have no row yet.
            names: distinct.
            changes: what is added to each count; 0 only asks for the id of a name that has a row.
        """
        found = self.find(query, names)
        ids: list[int] = []
        came: list[int] = []
        went: list[int] = []
        added: list[tuple[Name, int]] = []
        counted: list[tuple[Name, int]] = []
        for position, (name, change) in enumerate(zip(names, changes, strict=True)):
            row_id, n = found.get(position, (0, 0))
            if not row_id:
                row_id = sequences.next(self.table)
                came.append(position)
                added.append((name, row_id))
            ids.append(row_id)
            if n + change <= 0:
                went.append(position)
            elif change:
                counted.append((name, n + change))
        # In key order, so that a large batch fills pages from left to right.
        statements = [
            (sql, (_tree(sorted(rows)),))
            for sql, rows in ((self._add_sql, added), (self._count_sql, counted))
            if rows
        ]
        gone = [names[position] for position in went]
        return Counts(ids, [*statements, *self.removals(gone)], came, went)

    def removals(self, gone: Sequence[Name]) -> Iterator[Statement]:
        """Yield what deletes the rows of names."""
        # SQLite 3.40 uses only the first columns of an index for a row value IN (…), so each
        # group that shares them is a statement of its own.
        groups: dict[Name, list[Any]] = {}
        for name in gone:
            groups.setdefault(name[:-1], []).append(name[-1])
        for prefix, values in groups.items():
            yield self._remove_sql, (*prefix, to_json(values))

    @cached_property
    def _find_sql(self) -> str:
        matched = " AND ".join(
            f"t.{column} = j{depth}.key" for depth, column in enumerate(self.columns)
        )
        return (
            f"SELECT json_array(json_group_array({self._leaf}), json_group_array(t.id),"
            f" json_group_array(t.n)) FROM {self._tree_rows} CROSS JOIN {self.table} t"
            f" WHERE {matched}"
        )

    @cached_property
    def _add_sql(self) -> str:
        return (
            f"INSERT INTO {self.table} ({', '.join(self.columns)}, id, n)"
            f" SELECT {self._name}, {self._leaf}, 0 FROM {self._tree_rows}"
        )

    @cached_property
    def _count_sql(self) -> str:
        """Return what sets counts of names that have a row.

        An UPDATE would have to join, which takes longer than the conflict with the row there.
        """
        names = ", ".join(self.columns)
        return (
            f"INSERT INTO {self.table} ({names}, id, n)"
            f" SELECT {self._name}, 0, {self._leaf} FROM {self._tree_rows}"
            f" WHERE true ON CONFLICT ({names}) DO UPDATE SET n = excluded.n"
        )

    @property
    def _tree_rows(self) -> str:
        deeper = (
            f"json_each(j{depth - 1}.value) j{depth}" for depth in range(1, len(self.columns))
        )
        return " CROSS JOIN ".join(("json_each(?) j0", *deeper))

    @property
    def _name(self) -> str:
        return ", ".join(f"j{depth}.key" for depth in range(len(self.columns)))

    @property
    def _leaf(self) -> str:
        return f"j{len(self.columns) - 1}.value"

    @cached_property
    def _remove_sql(self) -> str:
        *prefix, last = self.columns
        matched = "".join(f"{column} = ? AND " for column in prefix)
        return f"DELETE FROM {self.table} WHERE {matched}{last} IN (SELECT value FROM json_each(?))"


def _tree(rows: Iterable[tuple[Name, int]]) -> str:
    """Return names and a number for each as nested JSON objects, one level a part of a name."""
    root: dict[Any, Any] = {}
    for name, number in rows:
        node = root
        for part in name[:-1]:
            node = node.setdefault(part, {})
        node[name[-1]] = number
    return orjson.dumps(root, option=orjson.OPT_NON_STR_KEYS).decode()


SCOPES = CountedTable("scope", ("resource_id", "kind", "namespace"))
LABEL_KEYS = CountedTable("label_key", ("name",))
LABELS = CountedTable("label", ("scope_id", "key_id", "value"))
