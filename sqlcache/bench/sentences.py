"""One plain sentence for each scenario: who wins, and by how much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlcache.bench import client_go
from sqlcache.bench.backends import MODEL
from sqlcache.bench.figures import duration, number, size, times
from sqlcache.bench.results import Result
from sqlcache.bench.scenarios import headlines, packing
from sqlcache.store._sql.compression import LEVEL

_OURS = "sqlite"  # the default backend: compared with the scan, wherever it stands
_NO_INDEX = "dict"
_P50, _P99 = 0.5, 0.99
Format = Callable[[float], str]


def sentences(results: Sequence[Result]) -> list[str]:
    """Return a sentence for each scenario of the results, in their order."""
    names = dict.fromkeys(result.scenario for result in results)
    return [f"{name}: {sentence(results, name)}." for name in names]


def sentence(results: Sequence[Result], scenario: str) -> str:
    """Return what the results say about a scenario, without its name and full stop."""
    parts = _PARTS.get(scenario, _one_line)(results, scenario)
    return "; ".join(parts) or "there is nothing to compare"


def _one_line(results: Sequence[Result], scenario: str) -> list[str]:
    found = headlines(results, scenario)
    return _compared(results, found[0], _P50) if found else []


def _compared(
    results: Sequence[Result], line: tuple[str, str, int, str], share: float
) -> list[str]:
    """Return who is fastest on a line, and how the default backend stands to the scan."""
    measured = [result for result in results if result.line == line and result.error is None]
    values = {result.backend: result.us(share) for result in measured}
    known = {backend: value for backend, value in values.items() if value is not None}
    if not known:
        return []
    _, query, pods, variant = line
    matches = next((result.matches for result in measured if result.matches is not None), None)
    of = f"{pods:,} pods" if matches is None else f"{matches:,} of {pods:,} pods"
    what = f"{query}, {variant}, {of}"
    return [f"{what}: {_ranking(known, duration)}", *_against_scan(known)]


def _ranking(values: Mapping[str, float], form: Format) -> str:
    winner, *others = sorted(values, key=values.__getitem__)
    least = max(values[winner], 1e-9)
    if not others:
        return f"{winner} takes {form(values[winner])}"
    rest = ", ".join(f"{name} {times(values[name] / least)}" for name in others)
    return f"{winner} wins with {form(values[winner])}; {rest}"


def _against_scan(values: Mapping[str, float]) -> Iterable[str]:
    ours, scan = values.get(_OURS), values.get(MODEL)
    if not ours or not scan:
        return []
    if ours <= scan:
        return [f"{_OURS} is {number(scan / ours)} times as fast as the {MODEL} scan"]
    return [f"{_OURS} takes {number(ours / scan)} times as long as {MODEL}"]


def _writes(results: Sequence[Result], scenario: str) -> list[str]:
    # There is no scan in a write to compare with.
    return _one_line(results, scenario)[:1]


def _memory(results: Sequence[Result], scenario: str) -> list[str]:
    parts = []
    for line in headlines(results, scenario):
        _, query, _, variant = line
        sizes = {each.backend: each.bytes for each in results if each.line == line}
        known = {backend: float(count) for backend, count in sizes.items() if count}
        if query.startswith("index"):
            known.pop(_NO_INDEX, None)
        if len(known) > 1:
            parts.append(f"{query}, {variant}: {_ranking(known, size)}")
        elif not sizes or not any(sizes.values()):
            parts += _compared(results, line, _P50)[:1]
    return parts


def _each_headline(results: Sequence[Result], scenario: str) -> list[str]:
    return [
        part
        for line in headlines(results, scenario)
        for part in _compared(results, line, _P50)[:1] or _sizes(results, line)
    ]


def _sizes(results: Sequence[Result], line: tuple[str, str, int, str]) -> list[str]:
    measured = [each for each in results if each.line == line and each.bytes]
    known = {each.backend: float(each.bytes or 0) for each in measured}
    if not known:
        return []
    _, query, pods, variant = line
    return [f"{query}, {variant}, {pods:,} pods: {_ranking(known, size)}"]


def _churn(results: Sequence[Result], scenario: str) -> list[str]:
    lines = headlines(results, scenario)
    if not lines:
        return []
    measured = [each for each in results if each.line == lines[0] and each.samples_us]
    shares = ", ".join(
        f"{each.backend} {each.fields['writes_per_s']:,} with"
        f" {100 * each.fields['writer_cpu_share']:.0f} % of a core"
        for each in measured
    )
    told = [f"writes a second: {shares}"] if measured else []
    return [*_each_headline(results, scenario), *told]


def _versus_go(results: Sequence[Result], scenario: str) -> list[str]:
    return [*_each_headline(results, scenario), f"figures of client-go: {client_go.source()}"]


def _contention(results: Sequence[Result], scenario: str) -> list[str]:
    parts = []
    for line in headlines(results, scenario):
        if line[1] != "read":
            continue
        _, _, pods, variant = line
        measured = [each for each in results if each.line == line and each.samples_us]
        slowest = {each.backend: each.us(_P99) or 0.0 for each in measured}
        if slowest:
            rates = ", ".join(
                f"{each.backend} {each.fields.get('writes_per_s', 0):,}" for each in measured
            )
            ranking = _ranking(slowest, duration)
            parts.append(f"{variant}, {pods:,} pods, p99 of a read: {ranking} (writes/s: {rates})")
    return parts


def _controllers(results: Sequence[Result], scenario: str) -> list[str]:
    parts: list[str] = []
    for line in headlines(results, scenario):
        _, query, _, variant = line
        measured = [each for each in results if each.line == line and each.samples_us]
        if query.startswith("pod lookup"):
            parts += _compared(results, line, _P50)
        elif " wait, " in query and measured:
            slowest = {each.backend: each.us(_P99) or 0.0 for each in measured}
            parts.append(f"{query}, {variant}, p99: {_ranking(slowest, duration)}")
            parts += _waits(slowest)
        elif query.startswith("whole") and measured:
            rates = ", ".join(
                f"{each.backend} {number(each.fields['syncs_per_s'])}" for each in measured
            )
            parts.append(f"syncs/s of {variant}: {rates}")
    return parts


def _waits(values: Mapping[str, float]) -> Iterable[str]:
    ours, scan = values.get(_OURS), values.get(MODEL)
    if not ours or not scan:
        return []
    less = ours <= scan
    ratio = number(scan / ours if less else ours / scan)
    return [f"{_OURS} waits {ratio} times {'less' if less else 'longer'} than {MODEL}"]


def _objects(results: Sequence[Result], scenario: str) -> list[str]:
    """Return what the default level saves of a pod, and what it costs."""
    known = [each for each in results if each.line in set(headlines(results, scenario))]
    first = {each.line[1:]: each for each in reversed(known)}  # of the first backend
    sources = dict.fromkeys(each.query.partition(", ")[2] for each in known)
    return [part for source in sources for part in _packed(first.values(), source)]


def _packed(known: Iterable[Result], source: str) -> Iterable[str]:
    of = {
        (each.query.partition(", ")[0], each.variant): each
        for each in known
        if each.query.partition(", ")[2] == source and each.error is None
    }
    plain, parse = of.get((packing.SIZE, packing.PLAIN)), of.get((packing.PARSE, packing.PLAIN))
    if not plain or not plain.bytes or not parse:
        return
    yield f"{source}: {size(plain.bytes)} of JSON, {_median(parse)} to parse"
    level = packing.zstd(LEVEL)
    packed = of.get((packing.SIZE, level))
    costs = [of.get((what, level)) for what in (packing.COMPRESS, packing.DECOMPRESS)]
    if packed and packed.bytes and costs[0] and costs[1]:
        yield (
            f"{level} makes it {size(packed.bytes)}, {number(plain.bytes / packed.bytes)} times"
            f" less, for {_median(costs[0])} of a write and {_median(costs[1])} of a cold read"
        )


def _median(result: Result) -> str:
    return duration(result.us(_P50) or 0.0)


_PARTS: dict[str, Callable[[Sequence[Result], str], list[str]]] = {
    "update": _writes,
    "load": _writes,
    "replace": _writes,
    "memory": _memory,
    "contention": _contention,
    "gc": _each_headline,
    "cardinality": _each_headline,
    "churn": _churn,
    "objects": _objects,
    "vs-go": _versus_go,
    "controllers": _controllers,
}
