"""`controllers`: what the Endpoints and EndpointSlice controllers spend on their caches.

Both controllers work on caches of the backend: all pods in one namespace, 10 to 5,000 services that
select 0.1 % of them each, 5,000 nodes, and what they write. The API server is in the process
(`loopback`). A burst is ten pod events.

| line | a sample is |
|---|---|
| pod lookup, … sync | the controller's question for the pods of a service |
| all cache work, … sync | all calls of stores in one sync |
| whole … sync | one sync, with its writes |
| services of a pod event | one "which services select a pod with these labels?" |
| write of a burst | a burst applied to the store |
| reader wait | what the pod lookup of a worker took longer than its median alone |
| writer wait | from the arrival of a burst until it is stored, less its median write alone |

`one thread`: events, syncs and writes follow one another in one thread; one event of each burst
concerns a service. `5 workers`: informers with their threads, 1,000 pod events a second, 20 of
which concern a service, and so many workers for each controller. `backlog`: the same, and all
services wait to be synced at the beginning. What a controller does at its start, when every pod is
news, is not measured.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from sqlcache.bench.answers import Answer, answer
from sqlcache.bench.backends import BACKENDS, Subject
from sqlcache.bench.loopback import Loopback
from sqlcache.bench.measuring import percentile, rss_bytes, setting_up
from sqlcache.bench.metered import Meter, MeteredEndpoints, MeteredSlices
from sqlcache.bench.scenarios.workload import Cell, Job, Measurement, Workload
from sqlcache.bench.serving import (
    BURST,
    NAMESPACE,
    Event,
    Serving,
    in_endpoints,
    in_slices,
    service_name,
)
from sqlcache.bench.threads import Thread, wait_until
from sqlcache.bench.workloads import NARROW, members
from sqlcache.controllers.controller import Controller
from sqlcache.controllers.endpoints.controller import ENDPOINTS
from sqlcache.controllers.endpointslice.slices import ENDPOINT_SLICES, SERVICE_NAME_LABEL
from sqlcache.controllers.podevents import PodEvents
from sqlcache.errors import SqlcacheError
from sqlcache.informer import SharedInformer
from sqlcache.objects import meta_namespace_key_func, resource_version
from sqlcache.store.api import Indexer

SERVICES = (10, 100, 1_000, 5_000)
WORKERS = (1, 5, 10)
USUAL_SERVICES, USUAL_WORKERS = 1_000, 5
ALONE, MEMORY = "one thread", "process growth"
LOOKUP, CACHE, WHOLE = "pod lookup, {} sync", "all cache work, {} sync", "whole {} sync"
PODS_OF, WRITE = "services of a pod event", "write of a burst"
READER, WRITER = "reader wait", "writer wait"
CACHES = "caches of pods and nodes"
BACKLOG = ", backlog"
_EVENTS_PER_S = 1000
_CONCERNING = 5  # one burst of so many concerns a service
_WRITTEN = ("endpoints", "endpointslices")
_LEAST_BURSTS, _LEAST_SYNCS = 2, 4  # in a round; of each controller
_ALONE_LINES = 4  # whose timed seconds one thread has: what controllers share is one
_CHECKED = 3  # services
_PATIENCE_S = 10.0  # for syncs, after the last event
_LIMIT_S = 120.0  # for anything that has to come
_STOP_S = 60.0


def line(name: str, services: int) -> str:
    """Return the name of a line of the table."""
    return f"{name}, {services:,} services"


_WORKERS = f"{USUAL_WORKERS} workers"
HEADLINES = (
    (line(LOOKUP.format("endpoints"), USUAL_SERVICES), ALONE),
    (line(READER, USUAL_SERVICES), _WORKERS),
    (line(WRITER, USUAL_SERVICES), _WORKERS),
    (line(WHOLE.format("endpoints"), USUAL_SERVICES), f"{_WORKERS}{BACKLOG}"),
    (line(PODS_OF, USUAL_SERVICES), ALONE),
    (line(CACHE.format("endpointslice"), USUAL_SERVICES), ALONE),
)


class ControllersError(SqlcacheError, RuntimeError):
    """What was waited for did not come."""


class Controllers(Workload):
    """Pods and nodes on the backend's stores; services and controllers come with each cell.

    Options of the job: numbers of `services`, numbers of `workers`, `seconds` of events.
    """

    def __init__(self, job: Job) -> None:
        """Open the empty stores of pods and nodes."""
        super().__init__(job)
        self.backend, self._directory = BACKENDS[job.backend], Path(job.directory)
        self.versions = count(10_000_000)
        self.nodes = self.open("nodes")
        self.alone: dict[int, Alone] = {}  # by number of services

    def prepare(self) -> list[Answer]:
        """Load pods and nodes, noting what the process grows by; answer for some services."""
        size, seed = self.parameters.pods, self.parameters.seed
        self.serving = Serving(size, seed, self.versions)
        self.matches = members(size, NARROW)
        before = rss_bytes()
        with setting_up():
            self.subject.load(list(self.serving.pods()))
            self.nodes.load(self.serving.nodes())
        self.growth = max(0, rss_bytes() - before)
        asked = [f"svc=svc-{number}" for number in range(_CHECKED)]
        return [answer(self.subject.store.select(NAMESPACE, selector)) for selector in asked]

    def open(self, resource: str) -> Subject:
        """Open an empty store of the backend."""
        return Subject(self.backend, Path(tempfile.mkdtemp(dir=self._directory)), resource)

    def cells(self) -> Sequence[Cell]:
        """Return the memory; each number of services in one thread; workers at their usual size."""
        sizes = [int(size) for size in self.options["services"]]
        usual = max(size for size in sizes if size <= max(USUAL_SERVICES, sizes[0]))
        workers = [int(number) for number in self.options["workers"]]
        others = [size for size in sizes if size != usual]
        return [
            _Memory(self),
            *(_Alone(self, size) for size in sizes),
            *(_Together(self, size, USUAL_WORKERS) for size in others),
            *(_Together(self, usual, number) for number in workers),
            *(_Together(self, usual, number, backlog=True) for number in workers),
        ]

    def close(self) -> None:
        """Close the stores."""
        self.nodes.close()
        super().close()


@dataclass(slots=True)
class Alone:
    """What things take in one thread, in microseconds."""

    lookups: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)


class World:
    """Caches, an API server and both controllers."""

    def __init__(self, workload: Controllers, services: int, workers: int) -> None:
        self.serving, self.services = workload.serving, services
        self._served = self.serving.served(services)
        self.meter, self.api = Meter(), Loopback(workload.versions)
        self._opened = [workload.open(name) for name in ("services", *_WRITTEN)]
        self._opened[0].load(self.serving.services(services))
        of_services, *of_written = (subject.store for subject in self._opened)
        self._filled = {
            "pods": workload.subject.store,
            "services": of_services,
            "nodes": workload.nodes.store,
        }
        self._stores = {**self._filled, **dict(zip(_WRITTEN, of_written, strict=True))}
        self._informers = {name: self._informer(name) for name in self._stores}
        pods, services_, nodes, endpoints, slices = self._informers.values()
        known = {"pods": pods, "services": services_, "workers": workers}
        self.controllers: dict[str, Controller] = {
            "endpoints": MeteredEndpoints(self.meter, self.api, endpoints=endpoints, **known),
            "endpointslice": MeteredSlices(
                self.meter, self.api, nodes=nodes, endpoint_slices=slices, **known
            ),
        }

    def close(self) -> None:
        """Close the stores."""
        for subject in self._opened:
            subject.close()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def burst(self, *, concerning: bool = True) -> list[Event]:
        """Return the next events of pods."""
        return self.serving.burst(self._served, self.services, concerning=concerning)

    # In one thread

    def by_hand(self) -> Callable[[list[Event]], None]:
        """Return what has a burst stored, and everything done that comes of it."""
        pods, services = self._informers["pods"].store, self._informers["services"].store
        handlers = [PodEvents(each, services, workers=1) for each in self.controllers.values()]

        def handle(events: list[Event]) -> None:
            keys = [meta_namespace_key_func(event["object"]) for event in events]
            olds = pods.get_by_keys(keys)
            pods.apply(events)
            for handler in handlers:
                for key, event in zip(keys, events, strict=True):
                    handler.on_update(olds[key], event["object"])
            for controller in self.controllers.values():
                while controller.process_next():
                    pass
            self._show()

        return handle

    def _show(self) -> None:
        """Have the caches show what was written."""
        for name in _WRITTEN:
            self._stores[name].apply(self.api.stream(name).taken())

    # In many threads

    @contextmanager
    def running(self) -> Iterator[None]:
        """Have informers and controllers run in the block; after it the caches show all."""
        for name, store in self._filled.items():
            store.set_source(self.api.stream(name).source)  # informers go on from what there is
        with ExitStack() as informers:
            for informer in self._informers.values():
                informers.enter_context(informer)
            for informer in self._informers.values():
                if not informer.wait_for_sync(_LIMIT_S):
                    raise ControllersError(f"{informer.name} not in sync within {_LIMIT_S:g} s")
            try:
                for controller in self.controllers.values():
                    controller.start()
                yield
            finally:
                self.meter.over = True
                ended = [each.stop(_STOP_S) for each in self.controllers.values()]
            if not all(ended):
                raise ControllersError(f"workers still busy after {_STOP_S:g} s")
            wait_until(
                lambda: all(map(self._is_current, self._stores)), "the last events", _LIMIT_S
            )

    def feed(self, bursts: list[list[Event]]) -> None:
        """Have bursts arrive at their times. One that is late is not left out."""
        pods, clock, started = self.api.stream("pods"), time.perf_counter, time.perf_counter()
        for number, burst in enumerate(bursts):
            due = started + number * BURST / _EVENTS_PER_S
            time.sleep(max(0.0, due - clock()))
            self.meter.arrivals[resource_version(burst[0]["object"])] = due
            pods.send(burst)

    def queue_all(self) -> None:
        """Have all services wait to be synced."""
        for controller in self.controllers.values():
            for number in range(self.services):
                controller.queue.add(f"{NAMESPACE}/{service_name(number)}")

    def _is_current(self, name: str) -> bool:
        version = self._stores[name].last_store_sync_resource_version()
        return int(version) >= self.api.stream(name).version

    # What came of it

    def wrong(self) -> str | None:
        """Sync some services; return how what was written differs from what it should be."""
        self.meter.over = False
        for number in range(min(_CHECKED, self.services)):
            name = service_name(number)
            for controller in self.controllers.values():
                controller.sync(f"{NAMESPACE}/{name}")
            self._show()
            right = self.serving.addresses(number)
            slices = self.api.list(ENDPOINT_SLICES, NAMESPACE, f"{SERVICE_NAME_LABEL}={name}")
            endpoints = self.api.get(ENDPOINTS, NAMESPACE, name)
            if in_endpoints(endpoints) != right:
                return f"the Endpoints of {name} are not those of its pods"
            if in_slices(slices) != right:
                return f"the slices of {name} are not those of its pods"
        return None

    def _informer(self, name: str) -> SharedInformer:
        meter, store = self.meter, self._stores[name]
        kinds: dict[str, Callable[[Indexer], Indexer]] = {
            "pods": meter.pods,
            "services": meter.services,
        }
        metered = kinds.get(name, meter.others)(store)
        return SharedInformer(self.api.stream(name), metered, name=name)


class _Memory(Cell):
    rounds = 1

    def __init__(self, workload: Controllers) -> None:
        self.workload = workload

    def measure(self, round_number: int) -> list[Measurement]:
        workload = self.workload
        return [Measurement(CACHES, MEMORY, workload.serving.size, bytes=workload.growth)]


class _Alone(Cell):
    """One burst after the other, each with all that comes of it."""

    def __init__(self, workload: Controllers, services: int) -> None:
        self.workload, self.services = workload, services

    def measure(self, round_number: int) -> list[Measurement]:
        workload = self.workload
        workload.serving.draw_anew(f"{self.services} services, {round_number}")
        with World(workload, self.services, 1) as world:
            handle = world.by_hand()
            handle(world.burst())  # wakes the process and its caches
            meter = world.meter
            meter.clear()
            end = time.perf_counter() + _ALONE_LINES * workload.timed_s
            for number in count(1):
                handle(world.burst())
                if number >= _LEAST_BURSTS and time.perf_counter() >= end:
                    break
            measured = self._measurements(meter)
            wrong = world.wrong() or next(iter(meter.failures), None)
        for each in measured:
            each.wrong = wrong
        return measured

    def _measurements(self, meter: Meter) -> list[Measurement]:
        lines: dict[str, list[float]] = {}
        alone = self.workload.alone.setdefault(self.services, Alone())
        for name, syncs in meter.syncs.items():
            lines[LOOKUP.format(name)] = [sync.lookup for sync in syncs]
            lines[CACHE.format(name)] = [sync.cache for sync in syncs]
            lines[WHOLE.format(name)] = [sync.whole for sync in syncs]
            alone.lookups += [sync.lookup for sync in syncs]
        lines[PODS_OF] = list(meter.questions)
        lines[WRITE] = list(meter.writes)
        alone.writes += lines[WRITE]
        matches = {LOOKUP.format(name): self.workload.matches for name in meter.syncs}
        return [
            _measurement(self.workload, name, self.services, ALONE, us, {}, matches.get(name))
            for name, us in lines.items()
        ]


class _Together(Cell):
    """Informers, their handlers and workers, each in threads."""

    rounds = 1

    def __init__(
        self, workload: Controllers, services: int, workers: int, *, backlog: bool = False
    ) -> None:
        self.workload, self.services, self.workers = workload, services, workers
        self.backlog, self.seconds = backlog, float(workload.options["seconds"])
        self.variant = f"{workers} worker{'s' if workers > 1 else ''}{BACKLOG if backlog else ''}"

    def measure(self, round_number: int) -> list[Measurement]:
        self.workload.serving.draw_anew(f"{self.services} services, {self.variant}")
        with World(self.workload, self.services, self.workers) as world:
            bursts = [
                world.burst(concerning=number % _CONCERNING == 0)
                for number in range(max(1, int(self.seconds * _EVENTS_PER_S / BURST)))
            ]
            with world.running():
                facts = self._facts(world, bursts)
            measured = self._measurements(world.meter, facts)
            wrong = world.wrong()
        for each in measured:
            each.wrong = wrong
        return measured

    def _facts(self, world: World, bursts: list[list[Event]]) -> dict[str, Any]:
        """Feed the bursts and see what is done meanwhile; a slow backend has more time."""
        meter, feeder = world.meter, Thread(world.feed, bursts)
        if self.backlog:
            world.queue_all()
        started = time.perf_counter()
        feeder.start()
        time.sleep(self.seconds)
        wait_until(lambda: _least(meter) >= _LEAST_SYNCS, "syncs", _PATIENCE_S, fails=False)
        wait_until(lambda: _least(meter) >= 1, "a sync")
        lasted = time.perf_counter() - started
        meter.over = True
        waiting = sum(len(controller.queue) for controller in world.controllers.values())
        feeder.finish()
        by_name = {name: len(syncs) / lasted for name, syncs in meter.syncs.items()}
        return {
            "services": self.services,
            "workers": self.workers,
            "syncs_per_s": round(sum(by_name.values()), 1),
            **{f"{name}_syncs_per_s": round(rate, 1) for name, rate in by_name.items()},
            "events_per_s": round(len(meter.waits) * BURST / lasted),
            "waiting_syncs": waiting,
            "failed_syncs": len(meter.failures),
            "api_writes": world.api.writes,
        }

    def _measurements(self, meter: Meter, facts: dict[str, Any]) -> list[Measurement]:
        alone = self.workload.alone[self.services]
        lookup, write = percentile(alone.lookups, 0.5), percentile(alone.writes, 0.5)
        waits = [sync.lookup - lookup for syncs in meter.syncs.values() for sync in syncs]
        lines = {
            **{WHOLE.format(name): [each.whole for each in of] for name, of in meter.syncs.items()},
            READER: [max(0.0, wait) for wait in waits],
            WRITER: [max(0.0, wait - write) for wait in meter.waits],
        }
        return [
            _measurement(self.workload, name, self.services, self.variant, us, facts)
            for name, us in lines.items()
        ]


def _measurement(
    workload: Controllers,
    name: str,
    services: int,
    variant: str,
    samples_us: list[float],
    facts: dict[str, Any],
    matches: int | None = None,
) -> Measurement:
    return Measurement(
        line(name, services),
        variant,
        workload.serving.size,
        matches,
        samples_us=samples_us,
        fields=dict(facts),
    )


def _least(meter: Meter) -> int:
    return min(map(len, meter.syncs.values()))
