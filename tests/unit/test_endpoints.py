"""Endpoints: packing, cutting, and the rules of a sync that the golden cases do not show."""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlcache.controllers.endpoints import EndpointsController
from sqlcache.controllers.endpoints.desired import desired_subsets, is_right, updated
from sqlcache.controllers.endpoints.subsets import (
    MAX_ADDRESSES,
    Packing,
    Port,
    Subset,
    count_addresses,
    truncated,
)
from sqlcache.informer import SharedInformer
from sqlcache.objects import Object, meta_namespace_key_func
from sqlcache.store.scan import DictStore
from sqlcache.testing.factories import pod
from sqlcache.testing.scripted import ScriptedListWatch
from tests.golden.recording import RecordingApi

HTTP = Port("http", 8080, "TCP", None)
METRICS = Port("metrics", 9090, "TCP", None)


def address(ip: str, uid: str = "", **fields: Any) -> dict[str, Any]:
    return {"ip": ip, "nodeName": "n", "targetRef": {"kind": "Pod", "uid": uid}, **fields}


def packed(*members: tuple[Port | None, dict[str, Any], bool]) -> Packing:
    packing = Packing()
    for port, each, ready in members:
        packing.add(port, each, ready=ready)
    return packing


# Packing


def test_ports_share_a_subset_if_all_addresses_and_their_states_are_equal() -> None:
    a, b = address("10.0.0.1", "a"), address("10.0.0.2", "b")
    alike = packed((HTTP, a, True), (METRICS, a, True), (HTTP, b, False), (METRICS, b, False))
    (subset,) = alike.subsets()
    assert subset["addresses"] == [a]
    assert subset["notReadyAddresses"] == [b]
    assert {port["name"] for port in subset["ports"]} == {"http", "metrics"}
    other = packed((HTTP, a, True), (METRICS, a, True), (HTTP, b, False), (METRICS, b, True))
    assert len(other.subsets()) == 2


def test_ports_without_a_number_are_apart_but_not_listed() -> None:
    a, b = address("10.0.0.1", "a"), address("10.0.0.2", "b")
    zeros = HTTP._replace(port=0), METRICS._replace(port=0)
    apart = packed((zeros[0], a, True), (zeros[1], b, True)).subsets()
    assert sorted(subset["addresses"][0]["ip"] for subset in apart) == [a["ip"], b["ip"]]
    together = packed(*((port, each, True) for port in (*zeros, None) for each in (a, b)))
    assert together.subsets() == [{"addresses": [a, b]}]


def test_an_address_that_is_both_is_not_ready() -> None:
    a = address("10.0.0.1", "a")
    for states in ((True, False), (False, True)):
        (subset,) = packed(*((HTTP, a, ready) for ready in states)).subsets()
        assert "addresses" not in subset
        assert subset["notReadyAddresses"] == [a]


def test_pods_that_share_an_ip_are_kept_apart_and_sorted_by_text_then_uid() -> None:
    given = [address("10.0.0.9", "b"), address("10.0.0.10", "x"), address("10.0.0.9", "a")]
    (subset,) = packed(*((HTTP, each, True) for each in given)).subsets()
    found = [(each["ip"], each["targetRef"]["uid"]) for each in subset["addresses"]]
    assert found == [("10.0.0.10", "x"), ("10.0.0.9", "a"), ("10.0.0.9", "b")]


def test_a_port_zero_is_no_port_and_addresses_without_ports_survive() -> None:
    a = address("10.0.0.1", "a")
    assert packed((HTTP._replace(port=0), a, True)).subsets() == [{"addresses": [a]}]
    assert packed((None, a, True)).subsets() == [{"addresses": [a]}]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"targetRef": {"kind": "Pod", "uid": "a", "resourceVersion": "7"}}, True),
        ({"targetRef": {"kind": "Pod", "uid": "a", "fieldPath": ""}}, True),
        ({"targetRef": {"kind": "Pod", "uid": "a", "name": "x"}}, False),
        ({"targetRef": None}, False),
        ({"hostname": ""}, True),
        ({"hostname": "h"}, False),
        ({"nodeName": ""}, False),
        ({"nodeName": None}, False),
        ({"ip": "10.0.0.2"}, False),
    ],
)
def test_what_makes_stored_addresses_the_same(change: dict[str, Any], same: bool) -> None:
    wanted = packed((HTTP, address("10.0.0.1", "a"), True))
    stored = packed((HTTP, {**address("10.0.0.1", "a"), **change}, True))
    assert wanted.same_as(stored) is same
    assert stored.same_as(wanted) is same


PORTS = st.sampled_from([None, HTTP, METRICS, Port("h2", 80, "TCP", "kubernetes.io/h2c")])
ADDRESSES = st.sampled_from([address(f"10.0.0.{n}", uid) for n in range(4) for uid in ("a", "b")])
MEMBERS = st.lists(st.tuples(PORTS, ADDRESSES, st.booleans()), max_size=30)


