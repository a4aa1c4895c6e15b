"""A ListWatch over pods kept as JSON bytes in this process: lists and relists without a server.

It decodes object by object, as the transport does, so what a relist costs an informer and its
readers is here but for the network. Its watches stay silent until another list is offered and
`expire` is called; then they end with 410.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from sqlcache.client.api import Event, Page
from sqlcache.objects import Object

_EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
_END = {"k8s.io/initial-events-end": "true"}


class PreparedList:
    """See the module.

    Attributes:
        documents: the pods as JSON; bytes are nothing to the garbage collector.
        listed_at: `time.perf_counter()` of the last request for a list.
        supports_watch_list: whether lists may be streamed.
    """

    def __init__(self, objs: Iterable[Object], *, streamed: bool = True) -> None:
        """Take the pods of the first list.

        Args:
            objs: the pods.
            streamed: answer a streaming list, as an informer asks for first.
        """
        self.documents = [orjson.dumps(obj) for obj in objs]
        self.listed_at = 0.0
        self.supports_watch_list = streamed
        self.changed = threading.Condition()
        self._version = 1

    def offer(self) -> str:
        """Have the documents listed as they are now; return the list's resourceVersion."""
        self._version += 1
        return self.resource_version

    @property
    def resource_version(self) -> str:
        """The list's resourceVersion."""
        return str(self._version)

    def expire(self) -> None:
        """End the watches that do not know of the last offer."""
        with self.changed:
            self.changed.notify_all()

    def list_page(self, **options: Any) -> Page:
        """Return the whole list in one page."""
        self.listed_at = time.perf_counter()
        metadata = {"resourceVersion": self.resource_version}
        return {"kind": "PodList", "metadata": metadata, "items": map(orjson.loads, self.documents)}

    def watch(
        self, *, resource_version: str, send_initial_events: bool, **options: Any
    ) -> _SilentWatch:
        """Open a watch, with the list before it if that is asked for."""
        if send_initial_events:
            self.listed_at = time.perf_counter()
            return _SilentWatch(self, self.resource_version, listing=True)
        return _SilentWatch(self, resource_version, listing=False)


class _SilentWatch:
    def __init__(self, prepared: PreparedList, version: str, *, listing: bool) -> None:
        self._prepared, self._version, self._listing = prepared, version, listing
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self._prepared.expire()

    def __iter__(self) -> Iterator[Event]:
        if self._listing:
            for document in self._prepared.documents:
                yield orjson.loads(b'{"type":"ADDED","object":%b}' % document)
            metadata = {"resourceVersion": self._version, "annotations": _END}
            yield {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": metadata}}
            self._listing = False
        with self._prepared.changed:
            self._prepared.changed.wait_for(
                lambda: self._closed or self._prepared.resource_version != self._version
            )
        if not self._closed:
            yield {"type": "ERROR", "object": _EXPIRED}
