"""A progress bar on stderr, where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

# Takes the number of bytes read since the last call, and of objects so far.
Show: TypeAlias = Callable[[int, int], None]


@contextmanager
def loading(total_bytes: int | None) -> Iterator[Show]:
    """Show how far a load has come: bytes, objects, rate. Nothing unless stderr is a terminal.

    Args:
        total_bytes: how many there are; None if unknown.
    """
    if sys.stderr is None or not sys.stderr.isatty():
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
