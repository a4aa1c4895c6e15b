"""The parts of the EndpointSlice controller: endpoints, slices, hints, tracker, slice events."""

from __future__ import annotations

import itertools
import logging
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlcache.controllers.endpointslice import EndpointSliceController
from sqlcache.controllers.endpointslice.desired import address_types, desired_endpoints
from sqlcache.controllers.endpointslice.events import SliceEvents
from sqlcache.controllers.endpointslice.hints import set_hints, wants_topology_hints
from sqlcache.controllers.endpointslice.packing import Plan
from sqlcache.controllers.endpointslice.ports import Port, in_order, ports_of
from sqlcache.controllers.endpointslice.slices import (
    endpoints_of,
    identity,
    is_placeholder,
    new_slice,
    placeholder,
    same_content,
    with_name,
)
from sqlcache.controllers.endpointslice.topology import (
    TopologyCache,
    cpu_shares,
    is_topology_change,
)
from sqlcache.controllers.endpointslice.tracker import SliceTracker
from sqlcache.controllers.quantities import quantity
from sqlcache.errors import AggregateError, MissingNodeError, SliceWriteError
from sqlcache.informer import SharedInformer
from sqlcache.objects import DeletedFinalStateUnknown, Object
from sqlcache.store.scan import DictStore
from sqlcache.testing.clock import VirtualClock
from sqlcache.testing.factories import pod
from sqlcache.testing.scripted import ScriptedListWatch
from sqlcache.workqueue import WorkQueue
from tests.golden.recording import RecordingApi

ZONE = "topology.kubernetes.io/zone"
READY = [{"type": "Ready", "status": "True"}]
SERVICE_NAME, MANAGED_BY = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
OURS = "endpointslice-controller.k8s.io"


def service(name: str = "web", annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    meta = {"name": name, "namespace": "default", "uid": "svc", "annotations": annotations}
    return {"metadata": meta, "spec": {"clusterIP": "10.96.0.1", **spec}}


def endpoint(number: int, zone: str | None = "a", *, ready: bool = True, **fields: Any) -> Object:
    return {
        "addresses": [f"10.0.0.{number}"],
        "conditions": {"ready": ready},
        "nodeName": "n1",
        **({"zone": zone} if zone is not None else {}),
        **fields,
    }


def stored(*endpoints: Object, name: str = "web-1") -> Object:
    made = new_slice(service(), "IPv4", (), list(endpoints))
    return with_name(made, name)


def node(name: str = "n1", zone: str | None = "a", cpu: Any = "4", **labels: str) -> Object:
    labels = {**labels, **({ZONE: zone} if zone is not None else {})}
    status = {"conditions": READY, "allocatable": {"cpu": cpu}}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def hints_of(plan: Plan) -> list[Any]:
    slices = plan.create + plan.update + plan.unchanged
    return [each.get("hints") for one in slices for each in endpoints_of(one)]


def zone_hint(*zones: str) -> dict[str, list[dict[str, str]]]:
    return {"forZones": [{"name": zone} for zone in zones]}


# Endpoints


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        ({"ipFamilies": ["IPv6", "IPv4"]}, ["IPv4", "IPv6"]),
        ({"ipFamilies": ["IPv6"], "clusterIP": "10.96.0.1"}, ["IPv6"]),
        ({"ipFamilies": [], "clusterIP": "fd00::1"}, ["IPv6"]),
        ({"clusterIP": "10.96.0.1"}, ["IPv4"]),
        ({"clusterIP": "None"}, ["IPv4", "IPv6"]),
        ({"clusterIP": ""}, ["IPv4", "IPv6"]),
    ],
)
def test_address_types_are_those_of_the_service(spec: Object, types: list[str]) -> None:
    assert address_types(service(**spec)) == types


