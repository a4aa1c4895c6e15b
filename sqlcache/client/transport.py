"""The ListWatch for real API servers, on the official `kubernetes` package (extra `kubernetes`).

    client = connect(context="prod")  # kubeconfig, or the pod's service account
    pods = ApiListWatch(client, Resource("", "v1", "pods"), namespace="shop", label_selector="app")

That package's models are not used: bodies are read raw and decoded by orjson, at a fifth of the
time and a third of the memory; long lists object by object while they come.

Promises
- Every wait on the network has a limit: to connect, between two bytes of a list, between two bytes
  of a watch. A server that falls silent with its socket open costs at most `watch_silence_s`.
- A stop signal, or `close` of a watch, cuts the connection at once, whatever is blocked on it, also
  while it is being made; looking a name up, or a plug-in for credentials, is waited for.
- Label and field selector are sent with lists and watches alike.

Elsewhere: connections and configuration (client.connections), single objects (client.objects),
retries and back-off (sqlcache.informer.reflector).
Source: client-go rest/request.go; https://kubernetes.io/docs/reference/using-api/api-concepts/.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

from sqlcache.client.api import Event, Page, Resource
from sqlcache.client.connections import (
    CONNECT_TIMEOUT_S,
    CUT_ERRORS,
    READ_TIMEOUT_S,
    Call,
    Connections,
    connect,
    connection_error,
    decoded,
)
from sqlcache.clock import StopSignal, paced
from sqlcache.dumps._documents import Array, Mapping
from sqlcache.dumps._json import JsonText
from sqlcache.errors import ApiConnectionError, ApiDecodeError, ApiStatusError, DumpError, shown

__all__ = ["ApiListWatch", "ApiWatch", "Resource", "connect"]

# The server sends a BOOKMARK about every minute. Where it sends none, a quiet watch is opened anew
# this often, which costs one request and misses nothing.
WATCH_SILENCE_S = 120.0
WHOLE_BYTES = 1 << 20  # a list up to this is decoded in one call: some 3 ms
_CHUNK_BYTES = 1 << 16


class ApiListWatch:
    """Lists and watches one resource of an API server; see `sqlcache.client.ListWatch`.

    It may be used by several threads. It keeps its own connections; `close` frees the idle ones.

    Attributes:
        source: the URL of the list with its selectors, without credentials.
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
        self._connections, self._path = Connections(client), resource.path(namespace)
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._selectors = {name: text for name, text in selectors.items() if text}
        self.source = _source(client.configuration.host, self._path, self._selectors)
        self._connect_timeout_s = connect_timeout_s
        self._read_timeout_s, self._watch_silence_s = read_timeout_s, watch_silence_s

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._connections.close()

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
        call = Call()
        forget = stop.call(call.cut)

        def over() -> None:
            forget()
            call.over()

        try:
            body = _Body(self._request(query, self._read_timeout_s, call), over)
        except BaseException:
            over()
            raise
        page = _page(body)
        if not isinstance(page, dict) or not _is_list(page):
            body.finish()
            if isinstance(page, dict) and page.get("kind") == "Status":
                raise ApiStatusError.from_status(page)
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
        call = Call()
        forget = stop.call(call.cut)
        try:
            response = self._request(query, self._watch_silence_s, call)
        finally:
            forget()
        return ApiWatch(response, call)

    def _request(self, query: dict[str, str], read_timeout_s: float, call: Call) -> Any:
        return self._connections.request(
            "GET",
            self._path,
            query,
            connect_timeout_s=self._connect_timeout_s,
            read_timeout_s=read_timeout_s,
            call=call,
        )


