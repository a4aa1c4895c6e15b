"""Results as a table: one row for each (pods, query, matches), one column for each backend.

Elsewhere: single cells (figures), the HTML page (report).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlcache.bench.figures import cell
from sqlcache.bench.results import Result, Run
from sqlcache.bench.scenarios import SCENARIOS, headlines
from sqlcache.bench.sentences import sentences

LEGEND = "p50 / p99 us, or ms; memory in MB of 1,000,000 bytes, or in bytes (B)"
LineName = tuple[str, str, int, str]


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table.

    Attributes:
        scenario, query, pods, variant, matches: as in `Result`.
        by_backend: the results; a backend that the line is not for has none.
    """

    scenario: str
    query: str
    pods: int
    variant: str
    matches: int | None
    by_backend: dict[str, Result]

    def cells(self, backends: Iterable[str]) -> list[str]:
        """Return a cell for each backend."""
        return [cell(self.by_backend.get(backend)) for backend in backends]

    @property
    def matched(self) -> str:
        """The number of matches as text, empty where nothing is asked."""
        return "" if self.matches is None else f"{self.matches:,}"


def lines(results: Iterable[Result], only: Collection[LineName] | None = None) -> list[Line]:
    """Return the rows, in the order in which they were measured.

    Args:
        results: of any scenarios.
        only: the rows wanted (see `Result.line`); None is all.
    """
    rows: dict[LineName, Line] = {}
    for result in results:
        if only is None or result.line in only:
            line = rows.setdefault(
                result.line,
                Line(*result.line, matches=result.matches, by_backend={}),
            )
            line.by_backend[result.backend] = result
    return list(rows.values())


def short(results: Sequence[Result]) -> list[Line]:
    """Return the rows that stand for each scenario."""
    names = dict.fromkeys(result.scenario for result in results)
    wanted = [line for name in names for line in headlines(results, name)]
    return lines(results, set(wanted))


def columns(of: Iterable[Line], backends: Sequence[str]) -> list[str]:
    """Return the columns of a table: the run's backends, then those whose figures are quoted."""
    return list(dict.fromkeys((*backends, *(name for line in of for name in line.by_backend))))


def text(run: Run) -> str:
    """Return the table for a terminal, aligned, then the sentences and what went wrong."""
    blocks = [
        "\n".join(_aligned(_rows(list(group), run.parameters.backends), _title(name)))
        for name, group in groupby(lines(run.results), key=lambda line: line.scenario)
    ]
    said = [*sentences(run.results), *failures(run.results)]
    if not blocks:
        return "no results\n"
    return "\n\n".join([*blocks, LEGEND, "\n".join(said)]) + "\n"


def _title(name: str) -> str:
    return f"{name}: {SCENARIOS[name].summary}"


def _rows(of: Sequence[Line], backends: Sequence[str]) -> list[list[str]]:
    names = columns(of, backends)
    header = ["QUERY", "VARIANT", "PODS", "MATCHES", *map(str.upper, names)]
    rows = [
        [line.query, line.variant, f"{line.pods:,}", line.matched, *line.cells(names)]
        for line in of
    ]
    return [header, *rows]


def _aligned(rows: list[list[str]], title: str) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield title
    for row in rows:
        left = [each.ljust(width) for each, width in zip(row[:2], widths[:2], strict=True)]
        right = [each.rjust(width) for each, width in zip(row[2:], widths[2:], strict=True)]
        yield "   ".join([*left, *right]).rstrip()


def failures(results: Iterable[Result]) -> list[str]:
    """Return one line for each reason why a backend has no number."""
    return list(
        dict.fromkeys(
            f"{result.scenario}: {result.backend} has no number: {result.error}"
            for result in results
            if result.error is not None
        )
    )


def markdown(of: Sequence[Line], backends: Sequence[str]) -> str:
    """Return rows as a Markdown table."""
    names = columns(of, backends)
    header = ["pods", "query", "matches", *names]
    rules = ["---:", "---", "---:", *("---:" for _ in names)]
    rows = [
        [f"{line.pods:,}", f"{line.query}; {line.variant}", line.matched, *line.cells(names)]
        for line in of
    ]
    return "\n".join(f"| {' | '.join(map(_escaped, row))} |" for row in [header, rules, *rows])


def machine(run: Run) -> str:
    """Return where and when a run was made, in one sentence."""
    where = run.environment
    head, changed, _ = str(where["commit"] or "").partition("+")
    commit = f" at {head[:12]}{' with changes' if changed else ''}" if head else ""
    return (
        f"{where['cpu']}, {where['cores']} cores, {where['memory_bytes'] / 2**30:.0f} GiB,"
        f" {where['system']}, {where['python']}, SQLite {where['sqlite']},"
        f" sqlcache {where['sqlcache']}{commit}, {str(where['date'])[:10]},"
        f" seed {run.parameters.seed}"
    )


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
