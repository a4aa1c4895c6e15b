"""`vs-go`: the pods and questions for which client-go's own figures are known, beside those.

Label values are spread evenly over 10 or 1,000 values of each label, or over 1,000 by Zipf's law;
labels are independent of each other. Lines named "scan" are the `dict` store's, and client-go's as
it is; those named "label index" are all others', and client-go's with the index of PR #132396.
Updates come in batches of 100 here, and one by one there. Last comes the index of pods with ten
shared and ten unique labels.

Elsewhere: client-go's figures (client_go), the index (memory), first questions (queries).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from random import Random

from sqlcache.bench import client_go, workloads
from sqlcache.bench.backends import MODEL
from sqlcache.bench.results import Result
from sqlcache.bench.scenarios import memory
from sqlcache.bench.scenarios.queries import Queries, Repeat
from sqlcache.bench.scenarios.updates import BATCHES, Batches
from sqlcache.bench.scenarios.workload import Cell, Job, Workload
from sqlcache.bench.workloads import Column, Feed, Query, Question, query
from sqlcache.objects import Objects

NAME = "vs-go"
INDEX, SCAN = "label index", "scan"
# Names as in client-go's figures: values of each label, None by Zipf's law, and labels of a pod.
CASES: dict[str, tuple[int | None, int]] = {
    "uniform10, 5 labels": (10, 5),
    "uniform10, 20 labels": (10, 20),
    "uniform1000, 5 labels": (1000, 5),
    "uniform1000, 20 labels": (1000, 20),
    "zipf1000(s=1.1), 5 labels": (None, 5),
}
UNIQUE = "uniform1000, 20 labels, 10 of them unique per pod"
CHANGES = {"labels unchanged": 0, "one label changed": 1}
_RANKS = {"top value": 1, "rank 10": 10, "rank 300": 300}
_ZIPF_VALUES = 1000
_MOST_QUESTIONS = 60


def workload(job: Job) -> Workload:
    """Return the workload of a case, or of a part of `memory`."""
    return memory.Memory(job) if "part" in job.options else VersusGo(job)


class VersusGo(Queries):
    """The pods of one case."""

    def data(self, random: Random) -> tuple[Objects, list[Query]]:
        """Return the pods and the case's queries."""
        self.case, pods = str(self.options["case"]), self.parameters.pods
        values, labels = CASES[self.case]
        self.facts = {"labels": labels}
        keys = [f"key-{number:02d}" for number in range(labels)]
        if values is None:
            columns = [workloads.zipf(random, pods, key, _ZIPF_VALUES) for key in keys]
            pools = _ranked(keys)
        else:
            columns = [workloads.uniform(random, pods, key, values) for key in keys]
            pools = _uniform(columns)
        made = workloads.pods_with(columns, workloads.one_namespace(pods))
        self.feed = Feed(made, self.parameters.seed)
        return made, [query(line(self.case, kind), pool) for kind, pool in pools.items()]

    def questions(self) -> list[Question]:
        """Return the first questions of each query."""
        return [each for query in self.queries for each in query.repeat[:3]]

    def cells(self) -> Sequence[Cell]:
        """Return each query repeated, then the updates."""
        queries = [cell for cell in super().cells() if isinstance(cell, Repeat)]
        return [*queries, *(_Updates(self, what) for what in CHANGES)]


class _Updates(Batches):
    def __init__(self, workload: VersusGo, what: str) -> None:
        super().__init__(workload, CHANGES[what], min(BATCHES[-1], len(workload.pods)))
        self._line = line(workload.case, what)

    def name(self) -> str:
        return self._line


def line(case: str, what: str) -> str:
    """Return the name of a line: of a kind of question, or of a change."""
    return f"{case}: {what}"


def _uniform(columns: Sequence[Column]) -> dict[str, Iterable[Question]]:
    single = dict.fromkeys(label for column in columns for label in column[:_MOST_QUESTIONS])
    # Pairs that a pod has: of 1,000,000 pairs, most are on none.
    pairs = islice(zip(columns[0], columns[1], strict=True), _MOST_QUESTIONS)
    return {
        "typical": (_terms([label]) for label in islice(single, _MOST_QUESTIONS)),
        "two labels": (_terms(pair) for pair in pairs),
    }


def _ranked(keys: Sequence[str]) -> dict[str, Iterable[Question]]:
    return {
        kind: [_terms([(key, f"{key}-{rank}")]) for key in keys] for kind, rank in _RANKS.items()
    }


def _terms(labels: Iterable[tuple[str, str]]) -> Question:
    return workloads.question("shop", ",".join(f"{key}={value}" for key, value in labels))


def beside_go(results: Sequence[Result]) -> list[Result]:
    """Return our results under the lines' names, then client-go's figures for the same lines."""
    about_index = [each for each in results if each.query in (memory.WITH, memory.WITHOUT)]
    others = [_named(each) for each in results if each not in about_index]
    return [*others, *_quoted({each.query for each in others}), *_index(about_index)]


def _named(result: Result) -> Result:
    return replace(result, variant=SCAN if result.backend == MODEL else INDEX)


def _quoted(measured: Container[str]) -> Iterator[Result]:
    for case in CASES:
        for kind, matches, indexed, scanned in client_go.queries(case):
            name = line(case, kind)
            if name in measured:
                yield client_go.quoted(NAME, name, INDEX, matches=matches, us=indexed)
                yield client_go.quoted(NAME, name, SCAN, matches=matches, us=scanned)
        for what in CHANGES:
            if line(case, what) in measured:
                indexed, plain = client_go.update_us(case, what)
                yield client_go.quoted(NAME, line(case, what), INDEX, us=indexed)
                yield client_go.quoted(NAME, line(case, what), SCAN, us=plain)


def _index(results: Sequence[Result]) -> Iterator[Result]:
    if results:
        yield from memory.label_index(results)
        name = f"index of {memory.LABELS * client_go.pods():,} labels"
        yield client_go.quoted(NAME, name, memory.RSS, size=client_go.index_bytes(UNIQUE))
