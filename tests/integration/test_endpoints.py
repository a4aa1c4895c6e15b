"""The Endpoints controller against the test API server, over HTTP, on every backend."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from sqlcache.client import Resource
from sqlcache.objects import Object
from sqlcache.testing.apiserver import ApiError, ApiServer
from tests.backends import BACKENDS
from tests.integration.clusters import QUIET_S, Running, eventually, running, writes

endpoints_controller = pytest.importorskip("sqlcache.controllers.endpoints.controller")

RESOURCES = [Resource("", "v1", name) for name in ("pods", "services", "endpoints")]
NAMESPACES = ("shop", "lab")
Start = Callable[[], AbstractContextManager[Running[Any]]]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        for namespace in NAMESPACES:
            server.create("namespaces", {"metadata": {"name": namespace}})
        yield server


@pytest.fixture(params=BACKENDS)
def start(request: pytest.FixtureRequest, server: ApiServer, tmp_path: Path) -> Start:
    """Return what runs a controller in a block."""

    def make(api: Any, factory: Any) -> Any:
        pods, services, endpoints = (factory.informer(each.plural) for each in RESOURCES)
        return endpoints_controller.EndpointsController(
            api, pods=pods, services=services, endpoints=endpoints
        )

    return lambda: running(server, request.param, tmp_path, RESOURCES, make)


def service(name: str, namespace: str = "shop", **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"app": name},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            **spec,
        },
    }


def new_pod(name: str, namespace: str = "shop", *, labels: dict[str, str]) -> Object:
    ports = [{"name": "web", "containerPort": 8081 + (len(name) + ord(name[-1])) % 2}]
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "image": "i", "ports": ports}],
        },
    }


def status(ip: str, *, ready: bool, phase: str = "Running") -> Object:
    return {
        "phase": phase,
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": str(ready)}],
    }


def add_pod(server: ApiServer, name: str, ip: str, namespace: str = "shop") -> Object:
    made = server.create("pods", new_pod(name, namespace, labels={"app": "web"}))
    return server.update("pods", {**made, "status": status(ip, ready=True)}, subresource="status")


def addresses(server: ApiServer, name: str = "web", namespace: str = "shop") -> set[str]:
    """Return the ready IPs of the stored object; none if there is no object."""
    try:
        stored = server.get("endpoints", name, namespace)
    except ApiError:
        return set()
    return {
        address["ip"]
        for subset in stored.get("subsets") or ()
        for address in subset.get("addresses") or ()
    }


def test_endpoints_follow_pods_and_services(server: ApiServer, start: Start) -> None:
    server.create("services", service("web"))
    first = add_pod(server, "a", "10.0.0.1")
    with start():
        eventually(lambda: addresses(server) == {"10.0.0.1"})
        add_pod(server, "b", "10.0.0.2")
        eventually(lambda: addresses(server) == {"10.0.0.1", "10.0.0.2"})
        server.update(
            "pods", {**first, "status": status("10.0.0.1", ready=False)}, subresource="status"
        )
        eventually(lambda: addresses(server) == {"10.0.0.2"})
        server.patch("pods", "b", {"metadata": {"labels": {"app": "other"}}}, namespace="shop")
        eventually(lambda: addresses(server) == set())
        server.delete("endpoints", "web", namespace="shop")
        eventually(lambda: server.count("endpoints") == 1)
        server.delete("services", "web", namespace="shop")
        eventually(lambda: server.count("endpoints") == 0)


def test_changes_that_do_not_matter_write_nothing(server: ApiServer, start: Start) -> None:
    server.create("services", service("web"))
    made = add_pod(server, "a", "10.0.0.1")
    with start() as cluster:
        eventually(lambda: addresses(server) == {"10.0.0.1"})
        cluster.settle("endpoints")  # a sync before the cache shows it tries to make it again
        before = len(server.requests)
        for number in range(5):
            note = {"metadata": {"annotations": {"seen": str(number)}}}
            server.patch("pods", "a", note, namespace="shop")
        server.patch("services", "web", {"spec": {"sessionAffinity": "ClientIP"}}, namespace="shop")
        changed = {**made["status"], "startTime": "2024-01-01T00:00:00Z"}
        made = server.get("pods", "a", "shop")
        server.update("pods", {**made, "status": changed}, subresource="status")
        add_pod(server, "last", "10.0.0.9")
        eventually(lambda: addresses(server) == {"10.0.0.1", "10.0.0.9"})
        assert writes(server, "endpoints", since=before) == ["update web"]


def test_what_was_left_behind_is_cleaned_up_at_the_start(server: ApiServer, start: Start) -> None:
    leader = {"control-plane.alpha.kubernetes.io/leader": "{}"}
    server.create("endpoints", {"metadata": {"name": "gone", "namespace": "shop"}})
    meta = {"name": "elected", "namespace": "shop", "annotations": leader}
    server.create("endpoints", {"metadata": meta})
    server.create("services", service("by-hand", selector=None))
    server.create("endpoints", {"metadata": {"name": "by-hand", "namespace": "shop"}})
    with start():
        eventually(lambda: server.count("endpoints") == 2)
        assert set(writes(server, "endpoints")) == {"delete gone"}, "the event may bring another"


def test_a_terminating_namespace_is_not_written_to_again_and_again(
    server: ApiServer, start: Start
) -> None:
    server.create("services", service("web"))
    server.delete("namespaces", "shop", namespace="")
    with start() as cluster:
        eventually(lambda: writes(server, "endpoints") == ["create"])
        time.sleep(QUIET_S)
        assert writes(server, "endpoints") == ["create"]
        assert server.count("events") == 0
        assert cluster.controller.queue.num_requeues("shop/web") == 0


def test_failures_are_retried_and_told_as_events(server: ApiServer, start: Start) -> None:
    server.faults.fail(verb="create", resource="endpoints", times=3)
    server.create("services", service("web"))
    with start():
        eventually(lambda: server.count("endpoints") == 1)
        eventually(lambda: [each["count"] for each in server.list("events")] == [3])
        (event,) = server.list("events")
        assert event["metadata"]["namespace"] == "shop"
        assert event["involvedObject"]["kind"] == "Endpoints"
        assert event["reason"] == "FailedToCreateEndpoint"
        assert event["message"].startswith("Failed to create endpoint for service shop/web: ")
        assert event["source"] == {"component": "endpoint-controller"}
    assert writes(server, "endpoints") == ["create"] * 4


# Convergence


class Chaos:
    """Changes a cluster at random, and knows what its Endpoints should be."""

    def __init__(self, server: ApiServer, seed: int) -> None:
        self._server, self._random = server, random.Random(seed)
        self._number = 0

    def turn(self) -> None:
        """Make one change."""
        change = self._random.choices(
            [
                self._new_pod,
                self._change_status,
                self._change_labels,
                self._delete_pod,
                self._put_service,
                self._delete_service,
                self._write_to_endpoints,
                self._delete_endpoints,
                self._trouble,
            ],
            [6, 10, 6, 4, 6, 2, 4, 2, 4],
        )[0]
        try:
            change(self._random.choice(NAMESPACES))
        except ApiError as error:
            if error.code not in (404, 409):  # what it chose is gone, or was changed in between
                raise

    def _labels(self) -> dict[str, str]:
        return {"app": self._random.choice("xyz"), "tier": self._random.choice("ab")}

    def _some(self, resource: str, namespace: str) -> str:
        names = [each["metadata"]["name"] for each in self._server.list(resource, namespace)]
        return self._random.choice(sorted(names)) if names else "none"

    def _status(self) -> Object:
        self._number += 1  # never the IP from before: a new phase alone brings no sync
        ip = f"10.0.0.{self._number % 250 + 1}"
        phase = self._random.choice(["Running"] * 6 + ["Failed", "Succeeded"])
        return status(ip, ready=phase == "Running" and self._random.random() < 0.6, phase=phase)

    def _new_pod(self, namespace: str) -> None:
        self._number += 1
        made = self._server.create(
            "pods", new_pod(f"p{self._number}", namespace, labels=self._labels())
        )
        self._server.update("pods", {**made, "status": self._status()}, subresource="status")

    def _change_status(self, namespace: str) -> None:
        found = self._server.get("pods", self._some("pods", namespace), namespace)
        self._server.update("pods", {**found, "status": self._status()}, subresource="status")

    def _change_labels(self, namespace: str) -> None:
        patch = {"metadata": {"labels": self._labels()}}
        self._server.patch("pods", self._some("pods", namespace), patch, namespace=namespace)

    def _delete_pod(self, namespace: str) -> None:
        grace = self._random.choice([0, 30])
        name = self._some("pods", namespace)
        self._server.delete("pods", name, namespace=namespace, grace_period_s=grace)

    def _put_service(self, namespace: str) -> None:
        name = f"s{self._random.randrange(5)}"
        selector = self._random.choice([{"app": "x"}, {"app": "y", "tier": "a"}, {"tier": "b"}])
        ports = [
            {"name": "http", "port": 80, "targetPort": self._random.choice([8080, "web", "none"])},
            {"name": "more", "port": 81, "targetPort": self._random.choice([9090, "web"])},
        ]
        spec = {
            "selector": selector,
            "ports": ports[: self._random.randint(1, 2)],
            "publishNotReadyAddresses": self._random.random() < 0.3,
        }
        labels = {"colour": self._random.choice(["red", "blue"])}
        try:
            found = self._server.get("services", name, namespace)
        except ApiError:
            # Always the same for a name: the label of a headless service that is recreated as
            # another is not repaired, as upstream.
            new = service(name, namespace, **spec, clusterIP="None" if name < "s2" else "")
            new["metadata"]["labels"] = labels
            self._server.create("services", new)
            return
        found["metadata"]["labels"] = labels
        self._server.update("services", {**found, "spec": {**found["spec"], **spec}})

    def _delete_service(self, namespace: str) -> None:
        self._server.delete("services", self._some("services", namespace), namespace=namespace)

    def _write_to_endpoints(self, namespace: str) -> None:
        """Make a conflict: what the controller's cache holds is old for a moment."""
        note = {"metadata": {"annotations": {"touched": str(self._random.random())}}}
        name = self._some("endpoints", namespace)
        self._server.patch("endpoints", name, note, namespace=namespace)

    def _delete_endpoints(self, namespace: str) -> None:
        self._server.delete("endpoints", self._some("endpoints", namespace), namespace=namespace)

    def _trouble(self, namespace: str) -> None:
        faults, verb = self._server.faults, self._random.choice(["create", "update", "delete"])
        scope: dict[str, Any] = {"verb": verb, "resource": "endpoints", "namespace": namespace}
        match self._random.randrange(5):
            case 0:
                faults.fail(**scope, times=2)
            case 1:
                faults.error(409, reason="Conflict", **scope, times=2)
            case 2:
                faults.refuse(**scope)
            case 3:
                faults.expire(verb="watch", resource=self._random.choice(RESOURCES).plural)
            case 4:
                self._server.cut_watches()

    def wanted(self) -> dict[str, Any]:
        """Return, by key of the service, labels and (port, ip, pod, ready) of each endpoint."""
        return {
            f"{each['metadata']['namespace']}/{each['metadata']['name']}": (
                {**each["metadata"].get("labels", {}), **_own_labels(each)},
                {
                    (port["name"], number, ip, pod["metadata"]["name"], ready)
                    for pod in self._server.list("pods", each["metadata"]["namespace"])
                    for ip, ready in _state(pod, each)
                    for port in each["spec"]["ports"]
                    if (number := _number(pod, port)) is not None
                },
            )
            for each in self._server.list("services")
        }

    def found(self) -> dict[str, Any]:
        """Return the same of the stored Endpoints."""
        return {
            f"{each['metadata']['namespace']}/{each['metadata']['name']}": (
                each["metadata"]["labels"],
                {
                    (
                        port["name"],
                        port["port"],
                        address["ip"],
                        address["targetRef"]["name"],
                        field == "addresses",
                    )
                    for subset in each.get("subsets") or ()
                    for port in subset["ports"]
                    for field in ("addresses", "notReadyAddresses")
                    for address in subset.get(field) or ()
                },
            )
            for each in self._server.list("endpoints")
        }


