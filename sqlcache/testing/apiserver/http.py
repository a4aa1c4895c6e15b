"""HTTP: requests in, answers and streams out.

Flow of a request: route, authentication, faults, then one method for each verb.

Promises
- One event loop serves all; no method blocks it for longer than a piece of a list takes.
- A list is sent in pieces of a thousand objects, all of one state.
- When the server closes, every watch ends at once.

Elsewhere: what objects become (registry), what a list contains (listing), what a watch sends
(watching), the thread and the socket (server).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import parse_qs

import orjson
from aiohttp import web

from sqlcache.objects import Object
from sqlcache.testing.apiserver import bodies, discovery, listing, status
from sqlcache.testing.apiserver.answers import (
    JSON,
    Answering,
    Closed,
    Stream,
    abort,
    hang_up,
    headers_of,
    joined,
    json_answer,
    list_head,
    text_answer,
)
from sqlcache.testing.apiserver.faults import Action, Fault, Faults, Target
from sqlcache.testing.apiserver.listing import ListOptions, Page, Scope
from sqlcache.testing.apiserver.negotiation import AGGREGATED_TYPE, Form, choose
from sqlcache.testing.apiserver.registry import Registry, full_body, metadata_body
from sqlcache.testing.apiserver.resources import Resource
from sqlcache.testing.apiserver.routes import Route, Routes, path_verb
from sqlcache.testing.apiserver.status import ApiError
from sqlcache.testing.apiserver.storage import Record
from sqlcache.testing.apiserver.watching import Watch, error_line

Answer: TypeAlias = Coroutine[Any, Any, web.StreamResponse]

_HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
_PUBLIC_PATHS = _HEALTH_PATHS | {"/version"}  # role system:public-info-viewer
_ANONYMOUS = "system:anonymous"
_PIECE = 1_000  # objects of a list sent at once: 4 MB of pods
_BODY_MAX_BYTES = 3 * 1024 * 1024  # the real server's limit
_WATCH_TIMEOUT_S = (1800, 3600)  # of a watch that asks for none; the server's own choice
_BOOKMARK_BEFORE_END_S = 2.0  # cache_watcher.go nextBookmarkTime
_POLL_S = 0.02  # how soon a stalled request notices that its fault was removed


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request that the server got.

    Attributes:
        target: what it wants.
        method: of HTTP.
        path: without the query.
        query: first value of each parameter.
        time_s: of the event loop's clock, seconds.
    """

    target: Target
    method: str
    path: str
    query: Mapping[str, str]
    time_s: float

    @property
    def verb(self) -> str:
        """What it does: "list", "watch", "get" and so on."""
        return self.target.verb

    @property
    def resource(self) -> str:
        """Plural of the resource."""
        return self.target.resource


@dataclass(frozen=True, slots=True)
class Settings:
    """How a server behaves.

    Attributes:
        token: the only one accepted; None lets everybody in.
        bookmark_interval_s: time between bookmarks of a quiet watch.
        fresh_wait_s: how long a request waits for a resourceVersion that is yet to come.
    """

    token: str | None
    bookmark_interval_s: float
    fresh_wait_s: float


