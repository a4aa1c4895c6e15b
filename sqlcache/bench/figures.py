"""Numbers as people read them: durations, sizes, ratios, and one cell of a table."""

from __future__ import annotations

from sqlcache.bench.results import QUOTED, Result

_US_PER_MS, _US_PER_S = 1e3, 1e6
_MS_FROM_US = 10_000
_LEAST_MB = 0.05  # less would be 0.0
_SAME = 1.1  # ratios below this are noise on a shared machine


def number(value: float) -> str:
    """Return two significant digits at least: 1.9, 24, 12,600."""
    return f"{value:,.1f}" if value < 10 else f"{value:,.0f}"


def duration(us: float) -> str:
    """Return microseconds in the unit that reads best: 24 us, 12.6 ms, 4.2 s."""
    for limit, divisor, unit in ((_US_PER_MS, 1, "us"), (_US_PER_S, _US_PER_MS, "ms")):
        if us < limit:
            return f"{_three(us / divisor)} {unit}"
    return f"{_three(us / _US_PER_S)} s"


def size(count: float) -> str:
    """Return bytes in megabytes of 1,000,000: 0.4 MB, 96 MB, 3,700 MB; little as it is: 412 B."""
    if count < _LEAST_MB * 1e6:
        return f"{count:,.0f} B"
    return f"{number(count / 1e6)} MB"


def times(ratio: float) -> str:
    """Return a ratio of at least 1: `as much`, `1.9 times that`, `13 times that`."""
    return "as much" if ratio < _SAME else f"{number(ratio)} times that"


def cell(result: Result | None) -> str:
    """Return what a table shows: `p50 / p99`, a size, or why there is neither.

    Times are microseconds; where the first is 10,000 of them or more, both are milliseconds, and
    it says so. A figure that is quoted is one number: nobody knows its percentiles.
    """
    if result is None:
        return "-"
    if result.error is not None:
        return result.error.partition(":")[0]
    if result.bytes is not None:
        return size(result.bytes)
    median, high = result.us(0.5), result.us(0.99)
    if median is None or high is None:
        return "-"
    large = median >= _MS_FROM_US
    shown = [number(us / _US_PER_MS if large else us) for us in (median, high)]
    if QUOTED in result.fields:
        del shown[1]
    return f"{' / '.join(shown)}{' ms' if large else ''}"


def _three(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"
