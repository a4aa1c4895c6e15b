"""Commands that follow a cluster: what other threads have for the main one, and how it goes.

Flow: the threads of informers put changes, messages and failures into an `Inbox`; the main thread,
which alone writes and which signals interrupt, takes them out.

Promises
- An outage is said once when it begins and once when it is over, however often it is tried again
  and however many resources it concerns.
- What can never work (no permission, no such resource) ends the command, but only before a watch
  was open: afterwards it may come back.

Elsewhere: trying again, and when (sqlcache.informer.reflector).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple, cast

import click

from sqlcache.cli._cluster import Cluster, ClusterError, logs_in_words
from sqlcache.client import Event, ListWatch, Page, Watch
from sqlcache.errors import ApiConnectionError, ApiStatusError
from sqlcache.informer.reflector import is_retriable
from sqlcache.objects import DeletedFinalStateUnknown, Object, resource_version

_FINAL_CODES = (400, 401, 403, 404, 405, 422)  # asking again gets the same


class Change(NamedTuple):
    """A change of an object.

    Attributes:
        type: "ADDED", "MODIFIED" or "DELETED".
        obj: as it is now; the last known state if it is deleted.
        initial: whether it was there before the watch.
    """

    type: str
    obj: Object
    initial: bool = False


class Inbox:
    """What other threads have for the main thread. It is an informer's handler, too."""

    def __init__(self) -> None:
        """Make an empty one."""
        self._items: queue.SimpleQueue[Change | str | Exception] = queue.SimpleQueue()
        self._failure: Exception | None = None

    def say(self, text: str) -> None:
        """Have a line written to stderr."""
        self._items.put(text)

    def fail(self, error: Exception) -> None:
        """Have the command end with an error."""
        self._items.put(error)

    def on_add(self, obj: Object, is_in_initial_list: bool, /) -> None:
        """Take an object that is new."""
        self._items.put(Change("ADDED", obj, is_in_initial_list))

    def on_update(self, old: Object, new: Object, /) -> None:
        """Take a change, unless it is none, as in a relist."""
        if resource_version(old) != resource_version(new):
            self._items.put(Change("MODIFIED", new))

    def on_delete(self, obj: Any, /) -> None:
        """Take the last state of an object."""
        last = obj.obj if isinstance(obj, DeletedFinalStateUnknown) else obj
        if last is not None:
            self._items.put(Change("DELETED", last))

    def take(self, timeout_s: float | None = None) -> list[Change]:
        """Return the changes that there are, in order; write what is to be said.

        Args:
            timeout_s: how long to wait if there is nothing at all; None for ever.

        Raises:
            Exception: what somebody failed with, after the changes before it were returned.
        """
        if self._failure is not None:
            raise self._failure
        changes: list[Change] = []
        try:
            item = self._items.get(timeout=timeout_s)
        except queue.Empty:
            return changes
        for left in range(self._items.qsize(), -1, -1):
            if isinstance(item, Change):
                changes.append(item)
            elif isinstance(item, str):
                click.echo(item, err=True)
            elif changes:
                self._failure = item
                return changes
            else:
                raise item
            if left:
                item = self._items.get()
        return changes

    def say_the_rest(self) -> None:
        """Write what is still to be said."""
        for _ in range(self._items.qsize()):
            item = self._items.get()
            if isinstance(item, str):
                click.echo(item, err=True)


@contextmanager
def inbox() -> Iterator[Inbox]:
    """Return an inbox that also gets what is logged; what is left in it is said at the end."""
    made = Inbox()
    with logs_in_words(lambda text: made.say(f"Warning: {text}")):
        try:
            yield made
        finally:
            made.say_the_rest()


