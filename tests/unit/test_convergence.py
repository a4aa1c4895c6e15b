"""The computation from scratch of Endpoints and EndpointSlices: it must be able to fail."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from sqlcache.objects import Object
from sqlcache.testing.convergence import (
    ClusterState,
    endpoints_differences,
    slices_differences,
)

OURS = {
    "kubernetes.io/service-name": "web",
    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
}
SPEC = {
    "selector": {"app": "web"},
    "clusterIP": "10.96.0.1",
    "ipFamilies": ["IPv4"],
    "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "web"}],
    "trafficDistribution": "PreferClose",
}
PORT = {"name": "http", "port": 8080, "protocol": "TCP"}


def new_pod(number: int, *, ready: bool = True, app: str = "web", **meta: Any) -> Object:
    ip = f"10.0.{number >> 8}.{number & 255}"
    ports = [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]
    name = f"p{number}"
    return {
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}, **meta},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": ports}]},
        "status": {
            "phase": "Running",
            "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


def address(number: int) -> Object:
    return {"ip": f"10.0.{number >> 8}.{number & 255}", "nodeName": "n1", "targetRef": ref(number)}


def ref(number: int) -> Object:
    return {"kind": "Pod", "name": f"p{number}", "namespace": "shop"}


def endpoint(number: int, **conditions: bool) -> Object:
    said = {"ready": True, "serving": True, "terminating": False, **conditions}
    hints = {"hints": {"forZones": [{"name": "a"}]}} if said["ready"] else {}
    return {
        "addresses": [address(number)["ip"]],
        "conditions": said,
        "nodeName": "n1",
        "zone": "a",
        "targetRef": ref(number),
        **hints,
    }


@pytest.fixture
def state() -> ClusterState:
    """A cluster in which all is right: a pod that is ready, one that is not, one that goes."""
    meta = {"name": "web", "namespace": "shop", "uid": "u", "labels": {"team": "x"}}
    ended = new_pod(5)
    ended["status"]["phase"] = "Failed"
    return ClusterState(
        services=[
            {"metadata": meta, "spec": copy.deepcopy(SPEC)},
            {"metadata": {**meta, "name": "by-hand"}, "spec": {"clusterIP": "None"}},
        ],
        pods=[
            new_pod(1),
            new_pod(2, ready=False),
            new_pod(3, deletionTimestamp="2026-01-01T00:00:00Z"),
            new_pod(4, app="db"),
            ended,
        ],
        nodes=[{"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "a"}}}],
        endpoints=[
            {
                "metadata": {
                    "name": "web",
                    "namespace": "shop",
                    "labels": {
                        "team": "x",
                        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
                    },
                },
                "subsets": [
                    {
                        "addresses": [address(1)],
                        "notReadyAddresses": [address(2)],
                        "ports": [dict(PORT)],
                    }
                ],
            }
        ],
        slices=[
            {
                "metadata": {
                    "name": "web-1",
                    "namespace": "shop",
                    "labels": {"team": "x", **OURS},
                    "ownerReferences": [{"kind": "Service", "uid": "u"}],
                },
                "addressType": "IPv4",
                "ports": [dict(PORT)],
                "endpoints": [
                    endpoint(1),
                    endpoint(2, ready=False, serving=False),
                    endpoint(3, ready=False, terminating=True),
                ],
            }
        ],
    )


def test_what_is_right_has_no_differences(state: ClusterState) -> None:
    assert endpoints_differences(state) == []
    assert slices_differences(state) == []


def tamper(change: str) -> Callable[[Any], None]:
    def tampered(obj: Any) -> None:
        exec(change, {"o": obj, "copy": copy, "endpoint": endpoint, "address": address})  # noqa: S102

    return tampered


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("o['endpoints'].pop()", "missing: 10.0.0.3 of pod p3"),
        ("o['endpoints'].append(copy.deepcopy(o['endpoints'][0]))", "too much: 10.0.0.1 of pod p1"),
        ("o['endpoints'].append(endpoint(9))", "too much: 10.0.0.9 of pod p9"),
        ("o['endpoints'][0]['addresses'] = ['10.0.0.7']", "too much: 10.0.0.7 of pod p1"),
        ("o['endpoints'][0]['conditions']['ready'] = False", "missing: 10.0.0.1 of pod p1"),
        ("o['endpoints'][1]['conditions']['serving'] = True", "missing: 10.0.0.2 of pod p2"),
        ("o['endpoints'][2]['conditions']['terminating'] = False", "missing: 10.0.0.3 of pod p3"),
        ("o['endpoints'][0]['nodeName'] = 'n2'", "too much: 10.0.0.1 of pod p1 on n2"),
        ("o['endpoints'][0]['zone'] = 'b'", "too much: 10.0.0.1 of pod p1 on n1 in b"),
        ("o['endpoints'][0]['targetRef']['name'] = 'x'", "too much: 10.0.0.1 of pod x"),
        ("del o['endpoints'][0]['hints']", "missing: 10.0.0.1 of pod p1"),
        ("o['endpoints'][0]['hints']['forZones'][0]['name'] = 'b'", "hints forZones=b"),
        ("o['ports'][0]['port'] = 8081", "http 8081/TCP"),
        ("o['ports'][0]['protocol'] = 'UDP'", "http 8080/UDP"),
        ("o['ports'] = []", "no port"),
        ("o['metadata']['labels']['team'] = 'y'", "web-1 has the labels"),
        ("o['metadata']['ownerReferences'][0]['uid'] = 'v'", "belongs to another object"),
        ("o['addressType'] = 'IPv6'", "no slice of type IPv4"),
        ("o['metadata']['labels']['kubernetes.io/service-name'] = 'x'", "no slice of type IPv4"),
        ("o['endpoints'] = []", "missing: 10.0.0.1 of pod p1"),
    ],
)
def test_a_tampered_slice_is_found(state: ClusterState, change: str, line: str) -> None:
    tamper(change)(state.slices[0])
    found = slices_differences(state)
    assert any(line in each for each in found), found
    assert all(each.startswith("EndpointSlices shop/web: ") for each in found)
    assert endpoints_differences(state) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("o['subsets'] = []", "missing: 10.0.0.1 of pod p1"),
        ("o['subsets'][0]['addresses'].append(address(9))", "too much: 10.0.0.9 of pod p9"),
        ("o['subsets'].append(copy.deepcopy(o['subsets'][0]))", "too much: 10.0.0.1 of pod p1"),
        ("o['subsets'][0]['addresses'] += o['subsets'][0].pop('notReadyAddresses')", "p2"),
        ("o['subsets'][0]['addresses'][0]['nodeName'] = 'n2'", "too much: 10.0.0.1"),
        ("o['subsets'][0]['ports'][0]['port'] = 1", "missing: 10.0.0.1"),
        ("o['metadata']['labels'].pop('team')", "has the labels"),
        ("o['metadata']['name'] = 'gone'", "Endpoints shop/gone: there is no such service"),
        ("o['metadata']['name'] = 'gone'", "Endpoints shop/web: missing"),
        (
            "o['metadata']['annotations'] = {'endpoints.kubernetes.io/over-capacity': 'truncated'}",
            "says that it is truncated",
        ),
    ],
)
def test_tampered_endpoints_are_found(state: ClusterState, change: str, line: str) -> None:
    tamper(change)(state.endpoints[0])
    found = endpoints_differences(state)
    assert any(line in each for each in found), found
    assert slices_differences(state) == []


def test_a_change_of_the_cluster_that_nobody_followed_is_found(state: ClusterState) -> None:
    state.pods[3]["metadata"]["labels"]["app"] = "web"
    assert [each.partition(" of ")[0] for each in endpoints_differences(state)] == [
        "Endpoints shop/web: missing: 10.0.0.4"
    ]
    assert len(slices_differences(state)) == 1


def test_slices_that_are_too_large_are_found(state: ClusterState) -> None:
    (found,) = slices_differences(state, max_endpoints=2)
    assert found == "EndpointSlices shop/web: web-1 has 3 endpoints, more than 2"


def test_slices_of_others_and_old_hints_do_not_matter(state: ClusterState) -> None:
    other = copy.deepcopy(state.slices[0])
    other["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = "me"
    other["endpoints"] = []
    state.slices.append(other)
    state.slices[0]["endpoints"][1]["hints"] = {"forZones": [{"name": "b"}]}
    assert slices_differences(state) == []


def test_endpoints_over_capacity_hold_1000_addresses_ready_ones_first(state: ClusterState) -> None:
    state.pods[:] = [new_pod(number, ready=number > 100) for number in range(1200)]
    meta, subset = state.endpoints[0]["metadata"], state.endpoints[0]["subsets"][0]
    subset["addresses"] = [address(number) for number in range(101, 1101)]
    subset["notReadyAddresses"] = []
    assert endpoints_differences(state) == ["Endpoints shop/web: does not say that it is truncated"]
    meta["annotations"] = {"endpoints.kubernetes.io/over-capacity": "truncated"}
    assert endpoints_differences(state) == []
    subset["addresses"].pop()
    subset["notReadyAddresses"] = [address(1)]
    assert endpoints_differences(state) == [
        "Endpoints shop/web: does not have the 1,000 ready addresses first"
    ]
    subset["notReadyAddresses"] = []
    assert "has 999 addresses instead of 1,000" in endpoints_differences(state)[0]
    subset["addresses"].append(address(2000))
    assert "too much: 10.0.7.208 of pod p2000" in endpoints_differences(state)[0]
