"""`update`: watch events applied to a full store, in batches of 1 and of 100.

A sample is the time of one batch divided by its events. The events of a batch are made before it
is timed, each with a new decoded object. Afterwards the store must answer what a plain look at
every pod answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Protocol

from sqlcache.bench import workloads
from sqlcache.bench.answers import Answer, ask, by_plain_rule
from sqlcache.bench.backends import Subject
from sqlcache.bench.measuring import setting_up, timed
from sqlcache.bench.results import Parameters
from sqlcache.bench.scenarios.workload import Cell, Measurement, Workload
from sqlcache.bench.workloads import Feed, Question
from sqlcache.objects import Objects, labels_of
from sqlcache.store.sqlite import SqliteStore

LABELS = {0: "labels unchanged", 1: "one label changed", 5: "all five labels changed"}
BATCHES = (1, 100)
_LEAST_BATCHES = 5
_IN_USE = 1_000


class Updates(Workload):
    """Pods with five labels, and a feed that changes them."""

    def prepare(self) -> list[Answer]:
        """Load the pods and apply one batch of each kind; answer some questions."""
        seed, size = self.parameters.seed, self.parameters.pods
        with setting_up():
            self.pods = workloads.ordinary_pods(size, f"update {seed}")
            self.subject.load(self.pods)
            self.feed = Feed(self.pods, seed)
            for changed in LABELS:
                for batch in BATCHES:
                    self.apply(self.feed.batch(min(batch, size), changed))
        return ask(self.subject.store, self.questions())

    def apply(self, events: list[dict[str, Any]]) -> None:
        """Apply events."""
        self.subject.store.apply(events)

    def questions(self) -> list[Question]:
        """Return some questions about every label."""
        services = islice(workloads.service_questions(len(self.pods)), 5)
        others = ("app=app-1", "env=env-2,tier=tier-3,zone!=zone-1")
        return [*services, *(workloads.question("shop", text) for text in others)]

    def cells(self) -> Sequence[Cell]:
        """Return each kind of change in each size of batch."""
        size = len(self.pods)
        return [
            *(Batches(self, changed, min(batch, size)) for changed in LABELS for batch in BATCHES),
            *(_BatchesInUse(self, changed, min(BATCHES[-1], size)) for changed in (0, 1)),
        ]


class Fed(Protocol):
    """What `Batches` needs of a workload: the store's pods, and a feed that changes them."""

    parameters: Parameters
    subject: Subject
    pods: Objects
    feed: Feed

    @property
    def timed_s(self) -> float:
        """As in `Workload`."""

    def questions(self) -> list[Question]:
        """Return some questions about every label."""


class Batches(Cell):
    """Batches of one size in which every pod gets as many other labels.

    Args of the constructor: the workload, the number of labels changed, the events of a batch.
    """

    def __init__(self, workload: Fed, changed: int, batch: int) -> None:
        self.workload, self.changed, self.batch = workload, changed, batch

    def measure(self, round_number: int) -> list[Measurement]:
        """Apply this round's part of the batches."""
        workload = self.workload
        batches = workload.parameters.samples // workload.parameters.rounds
        calls = ((None, self._call()) for _ in range(max(_LEAST_BATCHES, batches)))
        least = -(-_LEAST_BATCHES // workload.parameters.rounds)
        result = Measurement(
            self.name(),
            f"batches of {self.batch}",
            len(workload.pods),
            fields={"batch": self.batch, "labels": len(labels_of(workload.pods[0]))},
        )
        self._call()()  # wakes the process and its caches
        for _, elapsed, _ in timed(calls, workload.timed_s, least):
            result.samples_us.append(elapsed / self.batch)
        result.wrong = self._wrong(round_number)
        return [result]

    def name(self) -> str:
        """Return the name of the line."""
        return LABELS[self.changed]

    def _call(self) -> Any:
        events = self.workload.feed.batch(self.batch, self.changed)
        return lambda: self.workload.subject.store.apply(events)

    def _wrong(self, round_number: int) -> str | None:
        if round_number + 1 < self.workload.parameters.rounds:
            return None
        questions = self.workload.questions()
        right = by_plain_rule(self.workload.pods, questions)
        for each, expected, got in zip(
            questions, right, ask(self.workload.subject.store, questions), strict=True
        ):
            if expected != got:
                return f"{each.selector}: {got[0]} objects instead of {expected[0]}, or others"
        return None


class _BatchesInUse(Batches):
    """The same while hot views are alive, where a backend has them."""

    def measure(self, round_number: int) -> list[Measurement]:
        store = self.workload.subject.store
        if isinstance(store, SqliteStore):
            for question in self._questions():
                for _ in range(2):  # a view is kept from the second time on
                    store.select(*question)
        return super().measure(round_number)

    def _questions(self) -> list[Question]:
        return list(islice(workloads.service_questions(len(self.workload.pods)), _IN_USE))

    def name(self) -> str:
        return f"{super().name()}, {len(self._questions()):,} selectors in use"
