"""A run as one HTML page: charts, sentences, the table, the machine.

Promises
- One file that needs no network and no script; light or dark as the reader's system is.
- Nothing that comes from files or the environment gets into the page unescaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from sqlcache.bench import charts
from sqlcache.bench.curves import curves_chart
from sqlcache.bench.results import Run
from sqlcache.bench.scenarios import SCENARIOS
from sqlcache.bench.sentences import sentence
from sqlcache.bench.tables import LEGEND, Line, columns, failures, lines, machine

# Okabe and Ito's colours; in the dark the lighter ones of them, so that all stand out.
_LIGHT = ("#d55e00", "#e69f00", "#0072b2", "#009e73", "#cc79a7", "#000000", "#56b4e9")
_DARK = ("#e8702a", "#f0e442", "#56b4e9", "#2fbf94", "#d98fb8", "#ffffff", "#e69f00")
_KEY = (
    "Marks are medians, lines reach to the 99th percentile; times are to a logarithmic scale,"
    " memory to a linear one. Point at a mark for its numbers."
)
_STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --paper: #ffffff; --faint: #5b6570;
  --rule: #d5dae0; --band: #f4f6f8; %(light)s }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ed; --paper: #14181d;
  --faint: #a3adb8; --rule: #39424c; --band: #1c2229; %(dark)s } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--paper);
  max-width: 1040px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
p.faint, td.faint { color: var(--faint); } p.failure { border-left: 4px solid; padding-left: 1ch; }
svg { width: 100%%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--text); } svg text.small { font-size: 11px; fill: var(--faint); }
svg .grid { stroke: var(--rule); } svg .band { fill: var(--band); }
svg .whisker { fill: none; stroke: currentColor; stroke-width: 1.5; }
svg g[class] { fill: currentColor; } svg .bar { opacity: .55; }
div.legend { position: sticky; top: 0; background: var(--paper); padding: .25rem 0; }
div.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--rule); text-align: right;
  white-space: nowrap; }
th.text, td.text { text-align: left; white-space: normal; }
summary { cursor: pointer; color: var(--faint); }
%(classes)s
"""


def html(run: Run) -> str:
    """Return the page."""
    parameters = run.parameters
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>sqlcache bench, {parameters.pods:,} pods</title>",
            f"<style>{_style()}</style></head><body>",
            f"<h1>sqlcache bench: {parameters.pods:,} pods</h1>",
            f'<p class="faint">{escape(machine(run))}</p>',
            *(f'<p class="failure">{escape(text)}</p>' for text in failures(run.results)),
            f"<p>{_KEY}</p>",
            f'<div class="legend">{charts.legend(_backends(run))}</div>',
            *_sections(run),
            "<h2>Run</h2>",
            _facts({**run.environment, **parameters.to_json()}),
            "</body></html>",
            "",
        ]
    )


def _style() -> str:
    return _STYLE % {
        "light": _variables(_LIGHT),
        "dark": _variables(_DARK),
        "classes": " ".join(f".b{n} {{ color: var(--b{n}); }}" for n in range(len(_LIGHT))),
    }


def _variables(colours: Sequence[str]) -> str:
    return " ".join(f"--b{number}: {colour};" for number, colour in enumerate(colours))


def _backends(run: Run) -> list[str]:
    return columns(lines(run.results), run.parameters.backends)


def _sections(run: Run) -> Iterator[str]:
    backends = _backends(run)
    for name, group in groupby(lines(run.results), key=lambda line: line.scenario):
        rows = list(group)
        yield f'<h2 id="{escape(name)}">{escape(name)}</h2>'
        yield f'<p class="faint">{escape(SCENARIOS[name].summary)}</p>'
        yield f"<p>{escape(sentence(run.results, name))}.</p>"
        sizes = [row for row in rows if any(of.bytes for of in row.by_backend.values())]
        timed = [row for row in rows if row not in sizes]
        if axis := SCENARIOS[name].axis:
            yield curves_chart(sizes, backends, axis, f"{name}: memory")
            yield curves_chart(timed, backends, axis, f"{name}: times")
        else:
            yield charts.bytes_chart(sizes, backends, f"{name}: memory")
            yield charts.times_chart(timed, backends, f"{name}: times")
        yield f"<details><summary>Numbers ({escape(LEGEND)})</summary>"
        table = _table(rows, columns(rows, run.parameters.backends))
        yield f'<div class="scroll">{table}</div></details>'


def _table(rows: Sequence[Line], backends: Sequence[str]) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in ("pods", "matches", *backends))
    body = "".join(
        f'<tr><td class="text">{escape(row.query)}</td><td class="text">{escape(row.variant)}</td>'
        + "".join(
            f"<td>{escape(cell)}</td>"
            for cell in (f"{row.pods:,}", row.matched, *row.cells(backends))
        )
        + "</tr>"
        for row in rows
    )
    texts = '<th class="text">query</th><th class="text">variant</th>'
    return f"<table><thead><tr>{texts}{heads}</tr></thead><tbody>{body}</tbody></table>"


def _facts(facts: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><td class="text faint">{escape(name)}</td>'
        f'<td class="text">{escape(_shown(value))}</td></tr>'
        for name, value in facts.items()
    )
    return f"<table><tbody>{rows}</tbody></table>"


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return str(value)
