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

import _thread
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from sqlcache.cli._output import flush
from sqlcache.errors import SqlcacheError

FAILED = 1
_BY_SIGNAL = 128
_AGAIN_S = 0.01
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
        given = [name for name in (error.filename, error.filename2) if name is not None]
        names = [os.fsdecode(name) or "''" for name in given]
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
        with _sent_again_if_lost():
            yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextmanager
def _sent_again_if_lost() -> Iterator[None]:
    """Send a signal again if what its handler raised was ignored.

    The interpreter runs handlers wherever the main thread is, also in a finalizer or in a callback
    of the garbage collector, and lets no exception out of those.
    """
    signals = {KeyboardInterrupt: signal.SIGINT, _Terminated: signal.SIGTERM}
    main_thread, report, over = threading.get_ident(), sys.unraisablehook, False

    def ignored(what: sys.UnraisableHookArgs) -> None:
        signum = signals.get(what.exc_type)
        if signum is None:
            report(what)
        else:
            # No threading.Thread: the main thread may be anywhere, also with a lock of that module.
            _thread.start_new_thread(send_again, (signum,))

    def send_again(signum: signal.Signals) -> None:
        time.sleep(_AGAIN_S)  # so that the finalizer is done
        if not over:
            signal.pthread_kill(main_thread, signum)

    sys.unraisablehook = ignored
    try:
        yield
    finally:
        over = True
        sys.unraisablehook = report


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
