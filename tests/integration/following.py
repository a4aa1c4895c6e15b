"""Commands that follow a cluster, as processes whose output can be waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from sqlcache.objects import Object
from tests.integration.command import Result

LONG_S = 60.0  # nothing takes so long, not even on a busy machine
_POLL_S = 0.01


def new_pod(name: str, namespace: str = "shop", **labels: str) -> Object:
    """Return a pod that an API server takes."""
    meta = {"name": name, "namespace": namespace, "labels": labels}
    return {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}]}}


class Following:
    """A command that goes on until it is ended. Its output goes to files."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        """Take over a process that writes to `stdout` and `stderr` in a folder."""
        self.process, self._folder = process, folder

    @property
    def stdout(self) -> str:
        """What it has written so far."""
        return (self._folder / "stdout").read_text()

    @property
    def stderr(self) -> str:
        """What it has written so far."""
        return (self._folder / "stderr").read_text()

    def wait_for(self, text: str, *, stream: str = "stdout") -> None:
        """Wait until it has written a text."""
        deadline = time.monotonic() + LONG_S
        while text not in getattr(self, stream):
            state = f"{text!r} is not in {stream}:\n{self.stdout[-2000:]}\n{self.stderr}"
            assert time.monotonic() < deadline, state
            assert self.process.poll() is None, state
            time.sleep(_POLL_S)

    def wait_for_lines(self, count: int) -> list[str]:
        """Wait until it has written so many lines to stdout, and return them."""
        deadline = time.monotonic() + LONG_S
        while self.stdout.count("\n") < count:
            assert time.monotonic() < deadline, f"{self.stdout[-2000:]}\n{self.stderr}"
            assert self.process.poll() is None, self.stderr
            time.sleep(_POLL_S)
        return self.stdout.split("\n")[:-1]

    def end(self, signum: signal.Signals = signal.SIGINT) -> Result:
        """Send a signal, and return how it ended."""
        self.process.send_signal(signum)
        return self.finish()

    def finish(self) -> Result:
        """Wait for its end, and return how it ended."""
        self.process.wait(LONG_S)
        assert "Traceback" not in self.stderr
        return Result(self.process.returncode, self.stdout, self.stderr)


F = TypeVar("F", bound=Following)


def following(*args: str, kubeconfig: Path) -> AbstractContextManager[Following]:
    """Run a command within the block; it is killed if it is still there at the end."""
    return following_as(Following, *args, kubeconfig=kubeconfig)


@contextmanager
def following_as(kind: type[F], *args: str, kubeconfig: Path) -> Iterator[F]:
    """Do as `following`, with a class of one's own."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "sqlcache", *args],
                env={**os.environ, "KUBECONFIG": str(kubeconfig)},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
        try:
            yield kind(process, folder)
        finally:
            process.kill()
            process.wait()
