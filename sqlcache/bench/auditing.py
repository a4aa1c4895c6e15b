"""Whether an informer told a handler the truth: nothing lost, doubled, out of order or made up.

Flow: `ObservedListWatch` notes which stretches of history came as events and which in a list;
`Auditor`, a handler, follows each object and notes every state it is told of; `lost` compares both
with the log of what there was.

A stretch that came in a list is told in short: an object's states in between are never seen, by
client-go's either. Every state outside of such a stretch must have been told, once.

Elsewhere: the log (cluster.churn).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlcache.bench.cluster.churn import SENT, State, digest
from sqlcache.client.api import Event, ListWatch, Page, Watch
from sqlcache.objects import (
    DeletedFinalStateUnknown,
    Object,
    deletion_handling_meta_namespace_key_func,
    metadata,
    resource_version,
)

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_MOST_FAULTS = 20  # kept; the rest is counted


class Stretch(NamedTuple):
    """A part of history that came in a list: after `low`, up to `high`."""

    low: int
    high: int


class ObservedListWatch:
    """Passes on what another ListWatch gives, and notes how far it came.

    Attributes:
        lists: stretches that came in lists, streamed or not, in order.
        streamed: how many of them were streamed.
        watches: how many watches were opened.
        listed_at: `time.perf_counter()` of the last request for a first page.
    """

    def __init__(self, inner: ListWatch) -> None:
        """Take the real one."""
        self.supports_watch_list = getattr(inner, "supports_watch_list", True)
        self.lists: list[Stretch] = []
        self.streamed = self.watches = 0
        self.listed_at = 0.0
        self._inner, self._seen = inner, 0

    def list_page(self, *, continue_token: str, **options: Any) -> Page:
        """Return a page."""
        if not continue_token:
            self.listed_at = time.perf_counter()
        page = self._inner.list_page(continue_token=continue_token, **options)
        if not page["metadata"].get("continue"):
            self._listed(resource_version(page))
        return page

    def watch(self, *, send_initial_events: bool, **options: Any) -> Watch:
        """Open a watch."""
        if send_initial_events:
            self.listed_at = time.perf_counter()
        self.watches += 1
        inner = self._inner.watch(send_initial_events=send_initial_events, **options)
        return _ObservedWatch(self, inner, streaming=send_initial_events)

    def _listed(self, rv: str) -> None:
        self.lists.append(Stretch(self._seen, int(rv)))
        self._seen = max(self._seen, int(rv))

    def _event(self, event: Event, *, initial: bool) -> bool:
        """Note an event; return whether it still belongs to a list."""
        obj = event["object"]
        if event["type"] == "ERROR":
            return initial
        if not initial:
            self._seen = max(self._seen, int(resource_version(obj)))
            return False
        annotations = metadata(obj).get("annotations") or {}
        if event["type"] == "BOOKMARK" and annotations.get(_INITIAL_EVENTS_END) == "true":
            self.streamed += 1
            self._listed(resource_version(obj))
            return False
        return True


class _ObservedWatch:
    def __init__(self, observer: ObservedListWatch, inner: Watch, *, streaming: bool) -> None:
        self._observer, self._inner, self._initial = observer, inner, streaming

    def close(self) -> None:
        self._inner.close()

    def __iter__(self) -> Iterator[Event]:
        for event in self._inner:
            # Noted first: it must not be in the store before it is known to have come.
            self._initial = self._observer._event(event, initial=self._initial)
            yield event


class Auditor:
    """A handler that follows every object; called by one thread.

    Attributes:
        faults: what was told wrong, the first few of it.
        fault_count: how much of it.
        told: digest of each state that it was told of, by resourceVersion.
        first_event: resourceVersion of the first change that came as an event; 0 before.
        delays_us: of each change, from the write at the server until the call.
        tombstones, repeats: how many deletions learnt from a list, and unchanged objects.
    """

    def __init__(self) -> None:
        """Know of no object."""
        self.faults: list[str] = []
        self.fault_count = 0
        self.told: dict[int, tuple[str, int]] = {}
        self.first_event = 0
        self.delays_us: list[float] = []
        self.tombstones = self.repeats = 0
        self._now: dict[str, int] = {}
        self._lock = threading.Lock()

    def on_add(self, obj: Object, is_in_initial_list: bool, /) -> None:
        """Take an object that must be new."""
        key, rv = _key_and_rv(obj)
        with self._lock:
            if key in self._now:
                self._fault(f"{key}@{rv} was added while it was there @{self._now[key]}")
            self._now[key] = rv
            self._tell(key, rv, obj)
            if not is_in_initial_list:
                self._changed(rv, obj)

    def on_update(self, old: Object, new: Object, /) -> None:
        """Take a change of an object that must be there as it was."""
        key, rv = _key_and_rv(new)
        _, old_rv = _key_and_rv(old)
        with self._lock:
            known = self._now.get(key)
            if known != old_rv:
                self._fault(f"{key} was updated from @{old_rv} while it was @{known}")
            if rv < old_rv:
                self._fault(f"{key} went back from @{old_rv} to @{rv}")
            self._now[key] = rv
            if rv == old_rv:
                self.repeats += 1
                if digest(old) != digest(new):
                    self._fault(f"{key}@{rv} came with two contents")
                return
            self._tell(key, rv, new)
            self._changed(rv, new)

    def on_delete(self, obj: Any, /) -> None:
        """Take a deletion of an object that must be there."""
        key = deletion_handling_meta_namespace_key_func(obj)
        with self._lock:
            known = self._now.pop(key, None)
            if known is None:
                self._fault(f"{key} was deleted while it was not there")
            if isinstance(obj, DeletedFinalStateUnknown):
                self.tombstones += 1
                _, rv = _key_and_rv(obj.obj)
                if rv != known:
                    self._fault(f"{key} was lost @{rv} while it was @{known}")
                return
            _, rv = _key_and_rv(obj)
            if known is not None and rv <= known:
                self._fault(f"{key} was deleted @{rv} while it was @{known}")
            self._tell(key, rv, obj)
            self._changed(rv, obj)

    def now(self) -> dict[str, int]:
        """Return the resourceVersion of every object that is there, by key."""
        with self._lock:
            return dict(self._now)

    def _tell(self, key: str, rv: int, obj: Object) -> None:
        if rv in self.told:
            self._fault(f"{key}@{rv} was told twice")
        self.told[rv] = key, digest(obj)

    def _changed(self, rv: int, obj: Object) -> None:
        self.first_event = self.first_event or rv
        sent = (metadata(obj).get("annotations") or {}).get(SENT)
        if sent:
            self.delays_us.append((time.monotonic_ns() - int(sent)) / 1000)

    def _fault(self, text: str) -> None:
        self.fault_count += 1
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(text)


def audited(
    auditor: Auditor, lists: Sequence[Stretch], states: Iterable[State], content: Iterable[Object]
) -> list[str]:
    """Return what a handler was told wrong, or not told.

    Args:
        auditor: the handler, when all was delivered.
        lists: what came in lists.
        states: every state there was.
        content: the objects there are at the end.
    """
    faults = list(auditor.faults)
    if auditor.fault_count > len(faults):
        faults.append(f"{auditor.fault_count - len(faults)} more of the kind")
    known = {state.rv: (state.key, state.digest) for state in states}
    faults += [
        f"{key}@{rv} was told, but never was"
        for rv, (key, checksum) in auditor.told.items()
        if known.get(rv) != (key, checksum)
    ]
    faults += [
        f"{key}@{rv} was never told"
        for rv, (key, _) in known.items()
        if rv >= auditor.first_event > 0 and rv not in auditor.told and not _within(rv, lists)
    ]
    right = dict(map(_key_and_rv, content))
    if auditor.now() != right:
        different = set(auditor.now().items()) ^ set(right.items())
        faults.append(f"the handler ends at another state than the server: {sorted(different)[:3]}")
    return faults


def _within(rv: int, lists: Sequence[Stretch]) -> bool:
    return any(low < rv <= high for low, high in lists)


def _key_and_rv(obj: Any) -> tuple[str, int]:
    return deletion_handling_meta_namespace_key_func(obj), int(resource_version(obj))