class ApiWatch:
    """A watch of an `ApiListWatch`; see `sqlcache.client.Watch`."""

    def __init__(self, response: Any, call: Call) -> None:
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
                yield from self._response.stream(_CHUNK_BYTES, decode_content=True)
            else:
                while chunk := self._response.read1(_CHUNK_BYTES):
                    yield chunk
        except (*CUT_ERRORS, ValueError, AttributeError) as error:
            if self._closed:  # a response that is closed while it is read fails in many ways
                return
            if isinstance(error, CUT_ERRORS):
                raise connection_error(error) from error
            raise

    def _last(self, line: bytes) -> Event:
        """Return an event without a line feed after it; the stream may have been cut in it."""
        try:
            return _event(line)
        except ApiDecodeError as error:
            raise ApiConnectionError("the watch was cut in the middle of an event") from error


def _source(host: str, path: str, selectors: dict[str, str]) -> str:
    parts = urlsplit(host.rstrip("/") + path)
    name = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, name, parts.path, urlencode(selectors), ""))


def _page(body: _Body) -> Any:
    """Return a decoded list; the items of a long one are decoded one by one while they come.

    A relist comes in one answer, hundreds of megabytes for a large cluster. Decoding it in one call
    would stop all threads for seconds, and all its objects would be there at once.
    """
    with body.finished_if_it_fails():
        start = b""
        while len(start) < WHOLE_BYTES and (more := body.read(WHOLE_BYTES - len(start))):
            start += more
        if body.complete:
            body.finish()
            return decoded(start)
        body.unread(start)
        content: Any = body  # all that JsonText needs of a file is read()
        document = next(JsonText("list", content).documents())
        if not isinstance(document, Mapping):
            raise ApiDecodeError("the API server sent no list but a long array")
        page: Page = {}
        for name, value in document.fields:
            if name == "items" and isinstance(value, Array) and "metadata" in page:
                # Servers send them last; of custom resources first, which are then decoded at once.
                return {**page, "items": _items(value.items, document.fields, body)}
            page[name] = list(paced(value.items)) if isinstance(value, Array) else value
        body.finish()
        return page


def _is_list(page: Page) -> bool:
    """Tell a list from something else with status 200, which would look like an empty list."""
    return "items" in page or str(page.get("kind") or "List").endswith("List")


def _items(items: Iterator[Any], fields: Iterator[tuple[str, Any]], body: _Body) -> Iterator[Any]:
    try:
        with body.finished_if_it_fails():
            yield from paced(items)
            for _, value in fields:  # to the end, so that the connection can be used again
                if isinstance(value, Array):
                    deque(value.items, maxlen=0)
    finally:
        body.finish()


class _Body:
    """A response's body, read in pieces.

    Attributes:
        complete: whether all of it was read.
    """

    def __init__(self, response: Any, over: Callable[[], None]) -> None:
        """Take a response, and what is to be called when it is done with."""
        self._response, self._over = response, over
        self._start = b""
        self.complete = self._finished = False

    def unread(self, start: bytes) -> None:
        """Have this read once more."""
        self._start = start

    def read(self, size: int) -> bytes:
        """Return at most so many bytes, none at the end."""
        if self._start:
            start, self._start = self._start, b""
            return start
        try:
            found: bytes = self._response.read(size)
        except CUT_ERRORS as error:
            raise connection_error(error) from error
        self.complete = not found
        return found

    def finish(self) -> None:
        """Give the connection back, or close it if something is left in it; twice is harmless."""
        if self._finished:
            return
        self._finished = True
        self._over()
        if self.complete:
            self._response.release_conn()
        else:
            self._response.close()

    @contextmanager
    def finished_if_it_fails(self) -> Iterator[None]:
        """Finish, if the block raises; what is no JSON comes out as our error."""
        try:
            yield
        except DumpError as error:
            self.finish()
            raise ApiDecodeError(f"the API server sent no JSON: {error}") from error
        except BaseException:
            self.finish()
            raise


def _event(line: bytes) -> Event:
    event = decoded(line)
    if not isinstance(event, dict):
        raise ApiDecodeError(f"the API server sent no watch event: {shown(event)}")
    return event
