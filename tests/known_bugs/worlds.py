"""A cluster, the caches of a controller, and the controller, all without threads.

The test decides when a cache shows a write, so nothing depends on timing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from sqlcache.client import Resource
from sqlcache.controllers.controller import Controller
from sqlcache.informer import SharedInformer
from sqlcache.objects import Object, Objects, resource_version
from sqlcache.store.api import Indexer
from sqlcache.testing.factories import pod
from sqlcache.testing.scripted import ScriptedListWatch
from tests.backends import BACKENDS
from tests.golden.recording import RecordingApi, status_error

KEY = "default/web"
LATER = "2024-01-01T00:00:00Z"


class Api(RecordingApi):
    """Checks resourceVersions, and gives no new one to an object that did not change."""

    def update(self, resource: Resource, namespace: str, obj: Object) -> Object:
        stored = self.get(resource, namespace, obj["metadata"]["name"])
        if resource_version(obj) not in ("", resource_version(stored)):
            self.actions.append({"name": obj["metadata"]["name"], "verb": "update"})
            raise status_error("conflict", resource, obj["metadata"]["name"])
        self.numbered = obj != stored
        try:
            return super().update(resource, namespace, obj)
        finally:
            self.numbered = True


class World(ABC):
    """See the module.

    Attributes:
        resources: plurals of what the controller has caches of.
        written: what it writes.
    """

    resources: ClassVar[tuple[str, ...]]
    written: ClassVar[Resource]

    def __init__(self, stores: Mapping[str, Indexer]) -> None:
        self.api = Api(numbered=True)
        self.stores = stores
        self.pods, self.services = stores["pods"], stores["services"]
        self.start()

    @classmethod
    @contextmanager
    def opened(cls, backend: str, folder: Path) -> Iterator[Self]:
        """Yield a world whose caches are of a backend."""
        with ExitStack() as stack:
            open_store = BACKENDS[backend]
            yield cls(
                {
                    name: stack.enter_context(open_store(folder, resource=name))
                    for name in cls.resources
                }
            )

    @abstractmethod
    def new_controller(self, informers: Mapping[str, SharedInformer]) -> Controller:
        """Return a controller on informers by plural."""

    def start(self) -> None:
        """Start the controller, or start it anew, with what its caches hold."""
        informers = {
            name: SharedInformer(ScriptedListWatch(), store) for name, store in self.stores.items()
        }
        self.controller = self.new_controller(informers)

    def sync(self) -> list[str]:
        """Sync the service and return the verbs of the writes."""
        self.api.actions.clear()
        self.controller.sync(KEY)
        return [action["verb"] for action in self.api.actions]

    def see(self) -> None:
        """Let the cache of what is written show what is there."""
        self.stores[self.written.plural].replace(self.there_are(), "1")

    def settle(self) -> None:
        """Sync and see until nothing is left to write."""
        self.sync()
        self.see()
        assert self.sync() == []

    def there_are(self) -> Objects:
        """Return what is there of what the controller writes."""
        return self.api.list(self.written)


def service(uid: str = "s1", **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "uid": uid, "resourceVersion": "1"},
        "spec": {
            "clusterIP": "10.1.0.1",
            "ipFamilies": ["IPv4"],
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
            **spec,
        },
    }


def web_pod(number: int = 1, *, ready: bool = True, rv: str = "1", **status: Any) -> Object:
    ip = f"10.0.{number >> 8}.{number & 255}"
    return pod(
        f"p{number}",
        labels={"app": "web"},
        rv=rv,
        uid=f"u{number}",
        spec={"nodeName": "n1"},
        status={
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": str(ready)}],
            **status,
        },
    )
