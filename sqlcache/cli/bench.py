"""`sqlcache bench`: run scenarios, print the table, write the report.

Elsewhere: what is measured and how (sqlcache.bench).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sqlcache.bench import report, results, runner, tables
from sqlcache.bench.backends import BACKENDS
from sqlcache.bench.environment import environment
from sqlcache.bench.results import Parameters, Result, Run
from sqlcache.bench.scenarios import NEEDS_FILE, SCENARIOS, unnamed
from sqlcache.cli._errors import FAILED
from sqlcache.cli._options import SEED, NumberRange, separated
from sqlcache.cli._output import write

PODS, PODS_QUICK = 150_000, 6_000
_QUICK = {"cell_s": 0.04, "rounds": 2, "samples": 40}
_NAMES = "\n".join(f"  {each.name:13} {each.summary}" for each in SCENARIOS.values())


@click.command(
    short_help="Compare the backends on synthetic pods or on a dump.",
    epilog="\b\nExamples:\n"
    "  sqlcache bench --quick\n"
    "  sqlcache bench single-label multi-label --backends dict,sqlite\n"
    "  sqlcache bench dump objects pods-and-services.json\n"
    "  sqlcache bench -o json --report bench.html > bench.json",
    help="Compare the backends: the same pods and selectors on each, in one run.\n\n"
    "Each backend has a process of its own; answers are compared with those of the dict scan"
    " before anything is timed. Without SCENARIO all are run, but for `soak`; `first-sync`, `gc`,"
    " `cardinality`, `churn`, `objects`, `vs-go` and `controllers` not with --quick,"
    " `dump` only with a file.\n\n"
    f"\b\nScenarios:\n{_NAMES}",
)
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...")
@click.option(
    "--pods",
    type=click.IntRange(min=1),
    help=f"Number of pods.  [default: {PODS:,}; with --quick {PODS_QUICK:,}]",
)
@click.option("--quick", is_flag=True, help="Fewer workloads and samples: under a minute.")
@click.option(
    "--backends",
    metavar="NAMES",
    default=",".join(BACKENDS),
    show_default=True,
    help="Backends to measure, separated by commas.",
)
@click.option(
    "--seed",
    type=SEED,
    default=1,
    show_default=True,
    help="Pods and selectors are drawn from it: the same seed, the same ones.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="Dump for the scenarios `dump` and `objects`, as `kubectl get pods,services -A -o json`"
    " writes it; may be given several times.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Form of the output; json holds every sample.",
)
@click.option(
    "--report",
    "page",
    metavar="FILE.html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page with charts, which opens without network.",
)
@click.option(
    "--time-limit",
    type=NumberRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="Seconds after which a process is ended and reported as out of time.",
)
def bench(
    scenarios: tuple[str, ...],
    pods: int | None,
    quick: bool,
    backends: str,
    seed: int,
    files: tuple[str, ...],
    output: str,
    page: Path | None,
    time_limit: float,
) -> None:
    """See the decorator's help."""
    names, dumps = _chosen(scenarios, files, quick=quick)
    for name in names:
        if reads := SCENARIOS[name].reads:
            for file in dumps:
                reads(file)  # what is wrong with it is said now, not by each child
    if page is not None and not page.absolute().parent.is_dir():
        raise click.BadParameter(f"no directory {str(page.parent)!r}", param_hint="'--report'")
    parameters = Parameters(
        pods=pods or (PODS_QUICK if quick else PODS),
        backends=_backends(backends),
        scenarios=names,
        seed=seed,
        quick=quick,
        files=dumps,
        time_limit_s=time_limit,
        **(_QUICK if quick else {}),  # type: ignore[arg-type] # names and types match
    )
    _measure_and_show(parameters, output, page)


def _chosen(
    words: Sequence[str], files: Sequence[str], *, quick: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return scenarios and dump files: words that are no scenario are files, if one takes any."""
    names = [word for word in words if word in SCENARIOS]
    others = [word for word in words if word not in SCENARIOS]
    takes_files = [name for name, scenario in SCENARIOS.items() if scenario.reads]
    takes = any(name in takes_files for name in names)
    if others and not takes:
        raise click.UsageError(f"no scenario {others[0]!r}: choose from {', '.join(SCENARIOS)}")
    dumps = tuple(dict.fromkeys((*others, *files)))
    if NEEDS_FILE in names and not dumps:
        raise click.UsageError(f"`{NEEDS_FILE}` needs a file: sqlcache bench dump FILE")
    if names and dumps and not takes:
        known = " and ".join(f"`{name}`" for name in takes_files)
        raise click.UsageError(f"--file is for {known}, which are not chosen")
    for name in names:
        if missing := ",".join(SCENARIOS[name].missing()):
            raise click.UsageError(f"`{name}` needs: pip install 'sqlcache[{missing}]'")
    return tuple(dict.fromkeys(names)) or tuple(unnamed(quick=quick, files=bool(dumps))), dumps


def _backends(text: str) -> tuple[str, ...]:
    names = separated(text)
    unknown = [name for name in names if name not in BACKENDS]
    if unknown or not names:
        what = f"no backend {unknown[0]!r}" if unknown else "no backend given"
        raise click.BadParameter(
            f"{what}: choose from {', '.join(BACKENDS)}", param_hint="'--backends'"
        )
    return names


def _measure_and_show(parameters: Parameters, output: str, page: Path | None) -> None:
    where, measured = environment(), list[Result]()
    try:
        with _progress() as notify, contextlib.closing(runner.run(parameters, notify)) as run:
            measured.extend(run)
    except KeyboardInterrupt:
        click.echo("interrupted: here is what was done", err=True)
        _show(Run(where, parameters, runner.finished(measured)), output, page)
        sys.stdout.flush()  # the rest is thrown away when a command is interrupted
        raise
    done = Run(where, parameters, runner.finished(measured))
    _show(done, output, page)
    if done.failed:
        sys.stdout.flush()
        for line in tables.failures(done.results):
            click.echo(line, err=True)
        raise click.exceptions.Exit(FAILED)


def _show(run: Run, output: str, page: Path | None) -> None:
    if output == "json":
        write(results.to_json(run))
    else:
        write(results.to_csv(run) if output == "csv" else tables.text(run))
    if page is not None:
        page.write_text(report.html(run), encoding="utf-8")


@contextlib.contextmanager
def _progress() -> Iterator[runner.Notify]:
    """Give what shows on stderr how far a run has come. Nothing unless that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda step: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(step: runner.Progress) -> None:
            what = f"{step.scenario}: {step.what}"
            bar.update(task, description=what, completed=step.position, total=step.total)

        yield show
