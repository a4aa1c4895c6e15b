"""Trouble at random, beside the changes of a cluster: what happens to clients of real ones.

| kind | what the client sees |
|---|---|
| close | its watch ends |
| reset | all its connections break |
| cut | its watch ends in the middle of a line |
| gone | its watch ends, and what it asks for then is too old: 410 |
| gone event | a 410 within the watch |
| stall | its watch falls silent |
| forbid, fail, throttle | 403, 500 or 429 to the next list or watch |
| refuse | no connection for a moment |
| half a list | the next list breaks off |
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import AbstractContextManager
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from sqlcache.testing.apiserver import ApiServer

_REFUSED_S = 0.1


class Trouble:
    """Makes trouble in a thread of its own within its `with` block.

    Attributes:
        counts: how often, by kind.
    """

    def __init__(
        self, server: ApiServer, quiet: AbstractContextManager[Any], per_s: float, seed: int
    ) -> None:
        """Take the server.

        Args:
            server: has the trouble.
            quiet: see `Churn`.
            per_s: how often, on average; 0 for never.
            seed: what is drawn from.
        """
        self.counts: Counter[str] = Counter()
        self._server, self._quiet, self._per_s = server, quiet, per_s
        self._random = Random(f"trouble {seed}")  # noqa: S311 - not for secrets
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trouble")
        self._kinds = {
            "close": self._close,
            "reset": server.drop_connections,
            "cut": self._cut,
            "gone": self._gone,
            "gone event": self._gone_event,
            "stall": self._stall,
            "forbid": self._forbid,
            "fail": self._fail,
            "throttle": self._throttle,
            "refuse": self._refuse,
            "half a list": self._half_a_list,
        }

    def __enter__(self) -> Self:
        """Begin."""
        if self._per_s:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End, and take all faults back."""
        self._ended.set()
        if self._per_s:
            self._thread.join()
        self._server.faults.clear()

    def _run(self) -> None:
        # Each kind once before any comes twice, so that a short run has most of them.
        kinds: list[str] = []
        while not self._ended.wait(self._random.expovariate(self._per_s)):
            kinds = kinds or self._random.sample(list(self._kinds), len(self._kinds))
            kind = kinds.pop()
            self._kinds[kind]()
            self.counts[kind] += 1

    def _close(self) -> None:
        self._server.cut_watches("pods")

    def _cut(self) -> None:
        self._server.faults.cut(after_events=self._some(), verb="watch")
        self._close()

    def _gone(self) -> None:
        with self._quiet:
            self._server.skip_versions()  # so that the newest version is too old as well
            self._server.compact()
        self._close()

    def _gone_event(self) -> None:
        self._server.faults.error_event(410, after_events=self._some(), verb="watch")
        self._close()

    def _stall(self) -> None:
        self._server.faults.stall(after_events=self._some(), verb="watch")
        self._close()

    def _forbid(self) -> None:
        self._server.faults.forbid(resource="pods")
        self._close()

    def _fail(self) -> None:
        self._server.faults.fail(resource="pods")
        self._close()

    def _throttle(self) -> None:
        self._server.faults.throttle(1, resource="pods")
        self._close()

    def _refuse(self) -> None:
        with self._server.refusing():
            time.sleep(_REFUSED_S)

    def _half_a_list(self) -> None:
        self._server.faults.cut(after_bytes=self._random.randrange(5_000), verb="list")
        self._server.faults.fail(verb="watch", times=2)  # no streaming list, so a plain one
        self._gone()

    def _some(self) -> int:
        return self._random.randrange(20)
