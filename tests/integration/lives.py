"""Informers that die in the middle of a write: `python -m tests.integration.lives PATH URL`.

Each line on standard input is one life: a number of SQL statements after which it dies, 0 for
"when somebody kills it". The answer is a line with its process id, then one when it is dead. This
process has imported all that a life needs and runs no thread, so a life begins by a fork, in
milliseconds. It ends with its standard input.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import kubernetes

from sqlcache.client.transport import ApiListWatch, Resource
from sqlcache.informer import HandlerFuncs, SharedInformer
from sqlcache.store.sqlite import SqliteStore


def pods_of(url: str) -> ApiListWatch:
    """Return a ListWatch of the pods of a test API server."""
    configuration: Any = kubernetes.client.Configuration()
    configuration.host = url
    return ApiListWatch(kubernetes.client.ApiClient(configuration), Resource("", "v1", "pods"))


def live(path: str, url: str, statements: int) -> None:
    """Keep a file true to a server until death."""
    store = SqliteStore(path)
    left = statements

    def count(_: str) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    if statements:
        store._db._writer.set_trace_callback(count)  # type: ignore[attr-defined]
    with SharedInformer(pods_of(url), store) as informer:
        informer.add_handler(HandlerFuncs())
        threading.Event().wait()


def main(path: str, url: str) -> None:
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            live(path, url, int(line))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        os.waitpid(pid, 0)
        sys.stdout.write("dead\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
