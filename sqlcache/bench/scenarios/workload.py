"""What a child process runs: one data set on one backend.

Flow: the runner sends a `Job`; the child makes the scenario's `Workload` of it and calls
`prepare` once, then `measure` of each `Cell` in each round, in turn with the other backends.

Elsewhere: which workloads a scenario has (scenarios.registry), processes (child, runner).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from sqlcache.bench.answers import Answer
from sqlcache.bench.backends import BACKENDS, Backend, Subject
from sqlcache.bench.results import Parameters, Row


@dataclass(frozen=True, slots=True)
class Task:
    """One workload of a scenario, for every backend.

    Attributes:
        options: what the scenario's workload takes, as JSON values.
        alone: no other child may be alive meanwhile: it needs the memory.
        live_only: not for backends that keep objects as bytes.
        no_views: no selector is asked again, so a backend without hot views is left out.
        packed_only: only for backends that keep objects as bytes.
    """

    options: Row = field(default_factory=dict)
    alone: bool = False
    live_only: bool = False
    no_views: bool = False
    packed_only: bool = False

    def suits(self, backend: Backend) -> bool:
        """Return whether a backend is measured."""
        if (self.live_only and backend.decodes) or (self.packed_only and not backend.decodes):
            return False
        return not (self.no_views and backend.cold)


@dataclass(frozen=True, slots=True)
class Job:
    """What one child process is told at its start."""

    scenario: str
    backend: str
    parameters: Parameters
    options: Row
    directory: str

    def to_json(self) -> Row:
        """Return a JSON value."""
        return {**asdict(self), "parameters": self.parameters.to_json()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Return the job that `to_json` made a value of."""
        return cls(**{**row, "parameters": Parameters.from_json(row["parameters"])})


@dataclass(slots=True)
class Measurement:
    """What one cell measured in one round, for one line of the table.

    Attributes:
        query, variant, pods, matches: as in `Result`.
        samples_us: this round's.
        bytes: memory, if that is what was measured.
        fields: further facts; those of the last round stay.
        answers: digests by question, compared between backends after the last round.
        wrong: what the workload itself found wrong with the answers.
        error: why there are no numbers, as in `Result`.
    """

    query: str
    variant: str
    pods: int
    matches: int | None = None
    samples_us: list[float] = field(default_factory=list)
    bytes: int | None = None
    fields: Row = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    wrong: str | None = None
    error: str | None = None

    def to_json(self) -> Row:
        """Return a JSON value."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Return the measurement that `to_json` made a value of."""
        answers = {name: (count, digest) for name, (count, digest) in row["answers"].items()}
        return cls(**{**row, "answers": answers})


class Cell(ABC):
    """Something to measure, in rounds."""

    rounds: int | None = None  # None: as many as the run's parameters say

    @abstractmethod
    def measure(self, round_number: int) -> list[Measurement]:
        """Measure for one round, counted from 0."""


class Workload(ABC):
    """One data set on one backend."""

    resource = "pods"  # what the store is opened for

    def __init__(self, job: Job) -> None:
        """Open an empty store."""
        self.parameters, self.options = job.parameters, job.options
        self.subject = Subject(BACKENDS[job.backend], Path(job.directory), self.resource)

    @property
    def timed_s(self) -> float:
        """Timed seconds of one cell in one round."""
        return self.parameters.cell_s / self.parameters.rounds

    @abstractmethod
    def prepare(self) -> Sequence[Answer | None]:
        """Make the data, load it, and answer some questions.

        Returns:
            The answers, the same number in the same order on every backend; None for a question
            that was left out because those before it took too long.
        """

    @abstractmethod
    def cells(self) -> Sequence[Cell]:
        """Return what to measure, the same list on every backend. Comes after `prepare`."""

    def close(self) -> None:
        """Close the store."""
        self.subject.close()