def test_a_pod_has_an_endpoint_of_its_ports_with_all_its_addresses_of_a_family() -> None:
    web = service(ports=[{"name": "b", "port": 1, "targetPort": 81, "protocol": "TCP"}])
    ips = [{"ip": ip} for ip in ("10.0.0.9", "fd00::1", "10.0.0.10")]
    going = pod("p", uid="u", spec={"nodeName": "n1"}, status={"podIPs": ips, "conditions": READY})
    going["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    desired = desired_endpoints(web, [going], "IPv4", lambda _: node(zone="z"))
    assert desired.missing == []
    assert [port.as_dict() for port in next(iter(desired.by_ports))] == [
        {"name": "b", "protocol": "TCP", "port": 81}
    ]
    (endpoints,) = desired.by_ports.values()
    assert list(endpoints.values()) == [
        {
            "addresses": ["10.0.0.10", "10.0.0.9"],
            "conditions": {"ready": False, "serving": True, "terminating": True},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"},
            "nodeName": "n1",
            "zone": "z",
        }
    ]


@pytest.mark.parametrize("publish", [False, True])
def test_a_pod_on_an_unknown_node_waits_unless_it_is_published_anyway(publish: bool) -> None:
    web = service(publishNotReadyAddresses=publish)
    lost = pod("p", spec={"nodeName": "gone"}, status={"podIPs": [{"ip": "10.0.0.1"}]})
    desired = desired_endpoints(web, [lost], "IPv4", lambda _: None)
    (endpoints,) = desired.by_ports.values()
    if publish:
        assert [each["nodeName"] for each in endpoints.values()] == ["gone"]
        assert desired.missing == []
    else:
        assert endpoints == {}
        assert list(map(str, desired.missing)) == [
            "skipping Pod p for Service default/web: Node gone Not Found"
        ]


def test_ports_are_one_set_in_any_order() -> None:
    ports = [Port(f"p{number}", "TCP", number, None) for number in range(6)]
    shuffled = random.Random(1).sample(ports, len(ports))
    assert in_order(shuffled) == in_order(ports)
    assert in_order(ports) != tuple(ports), "the order is that of hashes"
    assert ports_of({"ports": [port.as_dict() for port in shuffled]}) == in_order(ports)
    assert ports_of({"ports": None}) == ports_of({"ports": []}) == ()


def test_a_port_without_a_name_is_not_one_with_an_empty_name() -> None:
    assert ports_of({"ports": [{"port": 80}]}) != ports_of({"ports": [{"port": 80, "name": ""}]})


def test_endpoints_are_the_same_by_addresses_hostname_and_target() -> None:
    one = endpoint(1, addresses=["b", "a"], targetRef={"name": "p", "namespace": "x", "uid": "1"})
    assert identity(one) == identity({**one, "addresses": ["a", "b"], "zone": "z", "nodeName": "n"})
    for change in ({"hostname": "h"}, {"addresses": ["a"]}, {"targetRef": {"name": "q"}}):
        assert identity(one) != identity({**one, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"zone": "b"},
        {"zone": None},
        {"nodeName": ""},
        {"conditions": {"ready": True, "serving": True}},
        {"conditions": {}},
        {"targetRef": {"name": "p", "uid": "2"}},
        {"targetRef": None},
    ],
)
def test_endpoints_that_were_stored_otherwise_are_not_equal(change: Object) -> None:
    one = endpoint(1, targetRef={"name": "p", "uid": "1"})
    assert not same_content(one, {**one, **change})


def test_hints_and_the_version_of_a_target_do_not_make_endpoints_different() -> None:
    one = endpoint(1, targetRef={"name": "p", "uid": "1"})
    target = {"name": "p", "uid": "1", "resourceVersion": "7"}
    assert same_content(one, {**one, "targetRef": target, "hints": zone_hint("a")})


def test_a_placeholder_stays_whatever_its_owner_annotations_and_empty_labels() -> None:
    headless = service(clusterIP="None")
    made = with_name(placeholder(headless, "IPv4"), "web-1")
    made["metadata"].update(ownerReferences=[], annotations={"a": "b"})
    del made["metadata"]["labels"]["service.kubernetes.io/headless"]
    assert is_placeholder({**made, "ports": None, "endpoints": None}, headless, "IPv4")
    assert not is_placeholder(made, headless, "IPv6")
    assert not is_placeholder({**made, "endpoints": [endpoint(1)]}, headless, "IPv4")
    assert not is_placeholder({**made, "ports": [{"port": 80}]}, headless, "IPv4")
    made["metadata"]["labels"]["a"] = "b"
    assert not is_placeholder(made, headless, "IPv4")


