"""The server itself: its thread, its socket, and what tests ask of it directly.

Promises
- It listens on 127.0.0.1 only.
- `start` returns when it answers; `stop` when nothing of it is left. Both take well under a second.
- The methods that read and write objects work from any thread, also before `start`.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from aiohttp import web

from sqlcache.objects import Object, Objects
from sqlcache.testing.apiserver import listing, patches
from sqlcache.testing.apiserver.deletion import DeleteOptions
from sqlcache.testing.apiserver.faults import Faults
from sqlcache.testing.apiserver.http import Handler, RequestRecord, Settings
from sqlcache.testing.apiserver.registry import Registry, decode, make_record, prepare, timestamp
from sqlcache.testing.apiserver.resources import Resource, builtin_resources
from sqlcache.testing.apiserver.routes import Routes
from sqlcache.testing.apiserver.storage import Storage

T = TypeVar("T")
Requests: TypeAlias = list[RequestRecord]

HOST = "127.0.0.1"
DEFAULT_HISTORY = 10_000  # changes; a real server keeps five minutes of them
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_START_S = _STOP_S = 5.0
_BACKLOG = 1024


class ApiServer:
    """A small Kubernetes API server over HTTP.

        with ApiServer() as server:
            server.create("pods", pod("a"))
            requests.get(f"{server.url}/api/v1/pods")

    Attributes:
        faults: trouble on demand.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        token: str | None = None,
        history: int = DEFAULT_HISTORY,
        bookmark_interval_s: float = 60.0,
        fresh_wait_s: float = 3.0,
        resources: Iterable[Resource] = (),
    ) -> None:
        """Make a server with the built-in resources and the usual namespaces.

        Args:
            port: 0 takes a free one.
            token: the bearer token of its only user. Without it requests are anonymous and may do
                nothing: 403; with another one they get 401. None lets everybody do all.
            history: number of changes remembered; a watch from before them gets 410.
            bookmark_interval_s: time between the bookmarks of a quiet watch.
            fresh_wait_s: how long a request waits for a resourceVersion that is yet to come, before
                it gets 504.
            resources: further ones, see `custom_resource`.
        """
        self._port = port
        self.token = token
        self.faults = Faults()
        self._routes = Routes([*builtin_resources(), *resources])
        self._storage = Storage(history)
        self._namespaces = self._routes.by_name("namespaces")
        self._registry = Registry(self._storage, self._namespaces)
        settings = Settings(token, bookmark_interval_s, fresh_wait_s)
        self._handler = Handler(self._registry, self._routes, self.faults, settings)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._runner: web.ServerRunner | None = None
        self._server: web.Server | None = None
        self._site: web.SockSite | None = None
        self._listener: socket.socket | None = None
        self._changed: set[Resource] = set()
        self._storage.listen(self._wake_watches)
        for name in _NAMESPACES:
            self._add_namespace(name)

    # Life --------------------------------------------------------------------------------------

    def start(self) -> ApiServer:
        """Begin to answer.

        Raises:
            RuntimeError: it was started before.
            OSError: the port is taken.
        """
        if self._thread is not None:
            raise RuntimeError("the server was started before; make a new one")
        started: list[BaseException | None] = []
        ready = threading.Event()

        def run() -> None:
            try:
                asyncio.run(self._main(started, ready))
            except Exception as error:  # noqa: BLE001 (handed to the caller of start)
                started.append(error)
            ready.set()

        self._thread = threading.Thread(target=run, name="apiserver", daemon=True)
        self._thread.start()
        ready.wait(_START_S)
        if not started:
            raise RuntimeError(f"the server did not start within {_START_S} s")
        if started[0] is not None:
            raise started[0]
        return self

    def stop(self) -> None:
        """Close all connections and end the thread. Twice is harmless."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            return
        self.faults.clear()
        if self._loop is not None and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: it has just ended
                self._loop.call_soon_threadsafe(self._stop.set)
        thread.join(_STOP_S)

    def __enter__(self) -> ApiServer:
        """Start."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    async def _main(self, started: list[BaseException | None], ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._server = web.Server(
            self._handler, handler_cancellation=True, access_log=None, keepalive_timeout=600
        )
        self._runner = web.ServerRunner(self._server, shutdown_timeout=0.1)
        await self._runner.setup()
        try:
            await self._open()
            started.append(None)
            ready.set()
            await self._stop.wait()
        finally:
            self._handler.close()
            await self._close()
            await asyncio.sleep(0)  # lets the watches write their ends
            self._abort_connections()
            await self._runner.cleanup()
            self._loop = None

    async def _open(self) -> None:
        if self._runner is None:
            raise RuntimeError("the server is not running")
        self._listener = socket.create_server((HOST, self._port), backlog=_BACKLOG)
        self._port = self._listener.getsockname()[1]
        self._site = web.SockSite(self._runner, self._listener, backlog=_BACKLOG)
        await self._site.start()

    async def _close(self) -> None:
        if self._site is not None and self._listener is not None:
            # asyncio loses a connection that it accepts in the turn of the loop that closes the
            # server, without closing it: so accept none first, and let the last ones be made.
            asyncio.get_running_loop().remove_reader(self._listener)
            await asyncio.sleep(0)
            await self._site.stop()
            self._site = self._listener = None

    def _abort_connections(self) -> None:
        for connection in self._server.connections if self._server else ():
            if connection.transport is not None:
                connection.transport.abort()

    def _wake_watches(self, resource: Resource) -> None:
        """Tell the event loop of a change; one message for all changes until it looks."""
        loop = self._loop
        if loop is None:
            return
        first = not self._changed
        self._changed.add(resource)
        if first:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody watches
                loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        with self._storage.lock:
            changed, self._changed = self._changed, set()
        self._handler.wake(changed)

    def _in_loop(self, call: Callable[[], T]) -> T:
        """Return the result of a function that runs in the event loop."""

        async def run() -> T:
            return call()

        if self._loop is None:
            raise RuntimeError("the server is not running")
        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_STOP_S)

    # Where it is -------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://{HOST}:{self._port}"

    def kubeconfig(self) -> Object:
        """Return a kubeconfig with this server as its only cluster, "test"."""
        user = {} if self.token is None else {"token": self.token}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }

    # Resources and objects ---------------------------------------------------------------------

    def register(self, resource: Resource) -> Resource:
        """Serve one more resource, see `custom_resource`; return it."""
        self._routes.resources = [*self._routes.resources, resource]
        return resource

    @property
    def resource_version(self) -> str:
        """The newest resourceVersion."""
        return str(self._storage.rv)

    def create(self, resource: str, obj: Mapping[str, Any]) -> Object:
        """Add an object as a client does; return it as stored. Its namespace is made if need be.

        Args:
            resource: plural, or `plural.group`.
            obj: not changed. Without a namespace it goes to "default".

        Raises:
            ApiError: the server refuses it.
        """
        found, made = self._routes.by_name(resource), copy.deepcopy(dict(obj))
        prepare(found, made)
        made["metadata"].pop("resourceVersion", None)
        namespace = made["metadata"].get("namespace") or "default" if found.namespaced else ""
        if namespace:
            self._add_namespace(namespace)
        return decode(found, self._registry.create(found, namespace, made))

    def load(self, resource: str, objs: Iterable[Mapping[str, Any]]) -> int:
        """Add or replace objects as they are, status included; return how many.

        Nothing is validated or filled in but what every object has: namespace, uid,
        creationTimestamp and resourceVersion. Fit for tens of thousands of objects.

        Args:
            resource: plural, or `plural.group`.
            objs: not changed. Without a namespace they go to "default".
        """
        found, now = self._routes.by_name(resource), timestamp()
        loaded = 0
        for obj in objs:
            meta = dict(obj["metadata"])
            if found.namespaced:
                meta["namespace"] = meta.get("namespace") or "default"
                self._add_namespace(meta["namespace"])
            meta.setdefault("uid", str(uuid.uuid4()))
            meta.setdefault("creationTimestamp", now)
            self._put(found, {**obj, "metadata": meta})
            loaded += 1
        return loaded

    def _put(self, resource: Resource, obj: Object) -> None:
        self._storage.put(resource, lambda rv: make_record(resource, obj, rv))

    def _add_namespace(self, name: str) -> None:
        with self._storage.lock:
            if self._storage.get(self._namespaces, name) is None:
                obj: Object = {"metadata": {"name": name}}
                prepare(self._namespaces, obj)
                self._registry.create(self._namespaces, "", obj)

    def get(self, resource: str, name: str, namespace: str = "default") -> Object:
        """Return an object.

        Raises:
            ApiError: 404.
        """
        found = self._routes.by_name(resource)
        return decode(found, self._registry.record(found, namespace, name))

    def list(self, resource: str, namespace: str = "", *, label_selector: str = "") -> Objects:
        """Return the objects of a namespace, "" for all, with kind and apiVersion."""
        found = self._routes.by_name(resource)
        scope = listing.scope(found, namespace, {"labelSelector": label_selector})
        page = listing.page(self._storage, scope, listing.ListOptions())
        return [decode(found, record) for record in page.records]

    def count(self, resource: str) -> int:
        """Return how many objects a resource has."""
        return self._storage.count(self._routes.by_name(resource))

    def update(self, resource: str, obj: Mapping[str, Any], *, subresource: str = "") -> Object:
        """Replace an object as PUT does; return it as stored.

        Raises:
            ApiError: the server refuses it; 409 if the resourceVersion in it is not the newest.
        """
        found, new = self._routes.by_name(resource), copy.deepcopy(dict(obj))
        prepare(found, new)
        meta = new["metadata"]
        namespace = meta.get("namespace") or "default" if found.namespaced else ""
        record, _ = self._registry.replace(
            found, namespace, meta.get("name", ""), new, subresource=subresource
        )
        return decode(found, record)

    def patch(
        self,
        resource: str,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "default",
        *,
        subresource: str = "",
    ) -> Object:
        """Change an object by a merge patch; return it as stored.

        Raises:
            ApiError: the server refuses it.
        """
        found = self._routes.by_name(resource)

        def change(obj: Object) -> Object:
            new: Object = patches.merge(obj, dict(patch))
            prepare(found, new)
            return new

        where = namespace if found.namespaced else ""
        record = self._registry.update(found, where, name, change, subresource=subresource)
        return decode(found, record)

    def delete(
        self,
        resource: str,
        name: str,
        namespace: str = "default",
        *,
        grace_period_s: int | None = 0,
    ) -> Object:
        """Delete an object; return its last state.

        Args:
            resource: plural, or `plural.group`.
            name: of the object.
            namespace: of the object.
            grace_period_s: of a pod that has a node; None means what the pod says.

        Raises:
            ApiError: 403 or 404.
        """
        found = self._routes.by_name(resource)
        options = DeleteOptions(grace_period_s=grace_period_s)
        where = namespace if found.namespaced else ""
        record, _ = self._registry.delete(found, where, name, options)
        return decode(found, record)

    # Trouble that concerns the whole server ----------------------------------------------------

    def compact(self) -> None:
        """Forget all history: watches and pages from before now get 410."""
        self._storage.compact()

    def skip_versions(self, count: int = 1) -> None:
        """Raise the resourceVersion without a change, as other resources of a cluster do."""
        self._storage.skip(self._storage.rv + count)

    def cut_watches(self, resource: str | None = None) -> int:
        """Close the connections of open watches; return how many.

        Args:
            resource: plural; None means all.
        """
        return self._in_loop(lambda: self._handler.cut_watches(resource))

    def drop_connections(self) -> None:
        """Reset all connections, also idle ones."""
        self._in_loop(self._abort_connections)

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Take no connections, and reset those that are open, until the block ends."""
        if self._loop is None:
            raise RuntimeError("the server is not running")
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_STOP_S)
        self.drop_connections()
        try:
            yield
        finally:
            asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(_STOP_S)

    # What happened -----------------------------------------------------------------------------

    @property
    def requests(self) -> Requests:
        """The requests so far, oldest first; the last 100,000 are kept."""
        return [*self._handler.requests]

    def watch_count(self, resource: str | None = None) -> int:
        """Return how many watches are open.

        Args:
            resource: plural; None means all.
        """
        return self._handler.watch_count(resource)
