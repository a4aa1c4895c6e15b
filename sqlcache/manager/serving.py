"""/healthz, /readyz and /metrics over HTTP, for the kubelet and for Prometheus.

Promises
- `GET /healthz` and `/readyz` answer 200 `ok`, or 500 and a line for each check; with `?verbose`
  the lines in any case. A check takes no time and asks nobody.
- It listens where it is told to, and nothing can be changed through it.

Source: apiserver pkg/server/healthz healthz.go.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias
from urllib.parse import parse_qs, urlsplit

Check: TypeAlias = Callable[[], str]
"""Returns what is wrong, "" if all is well."""

_SILENCE_S = 10.0  # a client that says nothing for so long is let go
_TEXT = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    """What a path answers.

    Attributes:
        status: of HTTP.
        content_type: of the body.
        body: bytes.
    """

    status: int
    content_type: str
    body: bytes


class HttpEndpoints:
    """Serves while it is used as a context manager."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        healthz: Mapping[str, Check],
        readyz: Mapping[str, Check],
        metrics: Callable[[], tuple[str, bytes]] | None = None,
    ) -> None:
        """Take the address; requests are answered inside the `with`.

        Args:
            host: address or name; 0.0.0.0 or :: for all of this machine's.
            port: 0 takes a free one.
            healthz: checks by name: whether to kill this process.
            readyz: checks by name: whether it does its work, or could.
            metrics: returns a content type and what Prometheus reads.

        Raises:
            OSError: the address cannot be taken.
        """
        paths: dict[str, Callable[[bool], Answer]] = {
            "/healthz": lambda verbose: _checked("healthz", healthz, verbose),
            "/readyz": lambda verbose: _checked("readyz", readyz, verbose),
        }
        if metrics is not None:
            paths["/metrics"] = lambda verbose: Answer(HTTPStatus.OK, *metrics())
        handler = type("Handler", (_Handler,), {"paths": paths})
        family = AF_INET6 if ":" in host else AF_INET
        server = type("Server", (_Server,), {"address_family": family})
        try:
            self._server = server((host, port), handler)
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="http", daemon=True
        )

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        host, port = self._server.server_address[:2]
        return f"http://[{host}]:{port}" if ":" in str(host) else f"http://{host}:{port}"

    def __enter__(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop, and close the connections."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # those of slow clients end by themselves

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client went away in the middle of its request or our answer."""


class _Handler(BaseHTTPRequestHandler):
    paths: ClassVar[Mapping[str, Callable[[bool], Answer]]] = {}
    timeout = _SILENCE_S
    server_version, sys_version = "sqlcache", ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name is given
        """Log nothing: probes come every few seconds."""

    def _answer(self, *, with_body: bool) -> None:
        url = urlsplit(self.path)
        answer = self.paths.get(url.path)
        if answer is None:
            found = Answer(HTTPStatus.NOT_FOUND, _TEXT, b"not found\n")
        else:
            found = answer("verbose" in parse_qs(url.query, keep_blank_values=True))
        self.send_response(found.status)
        self.send_header("Content-Type", found.content_type)
        self.send_header("Content-Length", str(len(found.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if with_body:
            self.wfile.write(found.body)


def _checked(name: str, checks: Mapping[str, Check], verbose: bool) -> Answer:
    wrong = {check: ask() for check, ask in checks.items()}
    lines = [
        f"[-]{check} failed: {reason}\n" if reason else f"[+]{check} ok\n"
        for check, reason in wrong.items()
    ]
    if any(wrong.values()):
        text, status = "".join([*lines, f"{name} check failed\n"]), HTTPStatus.INTERNAL_SERVER_ERROR
    else:
        text = "".join([*lines, f"{name} check passed\n"]) if verbose else "ok"
        status = HTTPStatus.OK
    return Answer(status, _TEXT, text.encode())
