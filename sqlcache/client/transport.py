"""The ListWatch for real API servers, on the official `kubernetes` package (extra `kubernetes`).

    client = connect(context="prod")  # kubeconfig, or the pod's service account
    pods = ApiListWatch(client, Resource("", "v1", "pods"), namespace="shop", label_selector="app")

Configuration, credentials (exec plug-ins, rotated tokens, client certificates), proxies and TLS are
that package's. Its connection pool class is used as well, but with connections that can be cut from
another thread, and its models are not: bodies are read raw and decoded by orjson, at a fifth of the
time and a third of the memory; long lists object by object while they come.

Promises
- Every wait on the network has a limit: to connect, between two bytes of a list, between two bytes
  of a watch. A server that falls silent with its socket open costs at most `watch_silence_s`.
- A stop signal, or `close` of a watch, cuts the connection at once, whatever is blocked on it;
  while it is still being made, within `connect_timeout_s`.
- Label and field selector are sent with lists and watches alike.

Elsewhere: retries and back-off (sqlcache.informer.reflector).
Source: client-go rest/request.go; https://kubernetes.io/docs/reference/using-api/api-concepts/.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import orjson

from sqlcache.client.api import Event, Page
from sqlcache.clock import StopSignal
from sqlcache.dumps._documents import Array, Mapping
from sqlcache.dumps._json import JsonText
from sqlcache.errors import (
    ApiConnectionError,
    ApiConnectionRefusedError,
    ApiDecodeError,
    ApiStatusError,
    ApiTimeoutError,
    DumpError,
    KubeConfigError,
    shown,
)

try:
    import kubernetes
    import urllib3

    from sqlcache.client.kubeconfig import choose_context
except ImportError as error:
    raise ImportError(
        "sqlcache.client.transport needs: pip install 'sqlcache[kubernetes]'"
    ) from error

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 60.0  # the API server's own limit of a list request
# The server sends a BOOKMARK about every minute. Where it sends none, a quiet watch is opened anew
# this often, which costs one request and misses nothing.
WATCH_SILENCE_S = 120.0
WHOLE_BYTES = 4 << 20  # a list up to this is decoded in one call: some 10 ms
_CHUNK_BYTES = 1 << 16


class Resource(NamedTuple):
    """Names a resource, such as ("apps", "v1", "deployments").

    Attributes:
        group: API group; "" for the core.
        version: its version.
        plural: lower-case plural name, as in URLs.
    """

    group: str
    version: str
    plural: str

    def path(self, namespace: str = "") -> str:
        """Return the path of a list; all namespaces, or cluster-scoped, if namespace is ""."""
        root = f"/apis/{quote(self.group)}" if self.group else "/api"
        inside = f"/namespaces/{quote(namespace)}" if namespace else ""
        return f"{root}/{quote(self.version)}{inside}/{quote(self.plural)}"


def connect(kubeconfig: str | None = None, context: str | None = None) -> Any:
    """Return a `kubernetes.client.ApiClient`, as kubectl would connect.

    Args:
        kubeconfig: path; default: those in the variable KUBECONFIG, else ~/.kube/config, else the
            service account of the pod that this runs in.
        context: name of a context in it; default: the current one.

    Raises:
        KubeConfigError: there is no usable configuration.
    """
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
        reason = str(error).partition(" in ")[0] if chosen else "there is no kubeconfig"
        raise KubeConfigError(where, reason) from None
    except Exception as error:  # noqa: BLE001 - a file can hold anything, and nobody checks it
        raise KubeConfigError(where, f"cannot be used: {type(error).__name__}") from None
    return kubernetes.client.ApiClient(configuration)


class ApiDocuments:
    """Reads single documents of an API server, such as those of discovery."""

    def __init__(self, client: Any) -> None:
        """Make a reader that keeps its own connections; `close` frees them.

        Args:
            client: a `kubernetes.client.ApiClient`, for instance from `connect`.
        """
        self._requests = _Requests(client)
        self._timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S)

    def get(self, path: str, accept: str = "application/json") -> Any:
        """Return what is at a path, decoded.

        Args:
            path: such as "/apis".
            accept: media types, the best first; all of them JSON.

        Raises:
            ApiStatusError, OSError, ApiDecodeError: as those of a `ListWatch`.
        """
        call = _Call()
        try:
            response = self._requests.get(self._requests.url(path), {}, self._timeout, call, accept)
            body = _body(response)
        finally:
            call.over()
        if response.status >= 400:
            raise _status_error(response, body)
        return _decoded(body)

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._requests.close()


class ApiListWatch:
    """Lists and watches one resource of an API server; see `sqlcache.client.ListWatch`.

    It may be used by several threads. It keeps its own connections; `close` frees the idle ones.
    """

    supports_watch_list = True

    def __init__(
        self,
        client: Any,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        read_timeout_s: float = READ_TIMEOUT_S,
        watch_silence_s: float = WATCH_SILENCE_S,
    ) -> None:
        """Make a ListWatch.

        Args:
            client: a `kubernetes.client.ApiClient`, for instance from `connect`.
            resource: what to list.
            namespace: "" for all, and for cluster-scoped resources.
            label_selector: in the API's own syntax; the server selects.
            field_selector: likewise.
            connect_timeout_s: limit for a connection to be made.
            read_timeout_s: limit for silence of the server during a list.
            watch_silence_s: limit for silence of the server during a watch.
        """
        self._requests = _Requests(client)
        self._url = self._requests.url(resource.path(namespace))
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._selectors = {name: text for name, text in selectors.items() if text}
        self._list_timeout = urllib3.Timeout(connect=connect_timeout_s, read=read_timeout_s)
        self._watch_timeout = urllib3.Timeout(connect=connect_timeout_s, read=watch_silence_s)

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._requests.close()

    def list_page(
        self, *, resource_version: str, limit: int, continue_token: str, stop: StopSignal
    ) -> Page:
        """Return one page of a list. See `ListWatch.list_page`."""
        query = {**self._selectors}
        if resource_version:
            query["resourceVersion"] = resource_version
        if limit:
            query["limit"] = str(limit)
        if continue_token:
            query["continue"] = continue_token
        call = _Call()
        forget = stop.call(call.cut)
        try:
            response = self._requests.get(self._url, query, self._list_timeout, call)
            if response.status >= 400:
                raise _status_error(response, _body(response))
            page = _page(response)
        finally:
            forget()
            call.over()
        if not isinstance(page, dict):
            raise ApiDecodeError(f"the API server sent no list: {shown(page)}")
        return page

    def watch(
        self,
        *,
        resource_version: str,
        resource_version_match: str,
        send_initial_events: bool,
        allow_watch_bookmarks: bool,
        timeout_seconds: int,
        stop: StopSignal,
    ) -> ApiWatch:
        """Open a watch. See `ListWatch.watch`."""
        query = {**self._selectors, "watch": "true", "timeoutSeconds": str(timeout_seconds)}
        if resource_version:
            query["resourceVersion"] = resource_version
        if resource_version_match:
            query["resourceVersionMatch"] = resource_version_match
        if send_initial_events:
            query["sendInitialEvents"] = "true"
        if allow_watch_bookmarks:
            query["allowWatchBookmarks"] = "true"
        call = _Call()
        forget = stop.call(call.cut)
        try:
            response = self._requests.get(self._url, query, self._watch_timeout, call)
            if response.status >= 400:
                raise _status_error(response, _body(response))
        finally:
            forget()
        return ApiWatch(response, call)


class ApiWatch:
    """A watch of an `ApiListWatch`; see `sqlcache.client.Watch`."""

    def __init__(self, response: Any, call: _Call) -> None:
        """Take over a response whose headers were read."""
        self._response, self._call = response, call
        self._closed = self._read = False

    def close(self) -> None:
        """Cut the connection."""
        self._closed = True
        self._call.cut()
        if not self._read:
            self._response.close()

    def __iter__(self) -> Iterator[Event]:
        """Yield decoded events. See `Watch.__iter__`."""
        self._read = True
        try:
            rest = b""
            for chunk in self._chunks():
                *lines, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
                for line in lines:
                    if line.strip():
                        yield _event(line)
            if rest.strip() and not self._closed:
                yield self._last(rest)
        finally:
            self._call.over()
            self._response.close()

    def _chunks(self) -> Iterator[bytes]:
        try:
            if self._response.chunked:
                yield from self._response.stream(_CHUNK_BYTES)
            else:
                while chunk := self._response.read1(_CHUNK_BYTES):
                    yield chunk
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            if self._closed:  # a response that is closed while it is read fails in many ways
                return
            if isinstance(error, urllib3.exceptions.HTTPError | OSError):
                raise _connection_error(error) from error
            raise

    def _last(self, line: bytes) -> Event:
        """Return an event without a line feed after it; the stream may have been cut in it."""
        try:
            return _event(line)
        except ApiDecodeError as error:
            raise ApiConnectionError("the watch was cut in the middle of an event") from error


class _Requests:
    """GET requests over a client's configuration, each of which another thread can cut."""

    def __init__(self, client: Any) -> None:
        self._client, self._configuration = client, client.configuration
        self._pools = _pools(self._configuration)

    def close(self) -> None:
        # clear() alone leaves them open until nothing refers to a pool, not even a traceback.
        for key in self._pools.pools.keys():  # noqa: SIM118 - it cannot be iterated
            pool = self._pools.pools.get(key)
            if pool is not None:
                pool.close()
        self._pools.clear()

    def url(self, path: str) -> str:
        host: str = self._configuration.host
        return host.rstrip("/") + path

    def get(
        self,
        url: str,
        query: dict[str, str],
        timeout: Any,
        call: _Call,
        accept: str = "application/json",
    ) -> Any:
        headers = {**self._client.default_headers, "Accept": accept}
        for setting in self._configuration.auth_settings().values():  # refreshes rotated tokens
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = setting["value"]
        _CALLS.current = call
        try:
            return self._pools.request(
                "GET",
                f"{url}?{urlencode(query)}" if query else url,
                headers=headers,
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise _connection_error(error) from error
        except OSError as error:
            raise _connection_error(error) from error
        finally:
            _CALLS.current = None


class _Call:
    """One request, so that another thread can cut its connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._cut = False

    def uses(self, connected: socket.socket | None) -> None:
        """Take note of the socket, and cut it if that was asked for."""
        with self._lock:
            self._socket = connected
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
            self._socket = None


class _CallOfThread(threading.local):
    current: _Call | None = None


_CALLS = _CallOfThread()


def _shut(connected: socket.socket | None) -> None:
    if connected is not None:
        with suppress(OSError):  # the other side was faster
            # Not the method of an SSLSocket, which drops what the reading thread still uses.
            socket.socket.shutdown(connected, socket.SHUT_RDWR)


class _Tracked:
    """Tells the thread's call which socket serves it."""

    sock: socket.socket | None

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        self._tell()

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


def _body(response: Any) -> bytes:
    try:
        body: bytes = response.read()
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise _connection_error(error) from error
    finally:
        response.release_conn()
    return body


def _page(response: Any) -> Any:
    """Return a decoded list; a long one is decoded object by object while it comes.

    A relist comes in one answer, hundreds of megabytes for a large cluster. Decoding it in one call
    would stop all threads for seconds and need the bytes at the same time as the objects.
    """
    content: Any = _Content(response)  # all that JsonText needs of a file is read()
    try:
        start = b""
        while len(start) < WHOLE_BYTES and (more := content.read(WHOLE_BYTES - len(start))):
            start += more
        if content.complete:
            return _decoded(start)
        content.unread(start)
        documents = JsonText("list", content).documents()
        document = next(documents)
        if not isinstance(document, Mapping):
            raise ApiDecodeError("the API server sent no list but a long array")
        return {
            name: list(value.items) if isinstance(value, Array) else value
            for name, value in document.fields
        }
    except DumpError as error:
        raise ApiDecodeError(f"the API server sent no JSON: {error}") from error
    finally:
        if content.complete:
            response.release_conn()
        else:
            response.close()


class _Content:
    """A response's body to be read in pieces."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self._start = b""
        self.complete = False

    def unread(self, start: bytes) -> None:
        self._start = start

    def read(self, size: int) -> bytes:
        if self._start:
            start, self._start = self._start, b""
            return start
        try:
            found: bytes = self._response.read(size)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _connection_error(error) from error
        self.complete = not found
        return found


def _decoded(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        start = shown(repr(body[:200]))
        raise ApiDecodeError(f"the API server sent no JSON: {error}: {start}") from error


def _event(line: bytes) -> Event:
    event = _decoded(line)
    if not isinstance(event, dict):
        raise ApiDecodeError(f"the API server sent no watch event: {shown(event)}")
    return event


def _status_error(response: Any, body: bytes) -> ApiStatusError:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = None
    wait = response.headers.get("Retry-After", "")
    retry_after = float(wait) if wait.isdecimal() else None
    if isinstance(status, dict) and status.get("kind") == "Status":
        status.setdefault("code", response.status)
        return ApiStatusError.from_status(status, retry_after)
    text = body[:200].decode(errors="replace").strip() or str(response.reason or "")
    return ApiStatusError(response.status, "", f"HTTP {response.status}: {text}", None, retry_after)


def _connection_error(error: Exception) -> ApiConnectionError:
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
