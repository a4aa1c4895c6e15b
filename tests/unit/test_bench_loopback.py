"""The bench's API server without a network, and the pods and services that it serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from sqlcache.bench.loopback import Loopback
from sqlcache.bench.metered import Meter
from sqlcache.bench.serving import NAMESPACE, Serving
from sqlcache.bench.threads import wait_until
from sqlcache.client.api import Resource
from sqlcache.controllers.services import services_to_update, update_projection
from sqlcache.errors import ApiStatusError
from sqlcache.informer import SharedInformer
from sqlcache.objects import Object
from sqlcache.store import open_store
from sqlcache.store.scan import DictStore

THINGS = Resource("", "v1", "things")


@pytest.fixture
def api() -> Loopback:
    return Loopback(count(100))


def thing(name: str, **content: Any) -> Object:
    return {"metadata": {"name": name, "labels": {"app": name}}, **content}


def refused(call: Callable[[], object]) -> int:
    with pytest.raises(ApiStatusError) as error:
        call()
    return error.value.code


def test_generations_count_changes_of_content_and_versions_all(api: Loopback) -> None:
    made = api.create(THINGS, "shop", thing("a", size=1))
    same = api.update(THINGS, "shop", {**made, "metadata": {**made["metadata"], "labels": {}}})
    other = api.update(THINGS, "shop", {**same, "size": 2})
    metas = [each["metadata"] for each in (made, same, other)]
    assert [meta["generation"] for meta in metas] == [1, 1, 2]
    assert len({meta["resourceVersion"] for meta in metas}) == 3
    assert len({meta["uid"] for meta in metas}) == 1
    assert api.get(THINGS, "shop", "a") == other
    assert api.writes == 3


def test_a_generated_name_is_a_new_one(api: Loopback) -> None:
    made = [
        api.create(THINGS, "shop", {"metadata": {"generateName": "web-"}})["metadata"]["name"]
        for _ in range(2)
    ]
    assert len(set(made)) == 2
    assert all(name.startswith("web-") for name in made)


def test_what_an_api_server_refuses_is_refused(api: Loopback) -> None:
    made = api.create(THINGS, "shop", thing("a"))
    api.update(THINGS, "shop", {**made, "size": 1})
    assert refused(lambda: api.create(THINGS, "shop", thing("a"))) == 409
    assert refused(lambda: api.update(THINGS, "shop", made)) == 409
    assert refused(lambda: api.update(THINGS, "shop", thing("b"))) == 404
    assert refused(lambda: api.delete(THINGS, "shop", "b")) == 404
    assert refused(lambda: api.get(THINGS, "other", "a")) == 404


def test_a_patch_sets_and_removes_fields(api: Loopback) -> None:
    api.create(THINGS, "shop", thing("a", spec={"x": 1, "y": {"z": 1}}, size=1))
    patch = {"spec": {"x": None, "y": {"w": 2}}, "size": [1]}
    patched = api.patch(THINGS, "shop", "a", patch)
    assert (patched["spec"], patched["size"]) == ({"y": {"z": 1, "w": 2}}, [1])


def test_a_list_is_of_a_namespace_and_by_labels(api: Loopback) -> None:
    for namespace, name in (("shop", "a"), ("shop", "b"), ("other", "a")):
        api.create(THINGS, namespace, thing(name))
    assert len(api.list(THINGS)) == 3
    assert len(api.list(THINGS, "shop")) == 2
    (found,) = api.list(THINGS, "shop", "app=b")
    assert found["metadata"]["name"] == "b"


def test_what_is_returned_is_nobody_elses(api: Loopback) -> None:
    given = thing("a", spec={"x": 1})
    made = api.create(THINGS, "shop", given)
    made["spec"]["x"] = 2
    (event,) = api.stream("things").taken()
    event["object"]["spec"]["x"] = 3
    assert api.get(THINGS, "shop", "a")["spec"] == given["spec"] == {"x": 1}
    assert given == thing("a", spec={"x": 1})


def test_an_informer_sees_all_writes(api: Loopback) -> None:
    api.create(THINGS, "shop", thing("before"))
    with open_store("dict", "things") as store, SharedInformer(api.stream("things"), store) as run:
        assert run.wait_for_sync(10)
        api.create(THINGS, "shop", thing("after", size=1))
        api.update(THINGS, "shop", thing("after", size=2))
        api.delete(THINGS, "shop", "before")
        wait_until(
            lambda: int(store.last_store_sync_resource_version()) == api.stream("things").version,
            "the writes",
        )
        assert store.list() == api.list(THINGS)
        assert [each["size"] for each in store.list()] == [2]


def test_an_informer_goes_on_from_a_full_store(api: Loopback) -> None:
    with open_store("dict", "things") as store:
        store.replace([thing("a")], "1")
        store.set_source(api.stream("things").source)
        with SharedInformer(api.stream("things"), store) as informer:
            assert informer.wait_for_sync(10)
        assert len(store.list()) == 1, "a list would have emptied it"


def test_bursts_concern_services_or_do_not() -> None:
    serving = Serving(3000, 1, count(10_000))
    pods = {pod["metadata"]["name"]: pod for pod in serving.pods()}
    served = serving.served(20)
    with DictStore("services") as services:
        services.replace(serving.services(20), "1")
        changes: Counter[tuple[bool, int]] = Counter()
        for number in range(60):
            concerning = number % 2 == 0
            for event in serving.burst(served, 20, concerning=concerning):
                new = event["object"]
                key = update_projection(pods[new["metadata"]["name"]], new)
                pods[new["metadata"]["name"]] = new
                if key is not None:
                    changes[concerning, len(services_to_update(services, key))] += 1
    assert changes.keys() == {(True, 1), (True, 2)}, "readiness, and from one to another"
    assert sum(changes.values()) == 30
    for number in range(20):
        selector = f"svc-{number}"
        right = {
            pod["status"]["podIP"]: pod["status"]["conditions"][0]["status"] == "True"
            for pod in pods.values()
            if pod["metadata"]["labels"]["svc"] == selector
        }
        assert serving.addresses(number) == right
    assert serving.served(20) == served


def test_one_service_only_has_pods_that_become_ready_or_not() -> None:
    serving = Serving(50, 1, count(10_000))
    before = serving.addresses(0)
    serving.burst(serving.served(1), 1, concerning=True)
    assert serving.addresses(0) == {ip: not ready for ip, ready in before.items()}


def test_a_sync_has_its_own_cache_work_noted_and_no_other() -> None:
    meter = Meter()
    store = DictStore()
    store.replace(list(Serving(300, 1, count(10_000)).pods()), "1")
    metered = meter.pods(store)

    def sync(key: str) -> None:
        metered.select(NAMESPACE, "app=app-1")
        if key == "two":
            metered.get_by_key(f"{NAMESPACE}/pod-000001")
        if key == "fails":
            raise ValueError("no")

    for _ in range(100):
        metered.select(NAMESPACE, "app=app-1")  # before any sync, and no part of one
    meter.sync("endpoints", sync, "one")
    meter.sync("endpoints", sync, "two")
    with pytest.raises(ValueError, match="no"):
        meter.sync("endpoints", sync, "fails")
    one, two = meter.syncs["endpoints"]
    assert one.cache == one.lookup
    assert two.cache > two.lookup
    assert one.whole > one.cache
    assert meter.failures == ["no"]
    meter.over = True
    meter.sync("endpoints", sync, "fails")
    assert len(meter.syncs["endpoints"]) == 2
