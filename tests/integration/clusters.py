"""A controller and its informers on a backend, connected to the test API server over HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import pytest

from sqlcache.client import ObjectsApi, Resource
from sqlcache.clock import Condition
from sqlcache.controllers.controller import Controller
from sqlcache.informer import SharedInformerFactory
from sqlcache.objects import Objects, meta_namespace_key_func, resource_version
from sqlcache.testing.apiserver import ApiServer
from tests.backends import BACKENDS

pytest.importorskip("kubernetes", reason="needs the extra kubernetes")

from sqlcache.client.objects import ApiObjects
from sqlcache.client.transport import ApiListWatch, connect

C = TypeVar("C", bound=Controller)

PATIENCE_S = 60.0  # of real time, on a busy machine
QUIET_S = 0.5
FASTER = 20.0  # failed syncs and broken watches wait for up to a minute
WRITES = ("create", "update", "patch", "delete")


@dataclass
class Running(Generic[C]):
    """A controller that runs."""

    controller: C
    factory: SharedInformerFactory
    server: ApiServer
    resources: Sequence[str]

    def settle(self, resource: str) -> None:
        """Wait until the caches show what is there, nothing waits, and no more writes come.

        Args:
            resource: plural of what the controller writes.
        """
        written = -1
        while written != len(writes(self.server, resource)):
            written = len(writes(self.server, resource))
            eventually(lambda: not self._unrest(), lambda: f"it does not rest: {self._unrest()}")
            time.sleep(QUIET_S)

    def _unrest(self) -> list[str]:
        """Return what is not at rest: the controller, or a cache with the versions that differ."""
        unrest = [] if self.controller.is_idle() else [f"{self.controller.name} is not idle"]
        for resource in self.resources:
            cached = _versions(self.factory.informer(resource).store.list())
            stored = _versions(self.server.list(resource))
            if cached != stored:
                unrest.append(f"{resource}: {sorted(cached.items() ^ stored.items())}")
        return unrest


class FastClock:
    """Real time, but it goes faster: for back-off that would take minutes."""

    def now(self) -> float:
        return time.monotonic() * FASTER

    def condition(self) -> Condition:
        return _FastCondition(threading.Lock())


class _FastCondition(threading.Condition):
    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(None if timeout is None else timeout / FASTER)


def _versions(objs: Objects) -> dict[str, str]:
    return {meta_namespace_key_func(obj): resource_version(obj) for obj in objs}


@contextmanager
def running(
    server: ApiServer,
    backend: str,
    folder: Path,
    resources: Sequence[Resource],
    make: Callable[[ObjectsApi, SharedInformerFactory], C],
) -> Iterator[Running[C]]:
    """Run a controller until the end of the block.

    Args:
        server: what it talks to.
        backend: of the stores of its informers, by the name in tests.backends.
        folder: for files.
        resources: those that it asks the factory for, by their plural.
        make: returns the controller.
    """
    path = folder / "kubeconfig"
    path.write_text(json.dumps(server.kubeconfig()))
    client = connect(kubeconfig=str(path))
    with ExitStack() as stack:
        transports = {each.plural: ApiListWatch(client, each) for each in resources}
        for transport in transports.values():
            stack.callback(transport.close)
        api = ApiObjects(client)
        stack.callback(api.close)
        factory = stack.enter_context(
            SharedInformerFactory(
                transports.__getitem__,
                store=lambda resource: BACKENDS[backend](folder, resource=resource),
                clock=FastClock(),
            )
        )
        controller = make(api, factory)
        stack.enter_context(controller)
        factory.start()
        yield Running(controller, factory, server, [each.plural for each in resources])


def eventually(
    is_so: Callable[[], object], what: str | Callable[[], str] = "it never came to be"
) -> None:
    """Wait until something is the case, or fail and say what is not."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, what if isinstance(what, str) else what()
        time.sleep(0.02)


def writes(server: ApiServer, resource: str, since: int = 0) -> list[str]:
    """Return the writes of a resource that clients asked for, as "verb name".

    Args:
        server: what they were asked of.
        resource: plural.
        since: leave out so many requests at the start.
    """
    return [
        f"{each.verb} {each.target.name}".strip()
        for each in list(server.requests)[since:]
        if each.resource == resource and each.verb in WRITES
    ]
