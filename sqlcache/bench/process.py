"""The runner's end of its processes: the nursery, and children with a time limit.

Promises
- A child has a limited time for all its requests together; at its end it is killed.
- `kill` returns when the process is gone, whatever state it was in; twice is harmless.

Elsewhere: the other ends (nursery, child).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

import orjson

import sqlcache
from sqlcache.bench.scenarios.workload import Job
from sqlcache.errors import SqlcacheError

_READ_BYTES = 1 << 16
_STOP_S = 5.0  # for a child to close its store before it is killed
_PACKAGE_ROOT = Path(sqlcache.__file__).resolve().parents[1]


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait: what happens meanwhile must not be done by half."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class ChildError(SqlcacheError, RuntimeError):
    """A child gave no answer; the text says why, for the table."""


class Nursery:
    """The process that children are forked from.

    Attributes:
        process: it.
    """

    def __init__(self) -> None:
        """Start it."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            # -P: the working directory may be a clone, whose sources come before the package.
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-P", "-m", "sqlcache.bench.nursery", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=_environment(),
                start_new_session=True,  # Ctrl-C in the terminal does not reach it
            )

    def __enter__(self) -> Self:
        """Return the nursery; leaving the `with` ends it."""
        return self

    def __exit__(self, *exc: object) -> None:
        """End the process. Children must have been ended before."""
        self._socket.close()
        self.process.wait()

    def fork(self, stdin: int, stdout: int, stderr: int) -> int:
        """Return the process id of a new child with these descriptors.

        Raises:
            ChildError: the nursery is gone.
        """
        return self._ask({"fork": True}, [stdin, stdout, stderr])

    def wait(self, pid: int) -> int:
        """Return the exit code of a child that has ended; minus the signal that killed it."""
        return os.waitstatus_to_exitcode(self._ask({"wait": pid}, []))

    def _ask(self, request: dict[str, Any], descriptors: list[int]) -> int:
        answer = b""
        try:
            with signals_held():  # else the next request would read this one's answer
                socket.send_fds(self._socket, [orjson.dumps(request) + b"\n"], descriptors)
                while not answer.endswith(b"\n"):
                    chunk = self._socket.recv(_READ_BYTES)
                    if not chunk:
                        raise ChildError("no processes can be started: see above")
                    answer += chunk
        except OSError as error:
            raise ChildError(f"no processes can be started: {error}") from error
        return int(answer)


class Child:
    """One child process.

    Attributes:
        backend: name of what it measures.
        pid: its process id; None when it is gone.
    """

    def __init__(self, job: Job, time_limit_s: float, nursery: Nursery) -> None:
        """Start the process and send it its job; `receive` returns its first reply."""
        self.backend = job.backend
        self._left_s = self._limit_s = time_limit_s
        self._nursery = nursery
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _reap
        stdin, requests = os.pipe()
        replies, stdout = os.pipe()
        self._requests, self._replies = os.fdopen(requests, "wb"), os.fdopen(replies, "rb")
        self.pid: int | None = None
        try:
            self.pid = nursery.fork(stdin, stdout, self._stderr.fileno())
        finally:
            os.close(stdin)
            os.close(stdout)
            if self.pid is None:
                self._close()
        self._buffer, self._sent = b"", 0.0
        self.send(job.to_json())

    def send(self, request: dict[str, Any]) -> None:
        """Send a request."""
        self._sent = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # receive() tells why it died
            self._requests.write(orjson.dumps(request) + b"\n")
            self._requests.flush()

    def receive(self) -> dict[str, Any]:
        """Return the reply to the last request.

        Raises:
            ChildError: it died, or its time is over. It is gone then.
        """
        reply: dict[str, Any] = orjson.loads(self._line())
        self._left_s -= reply["busy_s"]
        return reply

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return the reply. Raises: as `receive`."""
        self.send(request)
        return self.receive()

    def stop(self) -> None:
        """Let the process close its store and end; kill it if that takes too long."""
        if self.pid is not None:
            with contextlib.suppress(BrokenPipeError):
                self._requests.close()
            select.select([self._replies], [], [], _STOP_S)  # its end closes the pipe
        self.kill()

    def kill(self) -> None:
        """End the process at once."""
        with signals_held():
            if self.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
                self._reap()

    def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            # A reply that waits in the pipe counts, even when we come late for it.
            left_s = max(0.0, self._sent + self._left_s - time.monotonic())
            if not select.select([self._replies], [], [], left_s)[0]:
                self.kill()
                raise ChildError(f"out of time: not done within {self._limit_s:g} s")
            chunk = os.read(self._replies.fileno(), _READ_BYTES)
            if not chunk:
                raise ChildError(self._reap())
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _reap(self) -> str:
        """Wait for a process that is ending, and return what it died of."""
        pid, self.pid = self.pid, None
        if pid is None:
            return "died"
        code = self._nursery.wait(pid)
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip().splitlines()
        self._close()
        return _death(code, said)

    def _close(self) -> None:
        for stream in (self._requests, self._replies, self._stderr):
            with contextlib.suppress(OSError):
                stream.close()


def _death(code: int, said: list[str]) -> str:
    if code == -signal.SIGKILL:
        return "killed by the system, probably out of memory"
    if code < 0:
        return f"died of {signal.Signals(-code).name}"
    if said and said[-1].startswith("MemoryError"):
        return "out of memory"
    return f"died: {said[-1]}" if said else f"died with exit code {code}"


def _environment() -> dict[str, str]:
    # The nursery must import this very package, however the runner found it.
    path = os.pathsep.join(filter(None, (str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}
