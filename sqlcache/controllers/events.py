"""Kubernetes Events: what `kubectl describe` shows below an object.

Flow: a controller calls `warn`, which only queues; a thread writes. Equal events become one with a
count. Nothing here ever holds a controller up or makes its work fail.

Promises
- An object gets 25 events at once and then one every five minutes, whoever goes on about it.
- Events that the API server refuses are logged and dropped. If it cannot be reached they are
  tried again for two minutes.
- At the end, what waits is written.

Differences from client-go: events that are alike but not equal are not combined; an event on an
object about to be made goes to the namespace of that object, not to `default`.

Source: client-go tools/record event.go, events_cache.go.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, TypeVar

from sqlcache.client.api import ObjectsApi, Resource
from sqlcache.clock import Clock, MonotonicClock
from sqlcache.errors import ApiStatusError
from sqlcache.objects import Object
from sqlcache.workqueue import ItemExponentialFailureRateLimiter, Workers, WorkQueue

_LOG = logging.getLogger(__name__)

EVENTS = Resource("", "v1", "events")
# What follows is client-go's.
OBJECT_BURST = 25
OBJECT_PERIOD_S = 300.0
REMEMBERED = 4096
RETRIES = 12
RETRY_S = 10.0
QUEUED = 1000

K = TypeVar("K")
V = TypeVar("V")


class _About(NamedTuple):
    """The object that an event is about."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str


class _Event(NamedTuple):
    """What makes two events equal."""

    about: _About
    type: str
    reason: str
    message: str


class _Written(NamedTuple):
    """An event as it is on the server."""

    name: str
    times: int


class EventRecorder:
    """Writes events for one component. Every method may be called from any thread."""

    def __init__(
        self,
        api: ObjectsApi,
        component: str,
        *,
        clock: Clock | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Make a recorder; `start` it to have events written.

        Args:
            api: where to.
            component: the name of who reports, such as "endpoint-controller".
            clock: measures the limits, for tests.
            now: the time of an event, for tests.
        """
        self._api, self._component = api, component
        self._clock, self._now = clock or MonotonicClock(), now
        self._lock = threading.Lock()
        self._counts: dict[_Event, int] = {}  # not written yet
        self._written: _Recent[_Event, _Written] = _Recent(REMEMBERED)
        self._buckets: _Recent[_About, tuple[float, float]] = _Recent(REMEMBERED)
        self._queue: WorkQueue[_Event] = WorkQueue(
            f"{component}-events",
            rate_limiter=ItemExponentialFailureRateLimiter(RETRY_S, RETRY_S),
            clock=clock,
        )
        self._workers = Workers(self._queue, self._write, max_retries=RETRIES)

    def warn(self, obj: Object, reason: str, message: str) -> None:
        """Have an event of type Warning written. See `event`."""
        self.event(obj, "Warning", reason, message)

    def event(self, obj: Object, kind: str, reason: str, message: str) -> None:
        """Have an event written.

        Args:
            obj: what it is about, with apiVersion, kind, namespace and name.
            kind: "Normal" or "Warning".
            reason: a word for programs, such as "FailedToUpdateEndpoint".
            message: a sentence for people.
        """
        meta = obj["metadata"]
        about = _About(
            obj["kind"],
            meta.get("namespace") or "",
            meta["name"],
            meta.get("uid") or "",
            obj["apiVersion"],
        )
        event = _Event(about, kind, reason, message)
        with self._lock:
            if event not in self._counts and len(self._counts) >= QUEUED:
                _LOG.warning("too many events wait, dropping %s of %s", reason, meta["name"])
                return
            if not self._allowed(about):
                _LOG.debug("too many events on %s, dropping %s", meta["name"], reason)
                return
            self._counts[event] = self._counts.get(event, 0) + 1
        self._queue.add(event)

    def start(self) -> None:
        """Begin to write, in a thread."""
        self._workers.start()

    def stop(self, timeout_s: float) -> list[str]:
        """Write what waits and end.

        Args:
            timeout_s: seconds of real time to wait for that.

        Returns:
            The names of the threads that have not ended by then.
        """
        self._queue.shut_down()
        return self._workers.join(timeout_s)

    def flush(self) -> None:
        """Write what waits, in the calling thread: for use without `start`."""
        while len(self._queue):
            self._workers.process_next()

    def _allowed(self, about: _About) -> bool:
        now = self._clock.now()
        tokens, at = self._buckets.get(about) or (float(OBJECT_BURST), now)
        tokens = min(float(OBJECT_BURST), tokens + (now - at) / OBJECT_PERIOD_S)
        self._buckets.put(about, (tokens - 1.0 if tokens >= 1.0 else tokens, now))
        return tokens >= 1.0

    def _write(self, event: _Event) -> None:
        with self._lock:
            count = self._counts.pop(event, 0)
        if not count:  # a retry in between wrote it
            return
        try:
            self._written.put(event, self._write_count(event, count))
        except ApiStatusError as error:
            _LOG.warning("the API server refused event %s: %s", event.reason, error)
        except OSError:
            if self._queue.num_requeues(event) < RETRIES:
                with self._lock:
                    self._counts[event] = self._counts.get(event, 0) + count
            raise

    def _write_count(self, event: _Event, count: int) -> _Written:
        namespace = event.about.namespace or "default"
        before = self._written.get(event)
        if before is not None:
            total = before.times + count
            patch = {"count": total, "lastTimestamp": self._timestamp()}
            try:
                self._api.patch(EVENTS, namespace, before.name, patch)
            except ApiStatusError as error:
                if not error.is_not_found():
                    raise  # else it is too old to be there still
            else:
                return _Written(before.name, total)
        obj = self._new(event, namespace, count)
        self._api.create(EVENTS, namespace, obj)
        return _Written(obj["metadata"]["name"], count)

    def _new(self, event: _Event, namespace: str, count: int) -> dict[str, Any]:
        about, now = event.about, self._timestamp()
        involved = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": f"{about.name}.{time.time_ns():x}"},
            "involvedObject": {field: text for field, text in involved.items() if text},
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": count,
        }

    def _timestamp(self) -> str:
        return f"{self._now():%Y-%m-%dT%H:%M:%SZ}"


class _Recent(Generic[K, V]):
    """A mapping that forgets what was not used for longest."""

    def __init__(self, size: int) -> None:
        self._items: OrderedDict[K, V] = OrderedDict()
        self._size = size

    def get(self, key: K) -> V | None:
        if key in self._items:
            self._items.move_to_end(key)
        return self._items.get(key)

    def put(self, key: K, value: V) -> None:
        self._items[key] = value
        self._items.move_to_end(key)
        if len(self._items) > self._size:
            self._items.popitem(last=False)
