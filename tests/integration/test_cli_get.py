"""`sqlcache get`: kubectl's habits, from a file and from a dump."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from sqlcache.objects import Object
from sqlcache.store import open_store
from sqlcache.testing import pod
from tests.integration.command import NOW, dump_of, error, output, run, wrong_usage


def created(obj: Object, **past: int) -> Object:
    obj["metadata"]["creationTimestamp"] = (NOW - timedelta(**past)).isoformat()
    return obj


def running(name: str, namespace: str, labels: dict[str, str], node: str, **past: int) -> Object:
    obj = pod(
        name,
        namespace,
        labels,
        spec={"containers": [{"name": "c"}], "nodeName": node},
        status={
            "phase": "Running",
            "podIP": "10.0.0.1",
            "containerStatuses": [{"name": "c", "ready": True, "state": {"running": {}}}],
        },
    )
    return created(obj, **past)


WEB_1 = running("web-1", "default", {"app": "web", "tier": "a"}, "n2", days=3)
WEB_2 = running("web-2", "default", {"app": "web", "tier": "b"}, "n1", minutes=5)
WEB_10 = running("web-10", "default", {"app": "web"}, "n3", hours=5)
API = running("api", "shop", {"app": "api", "example.com/zone": "z1"}, "n1", seconds=7)
JOB = created(
    pod("job", "shop", spec={"nodeName": "n1"}, status={"phase": "Failed", "reason": "Evicted"}),
    days=400,
)
PODS = [WEB_2, WEB_10, API, JOB, WEB_1]
SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": [{"port": 80}]},
}
NODE: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
DEPLOYMENT: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
}


@pytest.fixture(params=["--db", "--from"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Return the option that names the pods, in a file or in a dump."""
    dump = tmp_path / "dump.json"
    dump.write_bytes(dump_of(*PODS, SERVICE, NODE, DEPLOYMENT))
    if request.param == "--from":
        return ["--from", str(dump)]
    db = f"sqlite:///{tmp_path / 'cluster.db'}"
    for resource in ("pods", "services", "nodes", "deployments"):
        assert run("load", str(dump), "--db", db, "--resource", resource).exit_code == 0
    return ["--db", db]


def shown(source: list[str], *args: str) -> list[str]:
    """Return the names of what a query shows, in its order."""
    lines = output("get", *args, "-o", "name", *source).splitlines()
    return [line.rpartition("/")[2] for line in lines]


class TestWhatIsFound:
    def test_default_namespace_in_the_order_of_names(self, source: list[str]) -> None:
        assert shown(source) == shown(source, "pods") == ["web-1", "web-10", "web-2"]

    @pytest.mark.parametrize("args", [["-n", "shop"], ["--namespace", "shop"], ["-nshop"]])
    def test_one_namespace(self, source: list[str], args: list[str]) -> None:
        assert shown(source, "pods", *args) == ["api", "job"]

    @pytest.mark.parametrize("args", [["-A"], ["--all-namespaces"], ["-A", "-n", "shop"]])
    def test_all_namespaces_in_the_order_of_keys(self, source: list[str], args: list[str]) -> None:
        assert shown(source, "pods", *args) == ["web-1", "web-10", "web-2", "api", "job"]

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("app=web", ["web-1", "web-10", "web-2"]),
            ("app=web,tier in (a,b),tier!=b", ["web-1"]),
            ("app=web,!tier", ["web-10"]),
            ("", ["web-1", "web-10", "web-2", "api", "job"]),
            ("!app", ["job"]),
        ],
    )
    def test_label_selector(self, source: list[str], selector: str, expected: list[str]) -> None:
        assert shown(source, "-A", "-l", selector) == expected
        assert shown(source, "-A", f"--selector={selector}") == expected

    def test_field_selector(self, source: list[str]) -> None:
        fields = "spec.nodeName=n1,status.phase!=Failed"
        assert shown(source, "-A", "--field-selector", fields) == ["web-2", "api"]
        assert shown(source, "-A", "-l", "app=api", "--field-selector", fields) == ["api"]
        assert shown(source, "svc", "--field-selector", "metadata.name=web") == ["web"]

    def test_names_in_their_order_and_once(self, source: list[str]) -> None:
        assert shown(source, "pods", "web-2", "web-1", "web-2") == ["web-2", "web-1"]
        assert shown(source, "pods", "api", "-n", "shop") == ["api"]

    def test_missing_names_are_told_after_the_others(self, source: list[str]) -> None:
        result = run("get", "pods", "x", "web-1", "y", "-o", "name", *source)
        assert result.exit_code == 1
        assert result.stdout == "pod/web-1\n"
        assert result.stderr == 'Error: pods "x" not found\nError: pods "y" not found\n'

    def test_nothing_found(self, source: list[str]) -> None:
        result = run("get", "pods", "-l", "app=x", *source)
        assert result == (0, "", "No resources found in default namespace.\n")
        result = run("get", "pods", "-A", "-l", "app=x", *source)
        assert result == (0, "", "No resources found\n")

    @pytest.mark.parametrize("name", ["po", "pod", "Pods"])
    def test_short_names(self, source: list[str], name: str) -> None:
        assert shown(source, name, "-n", "shop") == ["api", "job"]

    def test_cluster_scoped_resources_have_no_namespace(self, source: list[str]) -> None:
        assert shown(source, "nodes") == shown(source, "no", "n1") == ["n1"]
        assert output("get", "nodes", "-A", *source).startswith("NAME ")