@pytest.mark.parametrize(("length", "prefix"), [(253, 254), (254, 254)])
def test_names_are_made_with_a_dash_if_there_is_room(length: int, prefix: int) -> None:
    made = placeholder(service("s" * length), "IPv4")
    assert len(made["metadata"]["generateName"]) == prefix


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("a", "a-"),
        ("web.", "web.-"),
        ("a.b", "a.b-"),
        ("we-b", "we-b-"),
        ("Web", "Web"),
        ("a..b", "a..b"),
        ("-web", "-web"),
        ("w_b", "w_b"),
        ("web\n", "web\n-"),
        ("w\nb", "w\nb"),
    ],
)
def test_names_are_made_with_a_dash_if_they_are_names_then(name: str, prefix: str) -> None:
    """As upstream, which looks at the prefix without its last letter but one."""
    assert placeholder(service(name), "IPv4")["metadata"]["generateName"] == prefix


# Hints by trafficDistribution


@pytest.mark.parametrize(
    ("annotations", "wants"),
    [
        (None, False),
        ({"service.kubernetes.io/topology-mode": "Auto"}, True),
        ({"service.kubernetes.io/topology-mode": "auto"}, True),
        ({"service.kubernetes.io/topology-mode": "AUTO"}, False),
        ({"service.kubernetes.io/topology-aware-hints": "auto"}, True),
        (
            {
                "service.kubernetes.io/topology-aware-hints": "",
                "service.kubernetes.io/topology-mode": "Auto",
            },
            False,
        ),
    ],
)
def test_which_annotation_asks_for_topology_hints(
    annotations: dict[str, str] | None, wants: bool
) -> None:
    assert wants_topology_hints(service(annotations=annotations)) is wants


@pytest.mark.parametrize("distribution", ["PreferClose", "PreferSameZone"])
def test_ready_endpoints_are_hinted_to_their_own_zone(distribution: str) -> None:
    plan = Plan(create=[stored(endpoint(1, "a"), endpoint(2, "b"), endpoint(3, None))])
    set_hints(plan, service(trafficDistribution=distribution))
    assert hints_of(plan) == [zone_hint("a"), zone_hint("b"), None]


def test_same_node_hints_name_the_node_too() -> None:
    plan = Plan(create=[stored(endpoint(1, "a"), endpoint(2, None))])
    set_hints(plan, service(trafficDistribution="PreferSameNode"))
    node_hint = {"forNodes": [{"name": "n1"}]}
    assert hints_of(plan) == [{**zone_hint("a"), **node_hint}, node_hint]


def test_an_endpoint_that_is_not_ready_keeps_its_hints() -> None:
    plan = Plan(unchanged=[stored(endpoint(1, ready=False, hints=zone_hint("old")))])
    set_hints(plan, service(trafficDistribution="PreferClose"))
    assert plan.update == []
    plan = Plan(update=[stored(endpoint(1, ready=False, hints=zone_hint("old")))])
    set_hints(plan, service(trafficDistribution="PreferClose"))
    assert hints_of(plan) == [zone_hint("old")]


@pytest.mark.parametrize(
    ("hints", "is_right"),
    [
        (zone_hint("a"), True),
        ({**zone_hint("a"), "forNodes": []}, True),
        (None, False),
        (zone_hint("b"), False),
        (zone_hint("a", "b"), False),
        ({**zone_hint("a"), "forNodes": [{"name": "n1"}]}, False),
    ],
)
def test_unchanged_slices_are_written_for_wrong_hints_alone(hints: Any, is_right: bool) -> None:
    before = stored(endpoint(1, hints=hints))
    plan = Plan(unchanged=[before])
    set_hints(plan, service(trafficDistribution="PreferClose"))
    assert (plan.unchanged == [before]) is is_right
    assert len(plan.update) == (not is_right)
    assert before["endpoints"][0]["hints"] == hints, "it is the cache's"


@pytest.mark.parametrize("distribution", [None, "", "Bogus", "preferclose"])
def test_without_a_known_distribution_hints_go(distribution: str | None) -> None:
    plan = Plan(
        update=[stored(endpoint(1, hints=zone_hint("a")))],
        unchanged=[
            stored(endpoint(2, ready=False, hints=zone_hint("a")), name="with"),
            stored(endpoint(3), name="without"),
        ],
    )
    set_hints(plan, service(trafficDistribution=distribution))
    assert hints_of(plan) == [None, None, None]
    assert [each["metadata"]["name"] for each in plan.update] == ["web-1", "with"]


