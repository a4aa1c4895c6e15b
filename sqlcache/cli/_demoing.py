"""How a demo looks: live on stderr, and its outcomes as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import add
from typing import TYPE_CHECKING, TypeAlias

import click

from sqlcache.bench.figures import duration, number, size
from sqlcache.cli._output import Table
from sqlcache.cli._progress import on_terminal
from sqlcache.demo import Latency, Outcome

if TYPE_CHECKING:
    from rich.console import ConsoleRenderable

    from sqlcache.demo.run import Reading, Show

EVERY_S, EVERY_ON_TERMINAL_S = 1.0, 0.25
_NONE = "-"


@contextmanager
def demonstrating(backend: str) -> Iterator[Show]:
    """Show how a demo goes: a live table where stderr is a terminal, else a line a reading."""
    if not on_terminal():
        yield lambda reading: click.echo(f"{backend}: {_line(reading)}", err=True)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True, redirect_stdout=False) as live:
        yield lambda reading: live.update(_panel(backend, reading))


def _panel(backend: str, reading: Reading) -> ConsoleRenderable:
    from rich.table import Table as Grid

    grid = Grid(title=f"{backend}: {reading.phase}, {reading.elapsed_s:.1f} s", show_header=False)
    for name, value in _facts(reading).items():
        grid.add_row(name, value)
    return grid


def _line(reading: Reading) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in _facts(reading).items())
    return f"{reading.phase} {reading.elapsed_s:.1f} s: {facts}"


def _facts(reading: Reading) -> dict[str, str]:
    return {
        "changes": f"{reading.changes:,}",
        "queue depth": f"{reading.depth:,}",
        "syncs/s": number(reading.syncs_per_s),
        "list p50/p99": _both(reading.lists),
        "writer wait p50/p99": _both(reading.writer_wait),
        "memory": size(reading.memory_bytes),
    }


def _both(latency: Latency) -> str:
    return f"{_us(latency.p50_us)}/{_us(latency.p99_us)}"


def _us(us: float | None) -> str:
    return _NONE if us is None else duration(us)


def seconds(value: float) -> str:
    """Return seconds in the unit that reads best."""
    return duration(value * 1e6)


# Outcomes

Value: TypeAlias = Callable[[Outcome], float | None]
_MEASURES: Mapping[str, tuple[Value, Callable[[float], str]]] = {
    "first sync of all services": (lambda each: each.start_s, seconds),
    "time for the changes": (lambda each: each.changing_s, seconds),
    "coming to rest": (lambda each: each.settling_s, seconds),
    "syncs": (lambda each: each.syncs, "{:,}".format),
    "syncs/s while pods change": (lambda each: each.syncs_per_s, number),
    "sync p50": (lambda each: each.sync.p50_us, duration),
    "sync p99": (lambda each: each.sync.p99_us, duration),
    "list p50": (lambda each: each.lists.p50_us, duration),
    "list p99": (lambda each: each.lists.p99_us, duration),
    "writer wait p50": (lambda each: each.writer_wait.p50_us, duration),
    "writer wait p99": (lambda each: each.writer_wait.p99_us, duration),
    "queue depth, peak": (lambda each: each.peak_depth, "{:,}".format),
    "memory at rest": (lambda each: each.memory_bytes, size),
}


def table(outcomes: Sequence[Outcome]) -> Table:
    """Return a row for each measure, a column for each outcome, with ratios to the first."""
    headers = ["MEASURE", *(each.backend.upper() for each in outcomes)]
    rows = []
    for name, (value, shown) in _MEASURES.items():
        values = [value(each) for each in outcomes]
        cells = [_NONE if each is None else shown(each) for each in values]
        ratios = ["", *(_ratio(each, values[0]) for each in values[1:])]
        rows.append([name, *map(add, cells, ratios)])
    return Table(headers, rows)


def _ratio(value: float | None, first: float | None) -> str:
    if value is None or not first:
        return ""
    ratio = value / first
    return f" ({ratio:.2g}x)" if ratio < 10 else f" ({ratio:,.0f}x)"


def verdict(outcome: Outcome) -> str:
    """Return what was checked, and what came of it, in one line."""
    checked = (
        f"{outcome.backend}: {outcome.changes:,} changes;"
        f" {outcome.checked_endpoints:,} Endpoints and {outcome.checked_slices:,} EndpointSlices"
        " compared with a computation from scratch"
    )
    if outcome.is_right:
        return f"{checked}: all are right"
    count = len(outcome.differences)
    found = f"{count:,} difference{'s' * (count != 1)}" if count else "all are right"
    return f"{checked}: {found}{'' if outcome.settling_s is not None else '; it came to no rest'}"
