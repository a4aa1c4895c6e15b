"""Curves as SVG text: what each backend needs while one thing grows, to linear scales.

Elsewhere: dots and bars, marks and colours (charts).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from sqlcache.bench.charts import WIDTH, Point, marker, style, svg
from sqlcache.bench.figures import duration, size
from sqlcache.bench.results import Result
from sqlcache.bench.tables import Line

_LEFT, _RIGHT, _TOP, _BOTTOM = 100, 30, 20, 44  # around the plot area
_HEIGHT = 360
_STEPS = 4  # of the scale on the left
Curve = list[tuple[float, float]]  # what grows, and what is needed


def curves_chart(lines: Sequence[Line], backends: Sequence[str], axis: str, title: str) -> str:
    """Return a curve for each backend, with a mark at each point that was measured.

    Args:
        lines: of memory alone, or of times alone.
        backends: in the order of the legend.
        axis: the field of results that is told along the bottom.
        title: for readers who do not see it.
    """
    curves = {backend: _curve(lines, backend, axis) for backend in backends}
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return ""
    most = (max(x for x, _ in points) or 1.0, max(y for _, y in points) or 1.0)
    in_bytes = any(of.bytes is not None for line in lines for of in line.by_backend.values())
    form = size if in_bytes else duration
    parts = [*_scale(most[1], form), *_ticks(sorted({x for x, _ in points}), most[0], axis)]
    for place, backend in enumerate(backends):
        if curves[backend]:
            parts.append(_drawn(place, backend, curves[backend], most, form))
    return svg(_TOP + _HEIGHT + _BOTTOM, title, parts)


def _curve(lines: Sequence[Line], backend: str, axis: str) -> Curve:
    results = (line.by_backend.get(backend) for line in lines)
    return sorted(
        (float(result.fields[axis]), value)
        for result in results
        if result is not None and (value := _value(result)) is not None
    )


def _value(result: Result) -> float | None:
    """Return bytes or median microseconds; None where there is no number."""
    return result.us(0.5) if result.bytes is None else float(result.bytes)


def _at(point: tuple[float, float], most: Point) -> Point:
    x = _LEFT + point[0] / most[0] * (WIDTH - _LEFT - _RIGHT)
    return x, _TOP + (1 - point[1] / most[1]) * _HEIGHT


def _drawn(
    place: int, backend: str, curve: Curve, most: Point, form: Callable[[float], str]
) -> str:
    at = [_at(point, most) for point in curve]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
    marks = "".join(
        f"<g><title>{escape(f'{backend}, {point[0]:g}: {form(point[1])}')}</title>"
        f"{marker(place, where)}</g>"
        for point, where in zip(curve, at, strict=True)
    )
    return f'<g class="{style(place)}"><path class="whisker" d="M{path}"/>{marks}</g>'


def _scale(most: float, form: Callable[[float], str]) -> Iterator[str]:
    for step in range(_STEPS + 1):
        value = most * step / _STEPS
        _, y = _at((0.0, value), (1.0, most))
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>'
        yield (
            f'<text class="small" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{escape(form(value))}</text>"
        )


def _ticks(places: Sequence[float], most: float, axis: str) -> Iterator[str]:
    below = _TOP + _HEIGHT
    for place in places:
        x, _ = _at((place, 0.0), (most, 1.0))
        yield (
            f'<text class="small" x="{x:.1f}" y="{below + 16}" text-anchor="middle">'
            f"{place:g}</text>"
        )
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    yield (
        f'<text x="{middle:.0f}" y="{below + 36}" text-anchor="middle">'
        f"{escape(axis.replace('_', ' '))}</text>"
    )
