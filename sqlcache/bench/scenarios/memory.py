"""`memory`: what the label index takes, what the whole cache takes, and the pause of a full GC.

Label index: pods with ten labels that many pods share and ten that are unique to the pod, and the
same pods without labels, each in a fresh process. The pods are there before; what the process
grows by is the store's. The index is the growth with labels less the growth without. Stores that
keep objects as bytes are left out: their bytes hold the labels once more.

Whole cache: pods of about 4 KB, decoded from JSON and applied in batches as an informer does, so
that only what the store keeps stays. Then a full garbage collection is timed; nothing is frozen.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

from sqlcache.bench import realistic, workloads
from sqlcache.bench.answers import Answer, ask, of_keys
from sqlcache.bench.measuring import rss_bytes, timed
from sqlcache.bench.results import Result
from sqlcache.bench.scenarios.workload import Cell, Job, Measurement, Workload
from sqlcache.bench.workloads import BATCH, Column
from sqlcache.objects import Objects

RSS, PAGES = "process growth", "SQLite pages"
CACHE, PAUSE = "whole cache, pods of 4 KB", "full garbage collection, pods of 4 KB"
READ = ", all read once"
_EVERY_POD = [
    workloads.question(namespace, "app.kubernetes.io/managed-by=Helm")
    for namespace in realistic.NAMESPACES
]
_SHARED_VALUES = 1000
LABELS = 20  # of each pod, half of them shared
_COLLECTIONS = 3
WITH, WITHOUT = "store, with labels", "store, without labels"


class Memory(Workload):
    """One store, loaded once; the job's `part` says with which pods."""

    def __init__(self, job: Job) -> None:
        """Open an empty store."""
        super().__init__(job)
        self.part = str(self.options["part"])
        self.size = int(self.options["pods"])

    def prepare(self) -> list[Answer]:
        """Load the pods, noting what the process grows by; answer some questions."""
        # Collections during the load would cost dict minutes and change no byte of what is kept.
        gc.disable()
        if self.part == "cache":
            batches = realistic.decoded_batches(self.size, self.parameters.seed)
        else:
            pods = labelled_pods(self.size, self.parameters.seed, labels=self.part == "labels")
            batches = (pods[start : start + BATCH] for start in range(0, len(pods), BATCH))
        self.before = rss_bytes()
        self._load(batches)
        self.growth = rss_bytes() - self.before
        gc.enable()
        self.pages = self._pages()
        return self._answers()

    def read_all(self) -> list[Answer]:
        """Ask for every pod, by selector, one namespace after the other."""
        return ask(self.subject.store, _EVERY_POD)

    def _pages(self) -> int | None:
        # The statistics of a dict store count labels one by one, in memory of their own.
        has_pages = self.subject.backend.database
        return self.subject.store.stats().database_bytes if has_pages else None

    def _load(self, batches: Iterable[Objects]) -> None:
        for batch in batches:
            self.subject.store.apply(event for events in workloads.added(batch) for event in events)

    def _answers(self) -> list[Answer]:
        if self.part != "cache":
            texts = ("shared-0=shared-0-7", "unique-3")
            return ask(self.subject.store, [workloads.question("shop", text) for text in texts])
        # No answer that has objects in it: the store would hold them decoded from then on.
        counts = [self.subject.store.count(*question) for question in _EVERY_POD]
        return [of_keys(self.subject.store.list_keys()), *((count, "") for count in counts)]

    def cells(self) -> Sequence[Cell]:
        """Return what was noted, and for the whole cache the pause."""
        return [_Growth(self)] if self.part != "cache" else [_Growth(self), _Pause(self)]


class _Growth(Cell):
    """What was noted after the load."""

    rounds = 1

    def __init__(self, workload: Memory) -> None:
        self.workload = workload

    def measure(self, round_number: int) -> list[Measurement]:
        workload = self.workload
        name = {"cache": CACHE, "labels": WITH}.get(workload.part, WITHOUT)
        grown = Measurement(name, RSS, workload.size, bytes=workload.growth)
        if workload.pages is None:
            return [grown]
        return [grown, Measurement(name, PAGES, workload.size, bytes=workload.pages)]


class _Pause(Cell):
    """A full collection, then the same after every pod was read."""

    rounds = 2

    def __init__(self, workload: Memory) -> None:
        self.workload = workload

    def measure(self, round_number: int) -> list[Measurement]:
        workload = self.workload
        after = READ if round_number else ""
        answers = workload.read_all() if round_number else []
        grown = rss_bytes() - workload.before  # which collects what came before, untimed
        read = Measurement(CACHE + READ, RSS, workload.size, bytes=grown)
        read.answers = {str(number): each for number, each in enumerate(answers)}
        calls = [(None, gc.collect)] * _COLLECTIONS
        pauses = [elapsed for _, elapsed, _ in timed(calls, 0, _COLLECTIONS)]
        pause = Measurement(PAUSE + after, "pause", workload.size, samples_us=pauses)
        return [read, pause] if round_number else [pause]


def label_index(results: Sequence[Result]) -> list[Result]:
    """Return the results, those of stores with and without labels made into the index's."""
    without = {
        (result.backend, result.variant): result for result in results if result.query == WITHOUT
    }
    derived = []
    for result in results:
        if result.query == WITH:
            derived.append(_index(result, without.get((result.backend, result.variant))))
        elif result.query != WITHOUT or result.error is not None:
            derived.append(result)
    return sorted(derived, key=_place)


def _place(result: Result) -> tuple[bool, bool, str, bool]:
    """Order lines by what they are about: the index, the cache, the pause; pages last of each."""
    about = result.query
    return not about.startswith("index"), about.startswith(PAUSE), about, result.variant == PAGES


def _index(result: Result, without: Result | None) -> Result:
    tuples = LABELS * result.pods
    fields = {
        **result.fields,
        "labels": LABELS,
        "tuples": tuples,
        "with_labels_bytes": result.bytes,
    }
    size = None
    if result.bytes is not None and without is not None and without.bytes is not None:
        fields["without_labels_bytes"] = without.bytes
        size = max(0, result.bytes - without.bytes)
    error = result.error or (None if size is not None else "nothing to compare with")
    name = f"index of {tuples:,} labels"
    return replace(result, query=name, bytes=size, fields=fields, error=error)


def labelled_pods(pods: int, seed: int, *, labels: bool) -> Objects:
    """Return pods with ten shared and ten unique labels, or the same pods without labels."""
    random = Random(f"memory {seed}")  # noqa: S311 - not for secrets
    columns: list[Column] = []
    if labels:
        values = min(_SHARED_VALUES, max(1, pods // 2))
        columns += [workloads.uniform(random, pods, f"shared-{key}", values) for key in range(10)]
        columns += [workloads.unique(random, pods, f"unique-{key}") for key in range(10)]
    return workloads.pods_with(columns, workloads.one_namespace(pods))