class Handler:
    """Answers all requests of one server."""

    def __init__(
        self, registry: Registry, routes: Routes, faults: Faults, settings: Settings
    ) -> None:
        """Take what it answers from."""
        self._registry = registry
        self._storage = registry.storage
        self._routes = routes
        self._faults = faults
        self._settings = settings
        self.requests: deque[RequestRecord] = deque(maxlen=100_000)
        self._wakers: dict[Resource, set[asyncio.Event]] = {}
        self._watches: dict[asyncio.Event, tuple[web.BaseRequest, str]] = {}
        self.closing = False

    def wake(self, resources: Iterable[Resource]) -> None:
        """Have the watches of some resources look for changes. In the event loop only."""
        for resource in resources:
            for event in self._wakers.get(resource, ()):
                event.set()

    def close(self) -> None:
        """End all watches. In the event loop only."""
        self.closing = True
        self.wake(list(self._wakers))

    def cut_watches(self, resource: str | None) -> int:
        """Close the connections of all watches of a resource; return how many. In the loop only."""
        cut = [http for http, name in self._watches.values() if resource in (None, name)]
        for http in cut:
            if http.transport is not None:
                http.transport.close()
        return len(cut)

    def watch_count(self, resource: str | None) -> int:
        """Return how many watches of a resource are open."""
        return sum(resource in (None, name) for _, name in list(self._watches.values()))

    async def __call__(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        query = parse_qs(http.rel_url.raw_query_string, keep_blank_values=True)
        request = Answering(http, query)
        try:
            return await self._answer(request)
        except ApiError as error:
            return json_answer(request, error.status, error.code)
        except (Closed, ConnectionError):
            return web.Response()  # goes nowhere: the connection is closed

    async def _answer(self, request: Answering) -> web.StreamResponse:
        http = request.http
        path = http.rel_url.raw_path
        route = self._routes.resolve(path)
        if route is None:
            self._note(request, Target(), path)
            return await self._answer_path(request, path)
        verb = route.verb(http.method, watch=listing.truth(request.first.get("watch", "")))
        target = Target(verb, route.resource.plural, route.namespace, route.name, route.subresource)
        self._note(request, target, path)
        self._authorize(http, route, verb)
        request.faults = self._faults.take(target)
        await self._strike(request, verb)
        if route.resource.warning:
            request.warnings.append(route.resource.warning)
        return await _VERBS[verb](self, request, route)

    def _note(self, request: Answering, target: Target, path: str) -> None:
        now = asyncio.get_running_loop().time()
        record = RequestRecord(target, request.http.method, path, request.first, now)
        self.requests.append(record)

    # Who may do what ---------------------------------------------------------------------------

    def _anonymous(self, http: web.BaseRequest) -> bool:
        """Return whether a request is nobody's, and refuse a token that is nobody's."""
        if self._settings.token is None:
            return False
        header = http.headers.get("Authorization")
        if header is None:
            return True
        scheme, _, token = header.partition(" ")
        # Upper and lower case, as in apiserver request/bearertoken: clients send either.
        if scheme.lower() != "bearer" or token != self._settings.token:
            raise status.unauthorized()
        return False

    def _authorize(self, http: web.BaseRequest, route: Route, verb: str) -> None:
        if not self._anonymous(http):
            return
        resource = route.resource
        part = f"/{route.subresource}" if route.subresource else ""
        where = f'in the namespace "{route.namespace}"' if route.namespace else ""
        why = (
            f'User "{_ANONYMOUS}" cannot {verb} resource "{resource.plural}{part}"'
            f' in API group "{resource.group}" {where or "at the cluster scope"}'
        )
        raise status.forbidden(resource, route.name, why)

    # Faults ------------------------------------------------------------------------------------

    async def _strike(self, request: Answering, verb: str) -> None:
        for fault in request.faults:
            if fault.action is Action.SLOW:
                await asyncio.sleep(fault.seconds)
            elif fault.action is Action.REFUSE:
                abort(request.http)
            elif fault.action is Action.STALL and verb != "watch":
                await self._stall(fault)
            elif fault.action is Action.ANSWER and fault.error is not None:
                raise fault.error

    async def _stall(self, fault: Fault) -> None:
        while not (fault.removed or self.closing):
            await asyncio.sleep(_POLL_S)

    # Paths that are no resource ----------------------------------------------------------------

    async def _answer_path(self, request: Answering, path: str) -> web.StreamResponse:
        http = request.http
        if self._anonymous(http) and path not in _PUBLIC_PATHS:
            raise status.forbidden_path(_ANONYMOUS, path_verb(http.method).lower(), path)
        if path in _HEALTH_PATHS:
            return text_answer("ok")
        found = discovery.aggregated(self._routes, path)
        if found is not None:
            form = choose(http.headers.get("Accept", ""), discovery=True)
            if form is Form.AGGREGATED:
                return json_answer(request, found, content_type=AGGREGATED_TYPE)
        address = http.host
        found = discovery.document(self._routes, path, address)
        if found is None:
            return text_answer("404 page not found\n", 404)
        return json_answer(request, found)

    # Reads -------------------------------------------------------------------------------------

    async def _get(self, request: Answering, route: Route) -> web.StreamResponse:
        form = choose(request.http.headers.get("Accept", ""))
        asked = request.first.get("resourceVersion", "")
        if asked and not asked.isdecimal():
            raise status.internal(listing.bad_version(asked))
        await self._wait_for(int(asked or 0))
        record = self._registry.record(route.resource, route.namespace, route.name)
        return self._object(request, route.resource, record, form)

    async def _list(self, request: Answering, route: Route) -> web.StreamResponse:
        form = choose(request.http.headers.get("Accept", ""), collection=True)
        query = _query(request, route)
        asked = listing.options(query, watch=False)
        scope = listing.scope(route.resource, route.namespace, query)
        if not asked.token:
            await self._wait_for(listing.version(asked.rv))
        page = listing.page(self._storage, scope, asked)
        return await self._send_list(request, scope.resource, page, form)

    async def _wait_for(self, rv: int) -> None:
        """Wait until the storage has a resourceVersion.

        Raises:
            ApiError: 504, it does not come in time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.fresh_wait_s
        while rv > self._storage.rv:
            if loop.time() >= deadline or self.closing:
                raise status.too_large(rv, self._storage.rv)
            await asyncio.sleep(_POLL_S)

    def _object(
        self,
        request: Answering,
        resource: Resource,
        record: Record,
        form: Form = Form.WHOLE,
        code: int = 200,
    ) -> web.Response:
        shape = metadata_body if form is Form.METADATA else full_body
        return json_answer(request, shape(resource, record.body), code)

    async def _send_list(
        self, request: Answering, resource: Resource, page: Page, form: Form
    ) -> web.StreamResponse:
        head = list_head(resource, page, form)
        if len(page.records) <= _PIECE and request.fault(Action.CUT) is None:
            return json_answer(request, head + joined(resource, page.records, form) + b"]}")
        return await self._stream_list(request, resource, page, form)

    async def _stream_list(
        self, request: Answering, resource: Resource, page: Page, form: Form
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=headers_of(request, JSON))
        await response.prepare(request.http)
        cut = request.fault(Action.CUT)
        left = cut.after_bytes if cut else None
        separator = list_head(resource, page, form)
        for first in range(0, len(page.records), _PIECE):
            piece = separator + joined(resource, page.records[first : first + _PIECE], form)
            separator = b","
            if left is not None and left < len(piece):
                await response.write(piece[:left])
                hang_up(request.http)
            left = None if left is None else left - len(piece)
            await response.write(piece)
        end = b"]}" if page.records else separator + b"]}"
        if left is not None:
            await response.write(end[: max(left, 0)])
            hang_up(request.http)
        await response.write(end)
        await response.write_eof()
        return response

    # Watches -----------------------------------------------------------------------------------

    async def _watch(self, request: Answering, route: Route) -> web.StreamResponse:
        form = choose(request.http.headers.get("Accept", ""))
        query = _query(request, route)
        asked = listing.options(query, watch=True)
        scope = listing.scope(route.resource, route.namespace, query)
        if asked.rv and not asked.rv.isdecimal():
            raise status.internal(listing.bad_version(asked.rv))
        shape = metadata_body if form is Form.METADATA else full_body
        watch = Watch(self._storage, scope, asked, shape)
        event = asyncio.Event()
        wakers = self._wakers.setdefault(route.resource, set())
        wakers.add(event)
        try:
            response = web.StreamResponse(headers=headers_of(request, JSON))
            await response.prepare(request.http)
            stream = Stream(request, response, self._stall)
            await self._run_watch(stream, watch, asked, event, route.resource.plural)
            await response.write_eof()
        finally:
            wakers.discard(event)
            self._watches.pop(event, None)
        return response

    async def _run_watch(
        self,
        stream: Stream,
        watch: Watch,
        asked: ListOptions,
        event: asyncio.Event,
        resource: str,
    ) -> None:
        loop = asyncio.get_running_loop()
        # A timeout of 0 is none, as in Go.
        timeout_s = asked.timeout_s or random.randint(*_WATCH_TIMEOUT_S)
        deadline = loop.time() + timeout_s
        try:
            await self._wait_for(watch.awaited_rv)
        except ApiError as error:
            await stream.send([error_line(error)])
            return
        first = watch.start()
        self._watches[event] = (stream.http, resource)
        await stream.send(first)
        bookmark_at = self._bookmark_time(deadline)
        while not (watch.ended or self.closing or stream.ended or loop.time() >= deadline):
            event.clear()
            await stream.send(watch.poll())
            if asked.bookmarks and loop.time() >= bookmark_at and not stream.ended:
                await stream.send(watch.bookmarks())
                bookmark_at = self._bookmark_time(deadline)
            until = min(deadline, bookmark_at) if asked.bookmarks else deadline
            await _wait(event, until - loop.time())

    def _bookmark_time(self, deadline: float) -> float:
        """Return when the next bookmark is due; Source: cache_watcher.go nextBookmarkTime."""
        now = asyncio.get_running_loop().time()
        regular = now + self._settings.bookmark_interval_s
        before_end = deadline - _BOOKMARK_BEFORE_END_S
        return before_end if now < before_end < regular else regular

    # Writes ------------------------------------------------------------------------------------

    async def _create(self, request: Answering, route: Route) -> web.StreamResponse:
        form = choose(request.http.headers.get("Accept", ""))
        obj, dry_run = await self._sent_object(request, route.resource, "CreateOptions")
        record = self._registry.create(route.resource, route.namespace, obj, dry_run=dry_run)
        return self._object(request, route.resource, record, form, 201)

    async def _update(self, request: Answering, route: Route) -> web.StreamResponse:
        form = choose(request.http.headers.get("Accept", ""))
        obj, dry_run = await self._sent_object(request, route.resource, "UpdateOptions")
        record, created = self._registry.replace(
            route.resource,
            route.namespace,
            route.name,
            obj,
            subresource=route.subresource,
            dry_run=dry_run,
        )
        return self._object(request, route.resource, record, form, 201 if created else 200)

    async def _sent_object(
        self, request: Answering, resource: Resource, options: str
    ) -> tuple[Object, bool]:
        bodies.check_json(request.http.headers.get("Content-Type", ""))
        body = await _body(request.http)
        dry_run, validation = bodies.write_options(options, request.query)
        obj, warnings = bodies.read_object(resource, body, validation)
        request.warnings += warnings
        return obj, dry_run

    async def _patch(self, request: Answering, route: Route) -> web.StreamResponse:
        form = choose(request.http.headers.get("Accept", ""))
        dry_run, _ = bodies.write_options("PatchOptions", request.query)
        change = bodies.read_patch(
            route.resource,
            request.http.headers.get("Content-Type", ""),
            await _body(request.http),
            request.query,
        )
        record = self._registry.update(
            route.resource,
            route.namespace,
            route.name,
            change,
            subresource=route.subresource,
            dry_run=dry_run,
        )
        return self._object(request, route.resource, record, form)

    async def _delete(self, request: Answering, route: Route) -> web.StreamResponse:
        form = choose(request.http.headers.get("Accept", ""))
        body = await _body(request.http)
        content_type = request.http.headers.get("Content-Type", "")
        options = bodies.delete_options(body, content_type, request.query)
        resource = route.resource
        record, gone = self._registry.delete(resource, route.namespace, route.name, options)
        if gone and not resource.strategy.returns_deleted:
            uid = orjson.loads(record.body)["metadata"]["uid"]
            return json_answer(request, status.success(resource, record.name, uid))
        accepted = not gone and options.policy == "Foreground"
        return self._object(request, resource, record, form, 202 if accepted else 200)

    async def _delete_collection(self, request: Answering, route: Route) -> web.StreamResponse:
        form = choose(request.http.headers.get("Accept", ""), collection=True)
        body = await _body(request.http)
        content_type = request.http.headers.get("Content-Type", "")
        options = bodies.delete_options(body, content_type, request.query)
        query = _query(request, route)
        asked = listing.options(query, watch=False)
        scope: Scope = listing.scope(route.resource, route.namespace, query)
        with self._storage.lock:
            page = listing.page(self._storage, scope, asked)
            for record in page.records:
                self._registry.delete(route.resource, record.namespace, record.name, options)
        return await self._send_list(request, route.resource, page, form)


_VERBS: Mapping[str, Callable[[Handler, Answering, Route], Answer]] = {
    "get": Handler._get,
    "list": Handler._list,
    "watch": Handler._watch,
    "create": Handler._create,
    "update": Handler._update,
    "patch": Handler._patch,
    "delete": Handler._delete,
    "deletecollection": Handler._delete_collection,
}


def _query(request: Answering, route: Route) -> Mapping[str, str]:
    """Return the query of a list or watch; a name in the path of a watch selects."""
    if not route.name:
        return request.first
    named = f"metadata.name={route.name}"
    sent = request.first.get("fieldSelector", "")
    return {**request.first, "fieldSelector": f"{sent},{named}" if sent else named}


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(max(timeout_s, 0)):
            await event.wait()
    except TimeoutError:
        pass


async def _body(http: web.BaseRequest) -> bytes:
    body = bytearray()
    async for chunk in http.content.iter_any():
        body += chunk
        if len(body) > _BODY_MAX_BYTES:
            message = f"Request entity too large: limit is {_BODY_MAX_BYTES}"
            raise status.failure(413, message, "RequestEntityTooLarge", {})
    return bytes(body)
