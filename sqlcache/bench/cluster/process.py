"""The process of a cluster: `python -m sqlcache.bench.cluster.process`.

It is sent `[what, arguments]` as JSON, one a line, first `start`, and answers each with one line.
It ends at the end of its input.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import orjson

from sqlcache.bench import realistic
from sqlcache.bench.cluster.churn import Churn, new_pods
from sqlcache.bench.cluster.trouble import Trouble
from sqlcache.testing.apiserver import ApiServer


class Process:
    """The server, and what `Cluster` asks of it; each method answers the request of its name."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Start the server."""
        self._server = ApiServer(**options).start()
        self._churn: Churn | None = None
        self._seed = 0

    def start(self) -> Any:
        """Return a kubeconfig."""
        return self._server.kubeconfig()

    def load(self, pods: int, seed: int, realistic: bool) -> int:
        """Make the pods."""
        self._seed = seed
        if realistic:
            return self._load_realistic(pods, seed)
        made = new_pods(pods, seed)
        self._churn = Churn(self._server, made, seed)
        return len(orjson.dumps(made))

    def _load_realistic(self, pods: int, seed: int) -> int:
        size_bytes = 0
        for document in realistic.realistic_pods(pods, seed):
            size_bytes += len(document)
            self._server.load("pods", [orjson.loads(document)])
        return size_bytes

    def churn(self, seconds: float, changes_per_s: float, troubles_per_s: float) -> dict[str, int]:
        """Have changes made, and faults beside them."""
        churn = self._changes()
        with Trouble(self._server, churn.quiet, troubles_per_s, self._seed) as trouble:
            churn.run(seconds, changes_per_s)
        return dict(trouble.counts)

    def change(self, changes: int) -> None:
        """Make changes at once."""
        self._changes().make(changes)

    def expire(self) -> str:
        """Forget the history, and cut the watches."""
        self._server.skip_versions()  # so that a watch from the newest version is too old as well
        self._server.compact()
        self._server.cut_watches("pods")
        return self._server.resource_version

    def resource_version(self) -> str:
        """Return the newest one."""
        return self._server.resource_version

    def pods(self) -> Any:
        """Return all pods."""
        return self._server.list("pods")

    def states(self) -> Any:
        """Return the log."""
        return [list(state) for state in self._changes().states]

    def close(self) -> None:
        """Stop the server."""
        self._server.stop()

    def _changes(self) -> Churn:
        if self._churn is None:
            raise RuntimeError("no pods were loaded that can change")
        return self._churn


def serve(make: Callable[[dict[str, Any]], Any]) -> None:
    """Answer requests until there are no more.

    Args:
        make: returns what has a method for each request, and `close`, from the arguments of the
            first one.
    """
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what else is printed must not look like a reply
    process: Any = None
    try:
        for line in requests:
            what, arguments = orjson.loads(line)
            if process is None:
                process, arguments = make(arguments), {}
            answer: Callable[..., Any] = getattr(process, what)
            replies.write(orjson.dumps(answer(**arguments)) + b"\n")
            replies.flush()
    finally:
        if process is not None:
            process.close()


if __name__ == "__main__":
    serve(Process)
