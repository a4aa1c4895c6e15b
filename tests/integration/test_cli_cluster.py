"""Commands that talk to a cluster: which one, and what is said when that fails."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from sqlcache.testing.apiserver import ApiServer, custom_resource
from tests.integration.command import error, output, run, wrong_usage
from tests.integration.following import new_pod

pytest.importorskip("kubernetes", reason="needs the extra kubernetes")

pytest_plugins = ["sqlcache.testing.pytest_plugin"]

SECRET = "s3cr3t-t0k3n"  # noqa: S105


@pytest.fixture
def server(api_server: ApiServer) -> ApiServer:
    for name in ("web-1", "web-2"):
        api_server.create("pods", new_pod(name, app="web"))
    api_server.create("pods", new_pod("api-1", app="api"))
    api_server.create("pods", new_pod("default-1", "default"))
    api_server.register(custom_resource("widgets", "Widget", "example.com", short_names=["wd"]))
    api_server.register(custom_resource("globals", "Global", "example.com", namespaced=False))
    return api_server


@pytest.fixture
def here(server: ApiServer, api_server_kubeconfig: Path) -> list[str]:
    return ["--kubeconfig", str(api_server_kubeconfig)]


@pytest.fixture(params=["get", "stats", "explain", "watch", "mirror"])
def command(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., list[str]]:
    """A function from a resource to the arguments of each command that asks a cluster."""
    resource: dict[str, Callable[[str], list[str]]] = {
        "stats": lambda name: ["--resource", name],
        "explain": lambda name: ["--resource", name],
        "mirror": lambda name: [name, "--backend", f"sqlite:///{tmp_path / 'cache.db'}"],
    }
    chosen: str = request.param

    def arguments(name: str = "pods") -> list[str]:
        return [chosen, *(resource[chosen](name) if chosen in resource else [name])]

    return arguments


class TestGet:
    def test_objects_of_a_namespace(self, here: list[str]) -> None:
        assert output("get", "-o", "name", *here) == "pod/default-1\n"
        lines = output("get", "po", "-n", "shop", "-l", "app=web", *here).splitlines()
        assert lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        assert [line.split()[:3] for line in lines[1:]] == [
            ["web-1", "0/1", "Pending"],
            ["web-2", "0/1", "Pending"],
        ]
        result = run("get", "wd", "-n", "shop", *here)
        assert result == (0, "", "No resources found in shop namespace.\n")

    def test_the_server_selects(self, server: ApiServer, here: list[str]) -> None:
        """By fields, too: also by those that no dump could be asked for."""
        args = ["-l", "app in (web,api)", "--field-selector", "metadata.name!=web-1", "-A"]
        assert output("get", "pods", "-o", "name", *args, *here) == "pod/api-1\npod/web-2\n"
        assert server.requests[-1].query["labelSelector"] == "app in (api,web)"
        args = ["--field-selector", "spec.unschedulable=true"]
        assert run("get", "nodes", *args, *here) == (0, "", "No resources found\n")

    def test_objects_by_name(self, server: ApiServer, here: list[str]) -> None:
        found = json.loads(output("get", "pod", "web-1", "-n", "shop", "-o", "json", *here))
        assert found == server.get("pods", "web-1", "shop")
        names = output("get", "pod", "web-2", "api-1", "-n", "shop", "-o", "name", *here)
        assert names == "pod/web-2\npod/api-1\n"
        assert error("get", "pod", "nope", "-n", "shop", *here) == 'pods "nope" not found'

    def test_custom_and_cluster_scoped_resources(self, server: ApiServer, here: list[str]) -> None:
        server.create("globals", {"metadata": {"name": "g"}})
        server.create("widgets", {"metadata": {"name": "w"}})
        assert output("get", "Global", "-o", "name", *here) == "global.example.com/g\n"
        assert output("get", "wd", "-o", "name", *here) == "widget.example.com/w\n"
        assert output("get", "widgets.example.com", "w", "-o", "name", *here) == (
            "widget.example.com/w\n"
        )
        assert "kube-system" in output("get", "ns", "-o", "name", *here)

    def test_many_objects_come_in_pages(self, server: ApiServer, here: list[str]) -> None:
        server.load("pods", (new_pod(f"p{number}", "many") for number in range(1_234)))
        assert len(output("get", "-n", "many", "--no-headers", *here).splitlines()) == 1_234
        limits = [each.query["limit"] for each in server.requests if each.resource == "pods"]
        assert limits == ["500"] * 3

    def test_stats_and_explain(self, here: list[str]) -> None:
        assert json.loads(output("stats", "-o", "json", *here))["objects"] == 4
        args = ["-l", "app=web", "-n", "shop", "-o", "json"]
        assert json.loads(output("explain", *args, *here))["matched"] == 2

    def test_one_source(self, here: list[str], tmp_path: Path) -> None:
        for other in (["--db", f"sqlite:///{tmp_path / 'x.db'}"], ["--from", "-"]):
            assert "give only one of --db" in wrong_usage("get", *other, *here)
            assert "give only one of --db" in wrong_usage("get", *other, "--context", "test")


class TestContexts:
    def test_context(self, server: ApiServer, tmp_path: Path) -> None:
        path = tmp_path / "config"
        config = server.kubeconfig()
        cluster = {"cluster": "test", "user": "test", "namespace": "shop"}
        config["contexts"].append({"name": "in-shop", "context": cluster})
        path.write_text(yaml.safe_dump(config))
        here = ["--kubeconfig", str(path), "-o", "name"]
        assert output("get", *here) == "pod/default-1\n"
        assert output("get", "--context", "in-shop", *here).count("\n") == 3
        assert output("get", "--context", "in-shop", "-n", "default", *here).count("\n") == 1

    def test_unknown_context(
        self, here: list[str], command: Callable[..., list[str]], tmp_path: Path
    ) -> None:
        message = error(*command(), *here, "--context", "nope")
        assert message == f"{here[1]}: no context 'nope': it has test"

    def test_missing_file(self, command: Callable[..., list[str]]) -> None:
        message = error(*command(), "--kubeconfig", "/missing/config")
        assert message == "/missing/config: No such file or directory"

    def test_no_configuration_at_all(
        self,
        command: Callable[..., list[str]],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("KUBECONFIG", raising=False)
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        if command()[0] in ("watch", "mirror"):
            message = error(*command())
            assert message == "there is no kubeconfig at ~/.kube/config, and this is no pod"
        message = error(*command(), "--context", "test")
        assert message == "~/.kube/config: no such file, so no context 'test'"

    def test_list_of_files(
        self,
        here: list[str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        other = tmp_path / "other"
        other.write_text(yaml.safe_dump({"current-context": "gone", "contexts": []}))
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{here[1]}:{other}")
        assert output("get", "--context", "test", "-o", "name") == "pod/default-1\n"


class TestRefused:
    def test_unknown_resource(self, here: list[str], command: Callable[..., list[str]]) -> None:
        message = error(*command("nope"), *here)
        assert message == 'the server doesn\'t have a resource type "nope"'

    def test_nothing_listens(self, tmp_path: Path, command: Callable[..., list[str]]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        message = error(*command(), "--kubeconfig", kubeconfig(tmp_path, url))
        assert message == f"the API server at {url} refused the connection"

    def test_nothing_answers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from sqlcache.client import documents

        monkeypatch.setattr(documents, "READ_TIMEOUT_S", 0.2)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            message = error("watch", "--kubeconfig", kubeconfig(tmp_path, url))
        assert message == f"the API server at {url} does not answer"

    def test_unknown_host(self, tmp_path: Path) -> None:
        path = kubeconfig(tmp_path, "http://user:s3cr3t-t0k3n@nowhere.invalid:1")
        message = error("watch", "--kubeconfig", path)
        start = "the API server at http://nowhere.invalid:1 cannot be reached: "
        assert message.startswith(start)
        assert SECRET not in message

    def test_something_else_answers(self, tmp_path: Path, server: ApiServer) -> None:
        path = kubeconfig(tmp_path, f"{server.url}/healthz")
        assert error("watch", "--kubeconfig", path) == "HTTP 404: 404 page not found"
        path = kubeconfig(tmp_path, server.url.replace("http:", "https:"))
        assert "cannot be reached" in error("watch", "--kubeconfig", path)

    @pytest.mark.parametrize("token", [None, SECRET])
    def test_credentials(
        self,
        api_server_factory: Callable[..., ApiServer],
        tmp_path: Path,
        command: Callable[..., list[str]],
        token: str | None,
    ) -> None:
        """A wrong token, or none: nothing of it is shown."""
        server = api_server_factory(token="another")  # noqa: S106
        message = error(*command(), "--kubeconfig", kubeconfig(tmp_path, server.url, token))
        if token is None:
            assert message.startswith('forbidden: User "system:anonymous" cannot get path "/api"')
        else:
            start = f"the API server at {server.url} does not accept the credentials: "
            assert message == f"{start}Unauthorized"
        assert SECRET not in message

    def test_forbidden(
        self, server: ApiServer, here: list[str], command: Callable[..., list[str]]
    ) -> None:
        server.faults.error(403, "pods is forbidden: no\nway", resource="pods", times=None)
        assert error(*command(), *here) == "pods is forbidden: no way"

    def test_selectors_that_the_server_refuses(self, here: list[str]) -> None:
        for name in ("get", "watch"):
            message = error(name, "pods", "--field-selector", "spec.nope=1", *here)
            assert "field label not supported: spec.nope" in message
        assert "Invalid value for '-l'" in wrong_usage("watch", "-l", "(", *here)

    def test_credential_plug_in_that_fails(self, server: ApiServer, tmp_path: Path) -> None:
        """It is said why, in a line before the server's refusal."""
        config = server.kubeconfig()
        config["users"][0]["user"] = {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "/missing/plug-in",
                "interactiveMode": "Never",
            }
        }
        server.faults.error(401, "Unauthorized", times=None)
        path = tmp_path / "config"
        path.write_text(yaml.safe_dump(config))
        result = run("get", "--kubeconfig", str(path))
        warning, *again, message = result.stderr.splitlines()
        assert result.exit_code == 1
        assert warning.startswith("Warning: ")
        assert "/missing/plug-in" in warning
        assert set(again) <= {warning}  # it is asked again after the refusal
        assert message.endswith("does not accept the credentials: Unauthorized")


