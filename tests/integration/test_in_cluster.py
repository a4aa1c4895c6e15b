"""`sqlcache run` as in a pod: the service account's token, the cluster's CA, a Lease by default."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlcache.testing.apiserver import ApiServer
from tests.integration.chaos import add_pod, service
from tests.integration.clusters import eventually

pytest.importorskip("kubernetes", reason="needs the extra kubernetes")
pytest.importorskip("prometheus_client", reason="needs the extra metrics")
pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")

TOKEN = "s3cr3t-t0k3n"  # noqa: S105
# A pod has its account at paths that a test cannot write to.
SCRIPT = """
import sys
from kubernetes.config import incluster_config
from sqlcache.client import kubeconfig
from sqlcache.cli import main
folder = sys.argv.pop(1)
incluster_config.SERVICE_TOKEN_FILENAME = f"{folder}/token"
incluster_config.SERVICE_CERT_FILENAME = f"{folder}/ca.crt"
kubeconfig._POD_NAMESPACE_FILE = f"{folder}/namespace"
main(prog_name="sqlcache")
"""


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """The folder of a service account, and the key of the API server beside it."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "namespace").write_text("kube-system")
    what = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x"
    files = f"-addext subjectAltName=IP:127.0.0.1 -keyout {tmp_path}/key -out {tmp_path}/ca.crt"
    subprocess.run(["openssl", *what.split(), *files.split()], check=True, capture_output=True)
    return tmp_path


@contextlib.contextmanager
def tls(port: int, account: Path) -> Iterator[int]:
    """Speak TLS in front of a port, and return where."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(account / "ca.crt", account / "key")

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, to_server), pump(from_server, writer))

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        await asyncio.to_thread(ended.wait)
        server.close()

    ports: list[int] = []
    ready, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(run()), name="tls")
    thread.start()
    assert ready.wait(30)
    try:
        yield ports[0]
    finally:
        ended.set()
        thread.join()


def test_a_pod_needs_no_options(account: Path) -> None:
    with ApiServer(token=TOKEN) as server, tls(server.port, account) as port:
        server.create("nodes", {"metadata": {"name": "n1"}})
        server.create("services", service("web"))
        add_pod(server, "a", "10.0.0.1")
        where = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}
        log = account / "log"
        with log.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-c", SCRIPT, str(account), "run", "--listen", "127.0.0.1:0"],
                env={**os.environ, **where, "HOME": str(account), "KUBECONFIG": ""},
                stderr=stderr,
            )
        try:
            eventually(
                lambda: (
                    server.count("endpoints") == server.count("endpointslices") == 1
                    or process.poll() is not None
                )
            )
            lease = server.get("leases", "sqlcache-run", "kube-system")
            assert lease["spec"]["holderIdentity"]
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, log.read_text()
        assert TOKEN not in log.read_text()
        lease = server.get("leases", "sqlcache-run", "kube-system")
        assert lease["spec"]["holderIdentity"] == ""