class TestOrder:
    @pytest.mark.parametrize("path", [".spec.nodeName", "spec.nodeName", "{.spec.nodeName}"])
    def test_sort_by(self, source: list[str], path: str) -> None:
        assert shown(source, "--sort-by", path) == ["web-2", "web-1", "web-10"]

    def test_names_sort_naturally(self, source: list[str]) -> None:
        assert shown(source, "--sort-by=.metadata.name") == ["web-1", "web-2", "web-10"]

    def test_absent_values_come_first(self, source: list[str]) -> None:
        names = shown(source, "-A", "--sort-by", ".metadata.labels.tier")
        assert names == ["web-10", "api", "job", "web-1", "web-2"]

    def test_limit_comes_after_the_order(self, source: list[str]) -> None:
        assert shown(source, "--limit", "1", "--sort-by", ".spec.nodeName") == ["web-2"]
        assert len(shown(source, "--limit", "99")) == 3

    def test_a_path_that_leads_nowhere(self, source: list[str]) -> None:
        message = error("get", "--sort-by", ".spec.x", *source)
        assert message == "no object has a field '.spec.x'"


class TestForms:
    def test_table(self, source: list[str]) -> None:
        assert output("get", "pods", *source) == (
            "NAME     READY   STATUS    RESTARTS   AGE\n"
            "web-1    1/1     Running   0          3d\n"
            "web-10   1/1     Running   0          5h\n"
            "web-2    1/1     Running   0          5m\n"
        )

    def test_table_of_all_namespaces(self, source: list[str]) -> None:
        assert output("get", "pods", "-A", "--limit", "4", "--no-headers", *source) == (
            "default   web-1    1/1   Running   0     3d\n"
            "default   web-10   1/1   Running   0     5h\n"
            "default   web-2    1/1   Running   0     5m\n"
            "shop      api      1/1   Running   0     7s\n"
        )

    def test_wide_table(self, source: list[str]) -> None:
        assert output("get", "pods", "web-1", "-o", "wide", *source) == (
            "NAME    READY   STATUS    RESTARTS   AGE   IP         NODE   NOMINATED NODE"
            "   READINESS GATES\n"
            "web-1   1/1     Running   0          3d    10.0.0.1   n2     <none>           <none>\n"
        )

    def test_label_columns(self, source: list[str]) -> None:
        args = ["-L", "example.com/zone,app", "-L", "tier", "--show-labels"]
        assert output("get", "pods", *args, *source).splitlines()[::3] == [
            "NAME     READY   STATUS    RESTARTS   AGE   ZONE   APP   TIER   LABELS",
            "web-2    1/1     Running   0          5m           web   b      app=web,tier=b",
        ]

    def test_services_nodes_and_others(self, source: list[str]) -> None:
        assert output("get", "svc", *source).splitlines()[1].split() == [
            *("web", "ClusterIP", "10.0.0.1", "<none>", "80/", "<unknown>"),
        ]
        assert output("get", "deploy", *source).split() == ["NAME", "AGE", "web", "<unknown>"]

    def test_names(self, source: list[str]) -> None:
        assert output("get", "pods", "-n", "shop", "-o", "name", *source) == "pod/api\npod/job\n"
        assert output("get", "deployments", "-o", "name", *source) == "deployment.apps/web\n"

    @pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
    def test_objects(self, source: list[str], form: str, read: Any) -> None:
        assert read(output("get", "pods", "-n", "shop", "-o", form, *source)) == {
            "apiVersion": "v1",
            "items": [API, JOB],
            "kind": "List",
            "metadata": {"resourceVersion": ""},
        }
        assert read(output("get", "pods", "api", "-n", "shop", "-o", form, *source)) == API
        assert read(output("get", "pods", "web-1", "web-2", "-o", form, *source))["items"] == [
            WEB_1,
            WEB_2,
        ]
        assert read(output("get", "pods", "-l", "x", "-o", form, *source))["items"] == []

    def test_a_dump_of_a_dump_is_the_dump(self, source: list[str]) -> None:
        text = output("get", "-A", "-o", "json", *source)
        assert output("get", "-A", "-o", "json", "--from", "-", stdin=text.encode()) == text

    def test_csv(self, source: list[str]) -> None:
        text = output("get", "pods", "-A", "--show-labels", "-o", "csv", *source)
        rows = list(csv.DictReader(io.StringIO(text)))
        assert len(rows) == 5
        assert rows[0] == {
            "NAMESPACE": "default",
            "NAME": "web-1",
            "READY": "1/1",
            "STATUS": "Running",
            "RESTARTS": "0",
            "AGE": "3d",
            "LABELS": "app=web,tier=a",
        }
        assert "NAME" not in output("get", "-o", "csv", "--no-headers", *source)


