"""docs/deploy: the manifest is sound, and grants what is asked of the API server and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import yaml

from sqlcache.cli import main
from sqlcache.testing.apiserver import ApiServer
from tests.integration.chaos import add_pod, service
from tests.integration.clusters import eventually
from tests.integration.command import run
from tests.integration.following import following

pytest.importorskip("kubernetes", reason="needs the extra kubernetes")
pytest.importorskip("prometheus_client", reason="needs the extra metrics")

MANIFEST = Path(__file__).parents[2] / "docs/deploy/sqlcache-run.yaml"
DOCUMENTS: list[Any] = list(yaml.safe_load_all(MANIFEST.read_text()))
NAME, NAMESPACE = "sqlcache-run", "kube-system"


class Access(NamedTuple):
    """One verb on one resource; the name is "*" for any."""

    group: str
    resource: str
    verb: str
    name: str = "*"


def the(kind: str, name: str = NAME) -> Any:
    """Return the one document of a kind and name."""
    (found,) = (
        each for each in DOCUMENTS if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found


def granted(role: Any) -> set[Access]:
    return {
        Access(group, resource, verb, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", ["*"])
    }


def asked(server: ApiServer) -> set[Access]:
    """Return what was asked of a server; it is as much as what names the Lease."""
    found = set()
    for each in server.requests:
        _, kind, group, *_ = each.path.split("/")
        target = each.target
        resource = "/".join(filter(None, (target.resource, target.subresource)))
        named = target.resource == "leases" and each.verb != "create"
        group = group if kind == "apis" else ""
        found.add(Access(group, resource, each.verb, target.name if named else "*"))
    return found


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as server:
        server.create("nodes", {"metadata": {"name": "n1"}})
        for name in ("web", "old"):
            server.create("services", service(name))
        add_pod(server, "a", "10.0.0.1")
        yield server


@pytest.fixture
def kubeconfig(server: ApiServer, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(server.kubeconfig()))
    return path


def arguments() -> list[str]:
    (container,) = the("Deployment")["spec"]["template"]["spec"]["containers"]
    return [*container["command"][1:], *container["args"]]


def test_the_roles_grant_what_is_used_and_no_more(server: ApiServer, kubeconfig: Path) -> None:
    full = server.faults.error(422, "no room", verb="create", resource="endpoints", times=None)
    args = ["--listen=127.0.0.1:0" if each.startswith("--listen") else each for each in arguments()]
    with following(*args, "--leader-elect", kubeconfig=kubeconfig) as manager:
        eventually(lambda: ("", "events", "patch", "*") in asked(server))
        full.remove()
        eventually(lambda: server.count("endpoints") == server.count("endpointslices") == 2)
        stray = server.list("endpointslices")[0]
        stray["metadata"] = {
            **{each: stray["metadata"][each] for each in ("namespace", "labels")},
            "ownerReferences": stray["metadata"]["ownerReferences"],
            "name": "stray",
        }
        stray["ports"] = [{"name": "http", "port": 1, "protocol": "TCP"}]
        server.create("endpointslices", stray)
        eventually(lambda: server.count("endpointslices") == 2)
        server.delete("services", "old", "shop")
        eventually(lambda: server.count("endpoints") == 1)
        # From here on the cache of slices shows nothing new, so the server is asked in the end.
        server.faults.stall(after_events=1, verb="watch", resource="endpointslices", times=None)
        server.cut_watches("endpointslices")
        eventually(lambda: server.watch_count("endpointslices") == 1)
        for number in range(2, 4):
            add_pod(server, f"b{number}", f"10.0.0.{number}")
            server.create("services", service(f"s{number}"))
        eventually(lambda: server.count("endpointslices") == 4)
        for name in ("s2", "s3"):
            server.patch("services", name, {"spec": {"selector": {"app": "web"}}}, "shop")
        eventually(lambda: ("discovery.k8s.io", "endpointslices", "get", "*") in asked(server))
        manager.end()
    roles = granted(the("ClusterRole")) | granted(the("Role"))
    used = asked(server)
    assert used <= roles
    # What an admission plug-in asks for that this server does not have.
    assert roles - used == {Access("", "services/finalizers", "update")}


def test_a_dry_run_needs_its_role_only(server: ApiServer, kubeconfig: Path) -> None:
    stale = {"metadata": {"name": "web", "namespace": "shop"}}
    server.create("endpoints", stale)
    assert run("run", "--dry-run", "--kubeconfig", str(kubeconfig)).exit_code == 0
    role = granted(the("ClusterRole", "sqlcache-dry-run"))
    # Slices of our own are looked at once more before they would be updated.
    assert role - asked(server) == {Access("discovery.k8s.io", "endpointslices", "get")}
    assert asked(server) <= role


def test_the_parts_fit_together() -> None:
    assert the("ServiceAccount")["metadata"]["namespace"] == NAMESPACE
    for kind, role in (("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")):
        binding = the(kind)
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (role, NAME)
        subject = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
        assert binding["subjects"] == [subject]
    deployment = the("Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"].items() <= labels.items()
    pod = deployment["template"]["spec"]
    assert pod["serviceAccountName"] == NAME
    (install,), (container,) = pod["initContainers"], pod["containers"]
    assert install["image"] == container["image"]
    volumes = {each["name"] for each in pod["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} == volumes


def test_the_command_of_the_deployment_can_be_parsed() -> None:
    _, *args = arguments()
    command = main.get_command(click.Context(main), "run")
    assert command is not None
    options = command.make_context("run", args).params
    assert options["lease"] == (NAMESPACE, NAME)
    assert options["listen"] == ("0.0.0.0", 8080)  # noqa: S104 - the kubelet asks from outside
