"""Clocks, percentiles and memory of the running process.

Promises
- A sample is one call; what the call returned is released after the clock was read.
- Percentiles are nearest-rank: always a value that was measured.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")

_STATM = Path("/proc/self/statm")
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that a share (0..1) of all samples does not exceed.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("no samples")
    return sorted(samples)[max(0, math.ceil(share * len(samples)) - 1)]


def timed(
    calls: Iterable[tuple[K, Callable[[], T]]], budget_s: float, at_least: int
) -> Iterator[tuple[K, float, T]]:
    """Yield the name, the microseconds and the result of one call after another.

    Args:
        calls: names and what to time, in order; may be endless.
        budget_s: no call starts later than this, counted in timed seconds.
        at_least: calls that are made whatever they take.

    What the caller does between two results is not timed and not counted.
    """
    clock = time.perf_counter_ns
    left_ns = budget_s * 1e9
    for made, (name, call) in enumerate(calls):
        start = clock()
        result = call()
        elapsed = clock() - start
        left_ns -= elapsed
        yield name, elapsed / 1000, result
        # A result still held here would be released inside the next call's time.
        del result
        if made + 1 >= at_least and left_ns <= 0:
            return


@contextmanager
def setting_up() -> Iterator[None]:
    """Collect no garbage meanwhile; after it, keep all that is alive out of later collections.

    Without the latter, a collection that walks the bench's own pods would hit some samples and
    not others. What collections cost a backend is measured in the memory scenario, without this.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def rss_bytes() -> int:
    """Return the resident memory of this process, freed memory given back first."""
    gc.collect()
    _trim()
    return resident_bytes()


def resident_bytes() -> int:
    """Return the resident memory of this process as it is."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    return peak_rss_bytes()


def peak_rss_bytes() -> int:
    """Return the highest resident memory that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB


@dataclass(slots=True)
class Peak:
    """The highest resident memory within a block.

    Attributes:
        bytes: known at the end of the block.
    """

    bytes: int = 0


@contextmanager
def peak_of() -> Iterator[Peak]:
    """Give the highest resident memory of this process within the block.

    Only Linux can tell that of a block; elsewhere it is the highest that the process ever had.
    """
    peak = Peak()
    if _CLEAR_REFS.exists():
        _CLEAR_REFS.write_text("5")  # the kernel counts the peak from here on; see proc(5)
    yield peak
    if _CLEAR_REFS.exists():
        status = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        peak.bytes = int(status["VmHWM"].split()[0]) * 1024
    else:
        peak.bytes = peak_rss_bytes()


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _trim() -> None:
    # glibc keeps freed memory for later; other C libraries have no such call.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