class TestWrong:
    @pytest.mark.parametrize(
        ("args", "expected"),
        [
            ([], "give --db sqlite:///PATH, --from DUMP"),
            (["--db", "sqlite:///x.db", "--from", "x"], "give only one of --db"),
            (["--db", "x.db"], "did you mean sqlite:///x.db?"),
            (["-l", "a=b=c", "--from", "x"], "found '=', expected: ',' or 'end of string'"),
            (["-l", "a in (", "--from", "x"], "Invalid value for '-l'"),
            (["--field-selector", "spec.x=1", "--from", "x"], "field label not supported: spec.x"),
            (["--field-selector", "x", "--from", "x"], "Invalid value for '--field-selector'"),
            (["--sort-by", ".a[", "--from", "x"], "cannot read '['"),
            (["--limit", "0", "--from", "x"], "Invalid value for '--limit'"),
            (["--limit", "x", "--from", "x"], "Invalid value for '--limit'"),
            (["-o", "xml", "--from", "x"], "Invalid value for '-o'"),
            (["pods", "a", "-A", "--from", "x"], "cannot be named together with -A"),
            (["pods", "a", "-l", "b", "--from", "x"], "cannot be named together with a selector"),
            (["--show-labels", "-o", "json", "--from", "x"], "-o json has none"),
            (["-L", "app", "-o", "name", "--from", "x"], "-o name has none"),
            ([".", "--from", "x"], "a resource has a name"),
            (["pods,svc", "--from", "x"], "'pods,svc' is not the name of one resource"),
            (["pod/web", "--from", "x"], "'pod/web' is not the name of one resource"),
            (["--watch"], "No such option"),
        ],
    )
    def test_usage(self, args: list[str], expected: str) -> None:
        assert expected in wrong_usage("get", *args)

    def test_a_missing_file_is_not_made(self, tmp_path: Path) -> None:
        path = tmp_path / "missing.db"
        message = error("get", "--db", f"sqlite:///{path}")
        assert message == f"{path}: no such file; `sqlcache load` or `sqlcache mirror` makes one"
        assert not path.exists()

    def test_a_file_that_is_not_ours(self, tmp_path: Path) -> None:
        path = tmp_path / "x.db"
        path.write_text("hello " * 200)
        assert error("get", "--db", f"sqlite:///{path}").startswith(f"{path}: ")
        assert error("get", "--db", f"sqlite:///{tmp_path}").startswith(f"{tmp_path}: ")

    @pytest.mark.parametrize("name", ["pdos", "svc", "services"])
    def test_a_file_of_other_resources(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / "x.db"
        with (
            open_store(f"sqlite:///{path}", "nodes") as nodes,
            open_store(f"sqlite:///{path}") as pods,
        ):
            nodes.replace([], "1")
            pods.replace([], "1")
        called = "services" if name == "svc" else name
        for command in ("get", "stats", "explain"):
            option = [name] if command == "get" else ["--resource", name]
            said = error(command, *option, "--db", f"sqlite:///{path}")
            assert said == f"{path}: no {called} in it; it has nodes, pods"
        found = run("get", "no", "--db", f"sqlite:///{path}")
        assert (found.exit_code, found.stderr) == (0, "No resources found\n")

    def test_a_dump_that_is_none(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        path.write_text("hello")
        expected = f"{path}: line 1, column 1: not JSON: expecting value"
        assert error("get", "--from", str(path)) == expected
        missing = tmp_path / "missing"
        assert error("get", "--from", str(missing)) == f"{missing}: No such file or directory"

    def test_a_dump_of_something_else(self, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        path.write_bytes(dump_of(SERVICE))
        assert error("get", "--from", str(path)) == f"{path}: no pods in it, but 1 Service"
