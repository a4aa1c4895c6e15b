"""Controllers that write nothing: what they would write is shown instead.

    api = DryRunObjects(ApiObjects(client), show)
    controller = EndpointsController(api, ...)  # not started: it gets no thread
    ...  # start the informers, wait for them
    for key, error in first_pass(controller): ...

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
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sqlcache.client.api import ObjectsApi, Resource
from sqlcache.controllers.controller import Controller
from sqlcache.controllers.events import EVENTS
from sqlcache.errors import ApiStatusError
from sqlcache.objects import Object, Objects, resource_version

_LOG = logging.getLogger(__name__)

ATTEMPTS = 3  # a cluster in use changes between a read and a write
_PAUSE_S = 1.0


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


class DryRunObjects:
    """An `ObjectsApi` that passes reads on and tells of writes."""

    def __init__(self, api: ObjectsApi, on_write: Callable[[Write], None]) -> None:
        """Wrap an api.

        Args:
            api: is asked for objects, and for nothing else.
            on_write: told of each write, in the thread that asks for it.
        """
        self._api, self._on_write = api, on_write

    def create(self, resource: Resource, namespace: str, obj: Object) -> Object:
        """Tell of a new object and return it as it would be sent."""
        meta = obj["metadata"]
        name = meta.get("name") or meta.get("generateName") or ""
        if resource != EVENTS:
            if meta.get("name") and self._stored(resource, namespace, name) is not None:
                message = f'{_named(resource)} "{name}" already exists'
                raise ApiStatusError(409, "AlreadyExists", message)
            self._on_write(Write("create", resource, namespace, name, None, obj))
        return {**obj, "metadata": {**meta, "name": name}}

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return an object of the server."""
        return self._api.get(resource, namespace, name)

    def list(self, resource: Resource, namespace: str = "", label_selector: str = "") -> Objects:
        """Return objects of the server."""
        return self._api.list(resource, namespace, label_selector)

    def update(self, resource: Resource, namespace: str, obj: Object) -> Object:
        """Tell of a replacement and return it as it would be sent."""
        name = obj["metadata"]["name"]
        before = self._api.get(resource, namespace, name)
        if resource_version(obj) not in ("", resource_version(before)):
            message = (
                f'Operation cannot be fulfilled on {_named(resource)} "{name}": the object has been'
                " modified; please apply your changes to the latest version and try again"
            )
            raise ApiStatusError(409, "Conflict", message)
        self._on_write(Write("update", resource, namespace, name, before, obj))
        return obj

    def patch(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """Tell of a change and return the object with it."""
        if resource == EVENTS:
            return patch
        before = self._api.get(resource, namespace, name)
        after = _merged(before, patch)
        self._on_write(Write("patch", resource, namespace, name, before, after))
        return after

    def delete(self, resource: Resource, namespace: str, name: str) -> None:
        """Tell of a deletion."""
        before = self._api.get(resource, namespace, name)
        self._on_write(Write("delete", resource, namespace, name, before, None))

    def _stored(self, resource: Resource, namespace: str, name: str) -> Object | None:
        try:
            return self._api.get(resource, namespace, name)
        except ApiStatusError as error:
            if not error.is_not_found():
                raise
            return None


def first_pass(controller: Controller) -> Iterator[tuple[str, Exception | None]]:
    """Sync everything that there is, once, in this thread, in the order of its keys.

    A key that fails is tried again a second later, three times in all, for it may be the cache that
    is late.

    Args:
        controller: not started; its informers are in sync.

    Yields:
        A key, and why its sync failed, if it did.
    """
    while not controller.has_synced():
        time.sleep(0.01)
    controller.caches_synced()
    keys = []
    while len(controller.queue):
        keys.append(controller.queue.get())
    for key in sorted(keys):
        yield key, _synced(controller, key)
        controller.queue.done(key)


def _synced(controller: Controller, key: str) -> Exception | None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            controller.sync(key)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told
            if attempt == ATTEMPTS:
                return error
            _LOG.info("%s: cannot handle %s, trying again: %s", controller.name, key, error)
            time.sleep(_PAUSE_S)
        else:
            break
    return None


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
