"""What a batch of changes means for scopes, label keys, labels and postings, summed up.

Objects enter, leave or change their terms; the sums become new counts (counted) and postings.

Elsewhere: finding out what changes (writer), the objects' own rows (object_rows).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from itertools import chain, repeat, zip_longest
from typing import NamedTuple

from sqlcache.store._sql.counted import (
    LABEL_KEYS,
    LABELS,
    SCOPES,
    Query,
    Sequences,
    Statement,
)
from sqlcache.store._sql.label_keys import LabelKeys
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
    """What is stored of an object whose terms change or go.

    Attributes:
        terms, ids: its terms, and their label ids: 0 where a key is not indexed.
        whole: these are all terms.
    """

    key: str
    namespace: str
    terms: list[Term]
    ids: tuple[int, ...]
    whole: bool = True

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
        distinct: how many labels came or, below 0, went, by key; empty without a limit on them.
    """

    scope_ids: dict[Scope, int]
    label_ids: list[int]
    statements: list[Statement]
    distinct: Mapping[str, int]


class Difference:
    """What a batch changes about scopes, terms and postings, summed up.

    Attributes:
        removed: the postings that go.
        rescoped: (object id, new namespace) of the objects that changed it.
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
        self._scopes: Counter[Scope] = Counter()  # what is added to their numbers of objects
        self._places: dict[Term, int] = {}  # of terms that come or go: 0, 1, …
        self._gained: defaultdict[int, list[int]] = defaultdict(list)  # object ids by place
        self._lost: Counter[int] = Counter()  # numbers of postings by place
        # Each object's terms in order: a label id (1, 2, …; 0: not indexed), or ~place where that
        # is not known.
        self._terms: list[tuple[int, list[int]]] = []

    def enter(self, object_id: int, row: Row) -> None:
        """An object comes."""
        places, gained, bounded = self._places, self._gained, self._bounded
        self._scopes[row.namespace] += 1
        if any(row.index_values.values()):
            self._scopes[INDEX_SCOPE] += 1
        ids = []
        for term in terms(row.namespace, row.labels, row.index_values):
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
                ids.append(self._gain(object_id, after))
        self._terms.append((object_id, ids))

    def fill(self, object_id: int, old: Old, wanted: Collection[str]) -> bool:
        """Give an object the postings that it lacks of some label keys; return whether any."""
        lacking = [
            scope != INDEX_SCOPE and key in wanted and not self._keys.filing(key, label_id)
            for (scope, key, _), label_id in zip(old.terms, old.ids, strict=True)
        ]
        if not any(lacking):
            return False
        ids = list(old.ids)
        for position, term in enumerate(old.terms):
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

    def counted(self, query: Query, sequences: Sequences, resource_id: int) -> Counted:
        """Return the ids of scopes and of terms that come or go, and what counts them."""
        changes = [
            len(self._gained.get(place, ())) - self._lost.get(place, 0)
            for place in range(len(self._places))
        ]
        scopes, keys = dict(self._scopes), Counter(self._apart)
        for (scope, key, _), change in zip(self._places, changes, strict=True):
            keys[key] += change
            scopes.setdefault(scope, 0)
        ids, statements, *_ = SCOPES.change(
            query,
            sequences,
            [(resource_id, *scope_name(scope)) for scope in scopes],
            scopes.values(),
        )
        scope_ids = dict(zip(scopes, ids, strict=True))
        ids, more, *_ = LABEL_KEYS.change(query, sequences, [(key,) for key in keys], keys.values())
        statements += more
        key_ids = dict(zip(keys, ids, strict=True))
        names = [(scope_ids[scope], key_ids[key], value) for scope, key, value in self._places]
        label_ids, more, came, went = LABELS.change(query, sequences, names, changes)
        distinct = Counter[str]()
        if self._keys.policy.distinct_limit is not None:
            places = list(self._places)
            for position, change in chain(zip(came, repeat(1)), zip(went, repeat(-1))):
                if places[position][0] != INDEX_SCOPE:
                    distinct[places[position][1]] += change
        return Counted(scope_ids, label_ids, statements + more, distinct)

    def resolved(self, label_ids: list[int]) -> tuple[dict[int, bytes], Postings]:
        """Return the packed term ids by object id, and the postings that come."""
        packed = {
            object_id: pack_ids([each if each >= 0 else label_ids[~each] for each in ids])
            for object_id, ids in self._terms
        }
        return packed, {label_ids[place]: ids for place, ids in self._gained.items()}
