"""Counted tables: rows that are made when first needed and go when nothing needs them.

`scope`, `label_key` and `label` each give an id to a name and count its members in `n`. They are
changed the same way: look the names of a batch up, in all three tables with one statement, work out
the new counts, and write them (batch_trigger). A row whose count becomes 0 goes, when nothing is
found through it (label_keys).

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

    def written(self) -> dict[str, str]:
        """Return what is to be written: what `WRITE_SEQUENCES` takes, by column."""
        if self._last is None or not self._changed:
            return {}
        return {"sequences": to_json([(name, self._last[name]) for name in self._changed])}


Found = Mapping[int, tuple[int, int]]
"""Id and n of the names that have a row, by position."""


class Counts(NamedTuple):
    """What a change of counts amounts to.

    Attributes:
        ids: of each name.
        written: what is to be written: ids of new names, and counts, by the table's `written`.
        came: positions of the names that had no row before.
        went: positions of those that have none afterwards.
    """

    ids: list[int]
    written: dict[str, str]
    came: list[int]
    went: list[int]


@dataclass(frozen=True)
class CountedTable:
    """A table with columns that make up a name, an `id` and a count `n`."""

    table: str
    columns: tuple[str, ...]

    def change(
        self, found: Found, sequences: Sequences, names: Sequence[Name], changes: Iterable[int]
    ) -> Counts:
        """Work out new counts.

        Args:
            found: which of the names have a row.
            sequences: gives ids to names that have no row yet.
            names: distinct.
            changes: what is added to each count; 0 only asks for the id of a name that has a row.
        """
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
            if change or n + change <= 0:
                counted.append((name, n + change))
        # In key order, so that a large batch fills pages from left to right.
        written = {
            column: _tree(sorted(rows))
            for column, rows in zip(self.written, (added, counted), strict=True)
            if rows
        }
        return Counts(ids, written, came, went)

    @property
    def written(self) -> tuple[str, str]:
        """The names of the columns of `Counts.written`."""
        return f"{self.table}_added", f"{self.table}_counted"

    @property
    def writes(self) -> tuple[str, str]:
        """What writes them, as columns of NEW."""
        names = ", ".join(self.columns)
        ids, counts = (_tree_rows(f"NEW.{each}", len(self.columns)) for each in self.written)
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


def _tree_rows(source: str, depth: int) -> str:
    """Return a FROM clause that reads a tree; j0, j1, … are its levels."""
    deeper = (f"json_each(j{level - 1}.value) j{level}" for level in range(1, depth))
    return " CROSS JOIN ".join((f"json_each({source}) j0", *deeper))


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

_FIND = "json_array(json_group_array({leaf}), json_group_array(t.id), json_group_array(t.n))"
# The last of the three joins by names, not by ids: so one statement does, and each statement gives
# the interpreter lock away.
_FIND_ALL = (
    "SELECT json_array("
    f"(SELECT {_FIND.format(leaf='j2.value')} FROM {_tree_rows('?', 3)} CROSS JOIN scope t"
    " WHERE t.resource_id = j0.key AND t.kind = j1.key AND t.namespace = j2.key),"
    f" (SELECT {_FIND.format(leaf='j0.value')} FROM {_tree_rows('?', 1)} CROSS JOIN label_key t"
    " WHERE t.name = j0.key),"
    f" (SELECT {_FIND.format(leaf='j4.value')} FROM json_each(?) j0"
    " CROSS JOIN json_each(j0.value) j1 CROSS JOIN json_each(j1.value) j2 CROSS JOIN scope s"
    " CROSS JOIN json_each(j2.value) j3 CROSS JOIN label_key k"
    " CROSS JOIN json_each(j3.value) j4 CROSS JOIN label t"
    " WHERE s.resource_id = j0.key AND s.kind = j1.key AND s.namespace = j2.key"
    " AND k.name = j3.key AND t.scope_id = s.id AND t.key_id = k.id AND t.value = j4.key))"
)


def find(
    query: Query, scopes: Sequence[Name], keys: Sequence[Name], labels: Sequence[Name]
) -> tuple[Found, Found, Found]:
    """Look names up.

    Args:
        query: reads the database.
        scopes: (resource id, kind, namespace) of each.
        keys: (name,) of each.
        labels: (resource id, kind, namespace, key, value) of each.
    """
    trees = [
        _tree((name, position) for position, name in enumerate(names))
        for names in (scopes, keys, labels)
    ]
    scopes_found, keys_found, labels_found = (
        dict(zip(positions, zip(ids, counts, strict=True), strict=True))
        for positions, ids, counts in orjson.loads(query(_FIND_ALL, tuple(trees)))
    )
    return scopes_found, keys_found, labels_found
