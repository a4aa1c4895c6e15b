"""Running the command line: in this process, or as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
from click.testing import CliRunner

from sqlcache.cli import main
from sqlcache.objects import Object

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class Result(NamedTuple):
    """How a command ended, and what it wrote."""

    exit_code: int
    stdout: str
    stderr: str


def run(*args: str, stdin: bytes | None = None) -> Result:
    """Run a command in this process, at noon of 2026-03-01. It must not raise."""
    result = CliRunner().invoke(main, args, input=stdin, obj=lambda: NOW, prog_name="sqlcache")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return Result(result.exit_code, result.stdout, result.stderr)


def output(*args: str, stdin: bytes | None = None) -> str:
    """Run a command that succeeds without a word on stderr, and return its output."""
    result = run(*args, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def error(*args: str, stdin: bytes | None = None) -> str:
    """Run a command that fails, and return its one line of error."""
    result = run(*args, stdin=stdin)
    assert result.exit_code == 1, result
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.endswith("\n")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").removesuffix("\n")


def wrong_usage(*args: str) -> str:
    """Run a command that is used wrongly, and return the last line of what it says."""
    result = run(*args)
    assert result.exit_code == 2, result
    assert result.stdout == ""
    return result.stderr.splitlines()[-1].removeprefix("Error: ")


def start(*args: str, before: Callable[[], Any] | None = None) -> subprocess.Popen[bytes]:
    """Start a process, with pipes on all its ends.

    Args:
        args: of the command.
        before: called in the child before the command.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "sqlcache", *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=before,  # noqa: PLW1509 - this process has no other threads
    )


def finish(process: subprocess.Popen[bytes], stdin: bytes | None = None) -> Result:
    """Wait for a process and return what it left."""
    stdout, stderr = process.communicate(stdin, timeout=60)
    assert b"Traceback" not in stderr
    return Result(process.returncode, stdout.decode(), stderr.decode())


def dump_of(*objects: Object) -> bytes:
    """Return a dump as kubectl writes it."""
    return orjson.dumps({"apiVersion": "v1", "items": objects, "kind": "List"})
