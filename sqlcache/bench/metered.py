"""Both controllers and their caches, with what they take noted.

Elsewhere: what they are given to do (scenarios.controllers).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from sqlcache.controllers.endpoints import EndpointsController
from sqlcache.controllers.endpointslice import EndpointSliceController
from sqlcache.objects import Objects, resource_version
from sqlcache.store.api import Indexer

Note = Callable[..., None]  # takes microseconds, then the arguments of the call


class Sync(NamedTuple):
    """What one sync took, in microseconds.

    Attributes:
        whole: from its begin to its end.
        cache: in calls of stores.
        lookup: of these, in finding the pods of the service.
    """

    whole: float
    cache: float
    lookup: float


class _Spent(threading.local):
    """What the sync that a thread is in has spent so far, in microseconds."""

    cache = 0.0
    lookup = 0.0


class Meter:
    """What syncs, pod events and writes of pods took. Any thread may note.

    Attributes:
        syncs: by controller; those that failed are left out.
        failures: what failed syncs raised.
        questions: microseconds of each "which services select this pod?".
        writes: microseconds of each batch of pods applied.
        arrivals: `time.perf_counter()` of bursts, by the resourceVersion of their first event.
        waits: microseconds from the arrival of a burst until its first event was in the store.
        over: syncs are not done any more: what waits in a queue is dropped.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.syncs: dict[str, list[Sync]] = {"endpoints": [], "endpointslice": []}
        self.failures: list[str] = []
        self.questions: list[float] = []
        self.writes: list[float] = []
        self.arrivals: dict[str, float] = {}
        self.waits: list[float] = []
        self.over = False
        self._spent = _Spent()

    def clear(self) -> None:
        """Forget what was noted."""
        for syncs in self.syncs.values():
            syncs.clear()
        for noted in (self.questions, self.writes, self.waits):
            noted.clear()

    def pods(self, store: Indexer) -> Indexer:
        """Return a store of pods whose look-ups and writes are noted."""
        return _metered(store, select=self._looked_up, get_by_key=self._called, apply=self._wrote)

    def services(self, store: Indexer) -> Indexer:
        """Return a store of services whose reads are noted, those for pod events by themselves."""
        return _metered(store, selecting=self._asked, get_by_key=self._called)

    def others(self, store: Indexer) -> Indexer:
        """Return a store of what else a sync reads."""
        return _metered(store, select=self._called, get_by_key=self._called)

    def sync(self, controller: str, sync: Callable[[str], None], key: str) -> None:
        """Sync a key and note what it took, unless it is over."""
        if self.over:
            return
        spent = self._spent
        spent.cache = spent.lookup = 0.0
        started = time.perf_counter()
        try:
            sync(key)
        except Exception as error:
            self.failures.append(str(error))
            raise
        whole = (time.perf_counter() - started) * 1e6
        if not self.over:
            self.syncs[controller].append(Sync(whole, spent.cache, spent.lookup))

    def _called(self, us: float, *_: Any) -> None:
        self._spent.cache += us

    def _looked_up(self, us: float, *_: Any) -> None:
        self._spent.cache += us
        self._spent.lookup += us

    def _asked(self, us: float, *_: Any) -> None:
        if not self.over:
            self.questions.append(us)

    def _wrote(self, us: float, events: Any) -> None:
        now = time.perf_counter()
        self.writes.append(us)
        for event in events:
            arrived = self.arrivals.pop(resource_version(event["object"]), None)
            if arrived is not None:
                self.waits.append((now - arrived) * 1e6)


class MeteredEndpoints(EndpointsController):
    """The Endpoints controller."""

    def __init__(self, meter: Meter, *args: Any, **options: Any) -> None:
        """Make it.

        Args:
            meter: notes its syncs.
            args, options: of `EndpointsController`.
        """
        self._meter = meter
        super().__init__(*args, **options)

    def sync(self, key: str) -> None:
        """Sync, noted."""
        self._meter.sync("endpoints", super().sync, key)


class MeteredSlices(EndpointSliceController):
    """The EndpointSlice controller."""

    def __init__(self, meter: Meter, *args: Any, **options: Any) -> None:
        """Make it.

        Args:
            meter: notes its syncs.
            args, options: of `EndpointSliceController`.
        """
        self._meter = meter
        super().__init__(*args, **options)

    def sync(self, key: str) -> None:
        """Sync, noted."""
        self._meter.sync("endpointslice", super().sync, key)


class _Metered:
    """An Indexer some of whose calls are noted. It tells no handler what it holds.

    A controller would else begin with an event for each pod and a sync for each service. What is
    measured is its life after that.
    """

    def __init__(self, store: Indexer, notes: dict[str, Note]) -> None:
        self._store = store
        for method, note in notes.items():
            setattr(self, method, _timed(getattr(store, method), note))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list(self) -> Objects:
        return []


def _metered(store: Indexer, **notes: Note) -> Indexer:
    return cast("Indexer", _Metered(store, notes))


def _timed(call: Callable[..., Any], note: Note) -> Callable[..., Any]:
    clock = time.perf_counter

    def timed(*args: Any) -> Any:
        started = clock()
        result = call(*args)
        note((clock() - started) * 1e6, *args)
        return result

    return timed
