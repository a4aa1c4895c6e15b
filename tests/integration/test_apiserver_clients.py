"""The official client against the test API server, used as its documentation says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlcache.testing.apiserver import ApiServer, custom_resource

kubernetes = pytest.importorskip("kubernetes")
# Its models have optional fields everywhere, and parts of it have no types: not checked here.
client: Any = kubernetes.client
config: Any = kubernetes.config
dynamic: Any = kubernetes.dynamic
watch: Any = kubernetes.watch

pytest_plugins = ["sqlcache.testing.pytest_plugin"]


@pytest.fixture
def api(api_server_kubeconfig: Path) -> Iterator[Any]:
    with config.new_client_from_config(str(api_server_kubeconfig)) as made:
        yield made


@pytest.fixture
def core(api: Any) -> Any:
    return client.CoreV1Api(api)


def pod(name: str, **labels: str) -> Any:
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels=labels),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="i")]),
    )


def test_models_make_the_whole_round(core: Any) -> None:
    made = core.create_namespaced_pod("default", pod("a", app="web"))
    assert made.metadata.uid
    assert made.status.phase == "Pending"
    patched = core.patch_namespaced_pod("a", "default", {"metadata": {"labels": {"x": "y"}}})
    assert patched.metadata.labels == {"app": "web", "x": "y"}
    operations = [{"op": "remove", "path": "/metadata/labels/x"}]
    patched = core.patch_namespaced_pod("a", "default", operations)
    assert patched.metadata.labels == {"app": "web"}
    patched.metadata.annotations = {"put": "1"}
    replaced = core.replace_namespaced_pod("a", "default", patched)
    assert replaced.metadata.annotations == {"put": "1"}
    status = {"status": {"phase": "Running"}}
    assert core.patch_namespaced_pod_status("a", "default", status).status.phase == "Running"
    assert [each.metadata.name for each in core.list_pod_for_all_namespaces().items] == ["a"]
    core.delete_namespaced_pod("a", "default")
    with pytest.raises(client.ApiException) as caught:
        core.read_namespaced_pod("a", "default")
    assert (caught.value.status, caught.value.reason) == (404, "Not Found")


def test_lists_can_be_paged_and_selected(core: Any) -> None:
    for index in range(7):
        core.create_namespaced_pod("default", pod(f"p{index}", odd=str(index % 2)))
    listed, token = [], None
    while token != "":
        page = core.list_namespaced_pod("default", limit=3, _continue=token)
        listed += [each.metadata.name for each in page.items]
        token = page.metadata._continue or ""
    assert listed == [f"p{index}" for index in range(7)]
    odd = core.list_namespaced_pod("default", label_selector="odd=1").items
    assert [each.metadata.name for each in odd] == ["p1", "p3", "p5"]


def test_the_watch_class_sees_events_and_takes_up_again(core: Any, api_server: ApiServer) -> None:
    stream = watch.Watch()
    found = []
    timer = threading.Timer(
        0.2,
        lambda: api_server.create(
            "pods",
            {"metadata": {"name": "late"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        ),
    )
    core.create_namespaced_pod("default", pod("early"))
    timer.start()
    for event in stream.stream(core.list_namespaced_pod, "default", timeout_seconds=5):
        found.append(f"{event['type']} {event['object'].metadata.name}")
        if len(found) == 2:
            stream.stop()
    timer.join()
    assert found == ["ADDED early", "ADDED late"]


def test_the_watch_class_learns_of_410(core: Any, api_server: ApiServer) -> None:
    core.create_namespaced_pod("default", pod("a"))
    api_server.compact()
    with pytest.raises(client.ApiException) as caught:
        list(
            watch.Watch().stream(
                core.list_namespaced_pod, "default", resource_version="1", timeout_seconds=2
            )
        )
    assert caught.value.status == 410


def test_other_kinds_make_the_round(api: Any, core: Any) -> None:
    service = client.V1Service(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1ServiceSpec(selector={"app": "web"}, ports=[client.V1ServicePort(port=80)]),
    )
    assert core.create_namespaced_service("default", service).spec.cluster_ip
    slice_ = client.V1EndpointSlice(
        metadata=client.V1ObjectMeta(generate_name="web-"),
        address_type="IPv4",
        endpoints=[client.V1Endpoint(addresses=["10.0.0.1"])],
        ports=[client.DiscoveryV1EndpointPort(port=80)],
    )
    discovery = client.DiscoveryV1Api(api)
    name = discovery.create_namespaced_endpoint_slice("default", slice_).metadata.name
    assert name.startswith("web-")
    discovery.delete_namespaced_endpoint_slice(name, "default")
    assert discovery.list_namespaced_endpoint_slice("default").items == []
    lease = client.V1Lease(
        metadata=client.V1ObjectMeta(name="l"), spec=client.V1LeaseSpec(holder_identity="me")
    )
    leases = client.CoordinationV1Api(api)
    made = leases.create_namespaced_lease("default", lease)
    made.spec.holder_identity = "you"
    assert leases.replace_namespaced_lease("l", "default", made).spec.holder_identity == "you"
    core.create_node(client.V1Node(metadata=client.V1ObjectMeta(name="n")))
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert core.patch_node_status("n", ready).status.conditions[0].type == "Ready"
    assert [each.metadata.name for each in core.list_node().items] == ["n"]
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="x")))
    core.delete_namespace("x")
    assert core.read_namespace("x").status.phase == "Terminating"
    core.delete_collection_namespaced_pod("default")


def test_custom_objects_and_the_dynamic_client(api: Any, api_server: ApiServer) -> None:
    api_server.register(custom_resource("widgets", "Widget", "example.com"))
    objects = client.CustomObjectsApi(api)
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    where = ("example.com", "v1", "default", "widgets")
    objects.create_namespaced_custom_object(*where, body)
    patch = {"spec": {"size": 1}}
    objects.patch_namespaced_custom_object(*where, "w", patch)
    assert len(objects.list_namespaced_custom_object(*where)["items"]) == 1
    found = dynamic.DynamicClient(api).resources.get(api_version="example.com/v1", kind="Widget")
    assert found.get(namespace="default", name="w").spec.size == 1
    assert client.VersionApi(api).get_code().minor == "36"


def test_a_token_is_asked_for(tmp_path: Path, api_server_factory: Any) -> None:
    server = api_server_factory(token="right")  # noqa: S106 (of a server that lives for one test)
    path = tmp_path / "config"
    for token, code in (("right", 200), ("wrong", 401), (None, 403)):
        server.token = token  # what the kubeconfig names; the server goes on to want "right"
        path.write_text(str(server.kubeconfig()).replace("'", '"'))
        with config.new_client_from_config(str(path)) as made:
            try:
                client.CoreV1Api(made).list_namespaced_pod("default")
                found = 200
            except client.ApiException as error:
                found = error.status
        assert found == code
