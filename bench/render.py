"""Writes the figures of bench/results into the documents, or checks that they are there.

    python bench/render.py          # rewrite README.md and bench/README.md
    python bench/render.py --check  # exit 1 if they are not in step with the results

A document has its part between `<!-- bench:begin -->` and `<!-- bench:end -->`: the README the
lines that stand for each scenario, of the run with the most pods that has it (of those, the
newest), in one table for all runs of one commit; bench/README.md every line of every run. Nothing
between the markers is typed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlcache.bench import results, tables
from sqlcache.bench.backends import BACKENDS
from sqlcache.bench.results import Result, Run
from sqlcache.bench.scenarios import SCENARIOS
from sqlcache.bench.sentences import sentences

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def main(arguments: Sequence[str] = tuple(sys.argv[1:]), root: Path = ROOT) -> int:
    """Rewrite or check the documents below a directory; return the exit code."""
    runs = [results.from_json(path.read_bytes()) for path in _files(root)]
    code = 0
    for name, render in DOCUMENTS.items():
        path = root / name
        old = path.read_text(encoding="utf-8")
        new = replaced(old, render(runs))
        if new == old:
            continue
        if "--check" in arguments:
            print(f"{name} is not what bench/results give: run bench/render.py", file=sys.stderr)  # noqa: T201
            code = 1
        else:
            path.write_text(new, encoding="utf-8")
    return code


def replaced(document: str, text: str) -> str:
    """Return the document with a text between its markers.

    Raises:
        ValueError: it does not have both markers, once each and in order.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in after or END in after:
        raise ValueError(f"the document needs {BEGIN} and {END}, once each")
    return f"{before}{BEGIN}\n{text}{END}{after}"


def reference(runs: Sequence[Run]) -> str:
    """Return the lines that stand for each scenario, of the largest and newest run that has it."""
    latest = sorted(runs, key=lambda run: (run.parameters.pods, str(run.environment["date"])))
    of_scenario = {name: run for run in latest for name in run.parameters.scenarios}
    shown: dict[str, list[Result]] = {tables.machine(run): [] for run in reversed(latest)}
    for name in SCENARIOS:
        if name in of_scenario:
            run = of_scenario[name]
            found = [result for result in run.results if result.scenario == name]
            shown[tables.machine(run)] += found
    blocks = []
    for machine, made in shown.items():
        if made:
            names = {result.backend for result in made}
            backends = [name for name in BACKENDS if name in names]
            table = tables.markdown(tables.short(made), backends)
            blocks += [f"{tables.LEGEND}. {machine}.", "", table, ""]
    return "\n".join(blocks)


def everything(runs: Sequence[Run]) -> str:
    """Return every line of every run."""
    return "".join(f"{_whole(run)}\n" for run in runs)


def _whole(run: Run) -> str:
    parameters = run.parameters
    names, quick = ", ".join(parameters.scenarios), ", quick" if parameters.quick else ""
    return "\n".join(
        [
            f"### {names}: {parameters.pods:,} pods{quick}",
            "",
            f"`{parameters.command}`",
            "",
            f"{tables.LEGEND}. {tables.machine(run)}.",
            "",
            tables.markdown(tables.lines(run.results), parameters.backends),
            "",
            *(f"- {_code(line)}" for line in tables.failures(run.results)),
            *(f"- {_code(sentence)}" for sentence in sentences(run.results)),
            "",
        ]
    )


def _code(sentence: str) -> str:
    scenario, _, rest = sentence.partition(": ")
    return f"`{scenario}`: {rest}"


def _files(root: Path) -> list[Path]:
    return sorted((root / "bench" / "results").glob("*.json"))


DOCUMENTS: dict[str, Callable[[Sequence[Run]], str]] = {
    "README.md": reference,
    "bench/README.md": everything,
}

if __name__ == "__main__":
    sys.exit(main())
