"""`load`: an empty store filled with pods; `replace`: a relist of what it holds.

A sample is one whole load or relist. The pods are decoded before the clock starts: this is the
store's own time. Each load goes to a new store.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import islice

from sqlcache.bench import workloads
from sqlcache.bench.answers import Answer, ask
from sqlcache.bench.measuring import setting_up, timed
from sqlcache.bench.scenarios.workload import Cell, Measurement, Workload
from sqlcache.bench.workloads import BATCH, Question, added


class _Bulk(Workload):
    """Pods with five labels."""

    def prepare(self) -> list[Answer]:
        """Load the pods once, untimed; answer some questions."""
        with setting_up():
            self.pods = workloads.ordinary_pods(
                self.parameters.pods, f"load {self.parameters.seed}"
            )
            self.subject.load(self.pods)
        return ask(self.subject.store, self.questions())

    def questions(self) -> list[Question]:
        """Return some questions."""
        broad = workloads.question("shop", "tier!=tier-1,env=env-1")
        return [*islice(workloads.service_questions(len(self.pods)), 5), broad]


class _BulkCell(Cell):
    query: str
    variant: str
    rounds: int | None = None

    def __init__(self, workload: _Bulk) -> None:
        self.workload = workload
        # A load takes seconds: three of them say enough.
        self.rounds = min(3, workload.parameters.rounds)

    def measure(self, round_number: int) -> list[Measurement]:
        workload = self.workload
        result = Measurement(self.query, self.variant, len(workload.pods), fields={"labels": 5})
        with setting_up():
            self.before(round_number)
        for _, elapsed, _ in timed([(None, self.act)], 0, 1):
            result.samples_us.append(elapsed)
        result.fields["us_per_pod"] = round(result.samples_us[0] / len(workload.pods), 3)
        stored = ask(workload.subject.store, workload.questions())
        result.answers = {f"{round_number}.{place}": each for place, each in enumerate(stored)}
        return [result]

    @abstractmethod
    def before(self, round_number: int) -> None:
        """Get ready, untimed."""

    @abstractmethod
    def act(self) -> None:
        """Do what is timed."""


class Load(_Bulk):
    """Loads into an empty store."""

    def cells(self) -> Sequence[Cell]:
        """Return a load by batches of events, and one by one replace."""
        return [_LoadByApply(self), *([] if self.parameters.quick else [_LoadByReplace(self)])]


class _LoadByReplace(_BulkCell):
    query, variant = "load all pods", "one replace"

    def before(self, round_number: int) -> None:
        self.workload.subject.renew()

    def act(self) -> None:
        self.workload.subject.load(self.workload.pods)


class _LoadByApply(_LoadByReplace):
    variant = f"batches of {BATCH}"

    def before(self, round_number: int) -> None:
        super().before(round_number)
        self._batches = added(self.workload.pods)

    def act(self) -> None:
        apply = self.workload.subject.store.apply
        for events in self._batches:
            apply(events)


class Replace(_Bulk):
    """Relists of a full store."""

    def cells(self) -> Sequence[Cell]:
        """Return relists of the same pods, and of pods of which some changed."""
        return [_Relist(self), _RelistChanged(self)]


class _Relist(_BulkCell):
    query, variant = "relist, nothing changed", "replace"

    def before(self, round_number: int) -> None:
        self.workload.pods = workloads.decoded(self.workload.pods)

    def act(self) -> None:
        self.workload.subject.load(self.workload.pods)


class _RelistChanged(_Relist):
    query = "relist, 1 % of pods changed a label"

    def before(self, round_number: int) -> None:
        super().before(round_number)
        for pod in self.workload.pods[round_number::100]:
            meta = pod["metadata"]
            meta["resourceVersion"] = f"{meta['resourceVersion']}{round_number}"
            tier = int(meta["labels"]["tier"].removeprefix("tier-"))
            meta["labels"]["tier"] = f"tier-{(tier + 1) % 10}"
