"""Faults that users of endpoint slice controllers reported, by their number in the list.

What C12 is about, both controllers have from `services_selecting`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sqlcache.controllers.endpointslice import EndpointSliceController
from sqlcache.controllers.endpointslice.slices import (
    ENDPOINT_SLICES,
    MANAGED_BY_LABEL,
    MANAGER,
    SERVICE_NAME_LABEL,
    endpoints_of,
)
from sqlcache.controllers.services import update_projection
from sqlcache.errors import AggregateError, StaleSlicesError
from sqlcache.informer import SharedInformer
from sqlcache.objects import Object
from sqlcache.testing.factories import pod
from tests.backends import BACKENDS
from tests.golden.recording import show
from tests.known_bugs import worlds
from tests.known_bugs.worlds import KEY, LATER, service, web_pod


class World(worlds.World):
    """A world with the EndpointSlice controller, and one node."""

    resources = ("pods", "services", "nodes", "endpointslices")
    written = ENDPOINT_SLICES

    def start(self) -> None:
        labels = {"topology.kubernetes.io/zone": "a"}
        self.stores["nodes"].add({"metadata": {"name": "n1", "labels": labels}})
        super().start()

    def new_controller(self, informers: Mapping[str, SharedInformer]) -> EndpointSliceController:
        self.slices = EndpointSliceController(
            self.api,
            pods=informers["pods"],
            services=informers["services"],
            nodes=informers["nodes"],
            endpoint_slices=informers["endpointslices"],
        )
        return self.slices

    def see(self) -> None:
        """Let the cache of slices show what is there, and the controller notice it."""
        cache = self.stores["endpointslices"]
        show(cache, self.there_are(), self.slices.slice_events)

    def wants_sync(self) -> bool:
        """Return whether what the controller noticed asks for a sync a second later."""
        return KEY in self.slices.queue._delayed

    def fail_to_sync(self, times: int) -> None:
        """Sync on a cache that is late, and again as retries."""
        for _ in range(times):
            with pytest.raises(StaleSlicesError):
                self.sync()
            self.slices.queue.add_rate_limited(KEY)

    def there(self) -> Object:
        (found,) = self.there_are()
        return found

    def edit(self, **changes: object) -> None:
        """Change the slice by hand."""
        edited = {**self.there(), **changes}
        self.api.update(ENDPOINT_SLICES, "default", edited)
        self.see()

    def relabel(self, **labels: str) -> None:
        """Change labels of the slice by hand."""
        meta = self.there()["metadata"]
        names = {"managed_by": MANAGED_BY_LABEL, "service_name": SERVICE_NAME_LABEL}
        own = {names[name]: value for name, value in labels.items()}
        self.edit(metadata={**meta, "labels": {**meta["labels"], **own}})

    def ips(self, *, ready: bool = True) -> list[str]:
        """Return the addresses of the endpoints that are ready, or that are not."""
        return sorted(
            endpoint["addresses"][0]
            for each in self.there_are()
            for endpoint in endpoints_of(each)
            if endpoint["conditions"]["ready"] is ready
        )


@pytest.fixture(params=BACKENDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with World.opened(request.param, tmp_path) as world:
        yield world


def test_c1_slices_of_a_service_recreated_before_a_sync_are_replaced(world: World) -> None:
    world.services.add(service("s1"))
    world.pods.add(web_pod())
    world.settle()
    before = world.there()
    world.services.delete(service("s1"))
    world.services.add(service("s2"))
    assert world.sync() == ["create", "delete"]
    world.see()
    assert world.sync() == []
    assert world.there()["metadata"]["uid"] != before["metadata"]["uid"]
    assert [owner["uid"] for owner in world.there()["metadata"]["ownerReferences"]] == ["s2"]
    assert world.ips() == ["10.0.0.1"]


def test_c1_service_recreated_after_a_sync_saw_that_it_is_gone(world: World) -> None:
    world.services.add(service("s1"))
    world.pods.add(web_pod())
    world.settle()
    world.services.delete(service("s1"))
    assert world.sync() == [], "the garbage collector deletes them"
    world.services.add(service("s2"))
    assert world.sync() == ["create", "delete"]
    world.see()
    assert world.sync() == []


def test_c2_second_sync_before_the_cache_shows_the_first(world: World) -> None:
    world.services.add(service())
    world.pods.add(web_pod())
    assert world.sync() == ["create"]
    with pytest.raises(StaleSlicesError, match="EndpointSlice informer cache is out of date"):
        world.sync()
    world.see()
    assert world.wants_sync(), "not only when its time has come"
    assert world.sync() == []
    assert len(world.there_are()) == 1


def test_c2_slices_made_twice_become_one_set_again(world: World) -> None:
    """A controller that is started anew knows nothing of writes that its cache does not show."""
    world.services.add(service())
    world.pods.add(web_pod(1))
    world.pods.add(web_pod(2))
    world.sync()
    world.start()
    assert world.sync() == ["create"]
    world.see()
    assert world.wants_sync()
    assert world.sync() == ["delete"]
    world.see()
    assert world.sync() == []
    assert world.ips() == ["10.0.0.1", "10.0.0.2"]


def test_c3_edited_slices_are_repaired(world: World) -> None:
    world.services.add(service())
    world.pods.add(web_pod(1))
    world.pods.add(web_pod(2))
    world.settle()
    right = world.there()
    alien = {"addresses": ["10.9.9.9"], "conditions": {"ready": True}}
    first, *others = endpoints_of(right)
    for endpoints in (
        [],
        others,
        [*endpoints_of(right), alien],
        [{**first, "conditions": {"ready": False}}, *others],
        [{**first, "zone": "elsewhere"}, *others],
        [{**first, "hints": {"forZones": [{"name": "a"}]}}, *others],
    ):
        world.edit(endpoints=endpoints)
        assert world.wants_sync()
        assert world.sync() == ["update"], endpoints
        world.see()
        assert sorted(map(str, endpoints_of(world.there()))) == sorted(
            map(str, endpoints_of(right))
        )
    assert world.sync() == []


def test_c3_slices_with_edited_ports_are_written_over(world: World) -> None:
    world.services.add(service())
    world.pods.add(web_pod())
    world.settle()
    ports = world.there()["ports"]
    world.edit(ports=[{"name": "http", "port": 1, "protocol": "TCP"}])
    assert world.sync() == ["update"]
    assert world.there()["ports"] == ports


def test_c3_slices_deleted_by_somebody_are_made_again(world: World) -> None:
    world.services.add(service())
    world.pods.add(web_pod())
    world.settle()
    world.api.remove(ENDPOINT_SLICES, "default", world.there()["metadata"]["name"])
    world.see()
    assert world.wants_sync()
    assert world.sync() == ["create"]


def test_c3_slice_deleted_before_the_cache_ever_shows_it_is_made_again(world: World) -> None:
    """Made and deleted while the watch is down: no event will ever tell."""
    world.services.add(service())
    world.pods.add(web_pod())
    world.sync()
    world.api.remove(ENDPOINT_SLICES, "default", world.there()["metadata"]["name"])
    world.see()
    world.fail_to_sync(times=4)
    assert world.sync() == ["create"]


@pytest.mark.parametrize("label", ["managed_by", "service_name"])
def test_c3_slices_taken_away_by_their_label_stop_a_service_until_it_is_recreated(
    world: World, label: str
) -> None:
    """As upstream, seen on a living server; nothing tells this from a cache that is late."""
    world.services.add(service("s1"))
    world.pods.add(web_pod())
    world.settle()
    world.relabel(**{label: "other"})
    assert world.wants_sync()
    world.fail_to_sync(times=6)
    world.services.delete(service("s1"))
    world.sync()
    world.services.add(service("s2"))
    assert world.sync() == ["create"]
    world.see()
    assert world.sync() == []
    assert len(world.there_are()) == 2, "the other one is somebody's"


def test_c3_slices_of_others_are_left_alone_until_they_are_given_to_us(world: World) -> None:
    world.services.add(service())
    world.pods.add(web_pod())
    world.settle()
    labels = {SERVICE_NAME_LABEL: "web", MANAGED_BY_LABEL: "me"}
    meta = {"name": "mine", "namespace": "default", "uid": "m", "generation": 1}
    mine = {"metadata": {**meta, "labels": labels}, "addressType": "IPv4"}
    world.api.put(ENDPOINT_SLICES, copy.deepcopy(mine))
    world.see()
    assert world.sync() == []
    given = {**mine, "metadata": {**meta, "labels": {**labels, MANAGED_BY_LABEL: MANAGER}}}
    world.api.put(ENDPOINT_SLICES, given)
    world.see()
    assert world.wants_sync()
    assert world.sync() == ["delete"]


def test_c4_slice_that_was_deleted_and_waits_for_a_finalizer_is_no_hindrance(world: World) -> None:
    world.services.add(service("s1"))
    world.pods.add(web_pod(1))
    world.settle()
    going = world.there()
    going["metadata"].update(deletionTimestamp=LATER, finalizers=["x/y"])
    world.services.add(service("s2"))
    assert world.sync() == ["create", "delete"]
    world.api.put(ENDPOINT_SLICES, going)
    world.see()
    world.pods.add(web_pod(2))
    assert world.sync() == ["update"]
    world.see()
    assert world.sync() == []


def test_c4_slice_that_somebody_deletes_and_that_waits_for_a_finalizer(world: World) -> None:
    world.services.add(service())
    world.pods.add(web_pod())
    world.settle()
    going = world.there()
    going["metadata"].update(deletionTimestamp=LATER, finalizers=["x/y"])
    world.api.put(ENDPOINT_SLICES, going)
    world.see()
    with pytest.raises(StaleSlicesError):  # as upstream, as long as it waits
        world.sync()
    world.api.remove(ENDPOINT_SLICES, "default", going["metadata"]["name"])
    world.see()
    assert world.wants_sync()
    assert world.sync() == ["create"]


def test_c4_service_that_waits_for_a_finalizer_gets_no_new_slices(world: World) -> None:
    terminating = service()
    terminating["metadata"].update(deletionTimestamp=LATER, finalizers=["x/y"])
    world.services.add(service())
    world.pods.add(web_pod(1))
    world.settle()
    world.services.add(terminating)
    world.pods.add(web_pod(2))
    assert world.sync() == ["update"]
    assert world.ips() == ["10.0.0.1", "10.0.0.2"]
    world.api.remove(ENDPOINT_SLICES, "default", world.there()["metadata"]["name"])
    world.see()
    assert world.sync() == []


def test_c5_pod_on_an_unknown_node_does_not_hold_up_the_others(world: World) -> None:
    lost = web_pod(2)
    lost["spec"]["nodeName"] = "n2"
    world.services.add(service())
    world.pods.add(web_pod(1))
    world.pods.add(lost)
    with pytest.raises(AggregateError, match="skipping Pod p2 for Service default/web: Node n2"):
        world.sync()
    assert world.ips() == ["10.0.0.1"]
    world.see()
    world.stores["nodes"].add({"metadata": {"name": "n2"}})
    assert world.sync() == ["update"]
    assert world.ips() == ["10.0.0.1", "10.0.0.2"]


@pytest.mark.parametrize("publish", [False, True])
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_c6_pods_that_have_ended_are_no_endpoints(world: World, phase: str, publish: bool) -> None:
    world.services.add(service(publishNotReadyAddresses=publish))
    world.pods.add(web_pod(phase=phase))
    world.settle()
    assert not world.there()["endpoints"]


@pytest.mark.parametrize("publish", [False, True])
def test_c6_terminating_pods_that_say_they_are_ready_serve_and_are_not(
    world: World, publish: bool
) -> None:
    going = web_pod()
    going["metadata"]["deletionTimestamp"] = LATER
    world.services.add(service(publishNotReadyAddresses=publish))
    world.pods.add(going)
    world.settle()
    (endpoint,) = world.there()["endpoints"]
    assert endpoint["conditions"] == {"ready": publish, "serving": True, "terminating": True}


def test_c7_headless_service_without_ports_has_endpoints_and_no_port(world: World) -> None:
    world.services.add(service(clusterIP="None", ports=None))
    world.pods.add(web_pod(1))
    world.pods.add(web_pod(2, ready=False))
    world.settle()
    assert world.there()["ports"] == []
    assert world.ips() == ["10.0.0.1"]
    assert world.ips(ready=False) == ["10.0.0.2"]


def test_c8_new_version_of_a_pod_writes_nothing(world: World) -> None:
    world.services.add(service())
    before, after = web_pod(rv="1"), web_pod(rv="2")
    after["metadata"]["annotations"] = {"checked": "1"}
    world.pods.add(before)
    world.settle()
    assert not world.wants_sync(), "what it wrote is no news"
    world.pods.update(after)
    assert update_projection(before, after) is None, "no sync for it"
    assert world.sync() == [], "and if another event brings one, no write"


def test_c9_update_that_changes_nothing_does_not_block_a_service(world: World) -> None:
    """As upstream, slices are written again and again if hints are asked for and zones unknown."""
    for name, zone in (("n2", None), ("a", "a"), ("b", "b")):
        labels = {"topology.kubernetes.io/zone": zone} if zone else {}
        conditions = [{"type": "Ready", "status": str(bool(zone))}]
        status = {"conditions": conditions, "allocatable": {"cpu": "4"}}
        node = {"metadata": {"name": name, "labels": labels}, "status": status}
        world.stores["nodes"].add(node)
    world.slices.update_topology()
    web = service()
    web["metadata"]["annotations"] = {"service.kubernetes.io/topology-mode": "Auto"}
    world.services.add(web)
    for number in range(1, 5):
        lost = web_pod(number)
        lost["spec"]["nodeName"] = "n2"
        world.pods.add(lost)
    assert world.sync() == ["create"]
    world.see()
    right = world.there()
    for _ in range(2):
        assert world.sync() == ["update"]
        assert world.there() == right
    world.pods.add(web_pod(5))
    assert world.sync() == ["update"]
    assert len(world.ips()) == 5


def test_c9_more_than_a_thousand_pods_go_into_slices_of_a_hundred(world: World) -> None:
    world.services.add(service())
    for number in range(1, 1003):
        world.pods.add(web_pod(number))
    assert world.sync() == ["create"] * 11
    world.see()
    assert world.sync() == []
    assert sorted(len(endpoints_of(each)) for each in world.there_are()) == [2, *[100] * 10]


def test_c10_ready_not_ready_ready_faster_than_the_cache(world: World) -> None:
    world.services.add(service())
    world.pods.add(web_pod())
    world.settle()
    world.pods.add(web_pod(ready=False))
    assert world.sync() == ["update"]
    world.pods.add(web_pod(ready=True))
    with pytest.raises(StaleSlicesError):
        world.sync()
    assert world.ips() == [], "the cache would have it that all is well"
    world.see()
    assert world.sync() == ["update"]
    assert world.ips() == ["10.0.0.1"]


def test_c11_selector_none_leaves_slices_alone_and_an_empty_one_matches_all(
    world: World,
) -> None:
    world.pods.add(web_pod(1))
    status = web_pod(2)["status"]
    world.pods.add(pod("other", uid="o", spec={"nodeName": "n1"}, status=status))
    world.services.add(service(selector=None))
    assert world.sync() == []
    world.services.add(service(selector={}))
    assert world.sync() == ["create"]
    assert world.ips() == ["10.0.0.1", "10.0.0.2"]
    world.see()
    world.services.add(service(selector=None))
    world.pods.delete(web_pod(1))
    assert world.sync() == []
    assert world.ips() == ["10.0.0.1", "10.0.0.2"]