class Contact:
    """Whether the API server can be talked to. From any thread."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """Start in contact.

        Args:
            say: is told of outages.
        """
        self._say = say
        self._lock = threading.Lock()
        self._reasons: dict[str, str] = {}  # of the resources that are out of contact
        self._lost_at = 0.0

    def lost(self, resource: str, reason: str) -> None:
        """Take note that a request for a resource failed."""
        with self._lock:
            if resource in self._reasons:
                return
            if not self._reasons:
                self._lost_at = time.monotonic()
            new = reason not in self._reasons.values()
            self._reasons[resource] = reason
        if new:
            self._say(f"Warning: {reason}; trying again")

    def found(self, resource: str) -> None:
        """Take note that a resource is watched."""
        with self._lock:
            if self._reasons.pop(resource, None) is None or self._reasons:
                return
            seconds = time.monotonic() - self._lost_at
        self._say(f"In contact with the API server again after {seconds:.0f} s")

    def lost_for_s(self) -> float | None:
        """Return for how long some resource is out of contact, None if none is."""
        with self._lock:
            return time.monotonic() - self._lost_at if self._reasons else None


class Followed:
    """A ListWatch that tells how it goes.

    Attributes:
        listed: objects that came with the list under way, or the last one.
        heard_at: when the last event came, in seconds of the monotonic clock; 0 before.
        contact: is told when it is lost and found.
        source: names what is listed, for an informer that takes up a store again; it has the
            identity, too.
    """

    def __init__(
        self,
        list_watch: ListWatch,
        name: str,
        cluster: Cluster,
        contact: Contact,
        fail: Callable[[Exception], None],
        identity: str = "",
    ) -> None:
        """Follow a ListWatch.

        Args:
            list_watch: does the work.
            name: of the resource, for messages.
            cluster: puts errors into words.
            contact: is told when it is lost and found.
            fail: is told of what can never work.
            identity: of the cluster: one that was set up anew may have the same address.
        """
        self._list_watch, self._name = list_watch, name
        self._cluster, self.contact, self._fail = cluster, contact, fail
        address: str = getattr(list_watch, "source", "")
        self.source = f"{address} {identity}" if address else ""
        self._watched = self._given_up = False
        self.listed = 0
        self.heard_at = 0.0

    def __getattr__(self, name: str) -> Any:
        """Return what else an informer may ask of a ListWatch."""
        return getattr(self._list_watch, name)

    def list_page(self, **options: Any) -> Page:
        """Return one page of a list. See `ListWatch.list_page`."""
        if not options["continue_token"]:
            self.listed = 0
        try:
            page = self._list_watch.list_page(**options)
        except ApiStatusError as error:
            self._refused(error)
            raise
        page["items"] = self._counted(page.get("items") or ())
        return page

    def _counted(self, items: Iterable[Object]) -> Iterator[Object]:
        for item in items:
            self.listed += 1
            yield item

    def watch(self, **options: Any) -> Watch:
        """Open a watch. See `ListWatch.watch`."""
        is_list = options["send_initial_events"]
        if is_list:
            self.listed = 0
        try:
            watch = self._list_watch.watch(**options)
        except Exception as error:
            if is_retriable(error):  # the informer keeps these to itself
                self.failed(error)
            elif isinstance(error, ApiStatusError) and not is_list:  # else a plain list follows
                self._refused(error)
            raise
        self._watched = True
        self.contact.found(self._name)
        return _FollowedWatch(watch, self)

    def failed(self, error: Exception) -> None:
        """Take note of what the informer says failed."""
        if self._given_up:
            return
        reason = self._cluster.words(error)
        # An outage is the same for all resources: it is said once.
        is_outage = any(isinstance(e, ApiConnectionError) for e in (error, error.__cause__))
        self.contact.lost(self._name, reason if is_outage else f"{self._name}: {reason}")

    def _refused(self, error: ApiStatusError) -> None:
        if error.code in _FINAL_CODES and not self._watched:
            self._given_up = True
            failure = ClusterError(self._cluster.words(error))
            failure.__cause__ = error
            self._fail(failure)


class _FollowedWatch:
    """A watch whose events are counted."""

    def __init__(self, watch: Watch, followed: Followed) -> None:
        self._watch, self._followed = watch, followed

    def __iter__(self) -> Iterator[Event]:
        # Whoever closes this generator also closes the one inside, and what that holds.
        with closing(cast(Any, iter(self._watch))) as events:
            for event in events:
                if event.get("type") in ("ADDED", "MODIFIED", "DELETED"):
                    self._followed.listed += 1
                    self._followed.heard_at = time.monotonic()
                yield event

    def close(self) -> None:
        self._watch.close()
