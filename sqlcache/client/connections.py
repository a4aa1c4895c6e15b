"""Requests to one API server, on the connections of the official `kubernetes` package.

Configuration, credentials (exec plug-ins, rotated tokens, client certificates), proxies and TLS are
that package's; what it does not renew by itself, client.credentials does. Its connection pool class
is used as well, but with connections that can be cut from another thread.

Elsewhere: what is asked (client.transport for lists and watches, client.objects for single ones).
Source: client-go rest/request.go, rest/client.go.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import orjson

from sqlcache.errors import (
    ApiConnectionError,
    ApiConnectionRefusedError,
    ApiDecodeError,
    ApiStatusError,
    ApiTimeoutError,
    KubeConfigError,
    shown,
)

try:
    import kubernetes
    import urllib3

    from sqlcache.client.credentials import Credentials
    from sqlcache.client.kubeconfig import choose_context, searched
except ImportError as error:
    raise ImportError(
        "sqlcache.client needs, to reach an API server: pip install 'sqlcache[kubernetes]'"
    ) from error

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 60.0  # the API server's own limit of a request that is no watch
CUT_ERRORS = (urllib3.exceptions.HTTPError, OSError)  # of a request, or while a body is read
_UNAUTHORIZED = 401


def connect(kubeconfig: str | None = None, context: str | None = None) -> Any:
    """Return a `kubernetes.client.ApiClient`, as kubectl would connect.

    Args:
        kubeconfig: path; default: those in the variable KUBECONFIG, else ~/.kube/config, else the
            service account of the pod that this runs in.
        context: name of a context in it; default: the current one.

    Raises:
        KubeConfigError: there is no usable configuration.
    """
    configuration = _configuration(kubeconfig, context)
    Credentials(lambda: _configuration(kubeconfig, context), configuration)
    return kubernetes.client.ApiClient(configuration)


def _configuration(kubeconfig: str | None, context: str | None) -> Any:
    configuration = kubernetes.client.Configuration()
    chosen = choose_context(kubeconfig, context)
    where = os.pathsep.join(chosen.files) if chosen else ""
    try:
        if chosen:
            kubernetes.config.load_kube_config(
                config_file=where, context=chosen.name, client_configuration=configuration
            )
        else:
            kubernetes.config.load_incluster_config(client_configuration=configuration)
    except kubernetes.config.ConfigException as error:
        # Not chained, and cut: what these texts end with may be a user with his token.
        missing = f"there is no kubeconfig at {searched()}, and this is no pod"
        reason = str(error).partition(" in ")[0] if chosen else missing
        raise KubeConfigError(where, reason) from None
    except Exception as error:  # noqa: BLE001 - a file can hold anything, and nobody checks it
        raise KubeConfigError(where, f"cannot be used: {type(error).__name__}") from None
    return configuration


class Connections:
    """The connections of one client. Every method may be called from any thread."""

    def __init__(self, client: Any) -> None:
        """Make connections as they are needed.

        Args:
            client: a `kubernetes.client.ApiClient`, for instance from `connect`.
        """
        self._client, self._configuration = client, client.configuration
        self._host = _with_scheme(self._configuration)
        self._pools = _pools(self._configuration)
        hook = self._configuration.refresh_api_key_hook
        self._renewable = hook if isinstance(hook, Credentials) else None

    def request(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        *,
        connect_timeout_s: float,
        read_timeout_s: float,
        call: Call,
        content: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Any:
        """Send a request and return the response, its status and headers read but not its body.

        One that is refused with 401 is sent once more if there are newer credentials by then.

        Args:
            method: such as "GET".
            path: of the URL, quoted.
            query: its parameters.
            connect_timeout_s: limit for a connection to be made.
            read_timeout_s: limit for silence of the server.
            call: learns the socket, so that it can cut it.
            content: of the request; None for none.
            content_type: its media type.
            accept: media types of the answer, the best first.

        Raises:
            ApiStatusError: the server answered with a status of 400 or above.
            ApiConnectionError: the server was not reached or fell silent; see its subclasses.
        """
        headers = {**self._client.default_headers, "Accept": accept}
        if content is not None:
            headers["Content-Type"] = content_type
        url = f"{self._host}{path}?{urlencode(query)}" if query else f"{self._host}{path}"
        timeout = urllib3.Timeout(connect=connect_timeout_s, read=read_timeout_s)
        seen = self._renewable.generation if self._renewable else 0
        response = self._send(method, url, headers, content, timeout, call)
        if response.status == _UNAUTHORIZED:
            refused = _status_error(response, body_of(response))
            call.over()
            self.close()  # a connection keeps the certificate that it was made with
            if not self._renewable or not self._renewable.newer_than(seen, self._configuration):
                raise refused
            self._pools = _pools(self._configuration)
            response = self._send(method, url, headers, content, timeout, call)
        if response.status >= 400:
            raise _status_error(response, body_of(response))
        return response

    def _send(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        content: bytes | None,
        timeout: Any,
        call: Call,
    ) -> Any:
        for setting in self._configuration.auth_settings().values():  # refreshes rotated tokens
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = _sendable(setting["value"])
        _CALLS.current = call
        try:
            return self._pools.request(
                method,
                url,
                body=content,
                headers=headers,
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except CUT_ERRORS as error:
            call.over()
            raise connection_error(error) from error
        except BaseException:
            call.over()
            raise
        finally:
            _CALLS.current = None

    def close(self) -> None:
        """Close the connections that are not in use."""
        # clear() alone leaves them open until nothing refers to a pool, not even a traceback.
        for key in self._pools.pools.keys():  # noqa: SIM118 - it cannot be iterated
            pool = self._pools.pools.get(key)
            if pool is not None:
                pool.close()
        self._pools.clear()


def body_of(response: Any) -> bytes:
    """Return the body of a response, and its connection to the pool.

    Raises:
        ApiConnectionError: the connection broke; see its subclasses.
    """
    try:
        body: bytes = response.read()
    except CUT_ERRORS as error:
        raise connection_error(error) from error
    finally:
        response.release_conn()
    return body


def decoded(body: bytes) -> Any:
    """Return what a body means.

    Raises:
        ApiDecodeError: it is no JSON.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        start = shown(repr(body[:200]))
        raise ApiDecodeError(f"the API server sent no JSON: {error}: {start}") from error


