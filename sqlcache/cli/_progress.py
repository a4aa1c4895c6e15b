"""Progress on stderr, where that is a terminal; nothing anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

# Takes the number of bytes read since the last call, and of objects so far.
Show: TypeAlias = Callable[[int, int], None]


def on_terminal() -> bool:
    """Tell whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def loading(total_bytes: int | None) -> Iterator[Show]:
    """Show how far a load has come: bytes, objects, rate. Nothing unless stderr is a terminal.

    Args:
        total_bytes: how many there are; None if unknown.
    """
    if not on_terminal():
        yield lambda count, objects: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    bar = Progress(
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("{task.fields[objects]} objects"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("load", total=total_bytes, objects=0)
        yield lambda count, objects: bar.update(task, advance=count, objects=objects)


class Bar(NamedTuple):
    """How far a list has come.

    Attributes:
        name: of what is listed.
        listed: objects that have come.
        stored: objects that were written.
        total: objects that there are, None if unknown.
    """

    name: str
    listed: int
    stored: int
    total: int | None


# Takes the bars; without any, a line that stands in their place.
Report: TypeAlias = Callable[[Iterable[Bar], str], None]


@contextmanager
def mirroring(names: Iterable[str]) -> Iterator[Report]:
    """Show a bar for each of some lists, later a line. Nothing unless stderr is a terminal.

    Whatever else is written to stderr meanwhile goes above it.
    """
    if not on_terminal():
        yield lambda bars, line: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.text import Text

    bars = Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[counts]}")
    )
    tasks = {name: bars.add_task(name, total=None, counts="0 listed, 0 stored") for name in names}
    with Live(bars, console=Console(stderr=True), transient=True, redirect_stdout=False) as live:

        def report(progress: Iterable[Bar], line: str) -> None:
            for bar in progress:
                # Half of the work is to get an object, half to write it.
                total = None if bar.total is None else max(2 * bar.total, 1)
                counts = f"{bar.listed} listed, {bar.stored} stored"
                done = bar.listed + bar.stored
                bars.update(tasks[bar.name], completed=done, total=total, counts=counts)
            if line:
                live.update(Text(line, no_wrap=True, overflow="ellipsis"))

        yield report
