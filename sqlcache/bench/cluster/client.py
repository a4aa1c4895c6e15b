"""The bench's end of a cluster: starts its process, asks it, ends it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from sqlcache.bench.cluster.churn import State
from sqlcache.errors import SqlcacheError
from sqlcache.objects import Objects

_STOP_S = 5.0


class ClusterError(SqlcacheError, RuntimeError):
    """The process of a cluster is gone; what it said went to stderr."""


class Cluster:
    """An API server in another process. As a context manager it is ended at the end.

    It is asked by one thread at a time. The process also ends when this one does.

    Attributes:
        module: what runs in the process; see `process.serve`.
    """

    module = "sqlcache.bench.cluster.process"

    def __init__(self, **options: Any) -> None:
        """Start it, empty.

        Args:
            options: of `sqlcache.testing.apiserver.ApiServer`.

        Raises:
            ClusterError: it does not start, for instance because an extra is not installed.
        """
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-m", self.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal does not reach it
        )
        try:
            self._config: dict[str, Any] = self.ask("start", **options)
        except BaseException:
            self.close()
            raise

    def kubeconfig(self, directory: Path) -> str:
        """Write a kubeconfig for it into a directory; return its path."""
        path = directory / "kubeconfig"
        path.write_bytes(orjson.dumps(self._config))
        return str(path)

    def load(self, pods: int, seed: int, *, realistic: bool = False) -> int:
        """Have it hold so many pods; return how many bytes of JSON they are.

        Args:
            pods: number of pods.
            seed: what they are made from.
            realistic: of 4 KB, as `realistic_pods`; else small ones, which `churn` changes.
        """
        return int(self.ask("load", pods=pods, seed=seed, realistic=realistic))

    def churn(
        self, seconds: float, changes_per_s: float, *, troubles_per_s: float = 0.0
    ) -> dict[str, int]:
        """Have pods come, change and go for a while; return when it is over.

        Args:
            seconds: how long.
            changes_per_s: rate of changes, all in all.
            troubles_per_s: rate of faults, see `trouble`; all are taken back at the end.

        Returns:
            How many faults there were, by kind.
        """
        troubles: dict[str, int] = self.ask(
            "churn", seconds=seconds, changes_per_s=changes_per_s, troubles_per_s=troubles_per_s
        )
        return troubles

    def change(self, changes: int) -> None:
        """Have so many changes made at once."""
        self.ask("change", changes=changes)

    def expire(self) -> str:
        """Answer 410 to whoever watches or comes back; return the resourceVersion it is at."""
        return str(self.ask("expire"))

    def resource_version(self) -> str:
        """Return the newest resourceVersion."""
        return str(self.ask("resource_version"))

    def pods(self) -> Objects:
        """Return all pods there are."""
        pods: Objects = self.ask("pods")
        return pods

    def states(self) -> list[State]:
        """Return every state that a pod ever had, in order."""
        return [State(*row) for row in self.ask("states")]

    def close(self) -> None:
        """End the process; twice is harmless."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):  # of a request that nobody took any more
                    stream.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        """Return the cluster."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process."""
        self.close()

    def ask(self, what: str, **arguments: Any) -> Any:
        """Have the process's method of that name called, and return what it returns.

        Raises:
            ClusterError: the process is gone.
        """
        requests, replies = self._process.stdin, self._process.stdout
        if requests is None or replies is None:
            raise ClusterError("the cluster has no pipes")
        try:
            requests.write(orjson.dumps([what, arguments]) + b"\n")
            requests.flush()
        except OSError as error:
            raise ClusterError("the process of the cluster is gone") from error
        reply = replies.readline()
        if not reply:
            raise ClusterError("the process of the cluster is gone")
        return orjson.loads(reply)
