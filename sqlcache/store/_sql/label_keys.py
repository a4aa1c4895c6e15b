"""Which label keys of a resource have an index, and how that changes.

`LabelKeys` is a value: the policy and what became of it. Its text lies in the resource's row, so
that each process that opens the file, and each snapshot that it reads, knows which postings are
complete. `LabelWrites` changes it within one write transaction.

A key without an index has no rows of its own. An object that carries it has the id 0 among its
terms in that place, or, if the key had an index once, an id that means nothing any more: ids are
never given twice, so one that is not above `since` is old.

Elsewhere: the policy (store.labels), building a key's postings (label_index).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import orjson

from sqlcache.store._sql.counted import to_json
from sqlcache.store.labels import EVERY_LABEL, LabelPolicy

_POSTINGS_PER_STEP = 2_000  # some 2 ms: what each write clears away of a key that lost its index
_LABELS_PER_STEP = 1_000

_SET = "UPDATE resource SET label_keys = ? WHERE id = ?"
_PRESENT = "SELECT name FROM label_key"
_LAST_LABEL = "SELECT value FROM sequence WHERE name = 'label'"
_COUNT = (
    "INSERT INTO label_count (resource_id, key, n)"
    " SELECT ?, key, value FROM json_each(?) WHERE true"
    " ON CONFLICT (resource_id, key) DO UPDATE SET n = n + excluded.n"
)
_COUNTS = (
    "SELECT key, n FROM label_count"
    " WHERE resource_id = ? AND key IN (SELECT value FROM json_each(?))"
)
_FORGET_COUNTS = "DELETE FROM label_count WHERE resource_id = ?"
_RECOUNT = (
    "INSERT INTO label_count (resource_id, key, n)"
    " SELECT s.resource_id, k.name, count(*) FROM scope s CROSS JOIN label l CROSS JOIN label_key k"
    " WHERE s.resource_id = ? AND s.kind = 0 AND l.scope_id = s.id AND k.id = l.key_id"
    " GROUP BY k.name"
)
_OVER = "SELECT key, n FROM label_count WHERE resource_id = ? AND n > ?"
_FORGET_COUNT = "DELETE FROM label_count WHERE resource_id = ? AND key = ?"
_ROWS = (
    "SELECT l.scope_id, l.key_id, l.value, l.id"
    " FROM label_key k CROSS JOIN scope s CROSS JOIN label l"
    " WHERE k.name = ? AND s.resource_id = ? AND s.kind = 0"
    " AND l.scope_id = s.id AND l.key_id = k.id LIMIT ?"
)
_CLEAR_LABEL = "DELETE FROM label WHERE scope_id = ? AND key_id = ? AND value = ?"
_CLEAR_POSTINGS = (
    "DELETE FROM posting WHERE (label_id, object_id) IN"
    " (SELECT label_id, object_id FROM posting"
    "  WHERE label_id IN (SELECT value FROM json_each(?)) LIMIT ?)"
)

# Rows of a key that lost its index are found through its own row and those of the namespaces.
ARE_NEEDED = "EXISTS (SELECT 1 FROM resource WHERE json_array_length(label_keys, '$.dropping') > 0)"
"""Whether rows of scopes and label keys stay that no object is counted in."""

_FORGET_EMPTY = tuple(
    f"DELETE FROM {table} WHERE n <= 0 AND NOT {ARE_NEEDED}" for table in ("scope", "label_key")
)


@dataclass(frozen=True)
class LabelKeys:
    """Which label keys of a resource have an index.

    Attributes:
        policy: which may have one.
        demanded: with `policy.on_demand`, those that selectors asked for.
        building: those whose postings are written but not complete yet.
        over: those that went over the limit, with their number of values then.
        dropping: those that lost their index and still have rows.
        since: for those that got their index late, the last label id given before.
    """

    policy: LabelPolicy = EVERY_LABEL
    demanded: frozenset[str] = frozenset()
    building: frozenset[str] = frozenset()
    over: Mapping[str, int] = field(default_factory=dict)
    dropping: frozenset[str] = frozenset()
    since: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def everything(self) -> bool:
        """Return whether all keys have a complete index and always had."""
        return self == LabelKeys()

    def kept(self, key: str) -> bool:
        """Return whether postings of a key are written."""
        return (
            self.policy.allows(key)
            and key not in self.over
            and (not self.policy.on_demand or key in self.demanded)
        )

    def complete(self, key: str) -> bool:
        """Return whether selectors may be answered from a key's postings."""
        return self.everything or (self.kept(key) and key not in self.building)

    def why_not(self, key: str) -> str:
        """Return why a key has no complete index; "" if it has."""
        if self.policy.allow is not None and key not in self.policy.allow:
            return "not allowed"
        if not self.policy.allows(key):
            return "denied"
        if key in self.over:
            return "over the limit"
        if key in self.building:
            return "being built"
        return "" if self.kept(key) else "not asked for"

    def wanting(self, keys: Iterable[str]) -> frozenset[str]:
        """Return those of some keys that get an index when a selector uses them."""
        if not self.policy.on_demand:
            return frozenset()
        return frozenset(
            key
            for key in keys
            if self.policy.allows(key) and key not in self.over and not self.complete(key)
        )

    def filing(self, key: str, label_id: int) -> bool:
        """Return whether an object's label id for a key stands for a posting that counts."""
        return self.everything or (self.kept(key) and label_id > self.since.get(key, 0))

    def still_building(self, marked: Mapping[str, int]) -> frozenset[str]:
        """Return those of some keys that are being built as they were.

        Others may have dropped what there was and begun again, with another `since`.

        Args:
            marked: what `since` had for them.
        """
        return frozenset(
            key
            for key, since in marked.items()
            if key in self.building and self.since.get(key) == since
        )

    def built(self, keys: Iterable[str]) -> LabelKeys:
        """Return what is so when keys are complete."""
        return replace(self, building=self.building.difference(keys))

    def with_demanded(self, keys: frozenset[str], last_label: int) -> LabelKeys:
        """Return what is so when selectors ask for keys."""
        fresh = keys - self.demanded
        return replace(
            self,
            demanded=self.demanded | fresh,
            building=self.building | fresh,
            since={**self.since, **dict.fromkeys(fresh, last_label)},
        )

    def with_over(self, counts: Mapping[str, int]) -> LabelKeys:
        """Return what is so when keys have too many values."""
        return replace(
            self,
            demanded=self.demanded.difference(counts),
            building=self.building.difference(counts),
            over={**self.over, **counts},
            dropping=self.dropping.union(counts),
        )

    def under(self, policy: LabelPolicy, present: Iterable[str], last_label: int) -> LabelKeys:
        """Return what is so under another policy.

        Args:
            policy: the new one.
            present: the keys that objects carry.
            last_label: the last label id given.
        """
        after = LabelKeys(policy)
        present = frozenset(present)
        building = frozenset(key for key in present if after.kept(key) and not self.complete(key))
        gone = frozenset(key for key in present if self.kept(key) and not after.kept(key))
        stays = {key: last for key, last in self.since.items() if after.kept(key)}
        return replace(
            after,
            building=building,
            dropping=(self.dropping & present) | gone | (self.building & building),
            since={**stays, **dict.fromkeys(building, last_label)},
        )

    def text(self) -> str | None:
        """Return it as the row has it; None stands for everything."""
        if self.everything:
            return None
        policy = self.policy
        return orjson.dumps(
            {
                "allow": None if policy.allow is None else sorted(policy.allow),
                "deny": sorted(policy.deny),
                "distinct_limit": policy.distinct_limit,
                "on_demand": policy.on_demand,
                "demanded": sorted(self.demanded),
                "building": sorted(self.building),
                "over": dict(self.over),
                "dropping": sorted(self.dropping),
                "since": dict(self.since),
            },
            option=orjson.OPT_SORT_KEYS,
        ).decode()


