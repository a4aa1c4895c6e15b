"""The EndpointSlice controller against the test API server, over HTTP, on every backend."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from sqlcache.client import Resource
from sqlcache.objects import Object, Objects
from sqlcache.testing.apiserver import ApiServer
from sqlcache.testing.convergence import ClusterState, slices_differences
from tests.backends import BACKENDS
from tests.integration.chaos import NAMESPACES, SERVICES, Chaos, add_pod, service, status
from tests.integration.clusters import FastClock, Running, eventually, running, writes

slices_controller = pytest.importorskip("sqlcache.controllers.endpointslice.controller")

RESOURCES = [Resource("", "v1", name) for name in ("pods", "services", "nodes")]
RESOURCES.append(Resource("discovery.k8s.io", "v1", "endpointslices"))
SLICES = "endpointslices"
NODES = {"n1": "a", "n2": "b", "n3": "a", "n4": "b"}  # with their zones
MAX_ENDPOINTS = 3
PACE_S = 0.02  # each event of a service that waits for the cache makes it wait longer
SERVICE_NAME, MANAGED_BY = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
OURS = "endpointslice-controller.k8s.io"
ZONE = "topology.kubernetes.io/zone"
Start = Callable[[], AbstractContextManager[Running[Any]]]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        for namespace in NAMESPACES:
            server.create("namespaces", {"metadata": {"name": namespace}})
        for name in NODES:
            add_node(server, name)
        yield server


@pytest.fixture(params=BACKENDS)
def start(request: pytest.FixtureRequest, server: ApiServer, tmp_path: Path) -> Start:
    """Return what runs a controller in a block."""

    def make(api: Any, factory: Any) -> Any:
        pods, services, nodes, slices = (factory.informer(each.plural) for each in RESOURCES)
        return slices_controller.EndpointSliceController(
            api,
            pods=pods,
            services=services,
            nodes=nodes,
            endpoint_slices=slices,
            max_endpoints_per_slice=MAX_ENDPOINTS,
            clock=FastClock(),
        )

    return lambda: running(server, request.param, tmp_path, RESOURCES, make)


def add_node(server: ApiServer, name: str) -> None:
    made = server.create("nodes", {"metadata": {"name": name, "labels": {ZONE: NODES[name]}}})
    conditions = [{"type": "Ready", "status": "True"}]
    state = {"conditions": conditions, "allocatable": {"cpu": "4"}}
    server.update("nodes", {**made, "status": state}, subresource="status")


def slices_of(server: ApiServer, name: str = "web", namespace: str = "shop") -> Objects:
    return server.list(
        SLICES, namespace, label_selector=f"{SERVICE_NAME}={name},{MANAGED_BY}={OURS}"
    )


def ready_ips(server: ApiServer) -> list[str]:
    return sorted(
        endpoint["addresses"][0]
        for each in slices_of(server)
        for endpoint in each.get("endpoints") or ()
        if endpoint["conditions"]["ready"]
    )


def test_slices_follow_pods_and_services(server: ApiServer, start: Start) -> None:
    server.create("services", service("web"))
    first = add_pod(server, "a", "10.0.0.1")
    with start() as cluster:
        eventually(lambda: ready_ips(server) == ["10.0.0.1"])
        for number in range(2, 6):
            add_pod(server, f"b{number}", f"10.0.0.{number}")
        ips = [f"10.0.0.{number}" for number in range(1, 6)]
        eventually(lambda: ready_ips(server) == ips)
        assert all(len(each["endpoints"]) <= MAX_ENDPOINTS for each in slices_of(server))
        server.update(
            "pods", {**first, "status": status("10.0.0.1", ready=False)}, subresource="status"
        )
        eventually(lambda: ready_ips(server) == ips[1:])
        server.patch("pods", "a", {"metadata": {"labels": {"app": "other"}}}, namespace="shop")
        patch = {"metadata": {"labels": {"tier": "front"}}}
        server.patch("services", "web", patch, namespace="shop")
        eventually(
            lambda: (
                {each["metadata"]["labels"].get("tier") for each in slices_of(server)} == {"front"}
            )
        )
        server.delete("services", "web", namespace="shop")
        cluster.settle(SLICES)
        assert slices_of(server), "they are the garbage collector's"


def test_what_others_do_to_slices_is_repaired(server: ApiServer, start: Start) -> None:
    server.create("services", service("web"))
    add_pod(server, "a", "10.0.0.1")
    with start() as cluster:
        eventually(lambda: ready_ips(server) == ["10.0.0.1"])
        cluster.settle(SLICES)
        (before,) = slices_of(server)
        server.update(SLICES, {**before, "endpoints": []})
        eventually(lambda: ready_ips(server) == ["10.0.0.1"])
        cluster.settle(SLICES)
        server.delete(SLICES, before["metadata"]["name"], namespace="shop")
        eventually(lambda: ready_ips(server) == ["10.0.0.1"])
        foreign = {**before, "metadata": {"name": "mine", "namespace": "shop"}}
        foreign["metadata"]["labels"] = {SERVICE_NAME: "web", MANAGED_BY: "me"}
        server.create(SLICES, foreign)
        cluster.settle(SLICES)
        assert server.get(SLICES, "mine", "shop")["endpoints"] == before["endpoints"]


def test_changes_that_do_not_matter_write_nothing(server: ApiServer, start: Start) -> None:
    server.create("services", service("web"))
    made = add_pod(server, "a", "10.0.0.1")
    with start() as cluster:
        eventually(lambda: ready_ips(server) == ["10.0.0.1"])
        cluster.settle(SLICES)
        before = len(server.requests)
        for number in range(5):
            note = {"metadata": {"annotations": {"seen": str(number)}}}
            server.patch("pods", "a", note, namespace="shop")
        server.patch("services", "web", {"spec": {"sessionAffinity": "ClientIP"}}, namespace="shop")
        server.patch("nodes", "n1", {"metadata": {"labels": {"disk": "ssd"}}}, namespace="")
        changed = {**made["status"], "startTime": "2024-01-01T00:00:00Z"}
        made = server.get("pods", "a", "shop")
        server.update("pods", {**made, "status": changed}, subresource="status")
        add_pod(server, "last", "10.0.0.9")
        eventually(lambda: ready_ips(server) == ["10.0.0.1", "10.0.0.9"])
        (slice_name,) = (each["metadata"]["name"] for each in slices_of(server))
        assert writes(server, SLICES, since=before) == [f"update {slice_name}"]


def test_a_terminating_namespace_is_not_written_to_again_and_again(
    server: ApiServer, start: Start
) -> None:
    server.create("services", service("web"))
    server.delete("namespaces", "shop", namespace="")
    with start() as cluster:
        eventually(lambda: writes(server, SLICES) == ["create"])
        cluster.settle(SLICES)
        assert writes(server, SLICES) == ["create"]
        assert server.count("events") == 0
        assert cluster.controller.queue.num_requeues("shop/web") == 0


def test_failures_are_retried_and_told_as_events(server: ApiServer, start: Start) -> None:
    server.faults.fail(verb="create", resource=SLICES, times=3)
    server.create("services", service("web"))
    with start():
        eventually(lambda: len(slices_of(server)) == 1)
        eventually(lambda: [each["count"] for each in server.list("events")] == [3])
        (event,) = server.list("events")
        assert event["metadata"]["namespace"] == "shop"
        assert event["involvedObject"]["kind"] == "Service"
        assert event["reason"] == "FailedToUpdateEndpointSlices"
        assert event["message"].startswith(
            "Error updating Endpoint Slices for Service shop/web: failed to create EndpointSlice"
        )
        assert event["source"] == {"component": "endpoint-slice-controller"}
    assert writes(server, SLICES) == ["create"] * 4


def test_a_pod_is_published_when_its_node_appears(server: ApiServer, start: Start) -> None:
    server.create("services", service("web"))
    server.delete("nodes", "n1", namespace="")
    add_pod(server, "a", "10.0.0.1")
    with start():
        eventually(lambda: len(slices_of(server)) == 1)
        assert ready_ips(server) == []
        add_node(server, "n1")
        eventually(lambda: ready_ips(server) == ["10.0.0.1"])


def test_the_first_sync_knows_the_zones(server: ApiServer, start: Start) -> None:
    auto = service("web")
    auto["metadata"]["annotations"] = {"service.kubernetes.io/topology-mode": "Auto"}
    server.create("services", auto)
    for number in range(4):
        add_pod(server, f"p{number}", f"10.0.0.{number + 1}")
    with start() as cluster:
        eventually(lambda: len(ready_ips(server)) == 4)
        cluster.settle(SLICES)
        hinted = [
            endpoint["hints"]["forZones"][0]["name"]
            for each in slices_of(server)
            for endpoint in each["endpoints"]
        ]
        assert sorted(hinted) == ["a", "a", "b", "b"], "all pods are in one zone"
        assert writes(server, SLICES) == ["create", "create"]
        (event,) = server.list("events")
        assert event["reason"] == "TopologyAwareHintsEnabled"
        assert event["type"] == "Normal"


# Convergence


class SlicesChaos(Chaos):
    """Changes nodes, hints and slices too, and knows what the slices should be."""

    def __init__(self, server: ApiServer, seed: int) -> None:
        super().__init__(server, seed, written=SLICES, watched=RESOURCES, nodes=list(NODES))
        self.changes |= {
            self._edit_slice: 4,
            self._add_slice: 1,
            self._set_traffic: 3,
            self._change_zone: 1,
        }

    def new_spec(self, name: str) -> Object:
        families = ["IPv4", "IPv6"] if name in ("s1", "s2") else ["IPv4"]
        return {**super().new_spec(name), "ipFamilies": families}

    def _edit_slice(self, namespace: str) -> None:
        found = self.server.get(SLICES, self.some(SLICES, namespace), namespace)
        endpoints = found.get("endpoints") or []
        alien = {"addresses": ["10.9.9.9"], "conditions": {"ready": True}}
        alien["addresses"] = ["fd09::9"] if found["addressType"] == "IPv6" else ["10.9.9.9"]
        found["endpoints"] = self.random.choice([endpoints[1:], [*endpoints, alien], [alien], []])
        if self.random.random() < 0.3:
            found["metadata"]["labels"]["colour"] = "green"
        if self.random.random() < 0.2:
            found["ports"] = [{"name": "by-hand", "port": 1, "protocol": "TCP"}]
        self.server.update(SLICES, found)

    def _add_slice(self, namespace: str) -> None:
        """Add a slice of somebody else, or one that says that it is ours."""
        labels = {SERVICE_NAME: f"s{self.random.randrange(SERVICES)}"}
        labels[MANAGED_BY] = self.random.choice(["me", OURS])
        meta = {"generateName": "hand-", "namespace": namespace, "labels": labels}
        self.server.create(SLICES, {"metadata": meta, "addressType": "IPv4", "endpoints": []})

    def _set_traffic(self, namespace: str) -> None:
        distributions = [None, "PreferClose", "PreferSameNode", "Bogus"]
        mode = self.random.choice([None, None, "Auto"])
        annotations = {"service.kubernetes.io/topology-mode": mode}
        spec = {"trafficDistribution": self.random.choice(distributions)}
        patch = {"metadata": {"annotations": annotations}, "spec": spec}
        self.server.patch("services", self.some("services", namespace), patch, namespace=namespace)

    def _change_zone(self, _: str) -> None:
        labels = {ZONE: self.random.choice("ab")}
        self.server.patch(
            "nodes", self.some("nodes", ""), {"metadata": {"labels": labels}}, namespace=""
        )


def differences(server: ApiServer, *, zones: bool) -> list[str]:
    state = ClusterState.of(server.list)
    return slices_differences(state, zones=zones, max_endpoints=MAX_ENDPOINTS)


def test_the_cluster_converges_after_chaos_and_faults(server: ApiServer, start: Start) -> None:
    chaos = SlicesChaos(server, seed=1)
    for _ in range(60):
        chaos.turn()
    with start() as cluster:
        for _ in range(240):
            chaos.turn()
            time.sleep(PACE_S)
        server.faults.clear()
        chaos.fill()
        cluster.settle(SLICES)
        assert differences(server, zones=False) == []

        def resync() -> None:
            for each in server.list("services"):
                cluster.controller.enqueue(each)
            cluster.settle(SLICES)

        resync()  # a zone that changed is taken over by the next sync only, as upstream
        assert differences(server, zones=True) == []
        settled = len(server.requests)
        resync()
        assert writes(server, SLICES, since=settled) == []
    sizes = [len(each["endpoints"] or ()) for each in server.list(SLICES)]
    assert sizes.count(MAX_ENDPOINTS) > 3, "no service had more endpoints than go into a slice"