def _own_labels(owner: Object) -> dict[str, str]:
    headless = owner["spec"]["clusterIP"] == "None"
    return {
        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
        **({"service.kubernetes.io/headless": ""} if headless else {}),
    }


def _state(pod: Object, owner: Object) -> list[tuple[str, bool]]:
    """Return the IP of a pod and whether it is ready for a service; [] if it is no endpoint."""
    publishes = owner["spec"].get("publishNotReadyAddresses", False)
    going = "deletionTimestamp" in pod["metadata"]
    state = pod["status"]
    selected = owner["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    ended = state["phase"] in ("Failed", "Succeeded")
    if not selected or ended or not state.get("podIPs") or (going and not publishes):
        return []
    return [(state["podIP"], publishes or state["conditions"][0]["status"] == "True")]


def _number(pod: Object, port: Object) -> int | None:
    target = port["targetPort"]
    if isinstance(target, int):
        return target
    named = pod["spec"]["containers"][0]["ports"][0]
    return int(named["containerPort"]) if named["name"] == target else None


def test_the_cluster_converges_after_chaos_and_faults(server: ApiServer, start: Start) -> None:
    chaos = Chaos(server, seed=1)
    for _ in range(60):
        chaos.turn()
    with start() as cluster:
        for number in range(240):
            chaos.turn()
            if number % 12 == 0:
                time.sleep(0.02)  # let the controller have some of the states in between
        server.faults.clear()
        cluster.settle("endpoints")
        assert chaos.found() == chaos.wanted()
        settled, version = len(server.requests), server.resource_version
        for key in chaos.wanted():
            cluster.controller.queue.add(key)
        cluster.settle("endpoints")
        # A retry that was asked for long ago may still come, and ask to delete what is gone.
        since = writes(server, "endpoints", since=settled)
        assert [write for write in since if not write.startswith("delete ")] == []
        assert server.resource_version == version, "nothing was written"
    assert len(chaos.wanted()) > 3
    assert any(found for _, found in chaos.wanted().values())
