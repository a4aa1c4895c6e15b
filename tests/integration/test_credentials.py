"""Credentials that change while a program runs, each way in which they can be given."""

from __future__ import annotations

import json
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from sqlcache.client import Resource
from sqlcache.clock import MonotonicClock, StopSignal
from sqlcache.errors import ApiStatusError

pytest.importorskip("kubernetes", reason="needs the extra kubernetes")
transport = pytest.importorskip("sqlcache.client.transport")
objects = pytest.importorskip("sqlcache.client.objects")

PODS = Resource("", "v1", "pods")


class Server:
    """Accepts one token at a time."""

    def __init__(self) -> None:
        server = self
        self.accepts = "Bearer first"
        self.seen: list[tuple[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 2.0  # s, for a connection that a failing test leaves open

            def do_GET(self) -> None:
                authorization = self.headers.get("authorization", "")
                server.seen.append((self.command, authorization))
                self.rfile.read(int(self.headers.get("content-length", 0)))
                ok = authorization == server.accepts
                body = {"kind": "Pod", "metadata": {"resourceVersion": "1"}, "items": []}
                status = {"kind": "Status", "reason": "Unauthorized", "code": 401}
                content = json.dumps(body if ok else status).encode()
                self.send_response(200 if ok else 401)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *args: Any) -> None:
                """Be quiet."""

        class Quiet(ThreadingHTTPServer):
            daemon_threads = False

        self._httpd = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._httpd.server_address[1]}"
        self._thread = threading.Thread(target=self._httpd.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._httpd.shutdown()
        self._thread.join()
        self._httpd.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def put(path: Path, token: str) -> None:
    path.write_text(token)


def inline(directory: Path) -> tuple[dict[str, Any], Callable[[str], None]]:
    """The kubeconfig itself is written anew."""

    def rotate(token: str) -> None:
        path = directory / "config"
        document = yaml.safe_load(path.read_text())
        document["users"][0]["user"] = {"token": token}
        path.write_text(yaml.safe_dump(document))

    return {"token": "first"}, rotate


def token_file(directory: Path) -> tuple[dict[str, Any], Callable[[str], None]]:
    path = directory / "token"
    path.write_text("first")
    return {"tokenFile": str(path)}, lambda token: put(path, token)


def plugin(directory: Path, **more: str) -> tuple[dict[str, Any], Callable[[str], None]]:
    path, program = directory / "token", directory / "plugin"
    path.write_text("first")
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "TOKEN", **more},
    }
    program.write_text(
        f"#!{sys.executable}\nfrom pathlib import Path\n"
        f"print({json.dumps(answer)!r}.replace('TOKEN', Path({str(path)!r}).read_text()))\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    run = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(program),
        "interactiveMode": "Never",
    }
    return {"exec": run}, lambda token: put(path, token)


def plugin_with_expiry(directory: Path) -> tuple[dict[str, Any], Callable[[str], None]]:
    """One whose token is revoked before the time that it names."""
    return plugin(directory, expirationTimestamp="2999-01-01T00:00:00Z")


WAYS = [inline, token_file, plugin, plugin_with_expiry]


def connected(directory: Path, server: Server, way: Any) -> tuple[Any, Callable[[str], None]]:
    user, rotate = way(directory)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server.url}}],
        "users": [{"name": "a", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }
    path = directory / "config"
    path.write_text(yaml.safe_dump(document))
    return transport.connect(str(path)), rotate


def list_with(list_watch: Any) -> Any:
    stop = StopSignal(MonotonicClock())
    return list_watch.list_page(resource_version="", limit=0, continue_token="", stop=stop)


@pytest.mark.parametrize("way", WAYS)
def test_rotated_credentials_are_read_again(tmp_path: Path, server: Server, way: Any) -> None:
    """A cache that runs for weeks must not freeze because its first token was revoked."""
    client, rotate = connected(tmp_path, server, way)
    before = transport.ApiListWatch(client, PODS)
    assert list_with(before)["items"] == []
    for token in ("second", "third"):
        rotate(token)
        server.accepts = f"Bearer {token}"
        after = transport.ApiListWatch(client, PODS)
        api = objects.ApiObjects(client)
        for each in (before, after):
            assert list_with(each)["items"] == []
        assert api.create(PODS, "shop", {"metadata": {"name": "a"}})["kind"] == "Pod"
        after.close()
        api.close()
    before.close()
    # Each rotation cost one refused request, whatever the number of connections.
    assert len(server.seen) == 1 + 2 * (1 + 3)


@pytest.mark.parametrize("way", WAYS)
def test_credentials_that_stay_refused_are_told(tmp_path: Path, server: Server, way: Any) -> None:
    client, _ = connected(tmp_path, server, way)
    server.accepts = "Bearer never"
    pods = transport.ApiListWatch(client, PODS)
    for number in (1, 2):
        with pytest.raises(ApiStatusError) as caught:
            list_with(pods)
        assert caught.value.code == 401
        assert len(server.seen) == number  # what did not change is not sent again
    pods.close()


def test_kubeconfig_that_cannot_be_read_again_is_told_without_secrets(
    tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    client, _ = connected(tmp_path, server, token_file)
    server.accepts = "Bearer never"
    (tmp_path / "config").write_text("users: [first")
    pods = transport.ApiListWatch(client, PODS)
    with pytest.raises(ApiStatusError):
        list_with(pods)
    pods.close()
    assert caplog.messages == ["credentials cannot be read again: KubeConfigError"]
