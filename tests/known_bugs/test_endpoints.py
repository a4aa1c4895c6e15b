"""Faults that users of endpoints controllers reported, by their number in the list of known bugs.

The same for EndpointSlices is in test_endpointslices. C12 is about the index behind
`services_selecting`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sqlcache.controllers.endpoints import EndpointsController
from sqlcache.controllers.endpoints.controller import ENDPOINTS
from sqlcache.controllers.services import update_projection
from sqlcache.errors import ApiStatusError, StaleCacheError
from sqlcache.informer import SharedInformer
from sqlcache.objects import Object, resource_version
from sqlcache.testing.factories import pod
from tests.backends import BACKENDS
from tests.known_bugs import worlds
from tests.known_bugs.worlds import LATER, service, web_pod


class World(worlds.World):
    """A world with the Endpoints controller."""

    resources = ("pods", "services", "endpoints")
    written = ENDPOINTS

    def new_controller(self, informers: Mapping[str, SharedInformer]) -> EndpointsController:
        return EndpointsController(
            self.api,
            pods=informers["pods"],
            services=informers["services"],
            endpoints=informers["endpoints"],
        )

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
    with World.opened(request.param, tmp_path) as world:
        yield world


def test_c1_service_deleted_and_recreated_before_a_sync_keeps_its_endpoints(
    world: World,
) -> None:
    world.services.add(service("s1"))
    world.pods.add(web_pod())
    world.settle()
    world.services.delete(service("s1"))
    world.services.add(service("s2"))
    assert world.sync() == []
    assert world.ips()["addresses"] == ["10.0.0.1"]


def test_c1_service_recreated_while_the_cache_shows_the_deleted_endpoints(
    world: World,
) -> None:
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


def test_c4_service_and_endpoints_that_wait_for_a_finalizer_are_kept_up(
    world: World,
) -> None:
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


def test_c11_selector_none_leaves_objects_alone_and_an_empty_one_matches_all(
    world: World,
) -> None:
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