class TestUsage:
    def test_names_and_selectors_exclude_each_other(self) -> None:
        assert "together with -A" in wrong_usage("watch", "pods", "a", "-A")
        assert "with a selector" in wrong_usage("watch", "pods", "a", "-l", "a=b")
        assert "with a selector" in wrong_usage("watch", "pods", "a", "--field-selector", "a=b")
        assert "-o json has none" in wrong_usage("watch", "-o", "json", "--show-labels")

    def test_mirror_needs_resources_and_a_file(self) -> None:
        assert "Missing argument 'RESOURCE...'" in wrong_usage("mirror", "--db", "sqlite:///x")
        assert "Missing option '--backend'" in wrong_usage("mirror", "pods")
        assert "did you mean sqlite:///x" in wrong_usage("mirror", "pods", "--backend", "x")
        assert "a resource has a name" in wrong_usage("mirror", "", "--backend", "sqlite:///x")


@pytest.mark.parametrize("args", [["watch"], ["get", "--context", "x"]])
def test_without_the_extra(args: list[str]) -> None:
    """What to install is said in one line; everything else works."""
    script = (
        "import sys\n"
        "sys.modules['kubernetes'] = None\n"  # as Python itself marks what cannot be imported
        "from sqlcache.cli import main\n"
        "main(prog_name='sqlcache')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, *args], capture_output=True, text=True, check=False
    )
    message = "talking to a cluster needs its client: pip install 'sqlcache[kubernetes]'"
    assert (result.returncode, result.stdout, result.stderr) == (1, "", f"Error: {message}\n")


def test_unverified_tls_is_not_repeated(server: ApiServer, tmp_path: Path) -> None:
    """The warnings of urllib3 are no message for a user who has chosen that."""
    script = (
        "import warnings, sys\n"
        "from sqlcache.cli._cluster import logs_in_words\n"
        "with logs_in_words(print):\n"
        "    warnings.warn('Unverified HTTPS request is being made to host', Warning)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert (result.stdout, result.stderr) == (b"", b"")


def kubeconfig(folder: Path, url: str, token: str | None = SECRET) -> str:
    """Write a kubeconfig and return its path."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "users": [{"name": "test", "user": {} if token is None else {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path = folder / "some-config"
    path.write_text(yaml.safe_dump(config))
    return str(path)
