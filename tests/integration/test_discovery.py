"""Discovery: what a server serves, by the names that kubectl's users type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlcache.client.discovery import ApiResource, discover, find
from sqlcache.errors import ApiDecodeError, ApiStatusError, UnknownResourceError
from sqlcache.testing.apiserver import ApiServer, custom_resource

pytest.importorskip("kubernetes", reason="needs the extra kubernetes")
transport = pytest.importorskip("sqlcache.client.transport")
documents_module = pytest.importorskip("sqlcache.client.documents")

pytest_plugins = ["sqlcache.testing.pytest_plugin"]


@pytest.fixture
def documents(api_server: ApiServer, api_server_kubeconfig: Path) -> Iterator[Any]:
    for definition in (
        custom_resource("widgets", "Widget", "example.com", "v1beta1", short_names=["wd", "po"]),
        custom_resource("gadgets", "Gadget", "example.com", "v2", namespaced=False),
        custom_resource("leases", "Lease", "rent.example.com"),
    ):
        api_server.register(definition)
    made = documents_module.ApiDocuments(transport.connect(str(api_server_kubeconfig)))
    yield made
    made.close()


def test_both_kinds_of_discovery_agree(api_server: ApiServer, documents: Any) -> None:
    found = discover(documents.get)
    asked = len(api_server.requests)
    assert asked == 2, "aggregated"
    by_name = {each.qualified: each._replace(verbs=()) for each in found}
    assert by_name["pods"] == ("", "v1", "pods", "Pod", "pod", ("po",), True, ())
    gadgets = by_name["gadgets.example.com"]
    assert gadgets == ("example.com", "v2", "gadgets", "Gadget", "gadget", (), False, ())
    assert all({"list", "watch"} <= set(each.verbs) for each in found)
    plain = discover(lambda path, accept: documents.get(path))
    assert len(api_server.requests) > asked + 4
    assert set(plain) == set(found)
    assert {each.qualified for each in found} >= {"pods", "leases.coordination.k8s.io"}


@pytest.mark.parametrize(
    ("name", "qualified"),
    [
        ("po", "pods"),
        ("pod", "pods"),
        ("pods", "pods"),
        ("Pod", "pods"),
        ("PODS", "pods"),
        ("svc", "services"),
        ("ns", "namespaces"),
        ("pods.v1.", "pods"),
        ("endpointslice", "endpointslices.discovery.k8s.io"),
        ("EndpointSlice", "endpointslices.discovery.k8s.io"),
        ("endpoints", "endpoints"),
        ("leases", "leases.coordination.k8s.io"),
        ("leases.coordination.k8s.io", "leases.coordination.k8s.io"),
        ("leases.v1.coordination.k8s.io", "leases.coordination.k8s.io"),
        ("lease.coordination", "leases.coordination.k8s.io"),
        ("leases.rent.example.com", "leases.rent.example.com"),
        ("leases.rent", "leases.rent.example.com"),
        ("widget", "widgets.example.com"),
        ("wd", "widgets.example.com"),
        ("po.example.com", "widgets.example.com"),
        ("wd.v1beta1.example.com", "widgets.example.com"),
    ],
)
def test_names(documents: Any, name: str, qualified: str) -> None:
    assert find(discover(documents.get), name).qualified == qualified


@pytest.mark.parametrize(
    "name", ["nope", "", ".", "pods.apps", "pods.v2.", "wd.v1.example.com", "pods/log", "p" * 5_000]
)
def test_unknown_names(documents: Any, name: str) -> None:
    with pytest.raises(UnknownResourceError, match="the server doesn't have a resource type") as e:
        find(discover(documents.get), name)
    assert len(str(e.value)) < 300


def test_a_full_name_goes_before_a_short_one() -> None:
    verbs = ("list", "watch")
    short = ApiResource("a.io", "v1", "coffees", "Coffee", "coffee", ("tea",), True, verbs)
    full = ApiResource("b.io", "v1", "teas", "Tea", "tea", (), True, verbs)
    assert find([short, full], "tea") is full


def test_one_that_can_be_listed_goes_before_one_that_cannot() -> None:
    only_made = ApiResource("a.io", "v1", "teas", "Tea", "tea", (), True, ("create",))
    listed = only_made._replace(group="b.io", verbs=("list",))
    assert find([only_made, listed], "teas") is listed
    assert find([only_made, listed], "teas.a.io") is only_made
    assert find([only_made], "teas") is only_made


DOCUMENTS: dict[str, Any] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": {"resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "apps",
                "versions": [{"version": "v1beta1"}, {"version": "v1"}],
                "preferredVersion": {"version": "v1"},
            },
            {"name": "down.io", "versions": [{"version": "v1"}]},
        ],
    },
    "/apis/apps/v1": {"resources": [{"name": "x", "kind": "X"}, {"name": "x/log"}]},
    "/apis/apps/v1beta1": {"resources": [{"name": "x", "kind": "X"}]},
}


class TestPlainDiscovery:
    """Servers without the aggregated kind, and extensions whose own server is down."""

    def get(self, path: str, accept: str) -> Any:
        if path not in DOCUMENTS:
            raise ApiStatusError(503, "ServiceUnavailable", "down")
        return DOCUMENTS[path]

    def test_preferred_version_first_and_extensions_that_are_down_left_out(self) -> None:
        found = [(each.qualified, each.version) for each in discover(self.get)]
        assert found == [("pods", "v1"), ("x.apps", "v1"), ("x.apps", "v1beta1")]

    def test_refusal_is_an_error(self) -> None:
        def get(path: str, accept: str) -> Any:
            if path == "/apis/apps/v1":
                raise ApiStatusError(403, "Forbidden", "no")
            return self.get(path, accept)

        with pytest.raises(ApiStatusError, match="no"):
            discover(get)

    @pytest.mark.parametrize("answer", [[], None, "x", 5])
    def test_something_else_is_an_error(self, answer: Any) -> None:
        with pytest.raises(ApiDecodeError, match="no discovery document"):
            discover(lambda path, accept: json.loads(json.dumps(answer)))
