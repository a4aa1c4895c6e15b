"""A ListWatch that lists pods kept as JSON bytes in this process: relists without a server.

It decodes as the transport does, object by object, so what a relist costs an informer and its
readers is here but for the network. Its watches stay silent until the next list is offered; then
they end with 410.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from sqlcache.client.api import Event, Page
from sqlcache.clock import StopSignal, paced
from sqlcache.dumps._documents import Array, Mapping
from sqlcache.dumps._json import JsonText
from sqlcache.objects import Object

_EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


class PreparedList:
    """See the module.

    Attributes:
        documents: the pods as JSON; bytes are nothing to the garbage collector.
        listed_at: `time.perf_counter()` of the last request for a list.
    """

    supports_watch_list = False

    def __init__(self, objs: Iterable[Object]) -> None:
        """Take the pods of the first list."""
        self.documents = [orjson.dumps(obj) for obj in objs]
        self.listed_at = 0.0
        self._version = 0
        self._changed = threading.Condition()
        self.offer()

    def offer(self) -> str:
        """Have the documents as they are now listed; return the list's resourceVersion."""
        body = b'"kind":"PodList","apiVersion":"v1","items":[%s]}' % b",".join(self.documents)
        with self._changed:
            self._version += 1
            head = b'{"metadata":{"resourceVersion":"%d"},' % self._version
            self._body = head + body
            return str(self._version)

    def expire(self) -> None:
        """End the watches that do not know of the offer."""
        with self._changed:
            self._changed.notify_all()

    def list_page(self, *, stop: StopSignal, **options: Any) -> Page:
        """Return the whole list in one page."""
        self.listed_at = time.perf_counter()
        content: Any = io.BytesIO(self._body)  # all that JsonText needs of a file is read()
        document = next(JsonText("list", content).documents())
        if not isinstance(document, Mapping):
            raise TypeError("a list is a mapping")
        return {
            name: list(paced(value.items)) if isinstance(value, Array) else value
            for name, value in document.fields
        }

    def watch(self, *, resource_version: str, **options: Any) -> _SilentWatch:
        """Open a watch from the last list."""
        return _SilentWatch(self, resource_version)

    def newer(self, resource_version: str) -> bool:
        """Return whether another list was offered."""
        return str(self._version) != resource_version

    @property
    def changed(self) -> threading.Condition:
        """Notified when a watch has to look again."""
        return self._changed


class _SilentWatch:
    def __init__(self, prepared: PreparedList, resource_version: str) -> None:
        self._prepared, self._version = prepared, resource_version
        self._closed = False

    def close(self) -> None:
        with self._prepared.changed:
            self._closed = True
            self._prepared.changed.notify_all()

    def __iter__(self) -> Iterator[Event]:
        with self._prepared.changed:
            self._prepared.changed.wait_for(
                lambda: self._closed or self._prepared.newer(self._version)
            )
        if not self._closed:
            yield {"type": "ERROR", "object": _EXPIRED}
