"""What a batch of changes means for scopes, label keys, labels and postings, summed up.

Objects enter, leave or change their terms; the sums become new counts (counted) and postings.

Elsewhere: finding out what changes (writer), the objects' own rows (object_rows).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import repeat, zip_longest
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
    scope_of,
    terms,
)


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


class Difference:
    """What a batch changes about scopes, terms and postings, summed up.

    Attributes:
        removed: (label id, object id) of the postings that go.
        rescoped: (object id, new namespace) of the objects that changed it.
    """

    def __init__(self) -> None:
        self.removed: list[tuple[int, int]] = []
        self.rescoped: list[tuple[int, Scope]] = []
        self._entered: list[Scope] = []  # one entry for each object that comes into a scope
        self._left: list[Scope] = []
        self._gained: list[Term] = []  # one entry for each posting that comes
        self._lost: list[Term] = []
        # (object id, its terms, the label ids already known of them; [] if it is new)
        self._terms: list[tuple[int, list[Term], list[int | None]]] = []

    def enter(self, object_id: int, row: Row) -> None:
        """An object comes."""
        found = terms(row.namespace, row.labels, row.index_values)
        self._entered.append(row.namespace)
        if any(row.index_values.values()):
            self._entered.append(INDEX_SCOPE)
        self._gained += found
        self._terms.append((object_id, found, []))

    def leave(self, object_id: int, old: Old) -> None:
        """An object goes."""
        self._left.append(old.namespace)
        if old.indexed:
            self._left.append(INDEX_SCOPE)
        self._lost += old.terms
        self.removed += zip(old.ids, repeat(object_id))

    def move(self, object_id: int, old: Old, row: Row) -> None:
        """An object gets other terms.

        Terms are compared place by place, which takes no hashing. One that only moved is removed
        and added again, in this order; that is rare.
        """
        found = terms(row.namespace, row.labels, row.index_values)
        if row.namespace != old.namespace:
            self._entered.append(row.namespace)
            self._left.append(old.namespace)
            self.rescoped.append((object_id, row.namespace))
        indexed = any(row.index_values.values())
        if indexed != old.indexed:
            (self._entered if indexed else self._left).append(INDEX_SCOPE)
        ids: list[int | None] = [*old.ids[: len(found)], *[None] * (len(found) - len(old.ids))]
        for position, (before, after) in enumerate(zip_longest(old.terms, found)):
            if before == after:
                continue
            if before is not None:
                self._lost.append(before)
                self.removed.append((old.ids[position], object_id))
            if after is not None:
                self._gained.append(after)
                ids[position] = None
        self._terms.append((object_id, found, ids))

    def counted(
        self, query: Query, sequences: Sequences, resource_id: int
    ) -> tuple[dict[Scope, int], dict[Term, int], list[Statement]]:
        """Return the ids of scopes and of terms that come or go, and what counts them."""
        by_term = Counter(self._gained)
        by_term.subtract(self._lost)
        by_scope = Counter(self._entered)
        by_scope.subtract(self._left)
        by_key: Counter[str] = Counter()
        for (scope, key, _), change in by_term.items():
            by_key[key] += change
            by_scope[scope] += 0
        scopes, statements = SCOPES.change(
            query,
            sequences,
            {(resource_id, *scope_name(scope)): change for scope, change in by_scope.items()},
        )
        key_ids, more = LABEL_KEYS.change(
            query, sequences, {(key,): change for key, change in by_key.items()}
        )
        statements += more
        scope_ids = {
            scope_of(kind, namespace): row_id for (_, kind, namespace), row_id in scopes.items()
        }
        names = {
            (scope_ids[scope], key_ids[key,], value): (scope, key, value)
            for scope, key, value in by_term
        }
        label_ids, more = LABELS.change(
            query, sequences, {name: by_term[term] for name, term in names.items()}
        )
        statements += more
        return scope_ids, {names[name]: row_id for name, row_id in label_ids.items()}, statements

    def resolved(
        self, term_ids: Mapping[Term, int]
    ) -> tuple[dict[int, bytes], list[tuple[int, int]]]:
        """Return the packed term ids by object id, and (label id, object id) of new postings."""
        packed: dict[int, bytes] = {}
        added: list[tuple[int, int]] = []
        for object_id, found, known in self._terms:
            if known:
                gained = [
                    term_ids[term] for term, each in zip(found, known, strict=True) if not each
                ]
                fresh = iter(gained)
                ids = [each or next(fresh) for each in known]
            else:
                ids = gained = [term_ids[term] for term in found]
            added += zip(gained, repeat(object_id))
            packed[object_id] = pack_ids(ids)
        return packed, added
