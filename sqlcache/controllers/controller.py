"""What every controller has: a queue of keys, workers, and informers to wait for.

    class Mine(Controller):
        def __init__(self, pods: SharedInformer) -> None:
            super().__init__("mine", [pods])
            self.watch(pods, HandlerFuncs(on_delete=lambda pod: self.queue.add(key_of(pod))))

        def sync(self, key: str) -> None: ...

    with factory, Mine(factory.informer("pods")):
        factory.start()

Promises
- `sync` is not called before every informer has its first list in its store, and never for one key
  twice at once. One that raises is retried after the queue's back-off, 15 times.
- Without `start` there is no thread: `sync` and `process_next` can be called by hand.

Elsewhere: retries (sqlcache.workqueue), stores and their backends (whoever makes the informers).
Source: pkg/controller/endpoint Controller.Run and its like.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlcache.clock import Clock, MonotonicClock, StopSignal
from sqlcache.controllers.events import EventRecorder
from sqlcache.informer import Handler, HandlerFuncs, Registration, SharedInformer
from sqlcache.objects import deletion_handling_meta_namespace_key_func
from sqlcache.workqueue import MetricsProvider, RateLimiter, Workers, WorkQueue

_LOG = logging.getLogger(__name__)

T = TypeVar("T", bound=Hashable)

WORKERS = 5  # kube-controller-manager's concurrent-endpoint-syncs and -service-endpoint-syncs
_SYNC_POLL_S = 0.1  # client-go's period in WaitForCacheSync
STOP_S = 30.0


class Controller(ABC):
    """See the module. `start` once; `stop` ends it for good."""

    def __init__(
        self,
        name: str,
        informers: Sequence[SharedInformer],
        *,
        workers: int = WORKERS,
        rate_limiter: RateLimiter[str] | None = None,
        recorder: EventRecorder | None = None,
        metrics: MetricsProvider | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Make a controller.

        Args:
            name: of its queue in metrics and of its threads.
            informers: are to be in sync before anything is done. Whoever owns them starts them.
            workers: how many keys are synced at a time.
            rate_limiter: of the queue, by key; default: client-go's.
            recorder: of Kubernetes Events, if it writes any; started and stopped with it.
            metrics: of the queues.
            clock: for tests.
        """
        self.name, self._informers = name, tuple(informers)
        self._clock, self._metrics = clock or MonotonicClock(), metrics
        self._recorder = recorder
        self._stop = StopSignal(self._clock)
        self._abandoned = False
        self._registrations: list[tuple[SharedInformer, Registration]] = []
        self._workers: list[Workers[Any]] = []
        self._starter = threading.Thread(target=self._run, name=f"{name}-start", daemon=True)
        self.queue: WorkQueue[str] = self.new_queue(name, self.sync, workers, rate_limiter)

    @abstractmethod
    def sync(self, key: str) -> None:
        """Bring the cluster to what it should be, for one key.

        Raises:
            Exception: whatever keeps it from that; it is called again later.
        """

    def caches_synced(self) -> None:  # noqa: B027 - most have nothing to do
        """Do what is to be done once, when the first lists are in the stores, before any sync."""

    def new_queue(
        self,
        name: str,
        handle: Callable[[T], None],
        workers: int,
        rate_limiter: RateLimiter[T] | None = None,
    ) -> WorkQueue[T]:
        """Return a queue whose items are handled by workers of this controller, once it runs.

        Args:
            name: of the queue in metrics and of the threads.
            handle: does the work for one item.
            workers: number of threads.
            rate_limiter: default: client-go's.
        """
        queue: WorkQueue[T] = WorkQueue(
            name, rate_limiter=rate_limiter, metrics=self._metrics, clock=self._clock
        )

        def handle_one(item: T) -> None:
            if not self._abandoned:
                handle(item)

        self._workers.append(Workers(queue, handle_one, threads=workers))
        return queue

    def watch(self, informer: SharedInformer, handler: Handler) -> None:
        """Have a handler told of an informer's changes until the controller stops."""
        self._registrations.append((informer, informer.add_handler(handler)))

    def watch_keys(self, informer: SharedInformer) -> None:
        """Have the keys of an informer's objects queued as these come, change and go."""
        self.watch(
            informer,
            HandlerFuncs(
                on_add=lambda obj, _: self.enqueue(obj),
                on_update=lambda _, obj: self.enqueue(obj),
                on_delete=self.enqueue,
            ),
        )

    def enqueue(self, obj: Any) -> None:
        """Queue the key of an object, or of a tombstone."""
        self.queue.add(deletion_handling_meta_namespace_key_func(obj))

    def has_synced(self) -> bool:
        """Return whether the first lists are in the stores and its handlers were told of them."""
        return all(
            informer.has_synced() and registration.has_synced()
            for informer, registration in self._registrations
        )

    def process_next(self) -> bool:
        """Handle one item that waits in some queue, in the calling thread: for use without `start`.

        Returns:
            Whether there was one.

        Raises:
            QueueShutDownError: after `stop`.
        """
        for workers in reversed(self._workers):  # what fills the queue of keys comes first
            try:
                workers.process_next(timeout=0.0)
            except TimeoutError:
                continue
            return True
        return False

    def is_idle(self) -> bool:
        """Return whether nothing waits in its queues, is worked on, or is to be tried again."""
        return all(workers.queue.is_idle() for workers in self._workers)

    def start(self) -> None:
        """Begin to work as soon as the informers are in sync. Returns at once."""
        self._starter.start()

    def stop(self, timeout_s: float = STOP_S, *, drain: bool = True) -> bool:
        """End: take no more keys, sync those that wait, drop those that wait for a retry.

        Args:
            timeout_s: seconds of real time to wait for that.
            drain: False drops those that wait, too.

        Returns:
            Whether all threads have ended; those that have not are logged.
        """
        deadline = time.monotonic() + timeout_s
        self._abandoned = not drain
        self._stop.set()
        for informer, registration in self._registrations:
            informer.remove_handler(registration)
        if self._starter.ident is not None:
            self._starter.join(timeout_s)
        busy = []
        for workers in reversed(self._workers):  # what fills the queue of keys ends before it
            workers.queue.shut_down()
            busy += workers.join(max(0.0, deadline - time.monotonic()))
        if self._recorder:
            busy += self._recorder.stop(max(0.0, deadline - time.monotonic()))
        if busy:
            _LOG.warning("%s: still busy after stop(): %s", self.name, ", ".join(busy))
        return not busy

    def __enter__(self) -> Self:
        """Start; leaving the `with` stops."""
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def _run(self) -> None:
        while not all(informer.has_synced() for informer in self._informers):
            if self._stop.sleep(_SYNC_POLL_S):
                return
        _LOG.info("%s: caches are in sync", self.name)
        if self._recorder:
            self._recorder.start()
        try:
            self.caches_synced()
        except Exception:  # noqa: BLE001 - the workers go on without it
            _LOG.exception("%s: could not do all that is done at the start", self.name)
        for workers in self._workers:
            workers.start()
