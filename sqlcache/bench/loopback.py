"""An API server without a network: what is written comes back in watches, in the same process.

For measuring what controllers do to their caches: over HTTP, the requests would take most of the
time. What stays is the JSON, written and read once for each answer and once for each watch.

Promises
- Uids, resourceVersions, generations and conflicts are as of an API server; nothing is validated.
- Each resource is watched by one informer: a second one would take the first one's events.

Elsewhere: a real one, over HTTP (sqlcache.testing.apiserver).
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from sqlcache.client.api import Event, Page, Resource
from sqlcache.clock import StopSignal
from sqlcache.errors import ApiStatusError
from sqlcache.objects import Object, Objects, labels_of, resource_version
from sqlcache.selectors import parse

_Key = tuple[str, str]  # namespace and name


class Loopback:
    """See the module, and `sqlcache.client.ObjectsApi`. Every method may be called by any thread.

    Attributes:
        writes: how many there were.
    """

    def __init__(self, versions: Iterator[int]) -> None:
        """Hold nothing.

        Args:
            versions: resourceVersions, each greater than the last.
        """
        self.writes = 0
        self._versions = versions
        self._lock = threading.Lock()
        self._objects: defaultdict[str, dict[_Key, bytes]] = defaultdict(dict)  # by plural
        self._streams: dict[str, Stream] = {}

    def stream(self, plural: str) -> Stream:
        """Return the events of a resource, which is the ListWatch of its informer, too."""
        with self._lock:
            return self._stream(plural)

    def create(self, resource: Resource, namespace: str, obj: Object) -> Object:
        """Create an object. See `ObjectsApi.create`."""
        with self._lock:
            version = next(self._versions)
            meta = obj["metadata"]
            name = meta.get("name") or f"{meta['generateName']}{version}"
            if (namespace, name) in self._objects[resource.plural]:
                raise ApiStatusError(409, "AlreadyExists", f"{resource.plural} {name} exists")
            own = {"name": name, "namespace": namespace, "uid": f"uid-{version}", "generation": 1}
            return self._keep("ADDED", resource, {**obj, "metadata": {**meta, **own}}, version)

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return an object. See `ObjectsApi.get`."""
        with self._lock:
            return self._get(resource, namespace, name)

    def list(self, resource: Resource, namespace: str = "", label_selector: str = "") -> Objects:
        """Return all objects that match. See `ObjectsApi.list`."""
        matches = parse(label_selector).matches
        with self._lock:
            stored = list(self._objects[resource.plural].items())
        objs = (orjson.loads(text) for (where, _), text in stored if namespace in ("", where))
        return [obj for obj in objs if matches(labels_of(obj))]

    def update(self, resource: Resource, namespace: str, obj: Object) -> Object:
        """Replace an object. See `ObjectsApi.update`."""
        with self._lock:
            return self._update(resource, namespace, obj)

    def patch(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """Change fields of an object. See `ObjectsApi.patch`."""
        with self._lock:
            stored = self._get(resource, namespace, name)
            return self._update(resource, namespace, _merged(stored, patch))

    def delete(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object. See `ObjectsApi.delete`."""
        with self._lock:
            obj, version = self._get(resource, namespace, name), next(self._versions)
            obj["metadata"]["resourceVersion"] = str(version)
            self.writes += 1
            del self._objects[resource.plural][namespace, name]
            self._stream(resource.plural).send([{"type": "DELETED", "object": obj}])

    # What follows comes with the lock held.

    def _stream(self, plural: str) -> Stream:
        found = self._streams.get(plural)
        if found is None:
            found = self._streams[plural] = Stream(self, plural, next(self._versions))
        return found

    def _get(self, resource: Resource, namespace: str, name: str) -> Object:
        text = self._objects[resource.plural].get((namespace, name))
        if text is None:
            raise ApiStatusError(404, "NotFound", f"{resource.plural} {name} not found")
        obj: Object = orjson.loads(text)
        return obj

    def _update(self, resource: Resource, namespace: str, obj: Object) -> Object:
        stored = self._get(resource, namespace, obj["metadata"]["name"])
        if resource_version(obj) not in ("", resource_version(stored)):
            raise ApiStatusError(409, "Conflict", f"{resource.plural} has been modified")
        before, changed = stored["metadata"], _content(obj) != _content(stored)
        own = {
            "namespace": namespace,
            "uid": before["uid"],
            "generation": before["generation"] + changed,
        }
        updated = {**obj, "metadata": {**obj["metadata"], **own}}
        return self._keep("MODIFIED", resource, updated, next(self._versions))

    def _keep(self, kind: str, resource: Resource, obj: Object, version: int) -> Object:
        meta = obj["metadata"]
        meta["resourceVersion"] = str(version)
        self.writes += 1
        text = orjson.dumps(obj)
        self._objects[resource.plural][meta["namespace"], meta["name"]] = text
        self._stream(resource.plural).send([{"type": kind, "object": orjson.loads(text)}])
        written: Object = orjson.loads(text)
        return written


class Stream:
    """The events of one resource that nobody has taken yet; the ListWatch of one informer.

    Attributes:
        source: names it for the store that it fills.
        version: of the last event.
    """

    supports_watch_list = False

    def __init__(self, owner: Loopback, plural: str, version: int) -> None:
        """Begin without events; made by `Loopback.stream`."""
        self.source, self.version = f"loopback {plural}", version
        self._owner, self._plural = owner, plural
        self._changed = threading.Condition()
        self._events: deque[Event] = deque()

    def send(self, events: Iterable[Event]) -> None:
        """Have events watched; whoever takes them keeps their objects."""
        with self._changed:
            self._events.extend(events)
            self.version = int(resource_version(self._events[-1]["object"]))
            self._changed.notify_all()

    def taken(self) -> list[Event]:
        """Return the events that wait, and take them: for use without an informer."""
        with self._changed:
            events = list(self._events)
            self._events.clear()
            return events

    def list_page(self, *, stop: StopSignal, **options: Any) -> Page:
        """Return all that was written, in one page; the events until then are in it."""
        self.taken()
        items = self._owner.list(Resource("", "", self._plural))
        return {"metadata": {"resourceVersion": str(self.version)}, "items": items}

    def watch(self, **options: Any) -> _Watch:
        """Open a watch, from the first event that was not taken."""
        return _Watch(self._changed, self._events, self.version)


class _Watch:
    def __init__(self, changed: threading.Condition, events: deque[Event], version: int) -> None:
        self._changed, self._events, self._version = changed, events, version
        self._closed = False

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Event]:
        if not self._events:  # so that an informer knows at once that it may go on from its store
            meta = {"resourceVersion": str(self._version)}
            yield {"type": "BOOKMARK", "object": {"metadata": meta}}
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._events)
                if self._closed:
                    return
                event = self._events.popleft()
            yield event


def _content(obj: Object) -> Object:
    """Return what the generation of an object counts the changes of."""
    return {name: value for name, value in obj.items() if name != "metadata"}


def _merged(target: Any, patch: Any) -> Any:
    """Return what a JSON merge patch makes of a value. Source: RFC 7386."""
    if not isinstance(patch, Mapping):
        return patch
    base = target if isinstance(target, Mapping) else {}
    kept = {name: value for name, value in base.items() if name not in patch}
    changed = {
        name: _merged(base.get(name), value) for name, value in patch.items() if value is not None
    }
    return {**kept, **changed}
