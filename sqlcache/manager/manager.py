"""The life of a process that runs controllers: lead, work, drain, release.

Flow: acquire the Lease -> start informers and controllers -> work until a stop or the loss of the
Lease -> stop the controllers -> release the Lease.

Promises
- Nothing is listed, watched or written before this process leads. Caches are filled then, as
  upstream: one that was watched all along may be late then, and what it lacks would be deleted.
- After a stop the keys that wait are synced, for `drain_s` at most, while the Lease is still
  renewed; it is released when no worker can write any more.
- If the Lease is lost all connections for writes are cut at once, and what waits is left to the new
  leader.

Source: cmd/kube-controller-manager/app controllermanager.go.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Protocol

from sqlcache.client.api import ObjectsApi
from sqlcache.clock import Clock, MonotonicClock, StopSignal
from sqlcache.controllers.controller import Controller
from sqlcache.errors import LeaseLostError
from sqlcache.informer import SharedInformerFactory
from sqlcache.manager.election import LeaderElector
from sqlcache.manager.serving import Check

_LOG = logging.getLogger(__name__)

DRAIN_S = 20.0  # below the 30 s that a pod has to end
_ABANDON_S = 2.0


class ClosableObjectsApi(ObjectsApi, Protocol):
    """An `ObjectsApi` whose writes can be ended, such as `ApiObjects`."""

    def close(self) -> None:
        """Cut the calls under way and refuse all others."""


class Manager:
    """See the module. `run` once."""

    def __init__(
        self,
        api: ClosableObjectsApi,
        factory: SharedInformerFactory,
        controllers: Sequence[Controller],
        *,
        elector: LeaderElector | None = None,
        during_first_sync: Callable[[], AbstractContextManager[None]] = nullcontext,
        drain_s: float = DRAIN_S,
        clock: Clock | None = None,
    ) -> None:
        """Make a manager. Nothing happens before `run`.

        Args:
            api: through which the controllers write; it is closed when they must not any more.
            factory: of their informers, not started. The caller closes it after `run`.
            controllers: not started.
            elector: for the Lease that one must hold to work; None to work at once. It has an api
                of its own.
            during_first_sync: made and entered before the first lists are asked for, and left, in
                another thread, when they are in the stores.
            drain_s: seconds that workers have to finish after a stop.
            clock: for tests.
        """
        self._api, self._factory, self._controllers = api, factory, list(controllers)
        self._elector, self._during_first_sync = elector, during_first_sync
        self._drain_s, self._clock = drain_s, clock or MonotonicClock()
        self._started = self._stopping = False

    def run(self, stop: StopSignal) -> None:
        """Work until a stop.

        Args:
            stop: ends it when raised, from any thread.

        Raises:
            LeaseLostError: another process may lead. All that must not be done any more has ended.
        """
        stop.call(self._begin_to_stop)
        if self._elector is not None and not self._elector.acquire(stop):
            return
        ended, lost = StopSignal(self._clock), list[LeaseLostError]()

        def lose(error: LeaseLostError) -> None:
            lost.append(error)
            self._begin_to_stop()
            self._api.close()
            ended.set()

        stop.call(ended.set)
        if self._elector is not None:
            self._elector.hold(lose)
        try:
            self._work(ended)
        finally:
            if not self._stop(drain=not lost):
                self._api.close()  # before somebody else may lead
            if self._elector is not None:
                self._elector.release()
        if lost:
            raise lost[0]

    def healthz(self) -> Mapping[str, Check]:
        """Return checks of whether this process is alive; see `HttpEndpoints`."""
        checks: dict[str, Check] = {"ping": lambda: ""}
        if self._elector is not None:
            checks["leaderElection"] = self._elector.check
        return checks

    def readyz(self) -> Mapping[str, Check]:
        """Return checks of whether it works, or waits to lead; see `HttpEndpoints`."""
        return {"informer-sync": self._unsynced, "shutdown": self._shutdown}

    def _work(self, ended: StopSignal) -> None:
        self._started = True
        first_sync = ExitStack()
        first_sync.enter_context(self._during_first_sync())
        self._factory.start()
        for controller in self._controllers:
            controller.start()
        waiting = threading.Thread(
            target=self._await_sync, args=(first_sync,), name="first-sync", daemon=True
        )
        waiting.start()
        ended.wait()

    def _await_sync(self, first_sync: ExitStack) -> None:
        started = time.monotonic()
        with first_sync:
            synced = all(self._factory.wait_for_sync().values())
        if synced:  # else it was stopped before
            _LOG.info("all caches are in sync after %.1f s", time.monotonic() - started)

    def _begin_to_stop(self) -> None:
        self._stopping = True

    def _stop(self, *, drain: bool) -> bool:
        """Stop all controllers side by side; return whether they have ended."""
        self._stopping = True
        _LOG.info("stopping: %s", "syncing what waits" if drain else "leaving what waits")
        ended: list[bool] = []
        timeout_s = self._drain_s if drain else _ABANDON_S
        threads = [
            threading.Thread(
                target=lambda stop: ended.append(stop()),
                args=(partial(controller.stop, timeout_s, drain=drain),),
                name=f"{controller.name}-stop",
                daemon=True,
            )
            for controller in self._controllers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(ended) == len(threads) and all(ended)

    def _unsynced(self) -> str:
        missing = self._factory.unsynced() if self._started else []
        return f"not in sync: {', '.join(missing)}" if missing else ""

    def _shutdown(self) -> str:
        return "process is shutting down" if self._stopping else ""
