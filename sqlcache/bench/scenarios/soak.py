"""`soak`: an informer on a troubled API server; at the end its cache must equal the server.

The server is another process; pods come, change and go there while connections break, history is
forgotten and requests are refused. Two handlers, one of them late, are audited: nothing lost,
doubled, out of order or made up. When it is calm again, the cache is compared object by object,
label by label and index count by index count. Then the history is forgotten again and again, and
the memory after each relist noted.

| line | a sample is |
|---|---|
| event, server to handler | from a write at the server until the handler's call, faults included |
| relist | from the request until the store holds its result |
| memory over … relists | what the process grew by, see `growth` |
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sqlcache.bench.answers import Answer
from sqlcache.bench.auditing import Auditor, ObservedListWatch, audited
from sqlcache.bench.cluster import Cluster
from sqlcache.bench.cluster.churn import label_questions
from sqlcache.bench.measuring import percentile, rss_bytes
from sqlcache.bench.scenarios.workload import Cell, Job, Measurement, Workload
from sqlcache.bench.threads import wait_until
from sqlcache.clock import MonotonicClock
from sqlcache.errors import SqlcacheError
from sqlcache.informer import Backoff, SharedInformer
from sqlcache.objects import (
    Object,
    Objects,
    labels_of,
    meta_namespace_key_func,
    resource_version,
)
from sqlcache.selectors import from_labels
from sqlcache.store.api import Indexer

CHANGES_PER_S = 1000.0
_CHANGED_BETWEEN = 0.01  # of the pods, between two relists
_FIRST_S, _LONGEST_S = 0.02, 0.2  # of the back-off: a soak is short, outages in it are shorter
_SILENCE_S = 1.0  # of a stalled watch, before it is given up
_WAIT_S = 60.0  # for anything: then the soak has failed


class SoakError(SqlcacheError, RuntimeError):
    """What was waited for did not come."""


class Soak(Workload):
    """A cluster, an informer on the backend's store, and two handlers.

    Options of the job: number of `pods`, `seconds` of changes, faults a second (`troubles_per_s`),
    number of `relists`.
    """

    def __init__(self, job: Job) -> None:
        """Open an empty store."""
        super().__init__(job)
        self.size = int(self.options["pods"])
        self._directory = Path(job.directory)
        self.cluster: Cluster | None = None

    def prepare(self) -> Sequence[Answer | None]:
        """Start the cluster and the informer; answer nothing, for each cluster has its own life."""
        from sqlcache.client.transport import ApiListWatch, Resource, connect  # an extra

        self.cluster = Cluster()
        self.cluster.load(self.size, self.parameters.seed)
        client = connect(self.cluster.kubeconfig(self._directory))
        pods = Resource("", "v1", "pods")
        self._transport = ApiListWatch(client, pods, watch_silence_s=_SILENCE_S)
        self.list_watch = ObservedListWatch(self._transport)
        self.informer = SharedInformer(
            self.list_watch,
            self.subject.store,
            backoff=Backoff(MonotonicClock(), first_s=_FIRST_S, longest_s=_LONGEST_S),
        )
        self.auditors = [Auditor(), Auditor()]
        self.informer.add_handler(self.auditors[0])
        self.informer.start()
        if not self.informer.wait_for_sync(_WAIT_S):
            raise SoakError(f"not in sync within {_WAIT_S:g} s")
        return []

    def cells(self) -> Sequence[Cell]:
        """Return the soak, and the relists after it."""
        return [_Troubled(self), _Relists(self)]

    def close(self) -> None:
        """Stop all."""
        if self.cluster is not None:
            self.informer.stop()
            self._transport.close()
            self.cluster.close()
        super().close()

    def churn(self, seconds: float) -> dict[str, int]:
        """Have the pods change under trouble; a late handler is added after half of the time."""
        cluster = self._running()
        troubles: Counter[str] = Counter()
        for part in range(2):
            rate = float(self.options["troubles_per_s"])
            troubles.update(cluster.churn(seconds / 2, CHANGES_PER_S, troubles_per_s=rate))
            if not part:
                self.informer.add_handler(self.auditors[1])
        return dict(troubles)

    def relist(self) -> float:
        """Have some pods changed and the history forgotten; return seconds from list to store."""
        cluster = self._running()
        cluster.change(max(1, int(self.size * _CHANGED_BETWEEN)))
        seen = self.list_watch.lists
        lists, rv = len(seen), int(cluster.expire())
        # A list that was under way may come first.
        wait_until(
            lambda: (
                len(self.list_watch.lists) > lists and self.list_watch.lists[-1].high >= int(rv)
            ),
            "a relist",
        )
        return self.wait_for_store() - self.list_watch.listed_at

    def wait_for_store(self) -> float:
        """Wait until the store stands where the server does; return when it did."""
        rv = self._running().resource_version()
        store = self.subject.store
        wait_until(
            lambda: int(store.last_store_sync_resource_version()) >= int(rv), "the store's version"
        )
        return time.perf_counter()

    def wrong(self) -> list[str]:
        """Wait until all is calm; return what cache and handlers have wrong."""
        self._quieten()
        cluster = self._running()
        content, states = cluster.pods(), cluster.states()
        right = {key_of(obj): int(resource_version(obj)) for obj in content}
        wait_until(lambda: all(each.now() == right for each in self.auditors), "", fails=False)
        faults = compared(self.subject.store, content)
        for number, auditor in enumerate(self.auditors, 1):
            found = audited(auditor, self.list_watch.lists, states, content)
            faults += [f"handler {number}: {fault}" for fault in found]
        return faults

    def _quieten(self) -> None:
        """Have one more event pass, so that nothing older is on its way."""
        self._running().change(1)
        self.wait_for_store()

    def _running(self) -> Cluster:
        if self.cluster is None:
            raise SoakError("the cluster is not running")
        return self.cluster


class _Troubled(Cell):
    rounds = 1

    def __init__(self, workload: Soak) -> None:
        self.workload = workload

    def measure(self, round_number: int) -> list[Measurement]:
        workload = self.workload
        started = time.perf_counter()
        troubles = workload.churn(float(workload.options["seconds"]))
        lasted = time.perf_counter() - started
        result = Measurement("event, server to handler", "under faults", workload.size)
        faults = workload.wrong()
        result.wrong = "; ".join(faults[:5]) or None
        result.samples_us = list(workload.auditors[0].delays_us)
        result.fields = {
            "changes_per_s": round(len(result.samples_us) / lasted),
            "faults": troubles,
            "lists": len(workload.list_watch.lists),
            "streamed_lists": workload.list_watch.streamed,
            "watches": workload.list_watch.watches,
            "tombstones": workload.auditors[0].tombstones,
        }
        return [result]


class _Relists(Cell):
    rounds = 1

    def __init__(self, workload: Soak) -> None:
        self.workload = workload

    def measure(self, round_number: int) -> list[Measurement]:
        workload = self.workload
        relists = Measurement("relist, 1 % changed", "over HTTP", workload.size)
        resident = []
        count = int(workload.options["relists"])
        for _ in range(count):
            relists.samples_us.append(workload.relist() * 1e6)
            resident.append(rss_bytes())
        grown = Measurement(
            f"memory over {count} relists",
            "process growth",
            workload.size,
            bytes=growth(resident),
        )
        grown.fields["resident_bytes"] = resident
        faults = workload.wrong()
        relists.wrong = "; ".join(faults[:5]) or None
        if grown.bytes is not None and grown.bytes > allowed_growth(resident):
            grown.wrong = f"memory grows: {grown.bytes:,} bytes over {count} relists"
        return [relists, grown]


def growth(resident: Sequence[int]) -> int:
    """Return what a process grew by: the median of its last quarter less that of its second.

    The first quarter fills what is kept between relists: decoded objects, statements, free memory.
    """
    quarter = max(1, len(resident) // 4)
    second, last = resident[quarter : 2 * quarter], resident[-quarter:]
    return max(0, int(percentile(last, 0.5) - percentile(second, 0.5)))


def allowed_growth(resident: Sequence[int]) -> int:
    """Return what counts as flat: 2 % of the process, but at least 4 MB."""
    return max(4_000_000, int(resident[0] * 0.02))


def compared(store: Indexer, content: Objects) -> list[str]:
    """Return where a store differs from what it should hold: objects, labels, counts of labels."""
    faults = []
    right = {key_of(obj): obj for obj in content}
    found = {key_of(obj): obj for obj in store.list()}
    if found != right:
        wrong = [key for key in found.keys() | right.keys() if found.get(key) != right.get(key)]
        faults.append(f"{len(wrong)} of {len(right)} objects differ, such as {sorted(wrong)[0]}")
    members: dict[tuple[str, str, str], set[str]] = {}
    for key, obj in right.items():
        for label, value in labels_of(obj).items():
            members.setdefault((obj["metadata"]["namespace"], label, value), set()).add(key)
    for question in label_questions():
        namespace, label, value = question
        answer = store.select(namespace, from_labels({label: value}))
        if {key_of(obj) for obj in answer} != members.get(question, set()):
            faults.append(f"{label}={value} in {namespace} gives other objects")
    counted = {each.key: (each.distinct, each.objects) for each in store.stats().label_keys}
    tuples = Counter(label for _, label, _ in members)
    objects = Counter[str]()
    for (_, label, _), keys in members.items():
        objects[label] += len(keys)
    expected = {label: (tuples[label], objects[label]) for label in tuples}
    if counted != expected:
        faults.append(f"labels are counted as {counted} instead of {expected}")
    return faults


def key_of(obj: Object) -> str:
    """Return `namespace/name`."""
    return meta_namespace_key_func(obj)
