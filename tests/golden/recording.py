"""An API server for golden cases of controllers.

It keeps objects, writes down each write, and fails where the case says so. What a real one does
beyond that is not in the cases.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from sqlcache.client import Resource
from sqlcache.errors import ApiStatusError
from sqlcache.informer import Handler
from sqlcache.objects import Object, Objects, meta_namespace_key_func
from sqlcache.store.api import Indexer, Store
from tests.backends import BACKENDS

Action = dict[str, str]

FIRST_NUMBER = 5001
SPEC = ("addressType", "endpoints", "ports")  # of a slice: what its generation counts
TERMINATING = "unable to create new content in namespace ns1 because it is being terminated"
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class RecordingApi:
    """See the module, and `sqlcache.client.ObjectsApi`.

    Attributes:
        actions: the writes since they were last cleared, also those that failed.
        numbered: give each written object a new resourceVersion, new ones a uid, and slices a
            generation.
    """

    def __init__(self, *, numbered: bool) -> None:
        self.actions: list[Action] = []
        self.numbered = numbered
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._failures: dict[str, str] = {}
        self._number = FIRST_NUMBER
        self._created = 0

    def put(self, resource: Resource, obj: Object) -> None:
        """Keep an object that somebody else wrote."""
        meta = obj["metadata"]
        self._objects[resource.plural, meta.get("namespace", ""), meta["name"]] = obj

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        """Drop an object that somebody else deleted."""
        self._objects.pop((resource.plural, namespace, name), None)

    def fail(self, failures: dict[str, str]) -> None:
        """Answer verbs with errors from now on: by verb, the error's name in the cases."""
        self._failures = failures

    def create(self, resource: Resource, namespace: str, obj: Object) -> Object:
        obj = copy.deepcopy(obj)
        meta = obj["metadata"]
        self._act("create", resource, meta.get("name", ""))
        if "name" not in meta:
            self._created += 1
            meta["name"] = f"{meta['generateName']}new{self._created}"
        if (resource.plural, namespace, meta["name"]) in self._objects:
            raise status_error("alreadyExists", resource, meta["name"])
        if self.numbered:
            meta["uid"] = f"uid-{self._number}"
            if resource.plural == "endpointslices":
                meta.update(uid=f"es-{meta['name']}", generation=1)
        return self._keep(resource, namespace, obj)

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        found = self._objects.get((resource.plural, namespace, name))
        if found is None:
            raise status_error("notFound", resource, name)
        return copy.deepcopy(found)

    def list(self, resource: Resource, namespace: str = "", label_selector: str = "") -> Objects:
        assert not label_selector
        return [
            copy.deepcopy(obj)
            for (plural, where, _), obj in self._objects.items()
            if plural == resource.plural and namespace in ("", where)
        ]

    def update(self, resource: Resource, namespace: str, obj: Object) -> Object:
        name = obj["metadata"]["name"]
        self._act("update", resource, name)
        stored, obj = self.get(resource, namespace, name), copy.deepcopy(obj)
        if self.numbered and resource.plural == "endpointslices":
            obj["metadata"].update(
                uid=stored["metadata"]["uid"],
                generation=stored["metadata"].get("generation", 0)
                + any((obj.get(part) or None) != (stored.get(part) or None) for part in SPEC),
            )
        return self._keep(resource, namespace, obj)

    def patch(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        raise NotImplementedError("no controller patches")

    def delete(self, resource: Resource, namespace: str, name: str) -> None:
        self._act("delete", resource, name)
        self.get(resource, namespace, name)
        self.remove(resource, namespace, name)

    def _act(self, verb: str, resource: Resource, name: str) -> None:
        self.actions.append({"name": name, "verb": verb})
        if verb in self._failures:
            raise status_error(self._failures[verb], resource, name)

    def _keep(self, resource: Resource, namespace: str, obj: Object) -> Object:
        obj["metadata"]["namespace"] = namespace
        if self.numbered:
            obj["metadata"]["resourceVersion"] = str(self._number)
            self._number += 1
        self.put(resource, obj)
        return copy.deepcopy(obj)


def failures(case_input: Mapping[str, Any], step: int) -> dict[str, str]:
    """Return what the API server is to fail with while a step of a case is synced."""
    errors = case_input.get("apiErrors", ())
    return {each["verb"]: each["error"] for each in errors if each["step"] == step}


@contextmanager
def opened(backend: str, folder: Path, resources: Iterable[str]) -> Iterator[dict[str, Indexer]]:
    """Give stores of one backend, by resource, for all cases: each sync replaces what they hold."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(BACKENDS[backend](folder, resource=name))
            for name in resources
        }


def text_of(value: Any) -> str:
    """Return a text to compare and sort JSON values by."""
    return json.dumps(value, sort_keys=True)


def show(store: Store, objs: Objects, handler: Handler) -> None:
    """Have a cache show objects, and tell a handler what changed."""
    before = {meta_namespace_key_func(obj): obj for obj in store.list()}
    store.replace(copy.deepcopy(objs), "1")
    for new in store.list():
        old = before.pop(meta_namespace_key_func(new), None)
        if old is None:
            handler.on_add(new, False)
        elif old != new:
            handler.on_update(old, new)
    for gone in before.values():
        handler.on_delete(gone)


def status_error(kind: str, resource: Resource, name: str) -> ApiStatusError:
    """Return an error as client-go makes it."""
    what = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    named = f'{what} "{name}"' if name else what
    code, reason, message = {
        "forbidden": (403, "Forbidden", f"{named} is forbidden: denied by policy"),
        "namespaceTerminating": (403, "Forbidden", f"{named} is forbidden: {TERMINATING}"),
        "notFound": (404, "NotFound", f'{what} "{name}" not found'),
        "alreadyExists": (409, "AlreadyExists", f'{what} "{name}" already exists'),
        "conflict": (
            409,
            "Conflict",
            f'Operation cannot be fulfilled on {what} "{name}": {MODIFIED}',
        ),
        "internal": (500, "InternalError", "Internal error occurred: boom"),
    }[kind]
    causes = [{"reason": "NamespaceTerminating"}] if kind == "namespaceTerminating" else []
    details: dict[str, Any] = {"causes": causes}
    return ApiStatusError(code, reason, message, details)
