"""Watches: from changes to the lines of a stream.

Promises
- Events of one resource come in the order of their resourceVersions, none lost, none twice.
- An object that leaves the selector is DELETED, with its old content and the new resourceVersion;
  one that enters it is ADDED.
- A bookmark's resourceVersion is one whose events were all sent before it; a watch from the future
  gets none.

Elsewhere: when lines are sent (http).
Source: apiserver storage/cacher cache_watcher.go, endpoints/handlers/watch.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import orjson

from sqlcache.objects import Object
from sqlcache.testing.apiserver import status
from sqlcache.testing.apiserver.listing import ListOptions, Scope
from sqlcache.testing.apiserver.registry import decode, full_body, make_record, metadata_body
from sqlcache.testing.apiserver.resources import Resource
from sqlcache.testing.apiserver.storage import (
    ADDED,
    DELETED,
    MODIFIED,
    Change,
    HistoryForgottenError,
    Record,
    Storage,
)

Form: TypeAlias = Callable[[Resource, bytes], bytes]

_INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


def line(kind: str, body: bytes) -> bytes:
    """Return an event as it is sent."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), body)


def error_line(error: status.ApiError) -> bytes:
    """Return the event that ends a stream with an error."""
    return line("ERROR", orjson.dumps(error.status))


class Watch:
    """One watch, and how far it has come.

    Attributes:
        ended: nothing more will come.
    """

    def __init__(
        self, storage: Storage, scope: Scope, asked: ListOptions, form: Form = full_body
    ) -> None:
        """Take what is asked for; `start` comes next.

        Args:
            storage: to read from.
            scope: what to watch.
            asked: from where, and with bookmarks or not.
            form: makes the object of an event from its bytes in a list.
        """
        self._storage = storage
        self._resource = scope.resource
        self._scope = scope
        self._asked = asked
        self._form = form
        self._matches = scope.matcher()
        self._cursor = 0
        self.ended = False

    @property
    def sends_initial(self) -> bool:
        """Whether the objects that are there come first, as ADDED."""
        if self._asked.send_initial is None:
            return self._asked.rv in ("", "0")
        return self._asked.send_initial

    @property
    def awaited_rv(self) -> int:
        """The resourceVersion that the storage must have before the watch can start."""
        return int(self._asked.rv or 0) if self._asked.send_initial else 0

    def start(self) -> list[bytes]:
        """Return the first lines."""
        if self.sends_initial:
            return self._initial()
        self._cursor = int(self._asked.rv or 0) or self._storage.rv
        try:
            return self._changes()
        except HistoryForgottenError as error:
            self.ended = True
            return [error_line(status.expired(str(error)))]

    def _initial(self) -> list[bytes]:
        scope = self._scope
        records, self._cursor, _ = self._storage.snapshot(self._resource, scope.namespace)
        lines = [self._event(ADDED, each) for each in records if self._matches(each)]
        implied = self._asked.send_initial is None and not self._asked.rv
        if self._asked.bookmarks and (self._asked.send_initial or implied):
            lines.append(self._bookmark(_INITIAL_EVENTS_END))
        return lines

    def poll(self) -> list[bytes]:
        """Return the lines for what changed since the last call."""
        try:
            return self._changes()
        except HistoryForgottenError:
            self.ended = True  # the client was too slow; a real server closes its watch, too
            return []

    def _changes(self) -> list[bytes]:
        with self._storage.lock:
            changes = self._storage.changes_since(self._resource, self._cursor)
            self._cursor = max(self._cursor, self._storage.rv)
        namespace = self._scope.namespace
        return [
            seen
            for change in changes
            if (not namespace or change.new.namespace == namespace)
            and (seen := self._seen(change)) is not None
        ]

    def _seen(self, change: Change) -> bytes | None:
        """Return the event that a change is to someone who sees only what the selector matches."""
        before = change.old is not None and self._matches(change.old)
        after = change.kind != DELETED and self._matches(change.new)
        if after:
            return self._event(MODIFIED if before else ADDED, change.new)
        if not before or change.old is None:
            return None
        if change.kind == DELETED:
            return self._event(DELETED, change.new)
        left = make_record(self._resource, decode(self._resource, change.old), change.rv)
        return self._event(DELETED, left)

    def _event(self, kind: str, record: Record) -> bytes:
        return line(kind, self._form(self._resource, record.body))

    def bookmarks(self) -> list[bytes]:
        """Return the line that says how far the watch has come; none before it has begun."""
        return [self._bookmark()] if self._cursor <= self._storage.rv else []

    def _bookmark(self, annotations: Mapping[str, str] | None = None) -> bytes:
        meta: Object = {"resourceVersion": str(self._cursor)}
        if annotations:
            meta["annotations"] = annotations
        body = orjson.dumps(self._resource.bookmark(meta))
        if self._form is metadata_body:
            body = metadata_body(self._resource, body)
        return line("BOOKMARK", body)
