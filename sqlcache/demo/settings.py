"""What a demo is asked for, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Self

from sqlcache.bench.measuring import percentile

# An extra, and a module that it brings.
EXTRAS: Mapping[str, str] = {"kubernetes": "kubernetes", "testing": "aiohttp"}


def missing_extras() -> list[str]:
    """Return the extras that a demo needs and that are not installed."""
    return [extra for extra, module in EXTRAS.items() if find_spec(module) is None]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a demo is asked for.

    Attributes:
        backend: of all caches, as `open_store` takes it.
        namespaces, services, pods: how many there are, all in all.
        changes_per_s: changes of pods a second.
        duration_s: how long pods change.
        seed: what pods and changes are drawn from: equal seeds give equal changes.
    """

    backend: str
    namespaces: int
    services: int
    pods: int
    changes_per_s: float
    duration_s: float
    seed: int


@dataclass(frozen=True, slots=True)
class Latency:
    """How long something took, in microseconds; None if it was never done.

    Attributes:
        count: how often it was done.
        p50_us, p99_us, max_us: half of them, 99 of 100, and all of them took no longer.
    """

    count: int
    p50_us: float | None
    p99_us: float | None
    max_us: float | None

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """Return what durations in seconds come to."""
        if not seconds:
            return cls(0, None, None, None)
        p50, p99, longest = (percentile(seconds, share) * 1e6 for share in (0.5, 0.99, 1.0))
        return cls(len(seconds), p50, p99, longest)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a demo measured, and what the check at its end found.

    Attributes:
        backend: that it ran on.
        stopped: it was stopped before its time.
        start_s: from the first list until all Endpoints and slices were written for the first time;
            None if it did not come to rest.
        changes: of pods that were made.
        changing_s: how long that took.
        settling_s: from the last change until nothing was left to do; None if that did not come.
        syncs: of services, by both controllers, from the first change on.
        syncs_per_s: of them, those while pods changed, a second.
        peak_depth: items that waited in all queues together, at most.
        lists: selector look-ups in the cache of pods.
        sync: a whole sync of a service, with its writes to the API server.
        writer_wait: what a write to the cache of pods waited: its time less what it computed.
        memory_bytes: resident memory of the process with caches and controllers, at rest.
        checked_endpoints, checked_slices: objects that were compared.
        differences: where they are not what they should be.
    """

    backend: str
    stopped: bool
    start_s: float | None
    changes: int
    changing_s: float
    settling_s: float | None
    syncs: int
    syncs_per_s: float
    peak_depth: int
    lists: Latency
    sync: Latency
    writer_wait: Latency
    memory_bytes: int
    checked_endpoints: int
    checked_slices: int
    differences: list[str]

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Return the outcome that was written as JSON."""
        latencies = {name: Latency(**fields[name]) for name in ("lists", "sync", "writer_wait")}
        return cls(**{**fields, **latencies})

    @property
    def is_right(self) -> bool:
        """Whether all came to rest, and everything is as it should be."""
        return self.settling_s is not None and not self.differences
