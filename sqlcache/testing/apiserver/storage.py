"""All objects at one resourceVersion, and the changes that led there.

Flow: the registry commits one change at a time; lists and watches read.

Promises
- One resourceVersion for all resources; it rises by one with each change.
- Records are immutable: what was read stays as it was.
- The last `history` changes are kept. Older states are forgotten: asking for them is an error.
- Any thread may call anything; the lock is held for memory operations only.

An object is kept as the bytes that lists send, with its labels and selectable fields beside them:
50,000 pods of 4 KB take about 250 MB instead of more than 1 GB as dicts.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from sqlcache.errors import SqlcacheError

if TYPE_CHECKING:
    from sqlcache.testing.apiserver.resources import Resource

FIRST_RESOURCE_VERSION = 1  # "0" has a meaning of its own in lists and watches

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


class HistoryForgottenError(SqlcacheError, LookupError):
    """A state or a change is older than the history kept.

    Attributes:
        asked: the resourceVersion asked for.
        oldest: the oldest one still known.
    """

    def __init__(self, asked: int, oldest: int) -> None:
        """Take both versions."""
        super().__init__(asked, oldest)
        self.asked, self.oldest = asked, oldest

    def __str__(self) -> str:
        """Return the words of the real server."""
        return f"too old resource version: {self.asked} ({self.oldest})"


@dataclass(frozen=True, slots=True)
class Record:
    """One version of one object.

    Attributes:
        key: in the order of keys lists are sorted.
        namespace: "" for cluster-scoped objects.
        name: its name.
        rv: its resourceVersion.
        body: JSON as in the items of a list: of built-in kinds without kind and apiVersion.
        labels: its labels.
        fields: values of the selectable fields, in the order of the resource's `fields`.
    """

    key: str
    namespace: str
    name: str
    rv: int
    body: bytes
    labels: Mapping[str, str]
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One write.

    Attributes:
        rv: the resourceVersion that it made.
        kind: ADDED, MODIFIED or DELETED.
        old: the version before, None for ADDED.
        new: the version after; for DELETED the last state, with the new resourceVersion.
    """

    rv: int
    kind: str
    old: Record | None
    new: Record


class Snapshot(NamedTuple):
    """Some objects of one state.

    Attributes:
        records: in the order of their keys.
        rv: the resourceVersion of the state.
        remaining: how many more there are after them.
    """

    records: list[Record]
    rv: int
    remaining: int


Listener: TypeAlias = Callable[["Resource"], None]


@dataclass(slots=True)
class _Shelf:
    """The objects of one resource, their sorted keys, and the changes still remembered."""

    records: dict[str, Record] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    changes: deque[Change] = field(default_factory=deque)


