"""Answering a selector: which term drives the query, which are checked, and how.

Flow: one statement turns the values that a selector names into label ids with their member counts
(`label.n`). The rarest positive term drives; each other term is then checked in the cheapest of
three ways: in the same statement, by posting look-ups for each driving row; by fetching its ids
and intersecting or subtracting in Python; or, for terms that name a key without its values, on
the labels of the few objects left ("residual"). So are terms on label keys without an index, after
all others; where there are no others, that is a scan of the namespace.

With negative terms alone, the namespace's objects are taken but for those whose ids the terms give.

Promises
- The answer is that of a scan, whatever way is chosen; a wrong estimate costs time only.
- Nothing outside the namespace is read, unless all namespaces are asked for.

Elsewhere: the driving statement's text (shapes), turning ids into objects (shelf).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import orjson

from sqlcache.selectors import Operator, Requirement, Selector
from sqlcache.store._base import unsound
from sqlcache.store._sql.counted import Query, to_json
from sqlcache.store._sql.label_keys import LabelKeys

# Costs in microseconds, measured at 150,000 pods in memory on SQLite 3.40 and Python 3.11; only
# their ratios count. Memory that is not in the processor's cache is most of each.
_LOOK_UP_US = 1.6  # one posting look-up for one driving row
_FETCH_US = 0.12  # one id fetched and put into a set
_MATCH_LIVE_US = 0.6  # one object's labels matched in Python, any number of terms
_MATCH_PACKED_US = 15.0  # the same, decoding included
_VALUES_TO_WEIGH = 8  # fewer are looked up in each namespace, however many there are
_TERMS_IN_STATEMENT = 30  # further ones are fetched; SQLite takes expressions 1,000 deep

_POSITIVE = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN)
_NEGATIVE = (Operator.NOT_EQUALS, Operator.NOT_IN, Operator.DOES_NOT_EXIST)
_BY_VALUE = (*_POSITIVE, Operator.NOT_EQUALS, Operator.NOT_IN)
_ORDER = (Operator.GREATER_THAN, Operator.LESS_THAN)

_SINGLE = (
    "SELECT json_group_array(p.object_id) FROM label l CROSS JOIN posting p"
    " WHERE l.scope_id ="
    " (SELECT id FROM scope WHERE resource_id = ? AND kind = 0 AND namespace = ?)"
    " AND l.key_id = (SELECT id FROM label_key WHERE name = ?) AND l.value = ?"
    " AND p.label_id = l.id"
)
_OBJECTS_OF_LABELS = (
    "SELECT json_group_array(object_id) FROM posting"
    " WHERE label_id IN (SELECT value FROM json_each(?))"
)
_KEY_MEMBERS = (
    "SELECT json_group_array(json_array(j.key, k.n)) FROM json_each(?) j"
    " CROSS JOIN label_key k WHERE k.name = j.value"
)
_NAMESPACES = "SELECT count(*) FROM scope WHERE resource_id = ? AND kind = 0"
_MEMBERS_OF_NAMESPACE = "SELECT n FROM scope WHERE resource_id = ? AND kind = 0 AND namespace = ?"
_MEMBERS = "SELECT ifnull(sum(n), 0) FROM scope WHERE resource_id = ? AND kind = 0"


@dataclass
class Selection:
    """What a selector selects, before objects are fetched.

    Attributes:
        ids: the ids of matching objects, each once; or, with `inverted`, of all others.
        inverted: `ids` are those that do not match.
        residual: terms still to be checked on the objects.
        driving: the term that the query started from, or "scan".
        estimated: how many ids the driving term was expected to give.
    """

    ids: list[int] | set[int] = field(default_factory=list)
    inverted: bool = False
    residual: tuple[Requirement, ...] = ()
    driving: str = "scan"
    estimated: int = 0


class _Found(NamedTuple):
    """A term that names values: the ids of its labels, and how many objects carry one."""

    requirement: Requirement
    label_ids: list[int]
    members: int


class Place(NamedTuple):
    """Where to look: one namespace of a resource, or all ("")."""

    resource_id: int
    namespace: str

    @property
    def scopes(self) -> tuple[str, tuple[int | str, ...]]:
        """Return a condition on `scope s` and its parameters."""
        if self.namespace:
            return "s.resource_id = ? AND s.kind = 0 AND s.namespace = ?", tuple(self)
        return "s.resource_id = ? AND s.kind = 0", (self.resource_id,)


def members(query: Query, place: Place) -> int:
    """Return how many objects there are."""
    if place.namespace:
        return query(_MEMBERS_OF_NAMESPACE, tuple(place)) or 0
    return int(query(_MEMBERS, (place.resource_id,)))


def select(
    query: Query, place: Place, selector: Selector, keys: LabelKeys, *, live: bool
) -> Selection:
    """Work a selector out.

    Args:
        query: reads the database; all calls must see one state.
        place: where to look.
        selector: not NOTHING.
        keys: which label keys are indexed, in that state.
        live: objects are at hand parsed, so checking one is cheap.
    """
    if unsound(place.namespace):
        return Selection(driving="nothing")
    if selector.empty:
        return Selection(inverted=True, estimated=members(query, place))
    requirements = selector.requirements
    if not keys.everything and not all(keys.complete(each.key) for each in requirements):
        return _partly(query, place, requirements, keys, live=live)
    first = requirements[0]
    if len(requirements) == 1 and place.namespace and first.operator in _POSITIVE[:2]:
        if unsound(first.key) or unsound(first.values[0]):
            return Selection(driving=str(first))
        ids = orjson.loads(query(_SINGLE, (*place, first.key, first.values[0])))
        return Selection(ids, driving=str(first), estimated=len(ids))
    return _Planner(query, place, requirements, live=live).selection()


def _partly(
    query: Query, place: Place, requirements: Sequence[Requirement], keys: LabelKeys, *, live: bool
) -> Selection:
    """Work a selector out with terms on keys that are not indexed: they are checked last."""
    apart = [each for each in requirements if not keys.complete(each.key)]
    carried = key_members(query, apart)
    for each in apart:
        if each.operator not in _NEGATIVE and not carried.get(each.key):
            return Selection(driving=str(each))
    residual = tuple(each for each in apart if carried.get(each.key))
    indexed = Selector([each for each in requirements if keys.complete(each.key)])
    selection = select(query, place, indexed, keys, live=live)
    return replace(selection, residual=(*selection.residual, *residual))


def key_members(query: Query, requirements: Iterable[Requirement]) -> dict[str, int]:
    """Return how many objects carry each key, in all namespaces: an upper bound."""
    keys = [each.key for each in requirements if not unsound(each.key)]
    if not keys:
        return {}
    rows = orjson.loads(query(_KEY_MEMBERS, (to_json(keys),)))
    return {keys[position]: n for position, n in rows}


class _Planner:
    """Works one selector of several terms out."""

    def __init__(
        self, query: Query, place: Place, requirements: Sequence[Requirement], *, live: bool
    ) -> None:
        self._query, self._place = query, place
        self._match_us = _MATCH_LIVE_US if live else _MATCH_PACKED_US
        self._live = live
        found = self._find([each for each in requirements if each.operator in _BY_VALUE])
        self._positive = sorted(
            (each for each in found if each.requirement.operator in _POSITIVE),
            key=lambda each: each.members,
        )
        self._negative = [each for each in found if each.requirement.operator not in _POSITIVE]
        self._ranges = [each for each in requirements if each.operator not in _BY_VALUE]
        self._key_members = key_members(query, self._ranges)
        self._requirements = tuple(requirements)

    def selection(self) -> Selection:
        if any(not each.members for each in self._positive) or any(
            not self._key_members.get(each.key)
            for each in self._ranges
            if each.operator is not Operator.DOES_NOT_EXIST
        ):
            return Selection(driving=str(self._requirements[0]))
        if self._positive:
            return self._driven_by_value()
        ranges = [each for each in self._ranges if each.operator not in _NEGATIVE]
        return self._driven_by_key(ranges) if ranges else self._all_but()

    def _driven_by_value(self) -> Selection:
        # Here, for it needs SQLAlchemy, which takes longer to import than to read a small file.
        from sqlcache.store._sql.shapes import statement

        driving, *others = self._positive
        rows, name = driving.members, str(driving.requirement)
        excluded = [label_id for each in self._negative for label_id in each.label_ids]
        without = sum(each.members for each in self._negative)
        checks = [(each.label_ids, each.members) for each in others] + [(excluded, without)]
        if rows * self._match_us < sum(_check_us(rows, *each) for each in checks):
            sql = statement((len(driving.label_ids) > 1, (), False))
            found: list[int] = orjson.loads(self._query(sql, (_parameter(driving.label_ids),)))
            residual = tuple(each for each in self._requirements if each != driving.requirement)
            return Selection(found, residual=residual, driving=name, estimated=rows)

        in_statement: list[_Found] = []
        fetched: list[_Found] = []
        for each in others:
            room = len(in_statement) < _TERMS_IN_STATEMENT
            cheap = _looked_up(rows, each.label_ids, each.members)
            (in_statement if room and cheap else fetched).append(each)
        checked = bool(excluded) and _looked_up(rows, excluded, without)
        parameters = [_parameter(each.label_ids) for each in (driving, *in_statement)]
        if checked:
            parameters.append(to_json(excluded))
        shape = (
            len(driving.label_ids) > 1,
            tuple(len(each.label_ids) > 1 for each in in_statement),
            checked,
        )
        ids: set[int] | list[int] = orjson.loads(self._query(statement(shape), tuple(parameters)))
        for each in fetched:
            ids = self._ids_of(each.label_ids).intersection(ids)
        if excluded and not checked:
            ids = set(ids) - self._ids_of(excluded)
        ids, residual = self._check_ranges(ids, self._ranges)
        return Selection(ids, residual=residual, driving=name, estimated=rows)

    def _driven_by_key(self, ranges: Sequence[Requirement]) -> Selection:
        driving = min(ranges, key=lambda each: self._key_members[each.key])
        ids: set[int] | list[int] = self._ids_in_range(driving)
        excluded = [label_id for each in self._negative for label_id in each.label_ids]
        if excluded:
            ids = set(ids) - self._ids_of(excluded)
        done = (driving, *self._ordered(driving))
        ids, residual = self._check_ranges(ids, [each for each in self._ranges if each not in done])
        return Selection(
            ids,
            residual=residual,
            driving=str(driving),
            estimated=self._key_members[driving.key],
        )

    def _all_but(self) -> Selection:
        total = members(self._query, self._place)
        absent = [each for each in self._ranges if self._key_members.get(each.key)]
        named = sum(each.members for each in self._negative)
        fetched = named + sum(min(total, self._key_members[each.key]) for each in absent)
        if self._live and fetched * _FETCH_US > total * self._match_us / 2:
            return Selection(inverted=True, residual=self._requirements, estimated=total)
        excluded = [label_id for each in self._negative for label_id in each.label_ids]
        ids = self._ids_of(excluded) if excluded else set()
        for each in absent:
            ids.update(self._ids_in_range(each))
        return Selection(ids, inverted=True, estimated=total)

    def _check_ranges(
        self, ids: set[int] | list[int], ranges: Iterable[Requirement]
    ) -> tuple[set[int] | list[int], tuple[Requirement, ...]]:
        """Check terms without values on fetched ids, where that is cheap; leave the others."""
        residual = []
        for each in ranges:
            in_key = self._key_members.get(each.key, 0)
            if not in_key:
                continue
            if len(ids) * self._match_us <= in_key * _FETCH_US:
                residual.append(each)
            elif each.operator is Operator.DOES_NOT_EXIST:
                ids = set(ids).difference(self._ids_in_range(each))
            else:
                ids = set(ids).intersection(self._ids_in_range(each))
        return ids, tuple(residual)

    def _find(self, requirements: Sequence[Requirement]) -> list[_Found]:
        if not requirements:
            return []
        wide = {key: self._labels(key) for key in self._wide(requirements)}
        found = [_known(each, wide.get(each.key, {})) for each in requirements]
        wanted = [
            (each.key, value, position)
            for position, each in enumerate(requirements)
            if each.key not in wide
            for value in each.values
            if not (unsound(each.key) or unsound(value))
        ]
        if not wanted:
            return found
        condition, parameters = self._place.scopes
        sql = (
            "SELECT json_group_array(json_array(json_extract(j.value, '$[2]'), l.id, l.n))"
            " FROM json_each(?) j CROSS JOIN label_key k CROSS JOIN scope s CROSS JOIN label l"
            f" WHERE k.name = json_extract(j.value, '$[0]') AND {condition}"
            " AND l.scope_id = s.id AND l.key_id = k.id"
            " AND l.value = json_extract(j.value, '$[1]')"
        )
        for position, label_id, n in orjson.loads(self._query(sql, (to_json(wanted), *parameters))):
            found[position].label_ids.append(label_id)
            found[position] = found[position]._replace(members=found[position].members + n)
        return found

    def _wide(self, requirements: Sequence[Requirement]) -> set[str]:
        """Return the keys that have fewer labels than look-ups would be needed.

        In all namespaces, a value is looked up in each: thousands of values in thousands of
        namespaces would take minutes.
        """
        values = Counter[str]()
        for each in requirements:
            values[each.key] += len(each.values)
        if self._place.namespace or values.total() < _VALUES_TO_WEIGH:
            return set()
        namespaces = self._query(_NAMESPACES, (self._place.resource_id,))
        members = key_members(self._query, requirements)
        return {key for key, count in values.items() if count * namespaces > members.get(key, 0)}

    def _labels(self, key: str) -> dict[str, list[tuple[int, int]]]:
        """Return (id, member count) of the labels with a key, by value."""
        labels: dict[str, list[tuple[int, int]]] = {}
        if not unsound(key):
            condition, parameters = self._place.scopes
            sql = (
                "SELECT json_group_array(json_array(l.id, l.value, l.n))"
                " FROM label_key k CROSS JOIN scope s CROSS JOIN label l"
                f" WHERE k.name = ? AND {condition} AND l.scope_id = s.id AND l.key_id = k.id"
            )
            for label_id, value, n in orjson.loads(self._query(sql, (key, *parameters))):
                labels.setdefault(value, []).append((label_id, n))
        return labels

    def _ids_of(self, label_ids: Sequence[int]) -> set[int]:
        return set(orjson.loads(self._query(_OBJECTS_OF_LABELS, (to_json(label_ids),))))

    def _ordered(self, requirement: Requirement) -> list[Requirement]:
        """Return all > and < terms with a term's key, if it is one: they cost one look at it."""
        if requirement.operator not in _ORDER:
            return []
        return [
            each for each in self._ranges if each.key == requirement.key and each.operator in _ORDER
        ]

    def _ids_in_range(self, requirement: Requirement) -> list[int] | set[int]:
        """Return the ids of objects with a term's key, for > and < with a fitting value."""
        condition, parameters = self._place.scopes
        labels = (
            " FROM label_key k CROSS JOIN scope s CROSS JOIN label l"
            f"{{postings}} WHERE k.name = ? AND {condition}"
            " AND l.scope_id = s.id AND l.key_id = k.id"
        )
        if requirement.operator not in _ORDER:
            sql = "SELECT json_group_array(p.object_id)" + labels.format(
                postings=" CROSS JOIN posting p"
            )
            found: list[int] = orjson.loads(
                self._query(f"{sql} AND p.label_id = l.id", (requirement.key, *parameters))
            )
            return found
        # Strict int64, as Go reads it: SQL's own casts take '2x' for 2.
        sql = "SELECT json_group_array(json_array(l.id, l.value))" + labels.format(postings="")
        rows = orjson.loads(self._query(sql, (requirement.key, *parameters)))
        matches = Selector(self._ordered(requirement)).matches
        return self._ids_of(
            [label_id for label_id, value in rows if matches({requirement.key: value})]
        )


def _known(requirement: Requirement, labels: Mapping[str, list[tuple[int, int]]]) -> _Found:
    """Return a term with what it has among labels: (id, member count) by value."""
    each = [label for value in requirement.values for label in labels.get(value, ())]
    return _Found(requirement, [label_id for label_id, _ in each], sum(n for _, n in each))


def _look_up_us(rows: int, label_ids: Sequence[int]) -> float:
    return rows * len(label_ids) * _LOOK_UP_US


def _looked_up(rows: int, label_ids: Sequence[int], members: int) -> bool:
    """Return whether postings are looked up for each driving row rather than fetched."""
    return _look_up_us(rows, label_ids) <= members * _FETCH_US


def _check_us(rows: int, label_ids: Sequence[int], members: int) -> float:
    return min(_look_up_us(rows, label_ids), members * _FETCH_US)


def _parameter(label_ids: list[int]) -> int | str:
    return label_ids[0] if len(label_ids) == 1 else to_json(label_ids)