# Hints by the CPUs of zones


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4", "4"),
        (4, "4"),
        (0.5, "0.5"),
        ("3920m", "3.92"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1k", "1000"),
        ("2Ki", "2048"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E", "1000000000000000000"),
        ("500u", "0.0005"),
        ("-1", "-1"),
        (None, "0"),
        ("", "0"),
        ("many", "0"),
        ("1 ", "0"),
        ("1e9999999", "0"),
    ],
)
def test_quantities_are_read_as_the_api_writes_them(text: Any, number: str) -> None:
    assert quantity(text) == Decimal(number)


def test_zones_share_by_the_cpus_of_their_nodes() -> None:
    nodes = [node("1", "a", "1500m"), node("2", "a", "500m"), node("3", "b", 6)]
    assert cpu_shares(nodes) == {"a": 0.25, "b": 0.75}


@pytest.mark.parametrize(
    "extra",
    [
        node("x", None, "64", **{"node-role.kubernetes.io/control-plane": ""}),
        node("x", "c", "64", **{"node-role.kubernetes.io/master": "true"}),
        {**node("x", "c", "64"), "status": {"allocatable": {"cpu": "64"}}},
        {**node("x", None, "64"), "status": {"conditions": [{"type": "Ready", "status": "No"}]}},
    ],
)
def test_control_planes_and_nodes_that_are_not_ready_do_not_count(extra: Object) -> None:
    assert cpu_shares([node("1", "a"), node("2", "b"), extra]) == {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize(
    "extra", [node("x", None), node("x", ""), node("x", "a", "0"), node("x", "a", None)]
)
def test_one_node_without_zone_or_cpus_makes_shares_unknown(extra: Object) -> None:
    assert cpu_shares([node("1", "a"), node("2", "b"), extra]) == {}


def test_one_zone_is_no_zone() -> None:
    assert cpu_shares([node("1", "a"), node("2", "a")]) == {}
    assert cpu_shares([]) == {}


@pytest.mark.parametrize(
    ("new", "changed"),
    [
        (node("1", "b"), True),
        (node("1", None), True),
        ({**node("1", "a"), "status": {}}, True),
        (node("1", "a", "8"), False),
        (node("1", "a", other="label"), False),
    ],
)
def test_which_changes_of_a_node_matter(new: Object, changed: bool) -> None:
    assert is_topology_change(node("1", "a"), new) is changed


def topology(*zones: str) -> TopologyCache:
    cache = TopologyCache()
    cache.set_nodes([node(str(number), zone) for number, zone in enumerate(zones)])
    return cache


def zones_hinted(plan: Plan) -> Counter[str]:
    return Counter(hints["forZones"][0]["name"] for hints in hints_of(plan) if hints)


def test_endpoints_are_given_to_zones_that_have_too_few() -> None:
    plan = Plan(create=[stored(*(endpoint(number, "a") for number in range(4)))])
    notices = topology("a", "b").set_hints(plan, "default/web", "IPv4")
    assert zones_hinted(plan) == {"a": 2, "b": 2}
    assert [(each.type, each.message) for each in notices] == [
        ("Normal", "Topology Aware Hints has been enabled, addressType: IPv4")
    ]


def test_the_order_in_which_a_cache_lists_nodes_makes_no_difference() -> None:
    """Backends list in different orders; the same endpoints must go to the same zones."""
    nodes = [node(zone, zone) for zone in "abcd"]
    made = []
    for order in itertools.permutations(nodes):
        cache = TopologyCache()
        cache.set_nodes(order)
        plan = Plan(create=[stored(*(endpoint(number, "b") for number in range(8)))])
        cache.set_hints(plan, "default/web", "IPv4")
        made.append(hints_of(plan))
    assert all(each == made[0] for each in made)
    assert {hints["forZones"][0]["name"] for hints in made[0] if hints} == set("abcd")


@pytest.mark.parametrize(
    ("endpoints", "zones", "why"),
    [
        ([endpoint(1), endpoint(2, "b")], ["a"], "Insufficient Node information"),
        ([endpoint(1)], ["a", "b"], "Insufficient number of endpoints (1 endpoints, 2 zones)"),
        (
            [endpoint(number, zone) for number, zone in enumerate("aabbc")],
            ["a", "b", "c"],
            "Unable to allocate",
        ),
        (
            [endpoint(1), endpoint(2), endpoint(3, None), endpoint(4, "b")],
            ["a", "b"],
            "One or more endpoints",
        ),
    ],
)
def test_hints_go_if_they_cannot_be_good(
    endpoints: list[Object], zones: list[str], why: str
) -> None:
    plan = Plan(unchanged=[stored(*({**each, "hints": zone_hint("a")} for each in endpoints))])
    if why.startswith("One"):  # as long as they have hints, their zones are not looked at
        plan = Plan(create=[stored(*endpoints)])
    (notice,) = topology(*zones).set_hints(plan, "default/web", "IPv4")
    assert set(hints_of(plan)) == {None}
    assert notice.type == "Warning"
    assert notice.reason == "TopologyAwareHintsDisabled"
    assert notice.message.startswith(why)


def test_good_hints_stay_and_bad_ones_are_written() -> None:
    good = stored(endpoint(1, "a", hints=zone_hint("a")), name="good")
    gone = stored(endpoint(2, "b", hints=zone_hint("c")), name="gone")
    plan = Plan(unchanged=[good, gone])
    topology("a", "b").set_hints(plan, "default/web", "IPv4")
    assert plan.unchanged == [good]
    assert zones_hinted(plan) == {"a": 1, "b": 1}


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=12),
    st.lists(st.sampled_from("abc"), min_size=2, max_size=6),
)
def test_no_zone_is_overloaded_and_a_second_time_nothing_is_written(
    endpoint_zones: list[str], node_zones: list[str]
) -> None:
    cache = topology(*node_zones)
    endpoints = [endpoint(number, zone) for number, zone in enumerate(endpoint_zones)]
    plan = Plan(create=[stored(*endpoints)])
    cache.set_hints(plan, "default/web", "IPv4")
    hinted = zones_hinted(plan)
    assert hinted.total() in (0, len(endpoints))
    if hinted and set(endpoint_zones) <= set(node_zones):
        shares = cpu_shares([node(zone=zone) for zone in node_zones])
        for zone, share in shares.items():
            assert len(endpoints) * share / hinted[zone] <= 1.2 * (1 + 1e-9)
        assert cache.overloaded() == []
        again = Plan(unchanged=[with_name(plan.create[0], "web-1")])
        cache.set_hints(again, "default/web", "IPv4")
        assert again.update == []


