"""The process of a demo's API server: `python -m sqlcache.demo.process`.

It has an interpreter lock and memory of its own, so what is measured beside it is the controllers'.

Elsewhere: how it is asked (sqlcache.bench.cluster).
"""

from __future__ import annotations

import zlib
from typing import Any

from sqlcache.bench.cluster.client import Cluster
from sqlcache.bench.cluster.process import serve
from sqlcache.demo.world import World
from sqlcache.objects import Objects, meta_namespace_key_func, resource_version
from sqlcache.testing.apiserver import ApiServer


class DemoCluster(Cluster):
    """An API server with a `World`, in another process; `ask` it for the methods of `Process`."""

    module = "sqlcache.demo.process"


class Process:
    """The server, and what is asked of it; each method answers the request of its name."""

    def __init__(self, sizes: dict[str, int]) -> None:
        """Start a server with services and nodes, of the sizes that `World` takes."""
        self._server = ApiServer().start()
        self._world = World(self._server, **sizes)

    def start(self) -> Any:
        """Return a kubeconfig."""
        return self._server.kubeconfig()

    def populate(self, most: int) -> int:
        """Load some pods; return how many are still to come."""
        return self._world.populate(most)

    def change(self, count: int) -> None:
        """Make changes."""
        self._world.change(count)

    def list(self, resource: str) -> Objects:
        """Return all objects of a resource."""
        return self._server.list(resource)

    def state_of(self, resource: str) -> Any:
        """Return what tells whether a cache holds the objects of a resource as they are now."""
        return state_of(self._server.list(resource))

    def close(self) -> None:
        """Stop the server."""
        self._server.stop()


def state_of(objs: Objects) -> list[int]:
    """Return the number of objects, and a checksum of their keys and versions in any order."""
    checksums = (
        zlib.crc32(f"{meta_namespace_key_func(obj)}@{resource_version(obj)}".encode())
        for obj in objs
    )
    return [len(objs), sum(checksums)]


if __name__ == "__main__":
    serve(Process)
