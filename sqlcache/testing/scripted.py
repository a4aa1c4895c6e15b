"""A ListWatch that answers from a script, for tests of informers and of code built on them.

    list_watch = ScriptedListWatch(clock)
    list_watch.lists.append(Answer(page("10", [pod("a")])))
    list_watch.watches.append(Answer([event("MODIFIED", pod("a", rv="11"))]))

The n-th list request gets the n-th entry of `lists`, and so for watches. A request past the end is
not answered until the informer stops. Whatever was asked is in `requests`.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlcache.clock import Clock, MonotonicClock, StopSignal

NO_ANSWER = "none"


@dataclass
class Answer:
    """What a request gets.

    Attributes:
        content: a page, or the events that a watch begins with.
        error: raised instead.
        held: wait for `ScriptedListWatch.release` before answering.
        ends: the watch ends after its events, as by the server.
        breaks: raised by the watch after its events.
    """

    content: Any = ()
    error: Exception | None = None
    held: bool = False
    ends: bool = False
    breaks: Exception | None = None


@dataclass
class Request:
    """What was asked.

    Attributes:
        verb: "list" or "watch".
        options: as given.
        answer: "lists[0]", "watches[2]" …, or "none".
        at: time of the clock.
        waited: seconds since the last thing that happened: a request, an answer that was held, an
            event sent, a watch ended, or `ScriptedListWatch.mark`.
    """

    verb: str
    options: dict[str, Any]
    answer: str
    at: float
    waited: float


def page(resource_version: str, items: Sequence[Any] = (), token: str = "") -> dict[str, Any]:
    """Return a decoded page of pods."""
    meta = {"resourceVersion": resource_version}
    if token:
        meta["continue"] = token
    return {"apiVersion": "v1", "kind": "PodList", "metadata": meta, "items": list(items)}


@dataclass
class _Held:
    released: bool = False


@dataclass
class ScriptedListWatch:
    """See the module.

    Attributes:
        clock: what its threads wait on.
        lists: answers to list requests.
        watches: answers to watch requests.
        requests: what was asked so far.
        supports_watch_list: False declares that streaming lists cannot work.
        source: names what is listed; with "" no informer resumes from its store.
    """

    clock: Clock = field(default_factory=MonotonicClock)
    lists: list[Answer] = field(default_factory=list)
    watches: list[Answer] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    supports_watch_list: bool = True
    source: str = ""

    def __post_init__(self) -> None:
        """Make the condition that all waits are on."""
        self._changed = self.clock.condition()
        self._held: deque[_Held] = deque()
        self._open: list[ScriptedWatch] = []
        self._marked = self.clock.now()

    def mark(self) -> None:
        """Have `Request.waited` counted from now."""
        self._marked = self.clock.now()

    def list_page(self, *, stop: StopSignal, **options: Any) -> dict[str, Any]:
        """Answer a list request."""
        answer = self._ask("list", options, self.lists, stop)
        return copy.deepcopy(dict(answer.content))

    def watch(self, *, stop: StopSignal, **options: Any) -> ScriptedWatch:
        """Answer a watch request."""
        answer = self._ask("watch", options, self.watches, stop)
        watch = ScriptedWatch(self, answer)
        with self._changed:
            self._open.append(watch)
        return watch

    def send(self, *events: Any) -> None:
        """Send events into the newest watch that is open."""
        with self._changed:
            self._newest().send(events)
            self.mark()
            self._changed.notify_all()

    def end_watch(self, breaks: Exception | None = None) -> None:
        """End the newest watch that is open: as the server does, or with an error."""
        with self._changed:
            self._newest().end(breaks)
            self.mark()
            self._changed.notify_all()

    def release(self) -> None:
        """Answer the oldest request that is held."""
        with self._changed:
            self._held.popleft().released = True
            self.mark()
            self._changed.notify_all()

    def _newest(self) -> ScriptedWatch:
        self._open = [watch for watch in self._open if watch.is_open()]
        return self._open[-1]

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _ask(
        self, verb: str, options: dict[str, Any], answers: list[Answer], stop: StopSignal
    ) -> Answer:
        forget = stop.call(self._wake)
        try:
            with self._changed:
                number = sum(request.verb == verb for request in self.requests)
                answer = answers[number] if number < len(answers) else None
                name = NO_ANSWER if answer is None else f"{verb}{'es' * (verb == 'watch')}"
                name += "s" * (verb == "list" and answer is not None)
                now = self.clock.now()
                self.requests.append(
                    Request(
                        verb,
                        dict(options),
                        name if answer is None else f"{name}[{number}]",
                        now,
                        now - self._marked,
                    )
                )
                self.mark()
                held = _Held(released=answer is not None and not answer.held)
                if answer is not None and answer.held:
                    self._held.append(held)
                while not held.released and not stop.is_set():
                    self._changed.wait()
        finally:
            forget()
        if answer is None or not held.released:
            raise ConnectionAbortedError("stopped")
        if answer.error is not None:
            raise answer.error
        return answer


class ScriptedWatch:
    """A watch of a `ScriptedListWatch`."""

    def __init__(self, owner: ScriptedListWatch, answer: Answer) -> None:
        """Open a watch."""
        self._owner = owner
        self._events: deque[Any] = deque(answer.content)
        self._ended = answer.ends or answer.breaks is not None
        self._breaks = answer.breaks
        self._closed = False

    def is_open(self) -> bool:
        """Return whether neither side has ended it."""
        return not self._ended and not self._closed

    def send(self, events: Sequence[Any]) -> None:
        """Add events; the owner's lock is held."""
        self._events.extend(events)

    def end(self, breaks: Exception | None) -> None:
        """End it; the owner's lock is held."""
        self._ended, self._breaks = True, breaks

    def close(self) -> None:
        """End it from the client's side."""
        self._closed = True
        self._owner._wake()

    def __iter__(self) -> Iterator[Any]:
        """Yield events until either side ends it."""
        while True:
            with self._owner._changed:
                while not self._events and self.is_open():
                    self._owner._changed.wait()
                if self._closed:
                    return
                if not self._events:
                    break
                event = self._events.popleft()
            yield copy.deepcopy(event)
        if self._breaks is not None:
            raise self._breaks