def test_services_are_overloaded_when_nodes_came_or_went() -> None:
    cache = topology("a", "b")
    for name in ("one", "other"):
        plan = Plan(create=[stored(endpoint(1, "a"), endpoint(2, "b"))])
        cache.set_hints(plan, name, "IPv4")
    assert cache.overloaded() == []
    cache.set_nodes([node("1", "a"), node("2", "b"), node("3", "c")])
    assert cache.overloaded() == ["one", "other"]
    cache.forget("one")
    assert cache.overloaded() == ["other"]
    cache.set_nodes([])
    assert cache.overloaded() == ["other"], "its hints must go"
    assert [each.message for each in cache.stop_hints("other", "IPv4")] == [
        "Topology Aware Hints has been disabled, addressType: IPv4"
    ]
    assert cache.stop_hints("other", "IPv4") == []
    assert cache.overloaded() == []


# Tracker


def tracked(name: str = "1", generation: int = 1, *, owner: str = "web", by: str = OURS) -> Object:
    return {
        "metadata": {
            "name": f"web-{name}",
            "namespace": "default",
            "uid": name,
            "generation": generation,
            "labels": {SERVICE_NAME: owner, MANAGED_BY: by},
        }
    }


def test_a_cache_is_stale_until_it_shows_what_was_written() -> None:
    tracker, key = SliceTracker(), "default/web"
    assert not tracker.is_stale(key, [])
    tracker.wrote(tracked(generation=2))
    assert tracker.is_stale(key, []), "it is missing"
    assert tracker.is_stale(key, [tracked(generation=1)]), "it is old"
    assert not tracker.is_stale(key, [tracked(generation=2)])
    assert not tracker.is_stale(key, [tracked(generation=3), tracked("other")])
    assert not tracker.is_stale("default/other", [])
    assert tracker.missing("default/web", [tracked("other")]) == {"1": "web-1"}
    tracker.forget_slice("default/web", "1")
    assert not tracker.is_stale("default/web", [])


def test_a_cache_is_stale_while_it_shows_what_was_deleted() -> None:
    tracker, key = SliceTracker(), "default/web"
    tracker.deleted(tracked())
    assert tracker.is_stale(key, [tracked()])
    assert not tracker.is_stale(key, [])
    assert not tracker.saw_deletion(tracked()), "it was expected"
    assert not tracker.is_stale(key, [tracked()])


