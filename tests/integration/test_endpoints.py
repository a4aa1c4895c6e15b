"""The Endpoints controller against the test API server, over HTTP, on every backend."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from sqlcache.client import Resource
from sqlcache.testing.apiserver import ApiError, ApiServer
from sqlcache.testing.convergence import ClusterState, endpoints_differences
from tests.backends import BACKENDS
from tests.integration.chaos import NAMESPACES, Chaos, add_pod, service, status
from tests.integration.clusters import QUIET_S, FastClock, Running, eventually, running, writes

endpoints_controller = pytest.importorskip("sqlcache.controllers.endpoints.controller")

RESOURCES = [Resource("", "v1", name) for name in ("pods", "services", "endpoints")]
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
            api, pods=pods, services=services, endpoints=endpoints, clock=FastClock()
        )

    return lambda: running(server, request.param, tmp_path, RESOURCES, make)


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


def test_the_cluster_converges_after_chaos_and_faults(server: ApiServer, start: Start) -> None:
    chaos = Chaos(server, 1, written="endpoints", watched=RESOURCES)
    for _ in range(60):
        chaos.turn()
    with start() as cluster:
        for number in range(240):
            chaos.turn()
            if number % 12 == 0:
                time.sleep(0.02)  # let the controller have some of the states in between
        server.faults.clear()
        cluster.settle("endpoints")
        assert endpoints_differences(ClusterState.of(server.list)) == []
        settled, version = len(server.requests), server.resource_version
        for each in server.list("services"):
            cluster.controller.enqueue(each)
        cluster.settle("endpoints")
        # A retry that was asked for long ago may still come, and ask to delete what is gone.
        since = writes(server, "endpoints", since=settled)
        assert [write for write in since if not write.startswith("delete ")] == []
        assert server.resource_version == version, "nothing was written"
    assert server.count("services") > 3
    assert any(each.get("subsets") for each in server.list("endpoints"))
