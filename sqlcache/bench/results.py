"""What a run was asked for and what it measured, as JSON and CSV.

Promises
- Every sample is kept in the JSON; `min_us`, `p50_us` and `p99_us` are worked out from them.
- A row without numbers says why in `error`.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson

from sqlcache.bench.measuring import percentile

Row = dict[str, Any]
QUOTED = "quoted"  # field of a result that this run did not measure: where its one figure is from
CSV_COLUMNS = (
    "scenario", "backend", "variant", "query", "pods", "matches", "n",
    "min_us", "p50_us", "p99_us", "bytes", "peak_rss_bytes", "error",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a run was asked for.

    Attributes:
        pods: number of pods of most workloads.
        backends: names of `sqlcache.bench.backends`.
        scenarios: names of `sqlcache.bench.scenarios`.
        seed: pods, selectors and events are made from it.
        quick: fewer workloads, shorter measurements.
        files: dump files of the `dump` scenario.
        time_limit_s: what one process may take in all.
        cell_s: timed seconds for each backend on one line of the table.
        rounds: parts that these seconds are cut into; in each, every backend has its turn.
        samples: the most samples of a `first` variant; `repeat` has twice as many.
    """

    pods: int
    backends: tuple[str, ...]
    scenarios: tuple[str, ...]
    seed: int = 1
    quick: bool = False
    files: tuple[str, ...] = ()
    time_limit_s: float = 600.0
    cell_s: float = 1.0
    rounds: int = 4
    samples: int = 200

    @property
    def command(self) -> str:
        """Return the command that asks for this, dump files by their names alone."""
        words = ["sqlcache", "bench", *self.scenarios, *(Path(file).name for file in self.files)]
        words += ["--pods", str(self.pods), "--backends", ",".join(self.backends)]
        return shlex.join([*words, "--seed", str(self.seed), *(["--quick"] if self.quick else [])])

    def to_json(self) -> Row:
        """Return a JSON value, the command first."""
        return {"command": self.command, **asdict(self)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Return the parameters that `to_json` made a value of."""
        known: Row = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in row.items()
            if key != "command"
        }
        return cls(**known)


@dataclass(slots=True)
class Result:
    """One line of one backend.

    Attributes:
        scenario, backend: names.
        variant: of the scenario: "first", "repeat", …
        query: what was asked or done, the same text on every backend.
        pods: pods in the store.
        matches: objects in the answer; None where nothing is asked.
        samples_us: microseconds, one entry a call (or an event, see the scenario).
        bytes: memory; None where none is measured.
        fields: further facts.
        error: why there are no numbers; None where there are.
    """

    scenario: str
    backend: str
    variant: str
    query: str
    pods: int
    matches: int | None = None
    samples_us: list[float] = field(default_factory=list)
    bytes: int | None = None
    fields: Row = field(default_factory=dict)
    error: str | None = None

    @property
    def line(self) -> tuple[str, str, int, str]:
        """What the results of all backends for one line of the table have in common."""
        return self.scenario, self.query, self.pods, self.variant

    def us(self, share: float) -> float | None:
        """Return a percentile in microseconds, None without samples."""
        return round(percentile(self.samples_us, share), 3) if self.samples_us else None

    def to_json(self) -> Row:
        """Return a JSON value, samples last."""
        row: Row = {
            "scenario": self.scenario,
            "backend": self.backend,
            "variant": self.variant,
            "query": self.query,
            "pods": self.pods,
            "matches": self.matches,
            "n": len(self.samples_us),
            "min_us": self.us(0),
            "p50_us": self.us(0.5),
            "p99_us": self.us(0.99),
            "bytes": self.bytes,
            **self.fields,
        }
        if self.error is not None:
            row["error"] = self.error
        row["samples_us"] = [round(sample, 2) for sample in self.samples_us]
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Return the result that `to_json` made a value of."""
        rest = dict(row)
        for derived in ("n", "min_us", "p50_us", "p99_us"):
            rest.pop(derived, None)
        own = {name: rest.pop(name) for name in _OWN if name in rest}
        return cls(**own, fields=rest)


_OWN = (
    "scenario", "backend", "variant", "query", "pods", "matches", "samples_us", "bytes", "error",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """A whole run: where, what was asked for, what came out."""

    environment: Row
    parameters: Parameters
    results: Sequence[Result]

    @property
    def failed(self) -> bool:
        """Whether some row has no number."""
        return any(result.error is not None for result in self.results)


def to_json(run: Run) -> bytes:
    """Return a run as JSON, one result a line."""
    head = [
        b'"environment":' + orjson.dumps(run.environment),
        b'"parameters":' + orjson.dumps(run.parameters.to_json()),
    ]
    rows = b",\n".join(orjson.dumps(result.to_json()) for result in run.results)
    return b"{" + b",\n".join([*head, b'"results":[\n' + rows + b"]"]) + b"}\n"


def from_json(text: bytes) -> Run:
    """Return the run that `to_json` wrote.

    Raises:
        ValueError: it is no such JSON.
    """
    document = orjson.loads(text)
    try:
        return Run(
            document["environment"],
            Parameters.from_json(document["parameters"]),
            [Result.from_json(row) for row in document["results"]],
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not the JSON of `sqlcache bench`: {error}") from error


def to_csv(run: Run) -> str:
    """Return the results as CSV with a header, without the samples."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(result.to_json() for result in run.results)
    return text.getvalue()