EVERY_KEY = LabelKeys()


@lru_cache(maxsize=64)
def label_keys(text: str | None) -> LabelKeys:
    """Return what a text of `LabelKeys.text` stands for."""
    if text is None:
        return EVERY_KEY
    read = orjson.loads(text)
    policy = LabelPolicy(*(read[name] for name in ("allow", "deny", "distinct_limit", "on_demand")))
    sets = {name: frozenset(read[name]) for name in ("demanded", "building", "dropping")}
    return LabelKeys(policy, over=read["over"], since=read["since"], **sets)


class LabelWrites:
    """What one write transaction does to the label keys of a resource.

    Attributes:
        connection: within the transaction.
        keys: as they are now, within the transaction.
        went_over: the keys that went over the limit in it, with their number of values.
    """

    def __init__(self, connection: sqlite3.Connection, resource_id: int, keys: LabelKeys) -> None:
        self.connection, self._resource_id = connection, resource_id
        self._before = self.keys = keys
        self.went_over: dict[str, int] = {}

    @property
    def changed(self) -> bool:
        """Return whether the keys are not those from before the transaction."""
        return self.keys is not self._before

    def set(self, keys: LabelKeys) -> None:
        """Write other keys."""
        self.keys = keys
        self.connection.execute(_SET, (keys.text(), self._resource_id))

    def count(self, distinct: Mapping[str, int]) -> None:
        """Count label rows that came or went, by key; a key with too many loses its index."""
        limit = self.keys.policy.distinct_limit
        if limit is None or not distinct:
            return
        execute = self.connection.execute
        execute(_COUNT, (self._resource_id, to_json(distinct)))
        if any(change > 0 for change in distinct.values()):
            counts = execute(_COUNTS, (self._resource_id, to_json(list(distinct)))).fetchall()
            self._exceed({key: n for key, n in counts if n > limit and self.keys.kept(key)})

    def adopt(self, policy: LabelPolicy) -> None:
        """Go over to a policy; what is to be built is built afterwards."""
        execute = self.connection.execute
        present = [name for (name,) in execute(_PRESENT).fetchall()]
        self.set(self.keys.under(policy, present, self.last_label()))
        # All at once: what is left of a key must not meet what is built of it anew.
        while self.keys.dropping:
            self.clear_away()
        execute(_FORGET_COUNTS, (self._resource_id,))
        if policy.distinct_limit is not None:
            execute(_RECOUNT, (self._resource_id,))
            over = execute(_OVER, (self._resource_id, policy.distinct_limit)).fetchall()
            self._exceed(dict(over))

    def clear_away(self) -> None:
        """Delete a bounded number of rows of the keys that lost their index."""
        deleted = 0
        while self.keys.dropping and deleted < _POSTINGS_PER_STEP:
            deleted += self._clear(min(self.keys.dropping))

    def _clear(self, key: str) -> int:
        """Delete postings of some labels of a key; return how many rows went."""
        execute = self.connection.execute
        rows = execute(_ROWS, (key, self._resource_id, _LABELS_PER_STEP)).fetchall()
        ids = to_json([label_id for *_, label_id in rows])
        deleted = execute(_CLEAR_POSTINGS, (ids, _POSTINGS_PER_STEP)).rowcount
        if deleted == _POSTINGS_PER_STEP:
            return deleted
        self.connection.executemany(_CLEAR_LABEL, [row[:3] for row in rows])
        if len(rows) < _LABELS_PER_STEP:
            execute(_FORGET_COUNT, (self._resource_id, key))
            self.set(replace(self.keys, dropping=self.keys.dropping - {key}))
            for sql in _FORGET_EMPTY:
                execute(sql)
        return deleted + len(rows)

    def last_label(self) -> int:
        """Return the last label id given."""
        row = self.connection.execute(_LAST_LABEL).fetchone()
        return int(row[0]) if row else 0

    def _exceed(self, counts: dict[str, int]) -> None:
        if counts:
            self.went_over.update(counts)
            self.set(self.keys.with_over(counts))
