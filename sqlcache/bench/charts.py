"""Charts as SVG text: dots on a logarithmic axis for times, bars for memory.

Promises
- Backends differ by the shape of their marker, not by colour alone; colours come from Okabe and
  Ito's palette, through style classes that the page sets for a light and a dark background.
- Each mark has a title with its numbers, which a pointer or a screen reader gets at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from sqlcache.bench.figures import duration, size
from sqlcache.bench.results import Result
from sqlcache.bench.tables import Line

WIDTH = 980
_LEFT, _RIGHT, _TOP = 330, 30, 26  # of the plot area
_STEP, _GAP = 11, 14  # between the backends of a row, between rows
_MARK = 4.5  # half the size of a marker
_LEAST_US = 0.1
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Axis:
    """A logarithmic axis over whole decades."""

    low: int
    high: int

    def x(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)


def legend(backends: Sequence[str]) -> str:
    """Return the key to the markers."""
    parts = []
    for place, backend in enumerate(backends):
        x = 12 + place * 150
        parts.append(f'<g class="{style(place)}">{marker(place, (x, 12))}</g>')
        parts.append(f'<text x="{x + 12}" y="16">{escape(backend)}</text>')
    return svg(24, "Markers of the backends", parts)


def times_chart(lines: Sequence[Line], backends: Sequence[str], title: str) -> str:
    """Return dots at the median of each backend, with a line to its 99th percentile."""
    values = [
        max(_LEAST_US, value)
        for line in lines
        for result in line.by_backend.values()
        for value in (result.us(0.5), result.us(0.99))
        if value is not None
    ]
    if not values:
        return ""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    axis = _Axis(low, max(high, low + 1))
    parts = list(_rows(lines, backends, lambda result, place, y: _dot(axis, result, place, y)))
    height = _TOP + len(lines) * _row_height(backends)
    return svg(height, title, [*_bands(lines, backends), *_grid(axis, height), *parts])


def bytes_chart(lines: Sequence[Line], backends: Sequence[str], title: str) -> str:
    """Return bars of the memory of each backend, each row to the same linear scale."""
    most = max(
        (result.bytes or 0 for line in lines for result in line.by_backend.values()), default=0
    )
    if not most:
        return ""
    scale = (WIDTH - _LEFT - _RIGHT - 90) / most
    parts = list(_rows(lines, backends, lambda result, place, y: _bar(scale, result, place, y)))
    height = _TOP + len(lines) * _row_height(backends)
    return svg(height, title, [*_bands(lines, backends), *parts])


def _row_height(backends: Sequence[str]) -> int:
    return len(backends) * _STEP + _GAP


def _bands(lines: Sequence[Line], backends: Sequence[str]) -> Iterator[str]:
    """Yield what tells rows apart, to lie below all else."""
    height = _row_height(backends)
    for row in range(1, len(lines), 2):
        y = _TOP + row * height
        yield f'<rect class="band" x="0" y="{y}" width="{WIDTH}" height="{height}"/>'


def _rows(
    lines: Sequence[Line],
    backends: Sequence[str],
    mark: Callable[[Result, int, float], str],
) -> Iterator[str]:
    for row, line in enumerate(lines):
        top = _TOP + row * _row_height(backends)
        yield from _label(line, top + _row_height(backends) / 2)
        for place, backend in enumerate(backends):
            result = line.by_backend.get(backend)
            y = top + _GAP / 2 + (place + 0.5) * _STEP
            if result is None:
                continue
            if result.error is None:
                yield f'<g class="{style(place)}">{mark(result, place, y)}</g>'
            else:
                yield _failure(result, place, y)


def _label(line: Line, y: float) -> Iterator[str]:
    below = [f"{line.pods:,} pods"]
    if line.matches is not None:
        below.insert(0, f"{line.matches:,} matches")
    if line.variant:
        below.insert(0, line.variant)
    yield f'<text x="{_LEFT - 12}" y="{y - 2}" text-anchor="end">{escape(line.query)}</text>'
    yield (
        f'<text class="small" x="{_LEFT - 12}" y="{y + 12}" text-anchor="end">'
        f"{escape(', '.join(below))}</text>"
    )


def _dot(axis: _Axis, result: Result, place: int, y: float) -> str:
    median, high = result.us(0.5), result.us(0.99)
    if median is None or high is None:
        return ""
    x, end = axis.x(max(_LEAST_US, median)), axis.x(max(_LEAST_US, high))
    said = (
        f"{result.backend}: p50 {duration(median)}, p99 {duration(high)},"
        f" n {len(result.samples_us)}"
    )
    return (
        f"<g><title>{escape(said)}</title>"
        f'<path class="whisker" d="M{x:.1f} {y:.1f}H{end:.1f}m0 -3v6"/>'
        f"{marker(place, (x, y))}</g>"
    )


def _bar(scale: float, result: Result, place: int, y: float) -> str:
    width = (result.bytes or 0) * scale
    text = size(result.bytes or 0)
    return (
        f"<g><title>{escape(f'{result.backend}: {text}')}</title>"
        f'<rect class="bar" x="{_LEFT}" y="{y - 4:.1f}" width="{max(1.0, width):.1f}" height="8"/>'
        f"{marker(place, (_LEFT + width, y))}"
        f'<text class="small" x="{_LEFT + width + 10:.1f}" y="{y + 4:.1f}">{text}</text></g>'
    )


def _failure(result: Result, place: int, y: float) -> str:
    reason = (result.error or "").partition(":")[0]
    return (
        f'<g class="{style(place)}">{marker(place, (_LEFT + 6, y))}</g>'
        f'<text class="small" x="{_LEFT + 16}" y="{y + 4:.1f}">{escape(reason)}'
        f"<title>{escape(f'{result.backend}: {result.error}')}</title></text>"
    )


def _grid(axis: _Axis, height: int) -> Iterator[str]:
    for decade in range(axis.low, axis.high + 1):
        x = axis.x(10.0**decade)
        yield f'<path class="grid" d="M{x:.1f} {_TOP - 6}V{height}"/>'
        yield (
            f'<text class="small" x="{x:.1f}" y="{_TOP - 10}" text-anchor="middle">'
            f"{_tick(decade)}</text>"
        )


def _tick(decade: int) -> str:
    us = 10.0**decade
    for limit, divisor, unit in ((1e3, 1.0, "us"), (1e6, 1e3, "ms")):
        if us < limit:
            return f"{us / divisor:g} {unit}"
    return f"{us / 1e6:g} s"


def marker(place: int, at: Point) -> str:
    """Return the mark of the backend that comes in this place, 0 for the first."""
    x, y = at
    shapes: list[Sequence[Point]] = [
        ((-1, -1), (1, -1), (1, 1), (-1, 1)),  # square
        ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),  # diamond
        (),  # circle
        ((0, -1.3), (1.3, 1), (-1.3, 1)),  # triangle
        ((0, 1.3), (1.3, -1), (-1.3, -1)),  # triangle upside down
        ((-0.4, -1.3), (0.4, -1.3), (0.4, 1.3), (-0.4, 1.3)),  # upright bar
        ((-1.3, -0.4), (1.3, -0.4), (1.3, 0.4), (-1.3, 0.4)),  # lying bar
    ]
    shape = shapes[place % len(shapes)]
    if not shape:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_MARK}"/>'
    points = " ".join(f"{x + dx * _MARK:.1f},{y + dy * _MARK:.1f}" for dx, dy in shape)
    return f'<polygon points="{points}"/>'


def style(place: int) -> str:
    """Return the style class of the backend that comes in this place."""
    return f"b{place % 7}"


def svg(height: float, title: str, parts: Sequence[str]) -> str:
    """Return a picture of the page's width that has these parts."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
