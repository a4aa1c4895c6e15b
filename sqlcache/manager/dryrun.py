"""Controllers that write nothing: what they would write is shown instead.

    api = DryRunObjects(ApiObjects(client))
    controller = EndpointsController(api, ...)  # not started: it gets no thread
    ...  # start the informers, wait for them
    for key, writes, error in first_pass(controller, api): ...

Promises
- The API server gets GET, LIST and WATCH, and nothing else. Kubernetes Events are dropped: they
  tell of writes that are not made.
- What a write is compared with is what the API server has at that moment. It fails where the server
  would refuse it because the object is there, is gone, or has changed since it was read.

Elsewhere: how a write is shown (manager.diffs).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlcache.client.api import ObjectsApi, Resource
from sqlcache.controllers.controller import Controller
from sqlcache.controllers.events import EVENTS
from sqlcache.errors import AggregateError, ApiStatusError, SliceWriteError
from sqlcache.objects import Object, Objects, resource_version

_LOG = logging.getLogger(__name__)

ATTEMPTS = 3  # a cluster in use changes between a read and a write
_PAUSE_S, _POLL_S = 1.0, 0.01
_CONFLICT = 409  # also the code of what exists already


class Write(NamedTuple):
    """A write that was not made.

    Attributes:
        verb: "create", "update", "patch" or "delete".
        resource: of the object.
        namespace: of the object, "" if it has none.
        name: of the object; that which the server would complete ends with "-".
        before: the object on the server; None if it is not there.
        after: as it would be sent; None if it would be deleted.
    """

    verb: str
    resource: Resource
    namespace: str
    name: str
    before: Object | None
    after: Object | None


Writes = list[Write]


class Outcome(NamedTuple):
    """What became of a key.

    Attributes:
        key: that was synced.
        writes: that would have been made, in order.
        error: why it failed, in the middle of them or after all; None if it did not.
    """

    key: str
    writes: Sequence[Write]
    error: Exception | None


class DryRunObjects:
    """An `ObjectsApi` that passes reads on and notes writes.

    Attributes:
        writes: so far, in order.
    """

    def __init__(self, api: ObjectsApi) -> None:
        """Wrap an api, which is asked for objects and for nothing else."""
        self._api = api
        self.writes: Writes = []

    def create(self, resource: Resource, namespace: str, obj: Object) -> Object:
        """Note a new object and return it as it would be sent."""
        meta = obj["metadata"]
        name = meta.get("name") or meta.get("generateName") or ""
        if resource != EVENTS:
            if meta.get("name") and self._stored(resource, namespace, name) is not None:
                message = f'{_named(resource)} "{name}" already exists'
                raise ApiStatusError(_CONFLICT, "AlreadyExists", message)
            self.writes.append(Write("create", resource, namespace, name, None, obj))
        return {**obj, "metadata": {**meta, "name": name}}

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return an object of the server."""
        return self._api.get(resource, namespace, name)

    def list(self, resource: Resource, namespace: str = "", label_selector: str = "") -> Objects:
        """Return objects of the server."""
        return self._api.list(resource, namespace, label_selector)

    def update(self, resource: Resource, namespace: str, obj: Object) -> Object:
        """Note a replacement and return it as it would be sent."""
        name = obj["metadata"]["name"]
        before = self._api.get(resource, namespace, name)
        if resource_version(obj) not in ("", resource_version(before)):
            message = (
                f'Operation cannot be fulfilled on {_named(resource)} "{name}": the object has been'
                " modified; please apply your changes to the latest version and try again"
            )
            raise ApiStatusError(_CONFLICT, "Conflict", message)
        self.writes.append(Write("update", resource, namespace, name, before, obj))
        return obj

    def patch(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """Note a change and return the object with it."""
        if resource == EVENTS:
            return patch
        before = self._api.get(resource, namespace, name)
        after = _merged(before, patch)
        self.writes.append(Write("patch", resource, namespace, name, before, after))
        return after

    def delete(self, resource: Resource, namespace: str, name: str) -> None:
        """Note a deletion."""
        before = self._api.get(resource, namespace, name)
        self.writes.append(Write("delete", resource, namespace, name, before, None))

    def _stored(self, resource: Resource, namespace: str, name: str) -> Object | None:
        try:
            return self._api.get(resource, namespace, name)
        except ApiStatusError as error:
            if not error.is_not_found():
                raise
            return None


def first_pass(controller: Controller, api: DryRunObjects) -> Iterator[Outcome]:
    """Sync everything that there is, once, in this thread, in the order of its keys.

    A key whose first write meets an object that has changed or is gone is tried again a second
    later, three times in all: the cache is late.

    Args:
        controller: not started; its informers are in sync.
        api: where it writes, and nobody else.
    """
    while not controller.has_synced():
        time.sleep(_POLL_S)
    controller.caches_synced()
    keys = []
    while len(controller.queue):
        keys.append(controller.queue.get())
    for key in sorted(keys):
        yield _outcome(controller, api, key)
        controller.queue.done(key)


def _outcome(controller: Controller, api: DryRunObjects, key: str) -> Outcome:
    written = len(api.writes)
    for attempts_left in range(ATTEMPTS - 1, -1, -1):
        try:
            controller.sync(key)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told
            is_late = _tells_of_change(error) and len(api.writes) == written
            if not is_late or not attempts_left:
                return Outcome(key, api.writes[written:], error)
            _LOG.info("%s: cannot handle %s, trying again: %s", controller.name, key, error)
            time.sleep(_PAUSE_S)
        else:
            break
    return Outcome(key, api.writes[written:], None)


def _tells_of_change(error: Exception) -> bool:
    if isinstance(error, AggregateError):
        return any(map(_tells_of_change, error.errors))
    if isinstance(error, SliceWriteError):
        return _tells_of_change(error.cause)
    return isinstance(error, ApiStatusError) and (error.code == _CONFLICT or error.is_not_found())


def _merged(obj: Object, patch: Object) -> Object:
    """Return an object after a JSON merge patch (RFC 7386)."""
    merged = dict(obj)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            inner = merged.get(name)
            merged[name] = _merged(inner if isinstance(inner, dict) else {}, value)
        else:
            merged[name] = value
    return merged


def _named(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