class Call:
    """One request, so that another thread can cut its connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._copied = False  # the socket is ours to close
        self._cut = False

    def uses(self, connected: socket.socket | None, *, copied: bool = False) -> None:
        """Take note of the socket, and cut it if that was asked for.

        Args:
            connected: the socket, or one that is being connected.
            copied: it is a copy, to be closed when it is no longer needed.
        """
        with self._lock:
            self._let_go()
            self._socket, self._copied = connected, copied
            if self._cut:
                _shut(connected)

    def cut(self) -> None:
        """Make whoever reads or writes see the end. From any thread; twice is harmless."""
        with self._lock:
            self._cut = True
            _shut(self._socket)

    def over(self) -> None:
        """Forget the socket: it may serve somebody else now."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        if self._socket is not None and self._copied:
            self._socket.close()
        self._socket, self._copied = None, False


class _CallOfThread(threading.local):
    current: Call | None = None


_CALLS = _CallOfThread()
_RESET = struct.pack("ii", 1, 0)  # struct linger: on, 0 s; see socket(7)


def _shut(connected: socket.socket | None) -> None:
    if connected is not None:
        with suppress(OSError):  # the other side was faster
            # With a reset when it is closed. After a mere end, a server whose answer did not fit
            # the buffers would wait minutes for them to become empty.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            # Not the method of an SSLSocket, which drops what the reading thread still uses.
            socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _connected(
    host: str,
    port: int,
    timeout_s: float | None,
    options: Iterable[tuple[int, int, int | bytes]] | None,
    call: Call | None,
) -> socket.socket:
    """Return a socket that is connected to the first address of a host that answers."""
    failure: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM
    ):
        connected = socket.socket(family, kind, protocol)
        try:
            for option in options or ():
                connected.setsockopt(*option)
            connected.setblocking(False)
            state = connected.connect_ex(address)
            if call is not None:  # not before: what is not under way cannot be cut
                call.uses(connected.dup(), copied=True)
            if state == errno.EINPROGRESS:
                if not urllib3.util.wait_for_write(connected, timeout_s):
                    raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
                state = connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if state:
                raise OSError(state, os.strerror(state))
            connected.settimeout(timeout_s)
        except OSError as error:
            connected.close()
            failure = error
        except BaseException:
            connected.close()
            raise
        else:
            return connected
    raise failure or OSError(f"{host} has no address")


