"""Handlers, and the thread that each of them has.

Promises
- A handler's notifications come in order, one at a time, in a thread of its own. Its queue is
  unbounded: a slow handler holds up neither the store nor another handler, but fills memory.
- A handler that raises is logged with the key of the object and gets the next notification.
- A handler that is removed ends the notification it has in hand; the rest is dropped.

Differences from client-go: an object whose handler raised counts as handled, so the registration
can still become synced, and there is no pause of a second.

Source: client-go tools/cache shared_informer.go, processorListener; controller.go.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, NamedTuple, Protocol, cast

from sqlcache.clock import Clock, paced
from sqlcache.errors import ObjectError, SqlcacheError, shown
from sqlcache.informer.deltas import Again
from sqlcache.objects import (
    Object,
    deletion_handling_meta_namespace_key_func,
    resource_version,
)

_LOG = logging.getLogger(__name__)

LOOKED_UP = 100  # objects at a time: readers of a store in memory wait for them, about 1 ms


class Handler(Protocol):
    """What is told of changes. The objects are the cache's own: copy before you change one.

    Source: client-go cache.ResourceEventHandler.
    """

    def on_add(self, obj: Object, is_in_initial_list: bool, /) -> None:
        """Take an object that is new to the handler."""

    def on_update(self, old: Object, new: Object, /) -> None:
        """Take a change; with equal resourceVersions a resync, or an unchanged object of a relist.

        The same name with another uid is an update too: the object was deleted and made anew.
        """

    def on_delete(self, obj: Any, /) -> None:
        """Take the last state of an object, or a `DeletedFinalStateUnknown`."""


def _nothing(*_: Any) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class HandlerFuncs:
    """A handler made of functions; those left out are not called.

    Attributes:
        on_add: takes an object and whether it is part of the initial list.
        on_update: takes the old and the new object.
        on_delete: takes an object or a tombstone.

    Source: client-go cache.ResourceEventHandlerDetailedFuncs.
    """

    on_add: Callable[[Object, bool], None] = _nothing
    on_update: Callable[[Object, Object], None] = _nothing
    on_delete: Callable[[Any], None] = _nothing


@dataclass(frozen=True)
class FilteringHandler:
    """Passes on the objects that pass a filter; starting to pass is an add, ceasing a delete.

    Attributes:
        passes: tells whether an object passes; gets tombstones as well.
        handler: is told.

    Source: client-go cache.FilteringResourceEventHandler.
    """

    passes: Callable[[Any], bool]
    handler: Handler

    def on_add(self, obj: Object, is_in_initial_list: bool, /) -> None:
        """Pass on an object."""
        if self.passes(obj):
            self.handler.on_add(obj, is_in_initial_list)

    def on_update(self, old: Object, new: Object, /) -> None:
        """Pass on a change as what it means behind the filter."""
        before, after = self.passes(old), self.passes(new)
        if before and after:
            self.handler.on_update(old, new)
        elif after:
            self.handler.on_add(new, False)
        elif before:
            self.handler.on_delete(old)

    def on_delete(self, obj: Any, /) -> None:
        """Pass on a deletion."""
        if self.passes(obj):
            self.handler.on_delete(obj)


class Added(NamedTuple):
    """A call of `on_add`."""

    obj: Object
    is_in_initial_list: bool

    def deliver(self, handler: Handler) -> None:
        """Make the call."""
        handler.on_add(self.obj, self.is_in_initial_list)


class Updated(NamedTuple):
    """A call of `on_update`; `sync` if nothing changed."""

    old: Object
    obj: Object
    sync: bool

    def deliver(self, handler: Handler) -> None:
        """Make the call."""
        handler.on_update(self.old, self.obj)


class Deleted(NamedTuple):
    """A call of `on_delete`."""

    obj: Any

    def deliver(self, handler: Handler) -> None:
        """Make the call."""
        handler.on_delete(self.obj)


Notification = Added | Updated | Deleted


def is_again(notification: Notification | Again) -> bool:
    """Return whether this stands for an unchanged object; the others are tuples with a name."""
    return type(notification) is tuple


Lookup = Callable[[Sequence[str]], Mapping[str, Object]]


class Registration:
    """A handler that was added to an informer."""

    def __init__(
        self,
        handler: Handler,
        name: str,
        clock: Clock,
        resync_period_s: float,
        wanted_s: float,
        stored: Lookup,
    ) -> None:
        """Register a handler; made by `SharedInformer.add_handler`.

        Args:
            handler: is told.
            name: of its thread and in logs.
            clock: tells when a resync is due.
            resync_period_s: seconds between resyncs, 0 for none.
            wanted_s: what the caller asked for.
            stored: gives the stored objects of keys.
        """
        self.handler, self.name = handler, name
        self.wanted_s = wanted_s
        self.resyncing = True  # gets resync notifications; decided anew at each resync
        self._clock, self._stored = clock, stored
        self._changed = clock.condition()
        self._pending: deque[Notification | Again] = deque()
        self._initial_left = 0
        self._upstream_synced = False
        self._synced = False
        self._ended = False
        self._thread: threading.Thread | None = None
        self._resync_s = resync_period_s
        self._next_resync = clock.now() + resync_period_s

    def has_synced(self) -> bool:
        """Return whether the handler was called for every object of the initial list."""
        return self._synced

    def wait_for_sync(self, timeout: float | None = None) -> bool:
        """Wait until the handler was called for every object of the initial list.

        Args:
            timeout: seconds; None waits for ever.

        Returns:
            Whether it was; False after the timeout, or when the handler or informer ends first.
        """
        deadline = None if timeout is None else self._clock.now() + timeout
        with self._changed:
            while not self._synced and not self._ended:
                left = None if deadline is None else deadline - self._clock.now()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            return self._synced

    # What follows is for the informer.

    def start(self) -> None:
        """Begin to call the handler."""
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Drop what waits and end the thread after the call it makes."""
        with self._changed:
            self._ended = True
            self._pending.clear()
            self._changed.notify_all()

    def join(self, timeout: float) -> bool:
        """Wait in real seconds for the thread to end, and return whether it has."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(min(max(0.0, timeout), threading.TIMEOUT_MAX))
        return not thread.is_alive()

    def notify(self, notifications: Sequence[Notification | Again]) -> None:
        """Queue notifications.

        Args:
            notifications: an `Again` becomes an update to itself. The object is looked up when its
                turn comes, and left out if it has changed by then: that is told next.
        """
        initial = sum(type(each) is Added and each.is_in_initial_list for each in notifications)
        with self._changed:
            if self._ended:
                return
            self._pending.extend(notifications)
            self._initial_left += initial
            self._changed.notify_all()

    def upstream_synced(self) -> None:
        """Take note that no more objects of the initial list will come."""
        with self._changed:
            self._upstream_synced = True
            self._check_synced()

    def due(self, now: float) -> bool:
        """Return whether a resync is due, and set the time of the next if so."""
        if not self._resync_s or now < self._next_resync:
            return False
        self._next_resync = now + self._resync_s
        return True

    def set_resync_period(self, seconds: float) -> None:
        """Change the period from the next resync on."""
        self._resync_s = seconds

    def _check_synced(self) -> None:
        if self._upstream_synced and not self._initial_left:
            self._synced = True
            self._changed.notify_all()

    def _run(self) -> None:
        for notification in paced(self._notifications()):
            try:
                notification.deliver(self.handler)
            except BaseException:  # noqa: BLE001 - somebody else's code, which may call sys.exit
                _LOG.exception("%s: handler failed on %s", self.name, _key(notification.obj))
            if type(notification) is Added and notification.is_in_initial_list:
                with self._changed:
                    self._initial_left -= 1
                    self._check_synced()

    def _notifications(self) -> Iterator[Notification]:
        while taken := self._next():
            for each in self._looked_up(taken) if isinstance(taken, list) else (taken,):
                if self._ended:
                    return
                yield each

    def _next(self) -> Notification | list[Again] | None:
        """Wait, and return the next notification, or what is next of unchanged objects."""
        with self._changed:
            while not self._pending and not self._ended:
                self._changed.wait()
            if self._ended:
                return None
            again = list(takewhile(is_again, islice(self._pending, LOOKED_UP)))
            if not again:
                return cast(Notification, self._pending.popleft())
            for _ in again:
                self._pending.popleft()
            return cast(list[Again], again)

    def _looked_up(self, again: list[Again]) -> Iterator[Updated]:
        try:
            objs = self._stored([key for key, _ in again])
        except SqlcacheError:
            _LOG.exception("%s: %d unchanged objects are not told again", self.name, len(again))
            return
        for key, version in again:
            obj = objs.get(key)
            if obj is not None and resource_version(obj) == version:
                yield Updated(obj, obj, sync=True)


def _key(obj: Any) -> str:
    try:
        return deletion_handling_meta_namespace_key_func(obj)
    except ObjectError:
        return shown(obj)
