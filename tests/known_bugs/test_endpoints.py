"""Faults that users of endpoints controllers reported, by their number in the list of known bugs.

The test decides when a cache shows a write, so nothing here depends on timing. C2 to C5 are about
EndpointSlices as well. C12 is about the index behind `services_selecting`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sqlcache.client import Resource
from sqlcache.controllers.endpoints import EndpointsController
from sqlcache.controllers.endpoints.controller import ENDPOINTS
from sqlcache.controllers.services import update_projection
from sqlcache.errors import ApiStatusError, StaleCacheError
from sqlcache.informer import SharedInformer
from sqlcache.objects import Object, resource_version
from sqlcache.store.api import Indexer
from sqlcache.testing.factories import pod
from sqlcache.testing.scripted import ScriptedListWatch
from tests.backends import BACKENDS
from tests.golden.recording import RecordingApi, status_error

KEY = "default/web"
RESOURCES = ("pods", "services", "endpoints")
LATER = "2024-01-01T00:00:00Z"


class Api(RecordingApi):
    """Checks resourceVersions, and gives no new one to an object that did not change."""

    def update(self, resource: Resource, namespace: str, obj: Object) -> Object:
        stored = self.get(resource, namespace, obj["metadata"]["name"])
        if resource_version(obj) != resource_version(stored):
            self.actions.append({"name": obj["metadata"]["name"], "verb": "update"})
            raise status_error("conflict", resource, obj["metadata"]["name"])
        self.numbered = obj != stored
        try:
            return super().update(resource, namespace, obj)
        finally:
            self.numbered = True


class World:
    """A cluster, the caches of a controller, and the controller, all without threads."""

    def __init__(self, stores: dict[str, Indexer]) -> None:
        self.api = Api(numbered=True)
        self.pods, self.services = stores["pods"], stores["services"]
        self._endpoints = stores["endpoints"]
        pods, services, endpoints = (
            SharedInformer(ScriptedListWatch(), stores[name]) for name in RESOURCES
        )
        self._controller = EndpointsController(
            self.api, pods=pods, services=services, endpoints=endpoints
        )

    def sync(self) -> list[str]:
        """Sync the service and return the verbs of the writes."""
        self.api.actions.clear()
        self._controller.sync(KEY)
        return [action["verb"] for action in self.api.actions]

    def see(self) -> None:
        """Let the cache of Endpoints show what is there."""
        self._endpoints.replace(self.api.list(ENDPOINTS), "1")

    def settle(self) -> None:
        """Sync and see until nothing is left to write."""
        self.sync()
        self.see()
        assert self.sync() == []

    def there(self) -> Object:
        return self.api.get(ENDPOINTS, "default", "web")

    def ips(self) -> dict[str, list[str]]:
        """Return the IPs of the stored object, ready and not."""
        found: dict[str, list[str]] = {"addresses": [], "notReadyAddresses": []}
        for subset in self.there().get("subsets", []):
            for field, ips in found.items():
                ips.extend(each["ip"] for each in subset.get(field, ()))
        return found


@pytest.fixture(params=BACKENDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(
            {
                name: stack.enter_context(BACKENDS[request.param](tmp_path, resource=name))
                for name in RESOURCES
            }
        )


def service(uid: str = "s1", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "uid": uid, "resourceVersion": "1"},
        "spec": {
            "clusterIP": "10.1.0.1",
            "ipFamilies": ["IPv4"],
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
            **spec,
        },
    }


def web_pod(number: int = 1, *, ready: bool = True, rv: str = "1", **status: Any) -> Object:
    ip = f"10.0.{number >> 8}.{number & 255}"
    return pod(
        f"p{number}",
        labels={"app": "web"},
        rv=rv,
        uid=f"u{number}",
        spec={"nodeName": "n1"},
        status={
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": str(ready)}],
            **status,
        },
    )


def test_c1_service_deleted_and_recreated_before_a_sync_keeps_its_endpoints(world: World) -> None:
    world.services.add(service("s1"))
    world.pods.add(web_pod())
    world.settle()
    world.services.delete(service("s1"))
    world.services.add(service("s2"))
    assert world.sync() == []
    assert world.ips()["addresses"] == ["10.0.0.1"]


def test_c1_service_recreated_while_the_cache_shows_the_deleted_endpoints(world: World) -> None:
    world.services.add(service("s1"))
    world.pods.add(web_pod())
    world.settle()
    world.services.delete(service("s1"))
    assert world.sync() == ["delete"]
    world.services.add(service("s2", ports=[{"name": "other", "port": 1, "targetPort": 9}]))
    with pytest.raises(ApiStatusError, match="not found"):
        world.sync()
    world.see()
    assert world.sync() == ["create"]
    world.see()
    assert world.sync() == []
    assert world.ips()["addresses"] == ["10.0.0.1"]


def test_c2_second_sync_before_the_cache_shows_the_first(world: World) -> None:
    world.services.add(service())
    world.pods.add(web_pod())
    assert world.sync() == ["create"]
    with pytest.raises(ApiStatusError, match="already exists"):
        world.sync()
    world.see()
    assert world.sync() == []
    assert len(world.api.list(ENDPOINTS)) == 1


def test_c3_endpoints_deleted_by_somebody_are_made_again(world: World) -> None:
    world.services.add(service())
    world.pods.add(web_pod())
    world.settle()
    world.api.remove(ENDPOINTS, "default", "web")
    world.see()
    assert world.sync() == ["create"]


def test_c4_service_and_endpoints_that_wait_for_a_finalizer_are_kept_up(world: World) -> None:
    terminating = service()
    terminating["metadata"].update(deletionTimestamp=LATER, finalizers=["x/y"])
    world.services.add(terminating)
    world.pods.add(web_pod())
    world.settle()
    stored = world.there()
    stored["metadata"].update(deletionTimestamp=LATER, finalizers=["x/y"])
    world.api.put(ENDPOINTS, stored)
    world.see()
    world.pods.add(web_pod(2))
    assert world.sync() == ["update"]
    assert world.ips()["addresses"] == ["10.0.0.1", "10.0.0.2"]
    assert world.there()["metadata"]["finalizers"] == ["x/y"]


@pytest.mark.parametrize("publish", [False, True])
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_c6_pods_that_have_ended_are_no_endpoints(world: World, phase: str, publish: bool) -> None:
    world.services.add(service(publishNotReadyAddresses=publish))
    world.pods.add(web_pod(1, phase=phase))
    world.settle()
    assert world.ips() == {"addresses": [], "notReadyAddresses": []}


@pytest.mark.parametrize("publish", [False, True])
def test_c6_terminating_pods_that_say_they_are_ready_are_not(world: World, publish: bool) -> None:
    going = web_pod(1)
    going["metadata"]["deletionTimestamp"] = LATER
    world.services.add(service(publishNotReadyAddresses=publish))
    world.pods.add(going)
    world.pods.add(web_pod(2, ready=False))
    world.settle()
    if publish:
        assert world.ips() == {"addresses": ["10.0.0.1", "10.0.0.2"], "notReadyAddresses": []}
    else:
        assert world.ips() == {"addresses": [], "notReadyAddresses": ["10.0.0.2"]}


def test_c7_headless_service_without_ports_has_addresses_and_no_port(world: World) -> None:
    world.services.add(service(clusterIP="None", ports=None))
    world.pods.add(web_pod(1))
    world.pods.add(web_pod(2, ready=False))
    world.settle()
    (subset,) = world.there()["subsets"]
    assert "ports" not in subset
    assert world.ips() == {"addresses": ["10.0.0.1"], "notReadyAddresses": ["10.0.0.2"]}


def test_c8_new_version_of_a_pod_writes_nothing(world: World) -> None:
    world.services.add(service())
    before, after = web_pod(rv="1"), web_pod(rv="2")
    after["metadata"]["annotations"] = {"checked": "1"}
    world.pods.add(before)
    world.settle()
    world.pods.update(after)
    assert update_projection(before, after) is None, "no sync for it"
    assert world.sync() == [], "and if another event brings one, no write"


def test_c9_update_that_changes_nothing_does_not_block_a_service_over_capacity(
    world: World,
) -> None:
    world.services.add(service())
    for number in range(1, 1003):
        world.pods.add(web_pod(number))
    assert world.sync() == ["create"]
    world.see()
    version = resource_version(world.there())
    for _ in range(3):
        assert world.sync() == ["update"], "as upstream, which cannot tell that it is as it should"
        assert resource_version(world.there()) == version
    world.pods.delete(web_pod(1))
    world.pods.delete(web_pod(2))
    assert world.sync() == ["update"]
    world.see()
    assert world.sync() == []
    assert len(world.ips()["addresses"]) == 1000


def test_c10_ready_not_ready_ready_faster_than_the_cache(world: World) -> None:
    world.services.add(service())
    world.pods.add(web_pod())
    world.settle()
    world.pods.add(web_pod(ready=False))
    assert world.sync() == ["update"]
    world.pods.add(web_pod(ready=True))
    with pytest.raises(StaleCacheError, match="out of date, resource version 5001"):
        world.sync()
    assert world.ips()["addresses"] == [], "the cache would have it that all is well"
    world.see()
    assert world.sync() == ["update"]
    assert world.ips()["addresses"] == ["10.0.0.1"]


def test_c11_selector_none_leaves_objects_alone_and_an_empty_one_matches_all(world: World) -> None:
    world.pods.add(web_pod(1))
    world.pods.add(pod("other", uid="o", status=web_pod(2)["status"]))
    world.services.add(service(selector=None))
    assert world.sync() == []
    assert world.api.list(ENDPOINTS) == []
    by_hand = {"metadata": {"name": "web", "namespace": "default", "resourceVersion": "7"}}
    world.api.put(ENDPOINTS, copy.deepcopy(by_hand))
    world.see()
    assert world.sync() == []
    assert world.there() == by_hand
    world.services.add(service(selector={}))
    assert world.sync() == ["update"]
    assert world.ips()["addresses"] == ["10.0.0.1", "10.0.0.2"]
