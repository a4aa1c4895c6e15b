"""`gc`: the pause of a full garbage collection while a store holds pods of 4 KB.

A full collection walks every container that the collector knows, and stops all threads meanwhile.
`gc.freeze()` puts what is alive out of its sight, for good. The same collection is timed before
that, after it, and after 10 % of the pods got a new version: those are back in its sight.

Elsewhere: the same pause after every pod was read, and memory (memory).
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from itertools import chain

from sqlcache.bench import realistic
from sqlcache.bench.answers import Answer, of_keys
from sqlcache.bench.measuring import timed
from sqlcache.bench.scenarios.workload import Cell, Job, Measurement, Workload
from sqlcache.bench.workloads import added
from sqlcache.objects import Objects

FULL, LATER = "full collection", "full collection, 10 % of pods changed since"
NOT_FROZEN, FROZEN = "nothing frozen", "gc.freeze() after the sync"
_CHANGED_SHARE = 10
_COLLECTIONS = 3


class Collecting(Workload):
    """One store, loaded once, as an informer's first list does it."""

    def __init__(self, job: Job) -> None:
        """Open an empty store."""
        super().__init__(job)
        self.size = int(self.options["pods"])

    def prepare(self) -> list[Answer]:
        """Load the pods; answer with the keys of all."""
        gc.disable()  # what collections during the load cost is another question
        for batch in realistic.decoded_batches(self.size, self.parameters.seed):
            self.apply(batch)
        gc.enable()
        return [of_keys(self.subject.store.list_keys())]

    def apply(self, pods: Objects) -> None:
        """Apply an event for each pod."""
        self.subject.store.apply(chain.from_iterable(added(pods)))

    def change(self) -> None:
        """Give the first 10 % of the pods another version."""
        most = max(1, self.size // _CHANGED_SHARE)
        for batch in realistic.decoded_batches(self.size, self.parameters.seed):
            changed = batch[:most]
            for pod in changed:
                pod["metadata"]["resourceVersion"] += "1"
            self.apply(changed)
            most -= len(changed)
            if most <= 0:
                return

    def cells(self) -> Sequence[Cell]:
        """Return the pause before and after the freeze."""
        return [_Pause(self)]


class _Pause(Cell):
    rounds = 1

    def __init__(self, workload: Collecting) -> None:
        self.workload = workload

    def measure(self, round_number: int) -> list[Measurement]:
        pauses = [self._pause(FULL, NOT_FROZEN)]
        gc.freeze()
        pauses.append(self._pause(FULL, FROZEN))
        self.workload.change()
        return [*pauses, self._pause(LATER, FROZEN)]

    def _pause(self, name: str, variant: str) -> Measurement:
        gc.collect()  # what came before is garbage of another kind
        calls = [(None, gc.collect)] * _COLLECTIONS
        samples = [elapsed for _, elapsed, _ in timed(calls, 0, _COLLECTIONS)]
        tracked = len(gc.get_objects())
        return Measurement(
            name,
            variant,
            self.workload.size,
            samples_us=samples,
            fields={"tracked": tracked, "frozen": gc.get_freeze_count()},
        )
