"""Which scenarios there are, what each runs, and which of its lines stand for it.

A new scenario is a module with a `Workload` and one entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.util import find_spec

from sqlcache.bench.results import Parameters, Result, Row
from sqlcache.bench.scenarios import (
    cardinality,
    churning,
    collecting,
    contention,
    controllers,
    dump,
    first_sync,
    loading,
    memory,
    packing,
    queries,
    relist,
    selecting,
    soak,
    updates,
    versus_go,
)
from sqlcache.bench.scenarios.workload import Job, Task, Workload
from sqlcache.store._sql.compression import LEVEL

_KINDS_QUICK = ("in (3 values)", "notin (3 values)", "!=", "exists", "!key", ">")
_NAMESPACES_QUICK = 10  # with as many pods in each as a full run has in its 100
_EXTRAS = {"kubernetes": "kubernetes", "testing": "aiohttp"}
_MEMORY_SHARE_QUICK = 4  # pods of 4 KB or with 20 labels take that much longer than the others


def _same(results: Sequence[Result]) -> list[Result]:
    return list(results)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario.

    Attributes:
        name: as on the command line.
        summary: one line, for help and reports.
        workload: made in each child process from its job.
        tasks: the workloads of a run, from its parameters.
        headlines: (query, variant) of the lines that the short table has, with `*` for any
            number; the first is the one that the sentence is about.
        finish: makes the results of all tasks into those that are shown.
        part_of: the runs without named scenarios that it is part of: "every", "full" or "none".
        extras: what it needs of the package's extras, by name and a module of each.
        axis: the field of results that its lines grow with, if they are points of curves.
        reads: reads a dump, if it takes any, or raises what is wrong with it.
    """

    name: str
    summary: str
    workload: Callable[[Job], Workload]
    tasks: Callable[[Parameters], list[Task]]
    headlines: tuple[tuple[str, str], ...]
    finish: Callable[[Sequence[Result]], list[Result]] = _same
    part_of: str = "every"
    extras: Mapping[str, str] = field(default_factory=dict)
    axis: str | None = None
    reads: Callable[[str], object] | None = None

    def missing(self) -> list[str]:
        """Return the extras that are not installed."""
        return [extra for extra, module in self.extras.items() if find_spec(module) is None]


def _one(parameters: Parameters) -> list[Task]:
    return [Task()]


def _writes(parameters: Parameters) -> list[Task]:
    return [Task(no_views=True)]


def _multi_label(parameters: Parameters) -> list[Task]:
    if parameters.quick:
        return [Task({"labels": 5, "terms": [5]})]
    every = [1, 2, 3, 4, 5]
    return [
        Task({"labels": 1, "terms": [1]}),
        Task({"labels": 5, "terms": every}),
        Task({"labels": 10, "terms": every}),
        Task({"labels": 20, "terms": [1, 5]}),
    ]


def _set_based(parameters: Parameters) -> list[Task]:
    if parameters.quick:
        return [Task({"namespaces": _NAMESPACES_QUICK, "kinds": list(_KINDS_QUICK)})]
    return [Task({"namespaces": 100}), Task({"namespaces": 1})]


def _namespaces(parameters: Parameters) -> list[Task]:
    counts = (_NAMESPACES_QUICK,) if parameters.quick else (1, 100)
    return [Task({"namespaces": count}) for count in counts]


