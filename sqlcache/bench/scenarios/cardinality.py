"""`cardinality`: what labels that are unique to their pod cost each backend, from none to twenty.

Every pod has five ordinary labels and a number of unique ones. For each number a fresh process
fills an empty store, as an informer does it, and notes the time and what the process grows by;
the pods were there before.

Elsewhere: bytes of the index alone, at 20 labels (memory); a load of ordinary pods (loading).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from random import Random

from sqlcache.bench import workloads
from sqlcache.bench.answers import Answer, ask
from sqlcache.bench.measuring import rss_bytes, setting_up, timed
from sqlcache.bench.scenarios.workload import Cell, Job, Measurement, Workload
from sqlcache.bench.workloads import added

UNIQUE = (0, 1, 2, 5, 10, 20)  # unique labels of each pod
FIELD = "unique_labels_per_pod"
GROWTH, LOAD = "process growth", "load"


def line(unique: int) -> str:
    """Return the name of the lines of a number of unique labels."""
    return f"5 shared and {unique} unique labels a pod"


class Cardinality(Workload):
    """One store, filled once with pods of the job's number of unique labels."""

    def __init__(self, job: Job) -> None:
        """Open an empty store."""
        super().__init__(job)
        self.size, self.unique = int(self.options["pods"]), int(self.options["unique"])

    def prepare(self) -> list[Answer]:
        """Make the pods and load them; answer some questions."""
        random = Random(f"cardinality {self.parameters.seed}")  # noqa: S311 - not for secrets
        with setting_up():
            columns = workloads.five_labels(random, self.size)
            unique = [
                workloads.unique(random, self.size, f"unique-{key}") for key in range(self.unique)
            ]
            pods = workloads.pods_with([*columns, *unique], workloads.one_namespace(self.size))
            batches = added(pods)
        before = rss_bytes()
        calls = ((None, lambda: self._load(batches)),)
        self.load_us = [elapsed for _, elapsed, _ in timed(calls, 0, 1)]
        self.growth = max(0, rss_bytes() - before)
        questions = list(islice(workloads.service_questions(self.size), 5))
        for column in unique[:1]:
            key, value = column[self.size // 2]
            questions.append(workloads.question("shop", f"{key}={value}"))
        return ask(self.subject.store, questions)

    def _load(self, batches: Sequence[list[workloads.Event]]) -> None:
        for events in batches:
            self.subject.store.apply(events)

    def cells(self) -> Sequence[Cell]:
        """Return what was noted."""
        return [_Noted(self)]


class _Noted(Cell):
    rounds = 1

    def __init__(self, workload: Cardinality) -> None:
        self.workload = workload

    def measure(self, round_number: int) -> list[Measurement]:
        of = self.workload
        name, facts = line(of.unique), {FIELD: of.unique, "labels": 5 + of.unique}
        return [
            Measurement(name, GROWTH, of.size, bytes=of.growth, fields=facts),
            Measurement(name, LOAD, of.size, samples_us=of.load_us, fields=facts),
        ]
