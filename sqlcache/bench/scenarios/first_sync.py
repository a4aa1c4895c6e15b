"""`first-sync`: an informer with an empty store lists pods of 4 KB over HTTP.

The server is the test API server in a process of its own. Each part of the time is taken in the
thread that spends it; the parts come one after the other, so they add up.

| line | a sample is |
|---|---|
| first sync | from `start` until `has_synced` |
| of it: receiving | in the transport: waiting for the server, reading, decoding; see `cpu_share` |
| of it: store | in calls of the store |
| of it: rest | what is left: the informer's own work |

Once by a streaming list, which is what an informer asks for first, once by a plain list.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlcache.bench.answers import Answer, of_keys
from sqlcache.bench.cluster import Cluster
from sqlcache.bench.scenarios.workload import Cell, Job, Measurement, Workload
from sqlcache.client.api import Event, ListWatch, Page, Watch
from sqlcache.errors import SqlcacheError
from sqlcache.informer import SharedInformer
from sqlcache.store.api import Indexer

T = TypeVar("T")

STREAMED, PLAIN = "streaming list", "plain list"
WHOLE, RECEIVING, STORE, REST = (
    "first sync", "of it: receiving", "of it: store", "of it: rest",
)  # fmt: skip
_ROUNDS = 2
_LIMIT_S = 300.0


class FirstSyncError(SqlcacheError, RuntimeError):
    """A first sync did not come to its end."""


class FirstSync(Workload):
    """A cluster full of pods, and a store that is empty each time."""

    def __init__(self, job: Job) -> None:
        """Open an empty store."""
        super().__init__(job)
        self.size = int(self.options["pods"])
        self._directory = Path(job.directory)
        self._cluster: Cluster | None = None

    def prepare(self) -> Sequence[Answer | None]:
        """Fill the cluster. There is nothing to ask yet."""
        from sqlcache.client.transport import ApiListWatch, Resource, connect  # an extra

        self._cluster = Cluster()
        self.size_bytes = self._cluster.load(self.size, self.parameters.seed, realistic=True)
        client = connect(self._cluster.kubeconfig(self._directory))
        self.transport = ApiListWatch(client, Resource("", "v1", "pods"))
        return []

    def cells(self) -> Sequence[Cell]:
        """Return both kinds of list."""
        return [_Sync(self, streamed=True), _Sync(self, streamed=False)]

    def close(self) -> None:
        """End the cluster."""
        if self._cluster is not None:
            self.transport.close()
            self._cluster.close()
        super().close()


class _Sync(Cell):
    def __init__(self, workload: FirstSync, *, streamed: bool) -> None:
        self.workload, self.streamed = workload, streamed
        self.rounds = min(_ROUNDS, workload.parameters.rounds)

    def measure(self, round_number: int) -> list[Measurement]:
        workload = self.workload
        store = _TimedCalls(workload.subject.renew())
        received = _TimedListWatch(workload.transport)
        informer = SharedInformer(received, cast(Indexer, store), use_watch_list=self.streamed)
        started = time.perf_counter()
        with informer:
            if not informer.wait_for_sync(_LIMIT_S):
                raise FirstSyncError(f"not in sync within {_LIMIT_S:g} s")
            lasted_s = time.perf_counter() - started
        facts = {
            "cpu_share": round(received.cpu_s / received.seconds, 3),
            "store_share": round(store.seconds / lasted_s, 3),
            "json_bytes": workload.size_bytes,
        }
        parts = {
            WHOLE: lasted_s,
            RECEIVING: received.seconds,
            STORE: store.seconds,
            REST: lasted_s - received.seconds - store.seconds,
        }
        measured = [self._measurement(name, seconds, facts) for name, seconds in parts.items()]
        measured[0].answers = {"keys": of_keys(workload.subject.store.list_keys())}
        return measured

    def _measurement(self, name: str, seconds: float, facts: dict[str, Any]) -> Measurement:
        return Measurement(
            name,
            STREAMED if self.streamed else PLAIN,
            self.workload.size,
            samples_us=[max(0.0, seconds) * 1e6],
            fields=dict(facts),
        )


class _TimedCalls:
    """A store whose calls are timed, all together.

    Attributes:
        seconds: spent in calls.
    """

    def __init__(self, store: Indexer) -> None:
        self.seconds = 0.0
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._store, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*arguments, **options)
            finally:
                self.seconds += time.perf_counter() - start

        return timed


class _TimedListWatch:
    """A ListWatch whose lists are timed, streamed or not.

    Attributes:
        seconds: spent in it, waiting included.
        cpu_s: computing time of that.
    """

    supports_watch_list = True

    def __init__(self, inner: ListWatch) -> None:
        self.seconds = self.cpu_s = 0.0
        self._inner = inner

    def list_page(self, **options: Any) -> Page:
        start, cpu = time.perf_counter(), time.thread_time()
        page = self._inner.list_page(**options)
        self.took(start, cpu)
        return {**page, "items": self.timed(iter(page["items"]), lambda _: True)}

    def watch(self, *, send_initial_events: bool, **options: Any) -> Watch:
        start, cpu = time.perf_counter(), time.thread_time()
        inner = self._inner.watch(send_initial_events=send_initial_events, **options)
        if not send_initial_events:
            return inner
        self.took(start, cpu)
        return _TimedWatch(self, inner)

    def timed(self, items: Iterator[T], counts: Callable[[T], bool]) -> Iterator[T]:
        """Yield items, the time for each of which counts until that is answered with False."""
        counting = True
        while True:
            start, cpu = time.perf_counter(), time.thread_time()
            try:
                item = next(items)
            except StopIteration:
                return
            if counting:
                self.took(start, cpu)
                counting = counts(item)
            yield item

    def took(self, start: float, cpu: float) -> None:
        self.seconds += time.perf_counter() - start
        self.cpu_s += time.thread_time() - cpu


class _TimedWatch:
    def __init__(self, timed: _TimedListWatch, inner: Watch) -> None:
        self._timed, self._inner = timed, inner

    def close(self) -> None:
        self._inner.close()

    def __iter__(self) -> Iterator[Event]:
        # The first bookmark marks the end of the list.
        return self._timed.timed(iter(self._inner), lambda event: event["type"] != "BOOKMARK")