def flat(subsets: list[Subset]) -> dict[tuple[Any, ...], bool]:
    """Return each (port, ip, uid) of subsets and whether it is ready; each may be there once."""
    found: dict[tuple[Any, ...], bool] = {}
    for subset in subsets:
        ports = [tuple(sorted(port.items())) for port in subset.get("ports", ())]
        for port in ports or [None]:  # type: ignore[list-item]
            for field in ("addresses", "notReadyAddresses"):
                for each in subset.get(field, ()):
                    key = (port, each["ip"], each["targetRef"]["uid"])
                    assert key not in found
                    found[key] = field == "addresses"
    return found


@given(members=MEMBERS, seed=st.integers(0, 1000))
def test_packing_keeps_every_pair_and_does_not_depend_on_order(
    members: list[tuple[Port | None, dict[str, Any], bool]], seed: int
) -> None:
    """Kubernetes' scan yields pods in any order, an index in another."""
    subsets = packed(*members).subsets()
    states: defaultdict[tuple[Any, ...], list[bool]] = defaultdict(list)
    for port, each, ready in members:
        fields = None if port is None else tuple(sorted(port.as_dict().items()))
        states[fields, each["ip"], each["targetRef"]["uid"]].append(ready)
    wanted = {key: all(ready) for key, ready in states.items()}
    found = flat(subsets)
    assert found.items() <= wanted.items()
    for port, ip, uid in wanted.keys() - found.keys():
        # The addresses without ports are just those of some port: they share its subset.
        assert port is None
        assert any(key[0] is not None and key[1:] == (ip, uid) for key in found)
    random.Random(seed).shuffle(members)
    again = packed(*members)
    assert again.subsets() == subsets
    assert Packing.of(copy.deepcopy(subsets)).subsets() == subsets
    assert again.same_as(packed(*members))


@given(first=MEMBERS, second=MEMBERS)
def test_packings_are_the_same_if_and_only_if_their_subsets_are(
    first: list[tuple[Port | None, dict[str, Any], bool]],
    second: list[tuple[Port | None, dict[str, Any], bool]],
) -> None:
    one, other = packed(*first), packed(*second)
    assert one.same_as(other) is (one.subsets() == other.subsets())


@pytest.mark.parametrize("app_protocol", [None, "h2c"])
def test_a_stored_port_with_an_app_protocol_is_one_in_each_subset(app_protocol: str | None) -> None:
    port = Port("http", 8080, "TCP", app_protocol)
    a, b = address("10.0.0.1", "a"), address("10.0.0.2", "b")
    computed = packed((port, a, True), (port, b, True))
    split = [{"addresses": [each], "ports": [port.as_dict()]} for each in (a, b)]
    assert computed.same_as(Packing.of(split)) is (app_protocol is None)
    assert computed.same_as(Packing.of(computed.subsets()))


# Cutting


def subsets_of(*sizes: tuple[int, int]) -> list[Subset]:
    return [
        {
            "addresses": [address(f"{number}.{i}") for i in range(ready)],
            "notReadyAddresses": [address(f"{number}.{i}") for i in range(not_ready)],
            "ports": [HTTP.as_dict()],
        }
        for number, (ready, not_ready) in enumerate(sizes)
    ]


def sizes_of(subsets: list[Subset]) -> list[tuple[int, int]]:
    return [(len(s.get("addresses", ())), len(s.get("notReadyAddresses", ()))) for s in subsets]


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([(1000, 0)], [(1000, 0)]),
        ([(1001, 0)], [(1000, 0)]),
        ([(999, 5)], [(999, 1)]),
        ([(1000, 1)], [(1000, 0)]),
        (
            [(205, 0), (400, 0), (402, 0), (400, 0), (693, 0)],
            [(98, 0), (191, 0), (192, 0), (191, 0), (328, 0)],
        ),
        (
            [(90, 101), (110, 200), (50, 200), (10, 201), (20, 298)],
            [(90, 73), (110, 144), (50, 144), (10, 145), (20, 214)],
        ),
    ],
)
def test_shares_of_subsets_over_capacity(
    sizes: list[tuple[int, int]], kept: list[tuple[int, int]]
) -> None:
    given = subsets_of(*sizes)
    before = copy.deepcopy(given)
    assert sizes_of(truncated(given)) == kept
    assert given == before