def test_what_others_wrote_and_deleted_is_told_from_what_was_written_here() -> None:
    tracker = SliceTracker()
    assert tracker.is_news(tracked())
    assert not tracker.saw_deletion(tracked("other")), "it was not from here"
    tracker.wrote(tracked(generation=2))
    assert not tracker.is_news(tracked(generation=2))
    assert tracker.is_news(tracked(generation=3))
    assert tracker.saw_deletion(tracked(generation=2))
    assert not tracker.is_stale("default/web", [])


def test_a_slice_that_is_gone_when_its_write_is_noted_is_not_waited_for() -> None:
    tracker = SliceTracker()
    tracker.wrote(tracked(generation=1))
    tracker.saw_deletion(tracked(generation=2))
    tracker.wrote(tracked(generation=2))
    assert not tracker.is_stale("default/web", [])
    tracker.deleted(tracked(generation=2))
    assert tracker.missing("default/web", []) == {}


def test_a_slice_that_comes_back_is_waited_for_again() -> None:
    """A list from an API server that is behind takes slices away; their uids return later."""
    events = Events()
    events.tracker.wrote(tracked(generation=1))
    events.handler.on_delete(tracked(generation=1))
    events.handler.on_add(tracked(generation=1), False)
    events.tracker.wrote(tracked(generation=2))
    assert events.tracker.is_stale("default/web", [tracked(generation=1)])
    events.tracker.deleted(tracked(generation=2))
    assert events.tracker.is_stale("default/web", [tracked(generation=2)])


def test_a_service_that_is_gone_is_forgotten() -> None:
    tracker = SliceTracker()
    tracker.wrote(tracked())
    tracker.forget("default/web")
    assert not tracker.is_stale("default/web", [])


# Slice events


def taken(queue: WorkQueue[str]) -> list[str]:
    """Take all that waits in a queue."""
    items = [queue.get(0.0) for _ in range(len(queue))]
    for item in items:
        queue.done(item)
    return items


class Events:
    """A handler of slice events, and what it asks for."""

    def __init__(self, **options: Any) -> None:
        self.clock, self.tracker = VirtualClock(), SliceTracker()
        self.queue = WorkQueue[str](clock=self.clock)
        self.handler = SliceEvents(self.queue, self.tracker, **options)

    def asked(self) -> list[str]:
        """Return the services that wait for a sync a second later."""
        self.clock.advance(0.99)
        assert len(self.queue) == 0, "events of a second are one sync"
        self.clock.advance(0.01)
        return sorted(taken(self.queue))


def test_what_was_written_here_asks_for_nothing() -> None:
    events = Events()
    events.tracker.wrote(tracked(generation=2))
    events.handler.on_add(tracked(generation=2), False)
    events.handler.on_update(tracked(generation=1), tracked(generation=2))
    events.tracker.deleted(tracked())
    events.handler.on_delete(tracked())
    assert events.asked() == []


def test_what_a_sync_waited_for_asks_for_another_one() -> None:
    events, key = Events(), "default/web"
    written, gone = tracked("1", generation=2), tracked("2")
    events.tracker.wrote(written)
    events.tracker.deleted(gone)
    assert events.tracker.is_stale(key, [gone])
    events.handler.on_add(written, False)
    assert events.asked() == [key]
    assert events.tracker.is_stale(key, [written, gone])
    events.handler.on_delete(gone)
    assert events.asked() == [key]
    assert not events.tracker.is_stale(key, [written])
    events.handler.on_update(tracked("1", generation=1), written)
    assert events.asked() == []


def test_what_others_made_edited_and_deleted_asks_for_a_sync() -> None:
    for number, change in enumerate(["make", "edit", "delete", "miss"]):
        events = Events()
        before, after = tracked(), tracked(generation=2)
        if change == "make":
            events.handler.on_add(before, False)
        else:
            events.tracker.wrote(before)
        if change == "edit":
            events.handler.on_update(before, after)
        elif change == "delete":
            events.handler.on_delete(before)
        elif change == "miss":
            events.handler.on_delete(DeletedFinalStateUnknown("default/web-1", before))
        assert events.asked() == ["default/web"], (number, change)


