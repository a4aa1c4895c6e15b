"""How commands end: exit codes, one line for what went wrong, no tracebacks.

| exit code | when |
|---|---|
| 0 | done |
| 1 | failed: one line `Error: …` on stderr |
| 2 | wrong usage: click's message on stderr |
| 130 | Ctrl-C (128 + SIGINT) |
| 141 | the reader of our output went away (128 + SIGPIPE), quietly, as cat or grep would |
| 143 | SIGTERM (128 + SIGTERM) |
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from sqlcache.cli._output import flush
from sqlcache.errors import SqlcacheError

FAILED = 1
_BY_SIGNAL = 128
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class _Terminated(BaseException):
    """SIGTERM came. No Exception: nothing but the end of the command may catch it."""


@contextmanager
def exit_codes() -> Iterator[None]:
    """Run a command: flush its output, and turn what it raises into a message and an exit code."""
    try:
        with _signals_raise():
            yield
            flush()
    except BrokenPipeError:
        _discard_output()
        raise click.exceptions.Exit(_BY_SIGNAL + signal.SIGPIPE) from None
    except (SqlcacheError, OSError) as error:
        _fail(describe(error))
    except MemoryError:
        _fail("out of memory")
    except KeyboardInterrupt:
        _end_by(signal.SIGINT)
    except _Terminated:
        _end_by(signal.SIGTERM)


def describe(error: Exception) -> str:
    """Return an error's message in one line that no terminal takes for commands."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror and not isinstance(error, SqlcacheError):
        names = [os.fsdecode(name) for name in (error.filename, error.filename2) if name]
        text = ": ".join([*names, error.strerror])
    return one_line(text) or type(error).__name__


def one_line(text: str) -> str:
    """Return a text in one line that no terminal takes for commands."""
    return _CONTROL.sub(" ", text).strip()


def _fail(message: str) -> None:
    _discard_output()  # what is left of it would come after the message, or fail once more
    click.echo(f"Error: {message}", err=True)
    raise click.exceptions.Exit(FAILED) from None


def _end_by(signum: signal.Signals) -> None:
    _discard_output()
    click.echo("Interrupted" if signum == signal.SIGINT else "Terminated", err=True)
    raise click.exceptions.Exit(_BY_SIGNAL + signum) from None


def _discard_output() -> None:
    """Let stdout lead nowhere: the interpreter flushes it at the end and would complain."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return  # no real file, as in tests
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def hold_signals() -> None:
    """Let the command finish: the first SIGINT or SIGTERM from here on is ignored.

    For the last moments of a change, so that the exit code tells whether it was made. A second
    signal ends the command at once.
    """
    if not _in_main_thread():
        return
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _ignoring_once(signal.getsignal(signum)))


def _ignoring_once(handler: Any) -> Callable[[int, FrameType | None], None]:
    def ignore(signum: int, frame: FrameType | None) -> None:
        signal.signal(signum, handler)

    return ignore


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Make SIGTERM and Ctrl-C raise: databases and terminals are left in order."""
    if not _in_main_thread():
        yield
        return

    def terminate(signum: int, frame: FrameType | None) -> None:
        raise _Terminated

    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, terminate)
    if before[signal.SIGINT] != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
