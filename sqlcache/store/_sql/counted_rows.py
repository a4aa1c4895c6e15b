"""Looking up the rows of scopes, label keys and labels by name, and remembering them.

One statement finds the rows of a whole batch, in all three tables: each statement gives the
interpreter lock away. A database in memory has one connection, which counts the rows that it
changes: as long as nobody else changed any, rows that were met before are still so, and a batch
whose terms are all known needs no statement.

Elsewhere: new counts (counted), what a batch needs (difference).
Source: sqlite.org/c3ref/total_changes.html.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import NamedTuple, Self, TypeVar

import orjson

from sqlcache.store._sql.counted import Query, Row, tree, tree_rows
from sqlcache.store._sql.terms import Scope, Term, scope_name

_REMEMBERED = 4_096  # labels; with all that is kept of one, some 350 bytes each

_FIND = "json_array(json_group_array({leaf}), json_group_array(t.id), json_group_array(t.n))"
# The last of the three joins by names, not by ids: so one statement does.
_FIND_ALL = (
    "SELECT json_array("
    f"(SELECT {_FIND.format(leaf='j2.value')} FROM {tree_rows('?', 3)} CROSS JOIN scope t"
    " WHERE t.resource_id = j0.key AND t.kind = j1.key AND t.namespace = j2.key),"
    f" (SELECT {_FIND.format(leaf='j0.value')} FROM {tree_rows('?', 1)} CROSS JOIN label_key t"
    " WHERE t.name = j0.key),"
    f" (SELECT {_FIND.format(leaf='j4.value')} FROM json_each(?) j0"
    " CROSS JOIN json_each(j0.value) j1 CROSS JOIN json_each(j1.value) j2 CROSS JOIN scope s"
    " CROSS JOIN json_each(j2.value) j3 CROSS JOIN label_key k"
    " CROSS JOIN json_each(j3.value) j4 CROSS JOIN label t"
    " WHERE s.resource_id = j0.key AND s.kind = j1.key AND s.namespace = j2.key"
    " AND k.name = j3.key AND t.scope_id = s.id AND t.key_id = k.id AND t.value = j4.key))"
)

N = TypeVar("N", bound=Hashable)


class RowsByName(NamedTuple):
    """Rows of the three tables by what they stand for; one with a count of 0 is gone."""

    scopes: Mapping[Scope, Row]
    keys: Mapping[str, Row]
    labels: Mapping[Term, Row]


NO_ROWS = RowsByName({}, {}, {})


class CountedRows:
    """The rows of one resource that are known.

    Attributes:
        scopes, keys, labels: the rows by what they stand for.
        terms: what label ids stand for; also of labels whose rows are not known, or gone.
        sequences: the last id of each sequence; None if that is not known.
    """

    def __init__(self) -> None:
        """Know nothing."""
        self.scopes: dict[Scope, Row] = {}
        self.keys: dict[str, Row] = {}
        self.labels: dict[Term, Row] = {}
        self.terms: dict[int, Term] = {}
        self.sequences: Mapping[str, int] | None = None
        self._changes = 0

    def at(self, changes: int) -> Self:
        """Return this, without what may not be so any more.

        Args:
            changes: how many rows the only connection to the database has changed.
        """
        if changes != self._changes or len(self.terms) > _REMEMBERED:
            for known in (self.scopes, self.keys, self.labels, self.terms):
                known.clear()
            self.sequences, self._changes = None, changes
        return self

    def keep(self, rows: RowsByName, sequences: Mapping[str, int] | None, changes: int) -> None:
        """Know what a batch wrote.

        Args:
            rows: those that it counted.
            sequences: the last ids, if they are known.
            changes: as in `at`, after it.
        """
        _keep(self.scopes, rows.scopes)
        _keep(self.keys, rows.keys)
        _keep(self.labels, rows.labels)
        self.sequences = sequences
        self.terms.update((label_id, term) for term, (label_id, _) in rows.labels.items())
        self._changes = changes

    def find(
        self,
        query: Query,
        resource_id: int,
        scopes: Collection[Scope],
        keys: Collection[str],
        terms: Collection[Term],
    ) -> None:
        """Look up those rows that are not known; some may not be there.

        Args:
            query: reads the database.
            resource_id: of the resource's row.
            scopes: with those of all terms.
            keys: with those of all terms.
            terms: of labels and index values.
        """
        unknown_scopes = [each for each in scopes if each not in self.scopes]
        unknown_keys = [each for each in keys if each not in self.keys]
        unknown_terms = [each for each in terms if each not in self.labels]
        if not (unknown_scopes or unknown_keys or unknown_terms):
            return
        names = {scope: (resource_id, *scope_name(scope)) for scope in scopes}
        places = (
            [names[scope] for scope in unknown_scopes],
            [(key,) for key in unknown_keys],
            [(*names[scope], key, value) for scope, key, value in unknown_terms],
        )
        trees = [tree((name, place) for place, name in enumerate(each)) for each in places]
        in_scopes, in_keys, in_labels = orjson.loads(query(_FIND_ALL, tuple(trees)))
        _take(self.scopes, unknown_scopes, *in_scopes)
        _take(self.keys, unknown_keys, *in_keys)
        _take(self.labels, unknown_terms, *in_labels)

    def note(self, terms: Iterable[Term], ids: Iterable[int]) -> None:
        """Know what label ids stand for.

        Args:
            terms: of an object.
            ids: theirs; 0 where one has none.
        """
        for term, label_id in zip(terms, ids, strict=True):
            if label_id:
                self.terms[label_id] = term


def _take(
    known: dict[N, Row], names: list[N], places: list[int], ids: list[int], counts: list[int]
) -> None:
    for place, row_id, n in zip(places, ids, counts, strict=True):
        known[names[place]] = row_id, n


def _keep(known: dict[N, Row], rows: Mapping[N, Row]) -> None:
    known.update(rows)
    for name, (_, n) in rows.items():
        if n <= 0:
            del known[name]
