"""What a batch of changes means for scopes, label keys, labels and postings, summed up.

Objects enter, leave or change their terms; the sums become new counts (counted) and postings.

Elsewhere: finding out what changes (writer), the objects' own rows (object_rows).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, repeat, zip_longest
from typing import NamedTuple

from sqlcache.store._sql.counted import LABEL_KEYS, LABELS, SCOPES, Query, Sequences
from sqlcache.store._sql.counted_rows import NO_ROWS, CountedRows, RowsByName
from sqlcache.store._sql.label_keys import LabelKeys
from sqlcache.store._sql.object_rows import Row
from sqlcache.store._sql.postings import Postings
from sqlcache.store._sql.terms import (
    INDEX_SCOPE,
    Label,
    Scope,
    Term,
    has_values,
    pack_ids,
    scope_name,
    terms,
)


class Old(NamedTuple):
    """What is stored of an object whose terms change or go.

    Attributes:
        terms: of its labels, then of its index values.
        ids: their label ids; 0 where a key is not indexed.
        whole: nothing that it had is missing here.
    """

    key: str
    namespace: str
    terms: Sequence[Term]
    ids: tuple[int, ...]
    whole: bool = True

    @property
    def labels(self) -> dict[str, str]:
        """Return its labels."""
        return {key: value for scope, key, value in self.terms if scope != INDEX_SCOPE}


class Counted(NamedTuple):
    """Where the terms of a batch are counted.

    Attributes:
        rows: of the scopes that objects come into, leave, or have changed terms in, of the keys
            of such terms, and of the terms that come or go; all as they are afterwards.
        written: what `batch_trigger` takes.
        distinct: how many labels came or, below 0, went, by key; empty without a limit on them.
    """

    rows: RowsByName
    written: dict[str, str]
    distinct: Mapping[str, int]

    @property
    def scope_ids(self) -> dict[Scope, int]:
        """Return the ids of the scopes."""
        return {scope: row[0] for scope, row in self.rows.scopes.items()}


class Difference:
    """What a batch changes about scopes, terms and postings, summed up.

    Attributes:
        removed: the postings that go.
        rescoped: (object id, new namespace) of the objects that changed it.
        changed: key and value of the terms that objects lose or get by moving, by object id.
    """

    def __init__(self, keys: LabelKeys) -> None:
        """Start with nothing.

        Args:
            keys: which label keys are indexed.
        """
        self._keys = keys
        self._bounded = not keys.everything
        self._apart: Counter[str] = Counter()  # what is added to the numbers of other label keys
        self.removed: defaultdict[int, list[int]] = defaultdict(list)
        self.rescoped: list[tuple[int, Scope]] = []
        self.changed: dict[int, list[Label]] = {}
        self._scopes: Counter[Scope] = Counter()  # what is added to their numbers of objects
        self._places: dict[Term, int] = {}  # of terms that come or go: 0, 1, …
        self._gained: defaultdict[int, list[int]] = defaultdict(list)  # object ids by place
        self._lost: defaultdict[int, int] = defaultdict(int)  # numbers of postings by place
        # Each object's terms in order: a label id (1, 2, …; 0: not indexed), or ~place where that
        # is not known.
        self._terms: list[tuple[int, list[int]]] = []

    def enter(self, object_id: int, row: Row) -> None:
        """An object comes."""
        places, gained, bounded = self._places, self._gained, self._bounded
        self._scopes[row.namespace] += 1
        new = terms(row.namespace, row.labels, row.index_values)
        if has_values(new):
            self._scopes[INDEX_SCOPE] += 1
        ids = []
        for term in new:
            if bounded and not self._filed(term):
                self._apart[term[1]] += 1
                ids.append(0)
                continue
            place = places.setdefault(term, len(places))
            gained[place].append(object_id)
            ids.append(~place)
        self._terms.append((object_id, ids))

    def leave(self, object_id: int, old: Old) -> None:
        """An object goes."""
        self._scopes[old.namespace] -= 1
        if has_values(old.terms):
            self._scopes[INDEX_SCOPE] -= 1
        for term, label_id in zip(old.terms, old.ids, strict=True):
            self._lose(object_id, term, label_id)

    def move(self, object_id: int, old: Old, row: Row) -> None:
        """An object gets other terms.

        Terms are compared place by place, which takes no hashing. One that only moved is removed
        and added again, in this order; that is rare.
        """
        if row.namespace != old.namespace:
            self._scopes[row.namespace] += 1
            self._scopes[old.namespace] -= 1
            self.rescoped.append((object_id, row.namespace))
        new = terms(row.namespace, row.labels, row.index_values)
        if has_values(new) != has_values(old.terms):
            self._scopes[INDEX_SCOPE] += 1 if has_values(new) else -1
        count = len(new)
        ids = [*old.ids[:count], *repeat(0, count - len(old.ids))]
        changed = self.changed[object_id] = []
        for position, (before, after) in enumerate(zip_longest(old.terms, new)):
            if before == after:
                continue
            if before is not None:
                self._lose(object_id, before, old.ids[position])
                changed.append(before[1:])
            if after is not None:
                ids[position] = self._gain(object_id, after)
                changed.append(after[1:])
        self._terms.append((object_id, ids))

    def fill(self, object_id: int, old: Old, wanted: Collection[str]) -> bool:
        """Give an object the postings that it lacks of some label keys; return whether any."""
        found = old.terms
        lacking = [
            scope != INDEX_SCOPE and key in wanted and not self._keys.filing(key, label_id)
            for (scope, key, _), label_id in zip(found, old.ids, strict=True)
        ]
        if not any(lacking):
            return False
        ids = list(old.ids)
        for position, term in enumerate(found):
            if lacking[position]:
                ids[position] = self._gain(object_id, term)
                self._apart[term[1]] -= 1  # it is counted under its key already
        self._terms.append((object_id, ids))
        return True

    def _filed(self, term: Term) -> bool:
        return term[0] == INDEX_SCOPE or self._keys.kept(term[1])

    def _gain(self, object_id: int, term: Term) -> int:
        """Note a new term; return its ~place, or 0 if it is not indexed."""
        if self._bounded and not self._filed(term):
            self._apart[term[1]] += 1
            return 0
        place = self._places.setdefault(term, len(self._places))
        self._gained[place].append(object_id)
        return ~place

    def _lose(self, object_id: int, term: Term, label_id: int) -> None:
        if self._bounded and term[0] != INDEX_SCOPE and not self._keys.filing(term[1], label_id):
            self._apart[term[1]] -= 1
            return
        self._lost[self._places.setdefault(term, len(self._places))] += 1
        self.removed[label_id].append(object_id)

    def counted(
        self, query: Query, sequences: Sequences, resource_id: int, known: CountedRows
    ) -> Counted:
        """Return the rows of scopes, of keys and of terms that come or go, with their new counts.

        Args:
            query: reads the database.
            sequences: gives ids to new rows.
            resource_id: of the resource's row.
            known: rows as they are now; those that it lacks are looked up.
        """
        if not (self._scopes or self._places or self._apart):  # most often
            return Counted(NO_ROWS, {}, {})
        changes = [
            len(self._gained.get(place, ())) - self._lost.get(place, 0)
            for place in range(len(self._places))
        ]
        scopes, keys = dict(self._scopes), defaultdict(int, self._apart)
        for (scope, key, _), change in zip(self._places, changes, strict=True):
            keys[key] += change
            scopes.setdefault(scope, 0)
        known.find(query, resource_id, scopes, keys, self._places)
        scope_names = [(resource_id, *scope_name(scope)) for scope in scopes]
        key_names = [(key,) for key in keys]
        by_scope = SCOPES.change(
            map(known.scopes.get, scopes), sequences, scope_names, scopes.values()
        )
        by_key = LABEL_KEYS.change(map(known.keys.get, keys), sequences, key_names, keys.values())
        scope_rows = dict(zip(scopes, by_scope.rows, strict=True))
        key_rows = dict(zip(keys, by_key.rows, strict=True))
        names = [
            (scope_rows[scope][0], key_rows[key][0], each) for scope, key, each in self._places
        ]
        by_label = LABELS.change(map(known.labels.get, self._places), sequences, names, changes)
        written = {**by_scope.written, **by_key.written, **by_label.written}
        distinct = Counter[str]()
        if self._keys.policy.distinct_limit is not None:
            places = list(self._places)
            for position, change in chain(
                zip(by_label.came, repeat(1)), zip(by_label.went, repeat(-1))
            ):
                if places[position][0] != INDEX_SCOPE:
                    distinct[places[position][1]] += change
        label_rows = dict(zip(self._places, by_label.rows, strict=True))
        return Counted(RowsByName(scope_rows, key_rows, label_rows), written, distinct)

    def resolved(self, counted: Counted) -> tuple[dict[int, bytes], Postings]:
        """Return the packed term ids by object id, and the postings that come."""
        label_ids = [row[0] for row in counted.rows.labels.values()]
        packed = {
            object_id: pack_ids([each if each >= 0 else label_ids[~each] for each in ids])
            for object_id, ids in self._terms
        }
        return packed, {label_ids[place]: ids for place, ids in self._gained.items()}
