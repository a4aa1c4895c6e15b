"""`sqlcache demo`: both controllers on a backend, live, without a cluster.

Elsewhere: what runs (sqlcache.demo), how it looks (_demoing).
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from sqlcache.bench.process import signals_held
from sqlcache.cli._cluster import logs_in_words
from sqlcache.cli._demoing import (
    EVERY_ON_TERMINAL_S,
    EVERY_S,
    demonstrating,
    table,
    verdict,
)
from sqlcache.cli._errors import FAILED
from sqlcache.cli._options import (
    SEED,
    NumberRange,
    backend_name,
    backend_option,
    path_in,
    separated,
)
from sqlcache.cli._output import flush, write, write_json, write_table
from sqlcache.cli._progress import on_terminal
from sqlcache.demo import Outcome, Settings, missing_extras
from sqlcache.errors import SqlcacheError

if TYPE_CHECKING:
    from sqlcache.demo.run import Reading

_MOST_DIFFERENCES = 20  # shown of each run; JSON has all
_INTERRUPTED = 128 + signal.SIGINT
_POLL_S = 0.05
_END_S = 10.0  # for a process that was interrupted twice


class DemoError(SqlcacheError, RuntimeError):
    """A demo cannot run."""


class _Interrupt:
    """Whether Ctrl-C came: a plain flag, for a handler of signals must take no lock."""

    def __init__(self) -> None:
        self._came = False

    def note(self) -> None:
        self._came = True

    def is_set(self) -> bool:
        return self._came


@contextmanager
def _first_interrupt() -> Iterator[_Interrupt]:
    """Have the first Ctrl-C noted in the block; the next one does what it did before."""
    interrupt = _Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = signal.getsignal(signal.SIGINT)

    def note(signum: int, frame: object) -> None:
        interrupt.note()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    # Whoever started this process for a comparison held them back until now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def _new_backend(ctx: click.Context, param: click.Parameter, value: str) -> str:
    path = path_in(backend_name(ctx, param, value))
    if path and Path(path).exists():
        raise click.BadParameter(f"{path} is there already: a demo needs a file of its own")
    return value


def _new_backends(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    names = separated(value)
    if not names:
        raise click.BadParameter("no backend given")
    return tuple(_new_backend(ctx, param, name) for name in names)


@click.command(short_help="Show both controllers at work on a backend, without a cluster.")
@backend_option("a new file", callback=_new_backend)
@click.option(
    "--compare",
    metavar="NAMES",
    callback=_new_backends,
    help="Run on each of these backends, separated by commas, one after another; ratios are to the"
    " first.",
)
@click.option(
    "--namespaces",
    type=click.IntRange(1, 10_000),
    default=4,
    show_default=True,
    help="Number of namespaces.",
)
@click.option(
    "--services",
    type=click.IntRange(1, 100_000),
    default=40,
    show_default=True,
    help="Number of services, in all namespaces together.",
)
@click.option(
    "--pods",
    type=click.IntRange(1, 1_000_000),
    default=2_000,
    show_default=True,
    help="Number of pods, in all namespaces together.",
)
@click.option(
    "--rate",
    type=NumberRange(0, 100_000),
    default=50.0,
    show_default=True,
    help="Changes of pods a second.",
)
@click.option(
    "--duration",
    type=NumberRange(0, 1_000_000),
    default=10.0,
    show_default=True,
    help="Seconds for which pods change.",
)
@click.option(
    "--seed",
    type=SEED,
    default=1,
    show_default=True,
    help="Pods and changes are drawn from it: the same seed, the same ones.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Form of the output; json has every difference.",
)
def demo(
    backend: str,
    compare: tuple[str, ...],
    namespaces: int,
    services: int,
    pods: int,
    rate: float,
    duration: float,
    seed: int,
    output: str,
) -> None:
    """Show both controllers at work on a backend, without a cluster.

    Starts an API server for tests in a process of its own, with services and pods that come, change
    and go, and the Endpoints and EndpointSlice controllers in this process. When the pods have
    changed for long enough and nothing is left to do, every Endpoints and EndpointSlice is compared
    with a computation from scratch; the exit code is 1 if any differs.

    Ctrl-C ends the changes; what is there then is checked. Another one ends the command at once.

    \b
    Examples:
      sqlcache demo
      sqlcache demo --backend dict --pods 20000 --services 20 --namespaces 1
      sqlcache demo --compare dict,dict-index,sqlite -o json
    """
    if missing := ",".join(missing_extras()):
        raise DemoError(f"the demo needs: pip install 'sqlcache[{missing}]'")
    settings = Settings(backend, namespaces, services, pods, rate, duration, seed)
    with _first_interrupt() as interrupt:
        if compare:
            outcomes = list(_compared(settings, compare, interrupt))
        else:
            outcomes = [_run(settings, interrupt)]
    _show(settings, outcomes, output)
    flush()  # what is left is thrown away when a command is interrupted
    if not all(each.is_right for each in outcomes):
        raise click.exceptions.Exit(FAILED)
    if interrupt.is_set():
        raise KeyboardInterrupt


def _run(settings: Settings, interrupt: _Interrupt) -> Outcome:
    from sqlcache.demo.run import run  # needs extras

    with (
        logs_in_words(lambda text: click.echo(f"Warning: {text}", err=True)),
        demonstrating(settings.backend) as show,
    ):
        every_s = EVERY_ON_TERMINAL_S if on_terminal() else EVERY_S
        told = False

        def go_on(reading: Reading) -> None:
            nonlocal told
            if interrupt.is_set() and not told:
                told = True
                click.echo("stopping when all is at rest; Ctrl-C again ends it at once", err=True)
            show(reading)

        return run(settings, go_on, interrupt.is_set, readings_every_s=every_s)


def _show(settings: Settings, outcomes: Sequence[Outcome], output: str) -> None:
    if output == "json":
        asked = {name: value for name, value in asdict(settings).items() if name != "backend"}
        write_json({"settings": asked, "runs": outcomes})
    elif outcomes:
        write_table(table(outcomes))
        write("\n" + "".join(f"{verdict(each)}\n" for each in outcomes))
    for each in outcomes:
        for difference in each.differences[:_MOST_DIFFERENCES]:
            click.echo(f"{each.backend}: {difference}", err=True)
        more = len(each.differences) - _MOST_DIFFERENCES
        if more > 0:
            click.echo(f"{each.backend}: and {more:,} more", err=True)


# One process after another: memory and caches of one are nothing to the next


def _compared(
    settings: Settings, backends: Sequence[str], interrupt: _Interrupt
) -> Iterator[Outcome]:
    for backend in backends:
        if interrupt.is_set():
            return
        outcome = _in_process(replace(settings, backend=backend), interrupt)
        if outcome is not None:
            yield outcome


def _in_process(settings: Settings, interrupt: _Interrupt) -> Outcome | None:
    """Run a demo in another process; return its outcome, None if it was interrupted without one.

    Raises:
        DemoError: it failed; it has said why.
    """
    asked = asdict(settings)
    asked["rate"], asked["duration"] = asked.pop("changes_per_s"), asked.pop("duration_s")
    options = [text for name, value in asked.items() for text in (f"--{name}", str(value))]
    with tempfile.TemporaryFile() as stdout:
        with signals_held():  # in the process, too, until it can take them
            process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-m", "sqlcache", "demo", *options, "-o", "json"],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                start_new_session=True,  # Ctrl-C in the terminal does not reach it but through us
            )
        try:
            _follow(process, interrupt)
        finally:
            _end(process)
        stdout.seek(0)
        written = stdout.read()
    if written and process.returncode in (0, FAILED, _INTERRUPTED):
        return Outcome.from_json(orjson.loads(written)["runs"][0])
    if interrupt.is_set():
        return None
    raise DemoError(f"the process for {settings.backend} ended with {process.returncode}")


def _follow(process: subprocess.Popen[bytes], interrupt: _Interrupt) -> None:
    told = False
    while process.poll() is None:
        if interrupt.is_set() and not told:
            process.send_signal(signal.SIGINT)
            told = True
        time.sleep(_POLL_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process whose end nobody waits for any more, after a second interrupt or SIGTERM."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        process.kill()
        process.wait()