def test_slices_of_other_managers_ask_for_nothing() -> None:
    events, other = Events(), "me.example"
    events.handler.on_add(tracked(by=other), False)
    events.handler.on_update(tracked(by=other), tracked(generation=2, by=other))
    events.handler.on_delete(tracked(by=other))
    assert events.asked() == []


def test_a_slice_that_changes_its_manager_or_service_asks_for_both() -> None:
    events = Events()
    events.handler.on_update(tracked(), tracked(generation=2, by="me.example"))
    assert events.asked() == ["default/web"]
    events = Events()
    events.handler.on_update(tracked(), tracked(generation=2, owner="other"))
    assert events.asked() == ["default/other", "default/web"]


def test_a_slice_replaced_by_one_of_its_name_asks_for_a_sync_and_leaves_no_trace() -> None:
    events = Events()
    events.tracker.wrote(tracked("1"))
    new = tracked("2")
    events.handler.on_update(tracked("1"), new)
    assert events.asked() == ["default/web"]
    assert not events.tracker.is_stale("default/web", [new])


def test_a_slice_without_a_service_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    with caplog.at_level(logging.WARNING):
        events.handler.on_add(tracked(owner=""), False)
        events.handler.on_delete(DeletedFinalStateUnknown("default/web-1", None))
    assert events.asked() == []
    assert len(caplog.records) == 2


def test_a_longer_batch_period_holds_for_slices_too() -> None:
    events = Events(batch_period_s=5.0)
    events.handler.on_add(tracked(), False)
    events.clock.advance(4.99)
    assert len(events.queue) == 0
    events.clock.advance(0.01)
    assert len(events.queue) == 1


# Errors


def test_one_of_several_errors_is_told_once() -> None:
    missing = MissingNodeError("p", "default/web", "n")
    write = SliceWriteError("failed to create", "", "default/web", OSError("boom"))
    assert str(AggregateError([missing, missing])) == str(missing)
    assert str(AggregateError([missing, write, missing])) == f"[{missing}, {write}]"
    assert str(write) == "failed to create EndpointSlice for Service default/web: boom"


# The controller


class World:
    """A controller without threads, with its caches and API."""

    def __init__(self, **options: Any) -> None:
        self.api = RecordingApi(numbered=True)
        names = ("pods", "services", "nodes", "endpointslices")
        self.stores = {name: DictStore(resource=name) for name in names}
        pods, services, nodes, slices = (
            SharedInformer(ScriptedListWatch(), self.stores[name]) for name in names
        )
        self.clock = VirtualClock()
        self.controller = EndpointSliceController(
            self.api,
            pods=pods,
            services=services,
            nodes=nodes,
            endpoint_slices=slices,
            clock=self.clock,
            **options,
        )


@pytest.mark.parametrize("number", [0, -1, 1001])
def test_the_maximum_of_a_slice_is_what_the_api_server_takes(number: int) -> None:
    with pytest.raises(ValueError, match="1 to 1,000"):
        World(max_endpoints_per_slice=number)


def test_a_change_of_nodes_brings_a_sync_of_services_that_are_overloaded() -> None:
    world = World()
    auto = service(annotations={"service.kubernetes.io/topology-mode": "Auto"}, selector={"a": "b"})
    world.stores["services"].add(auto)
    for number, zone in enumerate("ab"):
        world.stores["nodes"].add(node(f"n-{zone}", zone))
        status = {"podIPs": [{"ip": f"10.0.0.{number}"}], "conditions": READY}
        spec = {"nodeName": f"n-{zone}"}
        labels = {"a": "b"}
        world.stores["pods"].add(pod(f"p{number}", labels=labels, spec=spec, status=status))
    world.controller.update_topology()
    world.controller.sync("default/web")
    world.controller.update_topology()
    assert taken(world.controller.queue) == []
    world.stores["nodes"].add(node("n-c", "c"))
    world.controller.update_topology()
    assert taken(world.controller.queue) == ["default/web"]


def test_failures_wait_a_second_and_then_longer() -> None:
    world = World()
    queue, clock = world.controller.queue, world.clock
    for delay in (1.0, 2.0, 4.0, 8.0):
        queue.add_rate_limited("default/web")
        clock.advance(delay - 0.01)
        assert len(queue) == 0
        clock.advance(0.01)
        assert len(queue) == 1
        queue.done(queue.get(0.0))
