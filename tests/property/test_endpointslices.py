"""Packing of endpoints into slices, for any slices that are there and any endpoints wanted."""

from __future__ import annotations

import copy
import math
from itertools import count
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from sqlcache.controllers.endpointslice.packing import Plan, pack
from sqlcache.controllers.endpointslice.ports import Port
from sqlcache.controllers.endpointslice.slices import (
    Endpoint,
    endpoints_of,
    identity,
    new_slice,
    with_labels,
    with_name,
)
from sqlcache.objects import Object, Objects

PORTS = (Port("http", "TCP", 8080, None),)
SERVICE: Object = {
    "metadata": {"name": "web", "namespace": "shop", "uid": "u", "labels": {"a": "b"}},
    "spec": {"clusterIP": "10.96.0.1"},
}
OLD_LABELS = {"a": "before"}


def endpoint(number: int, version: int = 0) -> Endpoint:
    return {
        "addresses": [f"10.0.0.{number}"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "targetRef": {"kind": "Pod", "namespace": "shop", "name": f"p{number}"},
        "nodeName": f"n{version}",
    }


class Start(NamedTuple):
    """What is there, and what is wanted."""

    existing: Objects
    desired: list[Endpoint]
    max_endpoints: int


@st.composite
def starts(draw: st.DrawFn) -> Start:
    """Draw slices that hold each endpoint once, some over the maximum, some with old labels."""
    number = count(1)
    existing: Objects = []
    sizes = draw(st.lists(st.integers(0, 7), max_size=6))
    for name, size in enumerate(sizes):
        endpoints = [endpoint(next(number)) for _ in range(size)]
        made = with_name(new_slice(SERVICE, "IPv4", PORTS, endpoints), f"web-{name}")
        existing.append(with_labels(made, OLD_LABELS) if draw(st.booleans()) else made)
    fate = st.sampled_from(["stays", "stays", "stays", "changes", "goes"])
    desired = []
    for each in existing:
        for there in endpoints_of(each):
            what = draw(fate)
            if what != "goes":
                desired.append({**there, "nodeName": "n0" if what == "stays" else "n1"})
    desired += [endpoint(next(number)) for _ in range(draw(st.integers(0, 12)))]
    return Start(existing, draw(st.permutations(desired)), draw(st.integers(1, 6)))


def packed(start: Start) -> Plan:
    return pack(
        start.existing,
        {identity(each): each for each in start.desired},
        service=SERVICE,
        address_type="IPv4",
        ports=PORTS,
        max_endpoints=start.max_endpoints,
    )


def stored(plan: Plan) -> Objects:
    """Return the slices that are there when a plan was carried out."""
    created = [with_name(each, f"web-new{n}") for n, each in enumerate(plan.create)]
    return copy.deepcopy(created + plan.update + plan.unchanged)


def names_in(endpoint_slice: Object) -> set[str]:
    return {str(each["targetRef"]["name"]) for each in endpoints_of(endpoint_slice)}


def by_name(slices: Objects) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in slices}


@given(starts())
def test_the_slices_hold_each_endpoint_once_and_as_wanted(start: Start) -> None:
    found = [each for one in stored(packed(start)) for each in endpoints_of(one)]

    def key(each: Endpoint) -> Any:
        return each["targetRef"]["name"]

    assert sorted(found, key=key) == sorted(start.desired, key=key)


@given(starts())
def test_no_slice_is_filled_over_the_maximum(start: Start) -> None:
    before = by_name(start.existing)
    for name, each in by_name(stored(packed(start))).items():
        size = len(endpoints_of(each))
        assert size <= start.max_endpoints or size <= len(endpoints_of(before[name]))


@given(starts())
def test_endpoints_stay_in_the_slice_in_which_they_are(start: Start) -> None:
    after = by_name(stored(packed(start)))
    wanted = {each["targetRef"]["name"] for each in start.desired}
    for name, each in by_name(start.existing).items():
        assert names_in(each) & wanted <= names_in(after.get(name, {}))


@given(starts())
def test_each_slice_is_in_one_part_of_the_plan_and_only_slices_without_use_are_deleted(
    start: Start,
) -> None:
    plan = packed(start)
    parts = [by_name(part) for part in (plan.update, plan.delete, plan.unchanged)]
    assert sorted(name for part in parts for name in part) == sorted(by_name(start.existing))
    wanted = {each["targetRef"]["name"] for each in start.desired}
    assert all(names_in(each) and not names_in(each) & wanted for each in plan.delete)
    assert all("name" not in each["metadata"] and each["endpoints"] for each in plan.create)


@given(starts())
def test_there_are_no_more_writes_than_must_be(start: Start) -> None:
    """What went, changed or has old labels must be written; then each write takes up to the max."""
    wanted = {each["targetRef"]["name"]: each for each in start.desired}
    must, room, placed = 0, 0, 0
    for each in start.existing:
        kept = [wanted[name] for name in names_in(each) if name in wanted]
        placed += len(kept)
        changed = sorted(map(str, kept)) != sorted(map(str, endpoints_of(each)))
        if (changed and kept) or (not changed and each["metadata"]["labels"] == OLD_LABELS):
            must += 1
            room += max(0, start.max_endpoints - len(kept))
    left = max(0, len(wanted) - placed - room)
    plan = packed(start)
    assert len(plan.create) + len(plan.update) == must + math.ceil(left / start.max_endpoints)


@given(starts())
def test_a_second_time_nothing_is_written(start: Start) -> None:
    again = packed(start._replace(existing=stored(packed(start))))
    assert (again.create, again.update, again.delete) == ([], [], [])


@given(starts())
def test_what_was_given_is_not_changed(start: Start) -> None:
    before = copy.deepcopy(start)
    plan = packed(start)
    for each in plan.update + plan.create:
        each["endpoints"].append("somebody's")
    assert start == before