class Storage:
    """The state of the server.

    Attributes:
        lock: hold it to read and write as one step; it may be taken again by its owner.
    """

    def __init__(self, history: int) -> None:
        """Start empty.

        Args:
            history: number of changes remembered.
        """
        self.lock = threading.RLock()
        self._history = history
        self._rv = self._oldest = FIRST_RESOURCE_VERSION
        self._shelves: dict[Resource, _Shelf] = {}
        self._log: deque[tuple[int, _Shelf]] = deque()
        self._listeners: list[Listener] = []

    @property
    def rv(self) -> int:
        """The newest resourceVersion."""
        return self._rv

    @property
    def oldest(self) -> int:
        """The oldest resourceVersion from which a watch can start."""
        return self._oldest

    def listen(self, listener: Listener) -> None:
        """Have a function called after each change, in the writing thread, under the lock."""
        self._listeners.append(listener)

    def shelf(self, resource: Resource) -> _Shelf:
        """Return the shelf of a resource; it is made when first used."""
        shelf = self._shelves.get(resource)
        if shelf is None:
            shelf = self._shelves.setdefault(resource, _Shelf())
        return shelf

    def get(self, resource: Resource, key: str) -> Record | None:
        """Return the newest version of an object, None if there is none."""
        return self.shelf(resource).records.get(key)

    def count(self, resource: Resource) -> int:
        """Return how many objects a resource has."""
        return len(self.shelf(resource).records)

    def put(self, resource: Resource, make: Callable[[int], Record]) -> Record:
        """Add or replace an object.

        Args:
            resource: of the object.
            make: makes the record for the resourceVersion given.
        """
        with self.lock:
            shelf = self.shelf(resource)
            new = make(self._rv + 1)
            old = shelf.records.get(new.key)
            if old is None:
                insort(shelf.keys, new.key)
            shelf.records[new.key] = new
            self._commit(resource, shelf, Change(new.rv, MODIFIED if old else ADDED, old, new))
        return new

    def remove(self, resource: Resource, key: str, make: Callable[[int], Record]) -> Record:
        """Remove an object that is there; `make` gives its last state."""
        with self.lock:
            shelf = self.shelf(resource)
            old = shelf.records[key]
            last = make(self._rv + 1)
            del shelf.records[key]
            del shelf.keys[bisect_left(shelf.keys, key)]
            self._commit(resource, shelf, Change(last.rv, DELETED, old, last))
        return last

    def _commit(self, resource: Resource, shelf: _Shelf, change: Change) -> None:
        self._rv = change.rv
        shelf.changes.append(change)
        self._log.append((change.rv, shelf))
        while len(self._log) > self._history:
            self._forget_one()
        for listener in self._listeners:
            listener(resource)

    def _forget_one(self) -> None:
        self._oldest, shelf = self._log.popleft()
        shelf.changes.popleft()

    def compact(self) -> None:
        """Forget all history: what is older than the newest state answers 410."""
        with self.lock:
            while self._log:
                self._forget_one()
            self._oldest = self._rv

    def skip(self, to: int) -> None:
        """Raise the resourceVersion without a change, as other resources of a cluster do."""
        with self.lock:
            self._rv = max(self._rv, to)

    def changes_since(self, resource: Resource, rv: int) -> list[Change]:
        """Return the changes of a resource after a resourceVersion, oldest first.

        Raises:
            HistoryForgottenError: some of them are forgotten.

        Cost: in the number of changes returned.
        """
        with self.lock:
            self._check_known(rv)
            found = list(self._newest_first(resource, rv))
        found.reverse()
        return found

    def _newest_first(self, resource: Resource, rv: int) -> Iterator[Change]:
        for change in reversed(self.shelf(resource).changes):
            if change.rv <= rv:
                return
            yield change

    def _check_known(self, rv: int) -> None:
        if rv < self._oldest:
            raise HistoryForgottenError(rv, self._oldest)

    def snapshot(
        self,
        resource: Resource,
        namespace: str,
        rv: int | None = None,
        *,
        after: str = "",
        most: int = 0,
    ) -> Snapshot:
        """Return records in the order of their keys.

        Args:
            resource: which.
            namespace: "" means all.
            rv: the state wanted; None means the newest.
            after: only records whose key is greater.
            most: how many records at most; 0 means all.

        Raises:
            HistoryForgottenError: that state is forgotten.

        Cost: in the records returned and the changes since that state.
        """
        low, high = _bounds(namespace)
        with self.lock:
            at = self._rv if rv is None else min(rv, self._rv)
            self._check_known(at)
            shelf = self.shelf(resource)
            undone = {change.new.key: change.old for change in self._newest_first(resource, at)}
            keys = _slice(shelf.keys, low, high, after)
            for key, old in undone.items():
                if key > after and low <= key and (not high or key < high):
                    _set_present(keys, key, present=old is not None)
            total = len(keys)
            if most:
                del keys[most:]
            records = [undone.get(key) or shelf.records[key] for key in keys]
        return Snapshot(records, at, total - len(records))


def _slice(keys: list[str], low: str, high: str, after: str) -> list[str]:
    first = max(bisect_left(keys, low), bisect_right(keys, after) if after else 0)
    return keys[first : bisect_left(keys, high) if high else len(keys)]


def _set_present(keys: list[str], key: str, *, present: bool) -> None:
    index = bisect_left(keys, key)
    found = index < len(keys) and keys[index] == key
    if present and not found:
        keys.insert(index, key)
    elif found and not present:
        del keys[index]


def _bounds(namespace: str) -> tuple[str, str]:
    """Return the first key of a namespace, and the first after it ("" if there is none)."""
    return (f"{namespace}/", f"{namespace}0") if namespace else ("", "")  # "0" follows "/"
