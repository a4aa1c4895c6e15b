"""What goes back to a client: headers, JSON, lists, the lines of a watch.

Promises
- A list is put together from bytes made when its objects were written.
- A fault cuts an answer where it was told to, and what was written before arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from sqlcache.objects import Object
from sqlcache.testing.apiserver import listing
from sqlcache.testing.apiserver.faults import Action, Fault
from sqlcache.testing.apiserver.listing import Page
from sqlcache.testing.apiserver.negotiation import Form
from sqlcache.testing.apiserver.registry import metadata_body
from sqlcache.testing.apiserver.resources import Resource
from sqlcache.testing.apiserver.storage import Record
from sqlcache.testing.apiserver.watching import error_line

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class Closed(Exception):  # noqa: N818 (no error: the answer ends here on purpose)
    """The connection is closed on purpose; nothing more can be answered."""


@dataclass(slots=True)
class Answering:
    """A request on its way to its answer.

    Attributes:
        http: as it came.
        query: all values of each parameter.
        faults: that strike it.
        warnings: to be sent with the answer.
    """

    http: web.BaseRequest
    query: Mapping[str, Sequence[str]]
    faults: Sequence[Fault] = ()
    warnings: list[str] = field(default_factory=list)

    @property
    def first(self) -> Mapping[str, str]:
        """The first value of each parameter."""
        return {name: values[0] for name, values in self.query.items()}

    def fault(self, *actions: Action) -> Fault | None:
        """Return the first fault of this request that does one of these."""
        return next((each for each in self.faults if each.action in actions), None)


class Stream:
    """The body of a watch, with the faults that strike it.

    Attributes:
        http: the request.
        ended: nothing more can be sent.
    """

    def __init__(
        self,
        request: Answering,
        response: web.StreamResponse,
        stall: Callable[[Fault], Coroutine[Any, Any, None]],
    ) -> None:
        """Take where lines go.

        Args:
            request: the watch.
            response: already begun.
            stall: waits until a fault lets go.
        """
        self.http = request.http
        self._response = response
        self._stall = stall
        self._fault = request.fault(Action.CUT, Action.STALL, Action.EVENT)
        self._sent = 0
        self.ended = False

    async def send(self, lines: list[bytes]) -> None:
        """Send lines, as far as no fault forbids it."""
        if self.ended:
            return
        fault = self._fault
        if fault is not None and self._sent + len(lines) >= fault.after_events:
            before = fault.after_events - self._sent
            await self._write(lines[:before])
            lines = lines[before:]
            if await self._strike(fault, lines):
                return
        await self._write(lines)

    async def _write(self, lines: list[bytes]) -> None:
        if lines:
            self._sent += len(lines)
            await self._response.write(b"".join(lines))

    async def _strike(self, fault: Fault, lines: list[bytes]) -> bool:
        """Do what the fault does; return whether that was all."""
        if fault.action is Action.STALL:
            self._fault = None
            await self._stall(fault)
            return False
        if fault.action is Action.EVENT and fault.error is not None:
            await self._response.write(error_line(fault.error))
            self.ended = True
            return True
        if fault.mid_line:
            if not lines:
                return True  # the line to be cut is yet to come
            await self._response.write(lines[0][: len(lines[0]) // 2])
        hang_up(self.http)
        return True


def abort(http: web.BaseRequest) -> None:
    """Reset the connection: the client gets an error, not an end."""
    if http.transport is not None:
        http.transport.abort()
    raise Closed


def hang_up(http: web.BaseRequest) -> None:
    """Close the connection after what was written, in the middle of the answer."""
    if http.transport is not None:
        http.transport.close()
    raise Closed


def list_head(resource: Resource, page: Page, form: Form) -> bytes:
    """Return a list up to its items."""
    meta: Object = {"resourceVersion": str(page.rv)}
    if page.token or resource.custom:
        meta["continue"] = page.token
    if page.remaining is not None:
        meta["remainingItemCount"] = page.remaining
    head = {"kind": resource.list_kind, "apiVersion": resource.group_version, "metadata": meta}
    if form is Form.METADATA:
        head |= {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
    return orjson.dumps(head)[:-1] + b',"items":['


def joined(resource: Resource, records: Sequence[Record], form: Form) -> bytes:
    """Return the items of a list, with commas between them."""
    if form is Form.METADATA:
        return b",".join([metadata_body(resource, record.body) for record in records])
    return b",".join([record.body for record in records])


def headers_of(request: Answering, content_type: str) -> dict[str, str]:
    """Return the headers of an answer, warnings among them."""
    headers = {"Content-Type": content_type, "Cache-Control": "no-cache, private"}
    if request.warnings:
        headers["Warning"] = ", ".join(map(_warning, request.warnings))
    return headers


def _warning(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


def json_answer(
    request: Answering, body: Object | bytes, code: int = 200, content_type: str = JSON
) -> web.Response:
    """Return an answer of JSON, printed for people if the query says so."""
    headers = headers_of(request, content_type)
    if isinstance(body, dict):
        retry_after_s = (body.get("details") or {}).get("retryAfterSeconds")
        if body.get("kind") == "Status" and retry_after_s is not None:
            headers["Retry-After"] = str(retry_after_s)
        body = orjson.dumps(body)
    if listing.truth(request.first.get("pretty", "")):
        body = orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2) + b"\n"
    return web.Response(body=body, status=code, headers=headers)


def text_answer(text: str, code: int = 200) -> web.Response:
    """Return an answer of plain text."""
    return web.Response(body=text.encode(), status=code, headers={"Content-Type": TEXT})
