"""`sqlcache watch` as a process, against an API server over HTTP."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqlcache.testing.apiserver import ApiServer, custom_resource
from tests.integration.command import Result
from tests.integration.following import LONG_S, Following, following, new_pod

pytest.importorskip("kubernetes", reason="needs the extra kubernetes")

pytest_plugins = ["sqlcache.testing.pytest_plugin"]

SOON_S = 5.0  # an end takes less than a second; on a busy machine more


@pytest.fixture
def server(api_server: ApiServer) -> ApiServer:
    for name in ("web-2", "web-1", "web-10"):
        api_server.create("pods", new_pod(name, app="web"))
    api_server.create("pods", new_pod("api-1", app="api"))
    api_server.create("pods", new_pod("web-1", "other", app="web"))
    return api_server


@pytest.fixture
def watch(server: ApiServer, api_server_kubeconfig: Path) -> Callable[..., Any]:
    return lambda *args: following("watch", *args, kubeconfig=api_server_kubeconfig)


def cells(lines: list[str]) -> list[list[str]]:
    """Return the cells of lines without their ages, which depend on the moment."""
    return [line.split()[:-1] for line in lines]


class TestTable:
    def test_rows_are_added_as_kubectl_adds_them(
        self, server: ApiServer, watch: Callable[..., Any]
    ) -> None:
        with watch("pods", "-l", "app=web", "-n", "shop") as running:
            lines = running.wait_for_lines(4)
            assert lines[0] == "NAME     READY   STATUS    RESTARTS   AGE"
            assert cells(lines[1:]) == [
                [name, "0/1", "Pending", "0"] for name in ("web-1", "web-10", "web-2")
            ]
            server.create("pods", new_pod("web-1", "third", app="web"))
            server.create("pods", new_pod("a-much-longer-name", app="web"))
            server.patch(
                "pods", "web-2", {"status": {"phase": "Failed"}}, "shop", subresource="status"
            )
            server.delete("pods", "web-1", "shop")
            lines = running.wait_for_lines(8)
            assert cells(lines[4:]) == [
                ["a-much-longer-name", "0/1", "Pending", "0"],
                ["web-2", "0/1", "Failed", "0"],
                ["web-1", "0/1", "Terminating", "0"],  # it changes, then it is gone
                ["web-1", "0/1", "Terminating", "0"],
            ]
            widths = {line.index("0/1") for line in lines[4:]}
            assert widths == {len("a-much-longer-name   ")}, "the column stays as wide as it was"
            assert running.stderr == ""

    def test_selector_holds_for_the_list_and_for_the_watch(
        self, server: ApiServer, watch: Callable[..., Any]
    ) -> None:
        with watch("po", "-A", "-l", "app=web", "--output-watch-events") as running:
            lines = running.wait_for_lines(5)
            assert lines[0] == "EVENT      NAMESPACE   NAME     READY   STATUS    RESTARTS   AGE"
            server.create("pods", new_pod("api-2", app="api"))
            server.patch("pods", "api-1", {"metadata": {"labels": {"app": "web"}}}, "shop")
            server.patch("pods", "web-2", {"metadata": {"labels": {"app": "api"}}}, "shop")
            server.create("pods", new_pod("web-3", app="web"))
            lines = running.wait_for_lines(8)
            assert [line.split()[:3] for line in lines[1:]] == [
                ["ADDED", "other", "web-1"],
                ["ADDED", "shop", "web-1"],
                ["ADDED", "shop", "web-10"],
                ["ADDED", "shop", "web-2"],
                ["ADDED", "shop", "api-1"],
                ["DELETED", "shop", "web-2"],
                ["ADDED", "shop", "web-3"],
            ]
        for request in server.requests:
            if request.resource == "pods":
                assert request.query["labelSelector"] == "app=web"

    def test_namespace_of_the_context(
        self, server: ApiServer, tmp_path: Path, watch: Callable[..., Any]
    ) -> None:
        config = server.kubeconfig()
        config["contexts"][0]["context"]["namespace"] = "other"
        path = tmp_path / "other"
        path.write_text(json.dumps(config))
        with watch("--kubeconfig", str(path), "--no-headers") as running:
            assert cells(running.wait_for_lines(1)) == [["web-1", "0/1", "Pending", "0"]]

    def test_one_object(self, server: ApiServer, watch: Callable[..., Any]) -> None:
        with watch("pod", "web-1", "-n", "shop", "-L", "app", "--show-labels", "-o", "wide") as one:
            lines = one.wait_for_lines(2)
            assert lines[0].split()[-2:] == ["APP", "LABELS"]
            assert lines[1].split()[-2:] == ["web", "app=web"]
            server.patch("pods", "web-10", {"metadata": {"labels": {"x": "y"}}}, "shop")
            server.patch("pods", "web-1", {"metadata": {"labels": {"x": "y"}}}, "shop")
            assert one.wait_for_lines(3)[2].startswith("web-1 ")

    def test_one_object_that_is_not_there(self, watch: Callable[..., Any]) -> None:
        with watch("pod", "web-3", "-n", "shop") as running:
            assert running.finish() == (1, "", 'Error: pods "web-3" not found\n')

    def test_nothing_is_there_yet(self, server: ApiServer, watch: Callable[..., Any]) -> None:
        with watch("leases.coordination.k8s.io", "-n", "shop") as running:
            while not server.watch_count("leases"):
                time.sleep(0.01)
            assert running.stdout == ""
            server.create("leases", {"metadata": {"name": "l", "namespace": "shop"}})
            assert running.wait_for_lines(2)[0] == "NAME   AGE"


class TestJson:
    def test_a_line_for_each_event(self, server: ApiServer, watch: Callable[..., Any]) -> None:
        managed = [{"manager": "m", "operation": "Update"}]
        server.load(
            "pods", [{"metadata": {"name": "m", "namespace": "x", "managedFields": managed}}]
        )
        with watch("pods", "-n", "x", "--output", "json") as running:
            running.wait_for_lines(1)
            made = server.create("pods", new_pod("a-b", "x"))
            server.patch("pods", "a-b", {"metadata": {"annotations": {"t": "a\nb\u2028"}}}, "x")
            server.delete("pods", "a-b", "x")
            events = [json.loads(line) for line in running.wait_for_lines(5)]
        types = [event["type"] for event in events]
        assert types == ["ADDED", "ADDED", "MODIFIED", "MODIFIED", "DELETED"]
        assert "managedFields" not in events[0]["object"]["metadata"], "as kubectl shows it"
        assert events[0]["object"]["kind"] == "Pod"
        assert events[1]["object"] == made
        assert events[4]["object"]["metadata"]["annotations"] == {"t": "a\nb\u2028"}

    def test_custom_resources_by_their_short_name(
        self, server: ApiServer, watch: Callable[..., Any]
    ) -> None:
        server.register(custom_resource("widgets", "Widget", "example.com", short_names=["wd"]))
        server.create("widgets", {"metadata": {"name": "w"}, "spec": {"any": [1.5]}})
        with watch("wd", "-o", "json") as running:
            event = json.loads(running.wait_for_lines(1)[0])
        assert event["object"]["spec"] == {"any": [1.5]}


class TestTrouble:
    def test_what_happened_while_the_server_was_away_is_made_up(
        self, server: ApiServer, watch: Callable[..., Any]
    ) -> None:
        """And it is said once that it is away, however often it is tried."""
        with watch("pods", "-n", "shop", "--output-watch-events") as running:
            running.wait_for_lines(5)
            with server.refusing():
                server.delete("pods", "web-1", "shop")
                server.create("pods", new_pod("web-3"))
                server.compact()  # so that the watch cannot go on, but has to list
                running.wait_for("refused the connection", stream="stderr")
                time.sleep(2)
            running.wait_for("In contact with the API server again after", stream="stderr")
            lines = running.wait_for_lines(7)
            seen = {tuple(line.split()[:2]) for line in lines[5:]}
            assert seen == {("DELETED", "web-1"), ("ADDED", "web-3")}
            warning, again = running.stderr.splitlines()
            url = server.url
            assert (
                warning == f"Warning: the API server at {url} refused the connection; trying again"
            )
            assert again.startswith("In contact")

    def test_history_that_is_forgotten(self, server: ApiServer, watch: Callable[..., Any]) -> None:
        with watch("pods", "-n", "shop", "--output-watch-events") as running:
            running.wait_for_lines(5)
            server.faults.error_event(410, verb="watch", resource="pods")
            server.cut_watches("pods")
            server.delete("pods", "web-2", "shop")
            lines = running.wait_for_lines(6)
            assert lines[5].split()[:2] == ["DELETED", "web-2"]
            assert len(running.stdout.splitlines()) == 6, "what is unchanged is not shown again"
            assert running.stderr == ""

    def test_resource_that_is_gone_for_a_while(
        self, server: ApiServer, watch: Callable[..., Any]
    ) -> None:
        """As when a definition of custom resources is made anew."""
        with watch("pods", "-n", "shop") as running:
            running.wait_for_lines(5)
            message = "the server could not find the requested resource"
            with server.faults.error(404, message, resource="pods", times=None):
                server.cut_watches("pods")
                running.wait_for(f"Warning: pods: {message}; trying again\n", stream="stderr")
                time.sleep(1)
            running.wait_for("In contact", stream="stderr")
            server.create("pods", new_pod("web-3"))
            running.wait_for("web-3")
            assert running.stderr.count("\n") == 2

    def test_watch_that_is_forbidden(self, server: ApiServer, watch: Callable[..., Any]) -> None:
        server.faults.forbid(verb="watch", resource="pods", times=None)
        with watch("pods", "-n", "shop") as running:
            result = running.finish()
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ")
        assert "forbidden" in result.stderr
        assert result.stderr.count("\n") == 1


class TestEnd:
    @pytest.mark.parametrize(
        ("signum", "exit_code", "message"),
        [(signal.SIGINT, 130, "Interrupted\n"), (signal.SIGTERM, 143, "Terminated\n")],
    )
    def test_signal(
        self,
        server: ApiServer,
        watch: Callable[..., Any],
        signum: signal.Signals,
        exit_code: int,
        message: str,
    ) -> None:
        with watch("pods", "-n", "shop") as running:
            running.wait_for_lines(5)
            started = time.monotonic()
            result = running.end(signum)
            assert time.monotonic() - started < SOON_S
            assert (result.exit_code, result.stderr) == (exit_code, message)
        deadline = time.monotonic() + LONG_S
        while server.watch_count("pods"):
            assert time.monotonic() < deadline, "its connection is closed"
            time.sleep(0.01)

    def test_signal_while_the_server_is_silent(
        self, server: ApiServer, watch: Callable[..., Any]
    ) -> None:
        server.faults.stall(verb="list", resource="pods", times=None)
        with watch("pods", "-n", "shop") as running:
            while not any(each.resource == "pods" for each in server.requests):
                time.sleep(0.01)
            assert ended_soon(running) == (130, "", "Interrupted\n")

    def test_signal_while_it_waits_to_try_again(
        self, server: ApiServer, watch: Callable[..., Any]
    ) -> None:
        with watch("pods", "-n", "shop") as running:
            running.wait_for_lines(5)
            with server.refusing():
                running.wait_for("trying again", stream="stderr")
                assert ended_soon(running).exit_code == 130

    @pytest.mark.parametrize("changes", [True, False])
    def test_reader_goes_away(
        self, server: ApiServer, api_server_kubeconfig: Path, changes: bool
    ) -> None:
        """As in `sqlcache watch pods | head -1`; also when nothing more happens."""
        process = subprocess.Popen(
            [sys.executable, "-m", "sqlcache", "watch", "pods", "-n", "shop"],
            env={**os.environ, "KUBECONFIG": str(api_server_kubeconfig)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert select.select([process.stdout], [], [], LONG_S)[0]
            process.stdout.readline()
            process.stdout.close()
            if changes:
                server.create("pods", new_pod("web-3"))
            assert process.wait(LONG_S) == 141
            assert process.stderr.read() == b""
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def test_output_that_cannot_be_written(
        self, server: ApiServer, api_server_kubeconfig: Path
    ) -> None:
        with open("/dev/full", "wb") as full:
            result = subprocess.run(
                [sys.executable, "-m", "sqlcache", "watch", "pods", "-n", "shop"],
                env={**os.environ, "KUBECONFIG": str(api_server_kubeconfig)},
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=LONG_S,
                check=False,
            )
        message = b"Error: standard output: No space left on device\n"
        assert (result.returncode, result.stderr) == (1, message)


def ended_soon(running: Following) -> Result:
    started = time.monotonic()
    result = running.end()
    assert time.monotonic() - started < SOON_S
    return result
