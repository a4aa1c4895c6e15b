"""The process that child processes are forked from: `python -m sqlcache.bench.nursery FD`.

It has imported what a child needs and done nothing else, so a child is fresh and yet starts in
milliseconds: an interpreter of its own would take half a second for SQLAlchemy and Alembic, and a
quick run has fifty children. What is imported when it is first used, it uses once.

Over the socket it takes one JSON value a line and answers with a number:

| sent | answered |
|---|---|
| `{"fork": true}`, with three descriptors: stdin, stdout, stderr | the child's process id |
| `{"wait": 4711}`, of a child that has ended or was killed | its exit status, as waitpid has it |

It ends when the other end of the socket is closed. It stays single-threaded: forks are safe then.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback

import orjson

from sqlcache.bench.child import serve
from sqlcache.selectors import parse
from sqlcache.store import open_store

_LINE_BYTES = 256


def main() -> None:
    """Fork children until the socket is closed."""
    # Whoever started us ends us and our children; Ctrl-C in the terminal is for them alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all()
    with socket.socket(fileno=int(sys.argv[1])) as runner:
        while True:
            line, descriptors, _, _ = socket.recv_fds(runner, _LINE_BYTES, 3)
            if not line:
                return
            request = orjson.loads(line)
            if "fork" in request:
                answer = _fork(runner, descriptors)
            else:
                answer = os.waitpid(request["wait"], 0)[1]
            runner.sendall(b"%d\n" % answer)


def _import_all() -> None:
    with open_store("sqlite") as store:
        store.add({"metadata": {"name": "a", "namespace": "a", "labels": {"a": "a", "b": "b"}}})
        store.select("a", parse("a=a,b=b"))


def _fork(runner: socket.socket, descriptors: list[int]) -> int:
    child = os.fork()
    if child == 0:
        runner.close()
        _be_child(*descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    return child


def _be_child(stdin: int, stdout: int, stderr: int) -> None:
    """Serve a job and end the process, never returning into the nursery's loop."""
    status = 1
    try:
        os.dup2(stderr, 1)  # what else is printed must not look like a reply
        os.dup2(stderr, 2)
        with os.fdopen(stdin, "rb") as requests, os.fdopen(stdout, "wb") as replies:
            serve(requests, replies)
        status = 0
    except BaseException:  # noqa: BLE001 - the traceback is what the runner reports
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
