"""What a batch of changes means for scopes, label keys, labels and postings, summed up.

Objects enter, leave or change their terms; the sums become new counts (counted) and postings.

Elsewhere: finding out what changes (writer), the objects' own rows (object_rows).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import zip_longest
from typing import NamedTuple

from sqlcache.store._sql.counted import (
    LABEL_KEYS,
    LABELS,
    SCOPES,
    Query,
    Sequences,
    Statement,
)
from sqlcache.store._sql.object_rows import Row
from sqlcache.store._sql.terms import (
    INDEX_SCOPE,
    Scope,
    Term,
    pack_ids,
    scope_name,
    terms,
)

Postings = dict[int, list[int]]  # object ids by label id


class Old(NamedTuple):
    """What is stored of an object whose terms change or go: its terms, and their label ids."""

    key: str
    namespace: str
    terms: list[Term]
    ids: tuple[int, ...]

    @property
    def indexed(self) -> bool:
        """Return whether any of its terms is an index value; those come last."""
        return bool(self.terms) and self.terms[-1][0] == INDEX_SCOPE


class Counted(NamedTuple):
    """Where the terms of a batch are counted.

    Attributes:
        scope_ids: of the scopes that objects come into, leave, or have changed terms in.
        label_ids: of the terms that come or go, in the order in which they were met.
        statements: write the counts.
    """

    scope_ids: dict[Scope, int]
    label_ids: list[int]
    statements: list[Statement]


class Difference:
    """What a batch changes about scopes, terms and postings, summed up.

    Attributes:
        removed: the postings that go.
        rescoped: (object id, new namespace) of the objects that changed it.
    """

    def __init__(self) -> None:
        self.removed: defaultdict[int, list[int]] = defaultdict(list)
        self.rescoped: list[tuple[int, Scope]] = []
        self._scopes: Counter[Scope] = Counter()  # what is added to their numbers of objects
        self._places: dict[Term, int] = {}  # of terms that come or go: 0, 1, …
        self._gained: defaultdict[int, list[int]] = defaultdict(list)  # object ids by place
        self._lost: Counter[int] = Counter()  # numbers of postings by place
        # Each object's terms in order: a label id (1, 2, …), or ~place where that is not known.
        self._terms: list[tuple[int, list[int]]] = []

    def enter(self, object_id: int, row: Row) -> None:
        """An object comes."""
        places, gained = self._places, self._gained
        self._scopes[row.namespace] += 1
        if any(row.index_values.values()):
            self._scopes[INDEX_SCOPE] += 1
        ids = []
        for term in terms(row.namespace, row.labels, row.index_values):
            place = places.setdefault(term, len(places))
            gained[place].append(object_id)
            ids.append(~place)
        self._terms.append((object_id, ids))

    def leave(self, object_id: int, old: Old) -> None:
        """An object goes."""
        self._scopes[old.namespace] -= 1
        if old.indexed:
            self._scopes[INDEX_SCOPE] -= 1
        for term, label_id in zip(old.terms, old.ids, strict=True):
            self._lose(object_id, term, label_id)

    def move(self, object_id: int, old: Old, row: Row) -> None:
        """An object gets other terms.

        Terms are compared place by place, which takes no hashing. One that only moved is removed
        and added again, in this order; that is rare.
        """
        found = terms(row.namespace, row.labels, row.index_values)
        if row.namespace != old.namespace:
            self._scopes[row.namespace] += 1
            self._scopes[old.namespace] -= 1
            self.rescoped.append((object_id, row.namespace))
        if change := any(row.index_values.values()) - old.indexed:
            self._scopes[INDEX_SCOPE] += change
        ids = []
        for before, after, label_id in zip_longest(old.terms, found, old.ids):
            if before == after:
                ids.append(label_id)
                continue
            if before is not None:
                self._lose(object_id, before, label_id)
            if after is not None:
                place = self._places.setdefault(after, len(self._places))
                self._gained[place].append(object_id)
                ids.append(~place)
        self._terms.append((object_id, ids))

    def _lose(self, object_id: int, term: Term, label_id: int) -> None:
        self._lost[self._places.setdefault(term, len(self._places))] += 1
        self.removed[label_id].append(object_id)

    def counted(self, query: Query, sequences: Sequences, resource_id: int) -> Counted:
        """Return the ids of scopes and of terms that come or go, and what counts them."""
        changes = [
            len(self._gained.get(place, ())) - self._lost.get(place, 0)
            for place in range(len(self._places))
        ]
        scopes, keys = dict(self._scopes), Counter[str]()
        for (scope, key, _), change in zip(self._places, changes, strict=True):
            keys[key] += change
            scopes.setdefault(scope, 0)
        ids, statements = SCOPES.change(
            query,
            sequences,
            [(resource_id, *scope_name(scope)) for scope in scopes],
            scopes.values(),
        )
        scope_ids = dict(zip(scopes, ids, strict=True))
        ids, more = LABEL_KEYS.change(query, sequences, [(key,) for key in keys], keys.values())
        statements += more
        key_ids = dict(zip(keys, ids, strict=True))
        names = [(scope_ids[scope], key_ids[key], value) for scope, key, value in self._places]
        label_ids, more = LABELS.change(query, sequences, names, changes)
        return Counted(scope_ids, label_ids, statements + more)

    def resolved(self, label_ids: list[int]) -> tuple[dict[int, bytes], Postings]:
        """Return the packed term ids by object id, and the postings that come."""
        packed = {
            object_id: pack_ids([each if each > 0 else label_ids[~each] for each in ids])
            for object_id, ids in self._terms
        }
        return packed, {label_ids[place]: ids for place, ids in self._gained.items()}