class _Tracked:
    """Tells the thread's call which socket serves it."""

    sock: socket.socket | None
    host: str
    port: int
    timeout: float | None
    socket_options: Iterable[tuple[int, int, int | bytes]] | None
    _dns_host: str

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        self._tell()

    def _new_conn(self) -> socket.socket:
        """Connect as urllib3 does, but tell of the socket before that is done.

        The call has a copy, since a TLS handshake takes the socket itself away.
        """
        call = _CALLS.current
        try:
            return _connected(self._dns_host, self.port, self.timeout, self.socket_options, call)
        except TimeoutError as error:
            raise urllib3.exceptions.ConnectTimeoutError(
                self, f"{self.host} did not answer within {self.timeout} s"
            ) from error
        except OSError as error:
            raise urllib3.exceptions.NewConnectionError(self, str(error)) from error

    def request(self, *args: Any, **options: Any) -> None:
        self._tell()
        super().request(*args, **options)  # type: ignore[misc]

    def _tell(self) -> None:
        call = _CALLS.current
        if call is not None:
            call.uses(self.sock)


class _HTTPConnection(_Tracked, urllib3.connection.HTTPConnection):  # type: ignore[misc]
    pass


class _HTTPSConnection(_Tracked, urllib3.connection.HTTPSConnection):  # type: ignore[misc]
    pass


class _HTTPPool(urllib3.HTTPConnectionPool):  # type: ignore[misc]
    ConnectionCls = _HTTPConnection


class _HTTPSPool(urllib3.HTTPSConnectionPool):  # type: ignore[misc]
    ConnectionCls = _HTTPSConnection


def _pools(configuration: Any) -> Any:
    """Return a pool manager as the `kubernetes` package sets it up, with tracked connections."""
    pools = kubernetes.client.ApiClient(configuration).rest_client.pool_manager
    if type(pools) in (urllib3.PoolManager, urllib3.ProxyManager):  # not over SOCKS
        pools.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}
    return pools


def _sendable(credentials: str) -> str:
    """Return credentials as a header can hold them: without the line break that ends many a file.

    Raises:
        ApiConnectionError: no header can hold them. What `http.client` raises would quote them.
    """
    stripped = credentials.strip()
    if any(char in "\r\n\0" or char > "\xff" for char in stripped):
        raise ApiConnectionError("the credentials have characters that no HTTP header can hold")
    return stripped


def _with_scheme(configuration: Any) -> str:
    """Return the server's address; without a scheme it is https if anything of TLS is configured.

    Source: client-go rest/url_utils.go, DefaultServerURL.
    """
    host: str = configuration.host.rstrip("/")
    if "://" in host:
        return host
    tls = configuration.ssl_ca_cert or configuration.cert_file or not configuration.verify_ssl
    return f"https://{host}" if tls else f"http://{host}"


def _status_error(response: Any, body: bytes) -> ApiStatusError:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = None
    wait = response.headers.get("Retry-After", "")
    retry_after = float(wait) if wait.isdecimal() else None
    if isinstance(status, dict) and status.get("kind") == "Status":
        if not status.get("code") or not isinstance(status["code"], int):
            status["code"] = response.status
        return ApiStatusError.from_status(status, retry_after)
    text = body[:200].decode(errors="replace").strip() or str(response.reason or "")
    return ApiStatusError(response.status, "", f"HTTP {response.status}: {text}", None, retry_after)


def connection_error(error: Exception) -> ApiConnectionError:
    """Return our error for one of urllib3 or of the socket."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ConnectionRefusedError):
        cause = cause.__cause__ or cause.__context__
    if cause is not None:
        return ApiConnectionRefusedError(str(error))
    # To urllib3 also a name that leads nowhere is a timeout.
    unreachable = isinstance(error, urllib3.exceptions.NewConnectionError)
    late = isinstance(error, urllib3.exceptions.TimeoutError | TimeoutError) and not unreachable
    return (ApiTimeoutError if late else ApiConnectionError)(str(error))
