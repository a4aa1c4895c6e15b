"""ApiObjects against the test API server, over HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlcache.client import ObjectsApi, Resource
from sqlcache.errors import (
    ApiConnectionError,
    ApiConnectionRefusedError,
    ApiStatusError,
    PathSegmentError,
)
from sqlcache.objects import Object
from sqlcache.testing.apiserver import ApiServer

pytest.importorskip("kubernetes", reason="needs the extra kubernetes")
transport = pytest.importorskip("sqlcache.client.transport")
objects = pytest.importorskip("sqlcache.client.objects")

SERVICES = Resource("", "v1", "services")
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices")
NODES = Resource("", "v1", "nodes")
SOON_S = 5.0  # of real time, on a busy machine


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        server.create("namespaces", {"metadata": {"name": "shop"}})
        yield server


def client(server: ApiServer, folder: Path) -> Any:
    path = folder / "kubeconfig"
    path.write_text(json.dumps(server.kubeconfig()))
    return transport.connect(kubeconfig=str(path))


@pytest.fixture
def api(server: ApiServer, tmp_path: Path) -> Iterator[ObjectsApi]:
    api = objects.ApiObjects(client(server, tmp_path))
    yield api
    api.close()


def service(name: str, **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }


def test_an_object_is_made_read_changed_and_deleted(api: ObjectsApi, server: ApiServer) -> None:
    given = service("web", a="b")
    made = api.create(SERVICES, "shop", given)
    assert given == service("web", a="b"), "it was not changed"
    assert made["metadata"]["uid"]
    assert made["spec"]["clusterIP"], "the server filled in what was left out"
    assert api.get(SERVICES, "shop", "web") == made

    made["metadata"]["labels"] = {"c": "d"}
    updated = api.update(SERVICES, "shop", made)
    assert updated["metadata"]["labels"] == {"c": "d"}
    assert updated["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]

    patch = {"metadata": {"labels": {"c": None, "é": None, "e": "f"}}}
    assert api.patch(SERVICES, "shop", "web", patch)["metadata"]["labels"] == {"e": "f"}

    api.delete(SERVICES, "shop", "web")
    assert server.count("services") == 0


def test_lists_select_and_span_namespaces(api: ObjectsApi, server: ApiServer) -> None:
    server.create("namespaces", {"metadata": {"name": "other"}})
    for namespace in ("shop", "other"):
        api.create(SERVICES, namespace, service("web", tier="a"))
        api.create(SERVICES, namespace, service("db", tier="b"))

    def found(*args: Any) -> list[str]:
        items = api.list(SERVICES, *args)
        return sorted(f"{i['metadata']['namespace']}/{i['metadata']['name']}" for i in items)

    assert found() == ["other/db", "other/web", "shop/db", "shop/web"]
    assert found("shop") == ["shop/db", "shop/web"]
    assert found("", "tier in (a)") == ["other/web", "shop/web"]
    assert found("absent") == []


def test_names_are_generated_and_groups_and_cluster_scope_work(api: ObjectsApi) -> None:
    meta = {"generateName": "web-"}
    piece = {"metadata": meta, "addressType": "IPv4", "endpoints": []}
    made = api.create(SLICES, "shop", piece)
    assert made["metadata"]["name"].startswith("web-")
    node = api.create(NODES, "", {"metadata": {"name": "n1"}})
    assert api.get(NODES, "", "n1") == node


@pytest.mark.parametrize(
    ("code", "reason", "call"),
    [
        (404, "NotFound", lambda api: api.get(SERVICES, "shop", "absent")),
        (404, "NotFound", lambda api: api.delete(SERVICES, "shop", "absent")),
        (404, "NotFound", lambda api: api.patch(SERVICES, "shop", "absent", {})),
        (404, "NotFound", lambda api: api.create(SERVICES, "absent", service("web"))),
        (409, "AlreadyExists", lambda api: api.create(SERVICES, "shop", service("there"))),
        (409, "Conflict", lambda api: api.update(SERVICES, "shop", old(api))),
        (422, "Invalid", lambda api: api.create(SERVICES, "shop", service("No!"))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals_are_errors_with_code_and_reason(
    api: ObjectsApi, code: int, reason: str, call: Any
) -> None:
    api.create(SERVICES, "shop", service("there"))
    with pytest.raises(ApiStatusError) as raised:
        call(api)
    assert (raised.value.code, raised.value.reason) == (code, reason)


def old(api: ObjectsApi) -> Object:
    """Return an object that was changed since it was read."""
    before = api.get(SERVICES, "shop", "there")
    api.patch(SERVICES, "shop", "there", {"metadata": {"labels": {"x": "y"}}})
    return before


def test_a_terminating_namespace_is_told_from_other_refusals(
    api: ObjectsApi, server: ApiServer
) -> None:
    server.delete("namespaces", "shop", namespace="")
    with pytest.raises(ApiStatusError) as raised:
        api.create(SERVICES, "shop", service("web"))
    assert raised.value.is_forbidden()
    assert raised.value.has_cause("NamespaceTerminating")


def test_names_cannot_leave_their_path(api: ObjectsApi, server: ApiServer) -> None:
    api.create(SERVICES, "shop", service("web"))
    for name in ("x/../web", ".."):
        with pytest.raises(PathSegmentError):
            api.delete(SERVICES, "shop", name)
    with pytest.raises(ApiStatusError):
        api.delete(SERVICES, "shop", "web?dryRun=All#")
    assert server.count("services") == 1


def test_trouble_is_raised_once_and_not_retried(api: ObjectsApi, server: ApiServer) -> None:
    with server.faults.fail(verb="get", times=1), pytest.raises(ApiStatusError) as raised:
        api.get(NODES, "", "n1")
    assert raised.value.code == 500
    with server.faults.refuse(verb="get", times=1), pytest.raises(ApiConnectionError):
        api.get(NODES, "", "n1")
    with server.faults.throttle(retry_after_s=7), pytest.raises(ApiStatusError) as raised:
        api.get(NODES, "", "n1")
    assert raised.value.retry_after == 7
    with server.refusing(), pytest.raises(ApiConnectionRefusedError):
        api.get(NODES, "", "n1")
    assert len([each for each in server.requests if each.resource == "nodes"]) == 3


def test_close_cuts_a_call_under_way(server: ApiServer, tmp_path: Path) -> None:
    api = objects.ApiObjects(client(server, tmp_path))
    raised: list[Exception] = []

    def ask() -> None:
        try:
            api.get(NODES, "", "n1")
        except ApiConnectionError as error:
            raised.append(error)

    with server.faults.stall(verb="get"):
        thread = threading.Thread(target=ask)
        thread.start()
        while not any(each.resource == "nodes" for each in server.requests):
            time.sleep(0.01)
        api.close()
        thread.join(SOON_S)
        assert not thread.is_alive()
    assert len(raised) == 1
    with pytest.raises(ApiConnectionError, match="closed"):
        api.get(NODES, "", "n1")


def test_many_threads_share_one(api: ObjectsApi) -> None:
    def work(number: int) -> None:
        for turn in range(5):
            api.create(SERVICES, "shop", service(f"s-{number}-{turn}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(api.list(SERVICES, "shop")) == 40
