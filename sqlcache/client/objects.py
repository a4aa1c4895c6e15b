"""Single objects of a real API server, on the official `kubernetes` package (extra `kubernetes`).

    objects = ApiObjects(connect())
    service = objects.get(Resource("", "v1", "services"), "shop", "web")

Objects are plain dicts, as everywhere here; the API server validates and defaults them.

Promises
- One call is one request: nothing is retried, since only the caller knows whether it may be sent
  again.
- Every wait on the network has a limit. `close` ends the calls under way, too.

Elsewhere: the protocol (client.api), lists and watches for informers (client.transport).
Source: client-go dynamic/simple.go.
"""

from __future__ import annotations

import threading
from typing import Any

import orjson

from sqlcache.client.api import Resource, path_segment
from sqlcache.client.connections import (
    CONNECT_TIMEOUT_S,
    READ_TIMEOUT_S,
    Call,
    Connections,
    body_of,
    decoded,
)
from sqlcache.errors import ApiConnectionError, ApiDecodeError, shown
from sqlcache.objects import Object, Objects

_MERGE_PATCH = "application/merge-patch+json"  # RFC 7386


class ApiObjects:
    """Reads and writes single objects of an API server; see `sqlcache.client.ObjectsApi`."""

    def __init__(
        self,
        client: Any,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        read_timeout_s: float = READ_TIMEOUT_S,
    ) -> None:
        """Make connections as they are needed.

        Args:
            client: a `kubernetes.client.ApiClient`, for instance from `connect`.
            connect_timeout_s: limit for a connection to be made.
            read_timeout_s: limit for silence of the server.
        """
        self._connections = Connections(client)
        self._connect_timeout_s, self._read_timeout_s = connect_timeout_s, read_timeout_s
        self._lock = threading.Lock()
        self._calls: set[Call] = set()
        self._closed = False

    def close(self) -> None:
        """Cut the calls under way and close all connections; twice is harmless."""
        with self._lock:
            self._closed = True
            calls = list(self._calls)
        for call in calls:
            call.cut()
        self._connections.close()

    def create(self, resource: Resource, namespace: str, obj: Object) -> Object:
        """Create an object. See `ObjectsApi.create`."""
        return self._ask("POST", resource.path(namespace), content=obj)

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return an object. See `ObjectsApi.get`."""
        return self._ask("GET", _path(resource, namespace, name))

    def list(self, resource: Resource, namespace: str = "", label_selector: str = "") -> Objects:
        """Return all objects that match. See `ObjectsApi.list`."""
        query = {"labelSelector": label_selector} if label_selector else {}
        items = self._ask("GET", resource.path(namespace), query).get("items") or []
        if not isinstance(items, list):
            raise ApiDecodeError(f"the API server sent no list: {shown(items)}")
        return items

    def update(self, resource: Resource, namespace: str, obj: Object) -> Object:
        """Replace an object. See `ObjectsApi.update`."""
        path = _path(resource, namespace, obj["metadata"]["name"])
        return self._ask("PUT", path, content=obj)

    def patch(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """Change fields of an object. See `ObjectsApi.patch`."""
        path = _path(resource, namespace, name)
        return self._ask("PATCH", path, content=patch, content_type=_MERGE_PATCH)

    def delete(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object. See `ObjectsApi.delete`."""
        self._ask("DELETE", _path(resource, namespace, name))

    def _ask(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        *,
        content: Object | None = None,
        content_type: str = "application/json",
    ) -> Object:
        call = Call()
        with self._lock:
            if self._closed:
                raise ApiConnectionError("the connections were closed")
            self._calls.add(call)
        try:
            response = self._connections.request(
                method,
                path,
                query or {},
                connect_timeout_s=self._connect_timeout_s,
                read_timeout_s=self._read_timeout_s,
                call=call,
                content=None if content is None else orjson.dumps(content),
                content_type=content_type,
            )
            answer = decoded(body_of(response))
        finally:
            with self._lock:
                self._calls.discard(call)
            call.over()
        if not isinstance(answer, dict):
            raise ApiDecodeError(f"the API server sent no object: {shown(answer)}")
        return answer


def _path(resource: Resource, namespace: str, name: str) -> str:
    return f"{resource.path(namespace)}/{path_segment(name)}"
