"""Trouble on demand: what tests make the server do wrong.

    server.faults.throttle(retry_after_s=1, verb="list", resource="pods")
    server.faults.cut(after_events=3, verb="watch", times=2)
    with server.faults.error(403, verb="watch", times=None):
        ...

Promises
- A fault strikes the requests that it fits, `times` of them (None: until it is removed), after it
  let `skip` pass.
- All faults that fit a request strike it: a slow answer can also be an error.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Any

from sqlcache.testing.apiserver import status
from sqlcache.testing.apiserver.status import ApiError


class Action(Enum):
    """What a fault does."""

    ANSWER = "answer"
    SLOW = "slow"
    REFUSE = "refuse"
    STALL = "stall"
    CUT = "cut"
    EVENT = "event"


@dataclass(frozen=True, slots=True)
class Target:
    """A request as faults and the log see it.

    Attributes:
        verb: "list", "watch", "get", "create", "update", "patch", "delete", "deletecollection";
            "" for a path that is no resource.
        resource: plural, such as "pods".
        namespace: "" for all, or for a cluster-scoped object.
        name: "" for a collection.
        subresource: such as "status".
    """

    verb: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(eq=False, slots=True)
class Fault:
    """One kind of trouble; made by `Faults`. As a context manager it is removed at the end.

    Attributes:
        action: what happens.
        verb: the requests that it fits have this one; None fits all, as below.
        resource: plural.
        namespace: exact.
        name: exact.
        times: how many requests it still strikes; None means all.
        skip: how many it lets pass first.
        hits: how many it struck.
        error: for ANSWER and EVENT.
        seconds: for SLOW.
        after_events: of a watch, for STALL, CUT and EVENT: lines sent before.
        after_bytes: of another answer, for CUT.
        mid_line: for CUT: half of the next line is sent, too.
        removed: it strikes no more, and what it stalled goes on.
    """

    action: Action
    verb: str | None = None
    resource: str | None = None
    namespace: str | None = None
    name: str | None = None
    times: int | None = 1
    skip: int = 0
    hits: int = 0
    error: ApiError | None = None
    seconds: float = 0.0
    after_events: int = 0
    after_bytes: int = 0
    mid_line: bool = True
    removed: bool = False

    def fits(self, target: Target) -> bool:
        """Return whether a request is one that it can strike."""
        return all(
            wanted is None or wanted == found
            for wanted, found in (
                (self.verb, target.verb),
                (self.resource, target.resource),
                (self.namespace, target.namespace),
                (self.name, target.name),
            )
        )

    def remove(self) -> None:
        """Strike no more; what is stalled goes on."""
        self.removed = True

    def __enter__(self) -> Fault:
        """Strike until the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Strike no more."""
        self.remove()


@dataclass(slots=True)
class Faults:
    """The faults of a server. Any thread may add them.

    Each method takes `verb`, `resource`, `namespace`, `name`, `times` and `skip`, see `Fault`.
    """

    _faults: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, fault: Fault) -> Fault:
        """Add a fault made by hand."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Remove all."""
        with self._lock:
            for fault in self._faults:
                fault.remove()
            self._faults.clear()

    def take(self, target: Target) -> list[Fault]:
        """Return the faults that strike a request; each is used up by one."""
        with self._lock:
            self._faults = [each for each in self._faults if not each.removed and each.times != 0]
            fitting = [each for each in self._faults if each.fits(target)]
            return [each for each in fitting if _strikes(each)]

    def error(self, code: int, message: str = "", *, reason: str = "", **scope: Any) -> Fault:
        """Answer with a Status.

        Args:
            code: HTTP status.
            message: "" for a plain one.
            reason: "" for the usual one of the code.
            scope: which requests.
        """
        made = status.failure(code, message or f"injected fault {code}", reason or None)
        return self.add(Fault(Action.ANSWER, error=made, **scope))

    def forbid(self, **scope: Any) -> Fault:
        """Answer 403, as when a role is taken away."""
        return self.error(403, 'forbidden: User "test" cannot do this', **scope)

    def expire(self, **scope: Any) -> Fault:
        """Answer 410 Expired to the request itself. Of a watch see also `error_event`."""
        words = "The resourceVersion for the provided list is too old."
        return self.error(410, words, **scope)

    def throttle(self, retry_after_s: int = 1, **scope: Any) -> Fault:
        """Answer 429 with Retry-After in seconds."""
        made = status.too_many_requests(retry_after_s)
        return self.add(Fault(Action.ANSWER, error=made, **scope))

    def fail(self, **scope: Any) -> Fault:
        """Answer 500 InternalError."""
        return self.error(500, "Internal error occurred: injected fault", **scope)

    def slow(self, seconds: float, **scope: Any) -> Fault:
        """Answer so many seconds later."""
        return self.add(Fault(Action.SLOW, seconds=seconds, **scope))

    def refuse(self, **scope: Any) -> Fault:
        """Reset the connection instead of answering. `ApiServer.refusing` takes no connection."""
        return self.add(Fault(Action.REFUSE, **scope))

    def stall(self, after_events: int = 0, **scope: Any) -> Fault:
        """Fall silent with the connection open, until the fault is removed.

        Args:
            after_events: lines that a watch sends before. Other requests get no answer at all.
            scope: which requests.
        """
        return self.add(Fault(Action.STALL, after_events=after_events, **scope))

    def cut(
        self,
        after_events: int = 0,
        *,
        after_bytes: int = 0,
        mid_line: bool = True,
        **scope: Any,
    ) -> Fault:
        """Close the connection in the middle of the answer.

        Args:
            after_events: lines that a watch sends before.
            after_bytes: bytes of the body that other requests send before.
            mid_line: a watch also sends half of the next line, as soon as there is one.
            scope: which requests.
        """
        made = Fault(
            Action.CUT,
            after_events=after_events,
            after_bytes=after_bytes,
            mid_line=mid_line,
            **scope,
        )
        return self.add(made)

    def error_event(
        self, code: int = 410, message: str = "", *, after_events: int = 0, **scope: Any
    ) -> Fault:
        """End a watch with an ERROR event.

        Args:
            code: of the Status in the event; 410 is what an outrun watch gets.
            message: "" for a plain one.
            after_events: lines sent before.
            scope: which watches.
        """
        made = status.failure(code, message or f"injected fault {code}")
        return self.add(Fault(Action.EVENT, error=made, after_events=after_events, **scope))


def _strikes(fault: Fault) -> bool:
    if fault.skip:
        fault.skip -= 1
        return False
    if fault.times is not None:
        fault.times -= 1
    fault.hits += 1
    return True
