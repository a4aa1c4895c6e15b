"""`churn`: every pod changes a label once a minute while four readers list by selector.

N pods are N / 60 events a second: 2,500 at 150,000. They arrive every 10 ms as JSON, as a watch
brings them; each pod has its turn before any has its second one. Readers ask every 5 ms.

| line | a sample is |
|---|---|
| read | one call of a lister |
| write, one batch | one batch applied, decoded before |
| write, an event | the same divided by its events |
| CPU of a write, an event | what the writer's thread computed for it, without waiting |
| freshness | from the arrival of a batch's first event until every new read sees it |
| memory | what the process has grown by at the end of the run |

The field `writer_cpu_share` tells how much of one core the writes took.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice, pairwise
from typing import Any

import orjson

from sqlcache.bench import workloads
from sqlcache.bench.answers import Answer, ask, by_plain_rule
from sqlcache.bench.measuring import rss_bytes, setting_up
from sqlcache.bench.scenarios.workload import Cell, Measurement, Workload
from sqlcache.bench.traffic import BURST_EVERY_S, READERS, Samples, together
from sqlcache.bench.workloads import REPEATED, Feed

PERIOD_S = 60.0  # in which every pod changes once
VARIANT = "every pod once a minute"
READ, WRITE, CPU = "read", "write, one batch", "CPU of a write, an event"
EVENT, FRESHNESS, MEMORY = "write, an event", "freshness", "memory over the run"


class Churn(Workload):
    """Pods with five labels, and a feed that changes one label of each in turn."""

    def prepare(self) -> list[Answer]:
        """Load the pods; answer what the readers will ask."""
        seed, size = self.parameters.seed, self.parameters.pods
        with setting_up():
            self.pods = workloads.ordinary_pods(size, f"churn {seed}")
            # Copies: the feed changes its pods, and what it holds must not count as the store's.
            self.subject.load(workloads.decoded(self.pods))
            self.questions = list(islice(workloads.service_questions(size), REPEATED))
            self.feed = Feed(self.pods, seed)
        answers = ask(self.subject.store, self.questions)
        self.matches = sorted(count for count, _ in answers)[len(answers) // 2]
        return answers

    def bursts(self, seconds: float) -> list[bytes]:
        """Return what arrives in a number of seconds, a burst each 10 ms, as JSON."""
        count = max(1, round(seconds / BURST_EVERY_S))
        due = [round(len(self.pods) * n * BURST_EVERY_S / PERIOD_S) for n in range(count + 1)]
        due[-1] = max(due[-1], 1)
        return [orjson.dumps(self.feed.turn(after - before)) for before, after in pairwise(due)]

    def cells(self) -> Sequence[Cell]:
        """Return the threads together."""
        return [_Churning(self)]


class _Churning(Cell):
    rounds = 1

    def __init__(self, workload: Churn) -> None:
        self.workload = workload

    def measure(self, round_number: int) -> list[Measurement]:
        workload, seconds = self.workload, float(self.workload.options["seconds"])
        for question in workload.questions:  # a controller's selectors have been asked before
            for _ in range(2):
                workload.subject.store.select(*question)
        bursts = workload.bursts(seconds)
        before = rss_bytes()
        reads = partial(workloads.repeated, workload.subject.store, workload.questions)
        apply = workload.subject.store.apply
        samples = together(reads, apply, bursts, orjson.loads, seconds)
        growth = max(0, rss_bytes() - before)
        return self._measurements(samples, growth, self._wrong())

    def _measurements(self, samples: Samples, growth: int, wrong: str | None) -> list[Measurement]:
        facts = {
            "readers": READERS,
            "reads_per_s": samples.reads_per_s,
            "writes_per_s": samples.writes_per_s,
            "writer_cpu_share": round(sum(samples.cpu) / 1e6 / samples.lasted_s, 6),
        }
        lines: dict[str, list[float]] = {
            READ: samples.read,
            WRITE: samples.write,
            EVENT: _an_event(samples.write, samples.batches),
            CPU: _an_event(samples.cpu, samples.batches),
            FRESHNESS: samples.freshness,
        }
        made = partial(
            Measurement, variant=VARIANT, pods=len(self.workload.pods), fields=facts, wrong=wrong
        )
        timed = [
            made(
                query=name, samples_us=each, matches=self.workload.matches if name == READ else None
            )
            for name, each in lines.items()
        ]
        return [*timed, made(query=MEMORY, bytes=growth)]

    def _wrong(self) -> str | None:
        questions = self.workload.questions[:5]
        right = by_plain_rule(self.workload.pods, questions)
        if ask(self.workload.subject.store, questions) == right:
            return None
        return "after the writes the store does not hold what was written"


def _an_event(batches_us: list[float], events: Sequence[Any]) -> list[float]:
    return [us / count for us, count in zip(batches_us, events, strict=True)]