@given(st.lists(st.tuples(st.integers(0, 700), st.integers(0, 700)), max_size=5))
def test_cutting_keeps_ready_addresses_first_and_the_order(sizes: list[tuple[int, int]]) -> None:
    given = subsets_of(*sizes)
    cut = truncated(given)
    total, ready = sum(map(sum, sizes)), sum(size[0] for size in sizes)
    assert count_addresses(cut) == min(MAX_ADDRESSES, total)
    assert sum(size[0] for size in sizes_of(cut)) == min(MAX_ADDRESSES, ready)
    for before, after in zip(given, cut, strict=True):
        for field in ("addresses", "notReadyAddresses"):
            kept = after.get(field, [])
            assert kept == before[field][: len(kept)]


# Labels and annotations


def service(**meta: Any) -> Object:
    return {
        "metadata": {"name": "web", "namespace": "default", **meta},
        "spec": {
            "clusterIP": "10.1.0.1",
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        },
    }


def web_pod(name: str, **status: Any) -> Object:
    ips = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}
    conditions = [{"type": "Ready", "status": "True"}]
    return pod(name, uid=name, status={"conditions": conditions, **ips, **status})


def test_what_others_added_to_the_object_stays_and_nothing_given_is_changed() -> None:
    owner, pods = service(labels={"a": "b"}), [web_pod("a")]
    wanted = desired_subsets(owner, pods)
    stored = updated(None, owner, wanted, None)
    stored["metadata"].update(
        resourceVersion="7",
        uid="u",
        annotations={"mine": "1", "endpoints.kubernetes.io/last-change-trigger-time": "old"},
        finalizers=["x"],
    )
    before = copy.deepcopy((stored, owner, pods))
    again = updated(stored, owner, desired_subsets(owner, [*pods, web_pod("b")]), "new")
    assert (stored, owner, pods) == before
    assert again["metadata"] == {
        **stored["metadata"],
        "annotations": {"mine": "1", "endpoints.kubernetes.io/last-change-trigger-time": "new"},
    }
    assert (again["apiVersion"], again["kind"]) == ("v1", "Endpoints")


@pytest.mark.parametrize(
    ("stored", "wanted", "right"),
    [
        ({}, {}, True),
        ({"service.kubernetes.io/headless": ""}, {}, True),
        ({}, {"service.kubernetes.io/headless": ""}, False),
        (
            {"service.kubernetes.io/headless": ""},
            {"service.kubernetes.io/headless": ""},
            False,
        ),
        ({"a": "b"}, {"a": "b"}, True),
        ({"a": "b"}, {"a": "c"}, False),
        ({"a": "b"}, {}, False),
        ({}, {"a": "b"}, False),
        ({"endpoints.kubernetes.io/managed-by": "me"}, {}, False),
        ({}, {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}, False),
        ({}, {"endpoints.kubernetes.io/managed-by": "me"}, False),
    ],
)
def test_labels_that_make_an_object_right(
    stored: dict[str, str], wanted: dict[str, str], right: bool
) -> None:
    owner = service(labels=wanted)
    subsets = desired_subsets(owner, [web_pod("a")])
    found = updated(None, owner, subsets, None)
    found["metadata"]["labels"] = {
        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
        **stored,
    }
    assert is_right(found, owner, subsets) is right


def test_an_annotation_of_capacity_or_too_many_addresses_are_not_right() -> None:
    owner = service()
    wanted = desired_subsets(owner, [web_pod("a")])
    stored = updated(None, owner, wanted, None)
    assert is_right(stored, owner, wanted)
    stored["metadata"]["annotations"] = {"endpoints.kubernetes.io/over-capacity": "warning"}
    assert not is_right(stored, owner, wanted)
    many = desired_subsets(owner, [web_pod(f"p{n}") for n in range(MAX_ADDRESSES + 1)])
    cut = updated(None, owner, many, None)
    over = "endpoints.kubernetes.io/over-capacity"
    assert cut["metadata"]["annotations"] == {over: "truncated"}
    assert not is_right(cut, owner, many)
    assert not is_right({**cut, "subsets": many.subsets()}, owner, many)


# A sync


@pytest.mark.parametrize(("version", "writes"), [("7", []), ("", ["create"]), (None, ["create"])])
def test_an_object_without_a_version_was_never_written_and_is_created(
    version: str | None, writes: list[str]
) -> None:
    owner, each = service(), web_pod("a")
    each["metadata"]["labels"] = {"app": "web"}
    stored = updated(None, owner, desired_subsets(owner, [each]), None)
    stored["metadata"]["resourceVersion"] = version
    api = RecordingApi(numbered=True)
    pods, services, endpoints = (SharedInformer(ScriptedListWatch(), DictStore()) for _ in range(3))
    for informer, obj in ((pods, each), (services, owner), (endpoints, stored)):
        informer.store.add(obj)
    controller = EndpointsController(api, pods=pods, services=services, endpoints=endpoints)
    controller.sync(meta_namespace_key_func(owner))
    assert [action["verb"] for action in api.actions] == writes