def _memory(parameters: Parameters) -> list[Task]:
    pods, alone = parameters.pods, not parameters.quick
    if parameters.quick:
        pods = max(1, pods // _MEMORY_SHARE_QUICK)
    return [
        # A packed store has the same index, but holds the labels once more in its objects' bytes.
        Task({"part": "labels", "pods": pods}, alone, live_only=True, no_views=True),
        Task({"part": "bare", "pods": pods}, alone, live_only=True, no_views=True),
        Task({"part": "cache", "pods": pods}, alone, no_views=True),
    ]


def _contention(parameters: Parameters) -> list[Task]:
    return [Task({"seconds": 0.6 if parameters.quick else 6.0})]


def _selecting(parameters: Parameters) -> list[Task]:
    sizes = selecting.SERVICES[1:3] if parameters.quick else selecting.SERVICES
    return [Task({"services": size}, no_views=True) for size in sizes]


def _controllers(parameters: Parameters) -> list[Task]:
    services, workers = list(controllers.SERVICES), list(controllers.WORKERS)
    if parameters.quick:
        services, workers = [controllers.USUAL_SERVICES], [controllers.USUAL_WORKERS]
    seconds = 0.3 if parameters.quick else 3.0
    return [Task({"services": services, "workers": workers, "seconds": seconds})]


def _first_sync(parameters: Parameters) -> list[Task]:
    # Of 150,000, the 50,000 pods of 4 KB that the project's aim speaks of.
    return [Task({"pods": max(1, parameters.pods // 3)}, alone=True, no_views=True)]


def _soak(parameters: Parameters) -> list[Task]:
    if parameters.quick:
        options = {"pods": min(parameters.pods, 1_000), "seconds": 2, "troubles_per_s": 6}
        return [Task({**options, "relists": 4}, alone=True, no_views=True)]
    options = {"pods": min(parameters.pods, 20_000), "seconds": 30, "troubles_per_s": 2}
    return [Task({**options, "relists": 20}, alone=True, no_views=True)]


def _collecting(parameters: Parameters) -> list[Task]:
    pods = max(1, parameters.pods // (_MEMORY_SHARE_QUICK if parameters.quick else 1))
    return [Task({"pods": pods}, alone=True, no_views=True)]


def _cardinality(parameters: Parameters) -> list[Task]:
    pods, counts = parameters.pods, list(cardinality.UNIQUE)
    if parameters.quick:
        pods, counts = max(1, pods // _MEMORY_SHARE_QUICK), counts[:: len(counts) - 1]
    return [Task({"pods": pods, "unique": count}, alone=True, no_views=True) for count in counts]


def _churn(parameters: Parameters) -> list[Task]:
    return [Task({"seconds": 0.6 if parameters.quick else churning.PERIOD_S}, alone=True)]


def _versus_go(parameters: Parameters) -> list[Task]:
    cases = list(versus_go.CASES)[2:3] if parameters.quick else versus_go.CASES
    index = [
        Task({"part": part, "pods": parameters.pods}, alone=True, live_only=True, no_views=True)
        for part in ("labels", "bare")
    ]
    return [*(Task({"case": case}) for case in cases), *index]


def _packing(parameters: Parameters) -> list[Task]:
    levels = [LEVEL] if parameters.quick else list(packing.LEVELS)
    sources: list[Row] = [{"file": file} for file in parameters.files]
    made: Row = {"pods": min(parameters.pods, packing.PODS)}
    return [
        Task({**source, "levels": levels}, alone=True, packed_only=True)
        for source in sources or [made]
    ]


def _dumps(parameters: Parameters) -> list[Task]:
    return [Task({"file": file}) for file in parameters.files]


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "single-label",
            "one label: 0.1 % and 10 % of the pods match, values uniform or by Zipf's law",
            queries.SingleLabel,
            _one,
            (
                ("one label, 0.1 % of pods, uniform", "repeat"),
                ("one label, 0.1 % of pods, uniform", "first"),
                ("one label, 10 % of pods, uniform", "repeat"),
            ),
        ),
        Scenario(
            "multi-label",
            "one to five terms on pods with 1, 5, 10 or 20 labels; two broad terms",
            queries.MultiLabel,
            _multi_label,
            (
                ("5 of 5 labels, selective one last", "repeat"),
                ("2 broad of 5 labels, 8 % of pods", "repeat"),
            ),
        ),
        Scenario(
            "set-based",
            "in, notin, !=, exists, !key, > and < in one namespace of 1 and of 100",
            queries.SetBased,
            _set_based,
            (
                ("!=, one of * namespaces", "repeat"),
                ("in (3 values), one of * namespaces", "repeat"),
            ),
        ),
        Scenario(
            "namespaces",
            "one label asked of one namespace and of all, with 1 and 100 namespaces",
            queries.Namespaces,
            _namespaces,
            (
                ("svc=…, one of * namespaces", "repeat"),
                ("svc=…, all * namespaces", "repeat"),
            ),
        ),
        Scenario(
            "update",
            "watch events applied in batches of 1 and 100: labels unchanged, one or all changed",
            updates.Updates,
            _writes,
            (
                ("one label changed", "batches of 100"),
                ("labels unchanged", "batches of 100"),
            ),
        ),
        Scenario(
            "selecting",
            "which services of a namespace select a pod, and what changing a service costs",
            selecting.Selecting,
            _selecting,
            (
                (f"{selecting.ASK}, 1,000 services", "repeat"),
                (f"{selecting.OTHER}, 1,000 services", "batches of 1"),
            ),
        ),
        Scenario(
            "load",
            "an empty store filled with pods of five labels",
            loading.Load,
            _writes,
            (("load all pods", "batches of 500"),),
        ),
        Scenario(
            "replace",
            "a relist of the pods that the store holds",
            loading.Replace,
            _writes,
            (("relist, nothing changed", "replace"),),
        ),
        Scenario(
            "memory",
            "the label index, the whole cache, and the pause of a full garbage collection",
            memory.Memory,
            _memory,
            (
                ("index of *", memory.RSS),
                ("index of *", memory.PAGES),
                (memory.CACHE, memory.RSS),
                (memory.PAUSE, "pause"),
            ),
            memory.label_index,
        ),
        Scenario(
            "contention",
            "four readers and 1,000 writes a second, with and without a busy Python thread",
            contention.Contention,
            _contention,
            (
                ("read", contention.QUIET),
                ("read", contention.BUSY),
                ("read", contention.SHORT),
                ("freshness", contention.QUIET),
                ("freshness", contention.BUSY),
                ("freshness", contention.SHORT),
            ),
        ),
        Scenario(
            "controllers",
            "both controllers: cache work of syncs and pod events, waits of workers and writer",
            controllers.Controllers,
            _controllers,
            controllers.HEADLINES,
            part_of="full",
        ),
        Scenario(
            "relist",
            "an informer lists all pods anew while four threads list by selector",
            relist.Relist,
            _one,
            (
                (f"{relist.LONGEST}, 1 % changed", relist.ON),
                (f"{relist.LONGEST}, 1 % changed", relist.TUNED),
                (f"{relist.SYNC}, 1 % changed", relist.ON),
                (f"{relist.PEAK}, 1 % changed", relist.ON),
            ),
        ),
        Scenario(
            "first-sync",
            "an informer's first list of pods of 4 KB over HTTP: receiving, store, rest",
            first_sync.FirstSync,
            _first_sync,
            (
                (first_sync.WHOLE, first_sync.STREAMED),
                (first_sync.STORE, first_sync.STREAMED),
            ),
            part_of="full",
            extras=_EXTRAS,
        ),
        Scenario(
            "soak",
            "an informer on a troubled API server; cache and handlers are audited; only if named",
            soak.Soak,
            _soak,
            (
                ("event, server to handler", "under faults"),
                ("memory over * relists", "process growth"),
            ),
            part_of="none",
            extras=_EXTRAS,
        ),
        Scenario(
            "gc",
            "the pause of a full garbage collection with pods of 4 KB, with and without gc.freeze",
            collecting.Collecting,
            _collecting,
            (
                (collecting.FULL, collecting.NOT_FROZEN),
                (collecting.FULL, collecting.FROZEN),
            ),
            part_of="full",
        ),
        Scenario(
            "cardinality",
            "memory and time of a load while unique labels grow from 0 to 20 a pod",
            cardinality.Cardinality,
            _cardinality,
            (
                (cardinality.line(0), cardinality.GROWTH),
                (cardinality.line(20), cardinality.GROWTH),
                (cardinality.line(20), cardinality.LOAD),
            ),
            part_of="full",
            axis=cardinality.FIELD,
        ),
        Scenario(
            "churn",
            "every pod changes a label once a minute while four readers list by selector",
            churning.Churn,
            _churn,
            (
                (churning.READ, churning.VARIANT),
                (churning.EVENT, churning.VARIANT),
                (churning.MEMORY, churning.VARIANT),
            ),
            part_of="full",
        ),
        Scenario(
            "objects",
            "bytes of a packed pod and the time to pack and unpack it, by level; takes dumps",
            packing.Packing,
            _packing,
            (
                (packing.line(packing.SIZE, "*"), packing.PLAIN),
                (packing.line(packing.SIZE, "*"), packing.zstd(LEVEL)),
                (packing.line(packing.COMPRESS, "*"), packing.zstd(LEVEL)),
                (packing.line(packing.DECOMPRESS, "*"), packing.zstd(LEVEL)),
                (packing.line(packing.PARSE, "*"), packing.PLAIN),
            ),
            part_of="full",
            reads=packing.read,
        ),
        Scenario(
            versus_go.NAME,
            "the pods and questions for which client-go's own figures are known, beside them",
            versus_go.workload,
            _versus_go,
            (
                (versus_go.line("uniform1000, 5 labels", "typical"), versus_go.INDEX),
                (versus_go.line("uniform1000, 5 labels", "typical"), versus_go.SCAN),
                (versus_go.line("uniform10, 5 labels", "typical"), versus_go.INDEX),
                (versus_go.line("uniform1000, 5 labels", "one label changed"), versus_go.INDEX),
                ("index of *", memory.RSS),
            ),
            versus_go.beside_go,
            part_of="full",
        ),
        Scenario(
            "dump",
            "every service selector of a cluster's dump against its pods; needs a file",
            dump.Dump,
            _dumps,
            (("services of *", "repeat"),),
            part_of="none",
            reads=dump.read,
        ),
    )
}
NEEDS_FILE = "dump"


def unnamed(*, quick: bool, files: bool) -> list[str]:
    """Return the scenarios of a run that names none.

    Args:
        quick: whether it is to be quick.
        files: whether it has dumps.
    """
    parts = ("every",) if quick else ("every", "full")
    return [
        scenario.name
        for scenario in SCENARIOS.values()
        if (scenario.part_of in parts and not scenario.missing())
        or (scenario.name == NEEDS_FILE and files)
    ]


def headlines(results: Sequence[Result], scenario: str) -> list[tuple[str, str, int, str]]:
    """Return the lines (see `Result.line`) that stand for a scenario, the first one first."""
    lines = list(dict.fromkeys(each.line for each in results if each.scenario == scenario))
    return [
        line
        for query, variant in SCENARIOS[scenario].headlines
        for line in lines
        if fnmatchcase(line[1], query) and line[3] == variant
    ]
