"""A demo from its start to the check at its end.

Flow: an API server with a `World` in another process -> informers on a backend -> both controllers
-> pods change -> all comes to rest -> every Endpoints and EndpointSlice is compared with what it
should be.

Promises
- The caches of all resources are on the chosen backend.
- Rest means: no item waits, is delayed or worked on in any queue, every cache is as the server, and
  that stays so for `QUIET_S`.
- Stopped before its time, a demo comes to rest all the same, and checks.
- Nothing of it is left at the end but a file that was asked for.

Elsewhere: the check (sqlcache.testing.convergence), how it looks (sqlcache.cli.demo).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias

from sqlcache.bench.measuring import resident_bytes, rss_bytes
from sqlcache.client.api import Resource
from sqlcache.client.objects import ApiObjects
from sqlcache.client.transport import ApiListWatch, connect
from sqlcache.controllers.controller import Controller
from sqlcache.controllers.endpoints import EndpointsController
from sqlcache.controllers.endpointslice import EndpointSliceController
from sqlcache.demo.measures import Measures
from sqlcache.demo.process import DemoCluster, state_of
from sqlcache.demo.settings import Latency, Outcome, Settings
from sqlcache.informer import SharedInformerFactory
from sqlcache.store import open_store
from sqlcache.store.api import Indexer
from sqlcache.testing.convergence import (
    ClusterState,
    endpoints_differences,
    slices_differences,
)

QUIET_S = 0.5
PATIENCE_S = 120.0  # without a sync, until it is said that it does not come to rest
_POLL_S = 0.05
_STEP_S = 0.05  # between changes
_LOADED = 1000  # pods at a time
_CHANGED = 500  # pods at a time
_END_S = 5.0  # for controllers to end that were interrupted
_RESOURCES = {
    each.plural: each
    for each in (
        *(Resource("", "v1", name) for name in ("pods", "services", "nodes", "endpoints")),
        Resource("discovery.k8s.io", "v1", "endpointslices"),
    )
}


class Reading(NamedTuple):
    """How it goes at one moment.

    Attributes:
        phase: what is being done.
        elapsed_s: since that began.
        changes: of pods so far.
        depth: items that wait in the queues.
        syncs_per_s: since the reading before.
        lists, writer_wait: likewise.
        memory_bytes: resident.
    """

    phase: str
    elapsed_s: float
    changes: int
    depth: int
    syncs_per_s: float
    lists: Latency
    writer_wait: Latency
    memory_bytes: int


Show: TypeAlias = Callable[[Reading], None]


def run(
    settings: Settings, show: Show, stopped: Callable[[], bool], *, readings_every_s: float = 1.0
) -> Outcome:
    """Run a demo.

    Args:
        settings: see there.
        show: is called in this thread, with a reading.
        stopped: tells whether pods should change no more; no lock is taken to ask, so it may be a
            flag that a signal sets.
        readings_every_s: time between readings.
        readings_every_s: time between readings.

    Raises:
        ClusterError: the API server's process does not start, or is gone.
        SqlcacheError: the caches cannot be opened.
    """
    with ExitStack() as stack:
        demo = _Demo(settings, stack, _Readings(show, readings_every_s), stopped)
        return demo.run()


class _Readings:
    """Takes readings when it is time for one."""

    def __init__(self, show: Show, every_s: float) -> None:
        self.measures, self.changes = Measures(), 0
        self._show, self._every_s = show, every_s
        self._phase, self._began, self._last = "", 0.0, 0.0

    def begin(self, phase: str) -> None:
        """Let readings from here on say that this is done; take the last one of what was before."""
        if self._phase:
            self._take()
        self._phase, self._began = phase, time.monotonic()

    def look(self) -> None:
        """Take a reading, if it is time."""
        if time.monotonic() >= self._last + self._every_s:
            self._take()

    def _take(self) -> None:
        now, measures = time.monotonic(), self.measures
        syncs = len(measures.syncs.new()) / max(now - self._last, _POLL_S)
        self._last = now
        self._show(
            Reading(
                self._phase,
                now - self._began,
                self.changes,
                measures.depth.value,
                syncs,
                Latency.of(measures.lists.new()),
                Latency.of(measures.writer_waits.new()),
                resident_bytes(),
            )
        )


class _Demo:
    def __init__(
        self, settings: Settings, stack: ExitStack, readings: _Readings, stopped: Callable[[], bool]
    ) -> None:
        self._settings, self._readings, self._stopped = settings, readings, stopped
        self._measures = readings.measures
        sizes = ("namespaces", "services", "pods", "seed")
        readings.begin("making the cluster")
        self._cluster = stack.enter_context(
            DemoCluster(**{name: getattr(settings, name) for name in sizes})
        )
        while self._cluster.ask("populate", most=_LOADED) and not stopped():
            readings.look()
        directory = stack.enter_context(TemporaryDirectory())
        self._connect(stack, Path(directory))

    def _connect(self, stack: ExitStack, directory: Path) -> None:
        """Make informers and controllers; what is made is stopped by the stack."""
        client = connect(kubeconfig=self._cluster.kubeconfig(directory))
        api = ApiObjects(client)
        stack.callback(api.close)
        transports = {name: ApiListWatch(client, each) for name, each in _RESOURCES.items()}
        for transport in transports.values():
            stack.callback(transport.close)
        self._factory = stack.enter_context(
            SharedInformerFactory(transports.__getitem__, store=self._open)
        )
        informer = self._factory.informer
        self._controllers: list[Controller] = [
            EndpointsController(
                api,
                pods=informer("pods"),
                services=informer("services"),
                endpoints=informer("endpoints"),
                metrics=self._measures,
            ),
            EndpointSliceController(
                api,
                pods=informer("pods"),
                services=informer("services"),
                nodes=informer("nodes"),
                endpoint_slices=informer("endpointslices"),
                metrics=self._measures,
            ),
        ]
        for controller in self._controllers:
            stack.callback(controller.stop, _END_S)

    def _open(self, resource: str) -> Indexer:
        store = open_store(self._settings.backend, resource)
        return self._measures.observed(store) if resource == "pods" else store

    def run(self) -> Outcome:
        readings, measures, began = self._readings, self._measures, time.monotonic()
        readings.begin("first sync")
        self._factory.start()
        for controller in self._controllers:
            controller.start()
        started = self._come_to_rest()
        measures.restart()
        changing = time.monotonic()
        readings.begin("pods change")
        self._change()
        changed, syncs = time.monotonic(), len(measures.syncs)
        readings.begin("coming to rest")
        rested = self._come_to_rest()
        memory_bytes = rss_bytes()
        readings.begin("checking")
        state, differences = self._check()
        return Outcome(
            backend=self._settings.backend,
            stopped=self._stopped(),
            start_s=None if started is None else started - began,
            changes=readings.changes,
            changing_s=changed - changing,
            settling_s=None if rested is None else max(0.0, rested - changed),
            syncs=len(measures.syncs),
            syncs_per_s=syncs / max(changed - changing, _STEP_S),
            peak_depth=measures.depth.peak,
            lists=Latency.of(measures.lists.all()),
            sync=Latency.of(measures.syncs.all()),
            writer_wait=Latency.of(measures.writer_waits.all()),
            memory_bytes=memory_bytes,
            checked_endpoints=len(state.endpoints),
            checked_slices=len(state.slices),
            differences=differences,
        )

    def _change(self) -> None:
        """Have pods changed. A change that is late is not left out: equal seeds make the same."""
        settings, readings, began = self._settings, self._readings, time.monotonic()
        total = round(settings.changes_per_s * settings.duration_s)
        while readings.changes < total and not self._stopped():
            due = min(total, int((time.monotonic() - began) * settings.changes_per_s))
            late = due - readings.changes
            if late:
                self._cluster.ask("change", count=min(late, _CHANGED))
                readings.changes += min(late, _CHANGED)
            readings.look()
            if late <= _CHANGED:
                time.sleep(_STEP_S)

    def _come_to_rest(self) -> float | None:
        """Wait for rest; return when it began, None if it does not come."""
        active, syncs = time.monotonic(), -1
        while True:
            seen = time.monotonic()
            if self._is_at_rest():
                return seen
            if syncs != len(self._measures.syncs):
                active, syncs = seen, len(self._measures.syncs)
            elif seen - active > PATIENCE_S:
                return None
            self._readings.look()
            time.sleep(_POLL_S)

    def _is_at_rest(self) -> bool:
        return (
            self._is_idle()
            and (state := self._current_state()) != []
            and self._stays_idle()
            and self._current_state() == state
        )

    def _is_idle(self) -> bool:
        return all(controller.is_idle() for controller in self._controllers)

    def _stays_idle(self) -> bool:
        """Wait a while; return whether nothing came to be done: a handler may be late."""
        syncs, end = len(self._measures.syncs), time.monotonic() + QUIET_S
        while time.monotonic() < end:
            time.sleep(_POLL_S)
            if not self._is_idle():
                return False
        return syncs == len(self._measures.syncs)

    def _current_state(self) -> list[list[int]]:
        """Return the state of all caches if they are as the server, else []."""
        state = []
        for name in _RESOURCES:
            state.append(state_of(self._factory.informer(name).store.list()))
            if state[-1] != self._cluster.ask("state_of", resource=name):
                return []
        return state

    def _check(self) -> tuple[ClusterState, list[str]]:
        state = ClusterState.of(lambda resource: self._cluster.ask("list", resource=resource))
        return state, [*endpoints_differences(state), *slices_differences(state)]
