"""The queue between a reflector, which learns of changes, and the informer, which applies them.

Promises
- Strict order of arrival, nothing merged: every event reaches the handlers.
- A relist and a resync are one entry each, so the consumer works out what they mean for the store
  as it is then, with all earlier events applied.
- A batch has at most 100 events, one a key, so it can be one transaction whose old objects are
  those before it.
- The producer goes on while a batch is processed, until 2000 events wait.
- The transform runs before an object is queued, in the producer's thread.

Source: client-go tools/cache the_real_fifo.go with AtomicFIFO and UnlockWhileProcessingFIFO.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sqlcache.clock import Clock
from sqlcache.informer.pieces import Pieces
from sqlcache.objects import Object, TransformFunc, meta_namespace_key_func

# client-go's defaultBatchSize is 1000. Readers of a store in memory wait while a batch is written,
# and larger ones do not cost less an event.
BATCH_EVENTS = 100
EVENTS_WAITING = 2000  # with so many, the producer waits for the consumer; client-go's two batches


class DeltaType(enum.Enum):
    """What happened. Source: client-go cache.DeltaType."""

    ADDED = "ADDED"
    UPDATED = "MODIFIED"
    DELETED = "DELETED"
    REPLACED_ALL = "ReplacedAll"
    SYNC_ALL = "SyncAll"
    BOOKMARK = "Bookmark"
    LOST = "Lost"


EVENTS = (DeltaType.ADDED, DeltaType.UPDATED, DeltaType.DELETED)


Again = tuple[str, str]
"""Key and resourceVersion of an object that the store holds already, in the place of its equal.

Most of a relist is that. A plain tuple of texts is nothing to the garbage collector, which would
else stop all threads in the middle of a relist, and does not keep a packed object decoded.
"""

Entry = tuple[str, Object | str]
"""One object of a list: its key and itself, or `Again`."""


def entries(objs: Iterable[Object]) -> list[Entry]:
    """Return objects with their keys.

    Raises:
        ObjectError: one has no key.
    """
    return [(meta_namespace_key_func(obj), obj) for obj in objs]


class Replacement(NamedTuple):
    """The result of a list.

    Attributes:
        entries: transformed objects in their order; keys can repeat. Whoever applies it drains it.
        resource_version: of the list.
        whole: whether it has all objects of the list; the transform may have refused some.
    """

    entries: Pieces[Entry]
    resource_version: str
    whole: bool


class Delta(NamedTuple):
    """One entry.

    Attributes:
        type: what happened.
        key: the object's key; "" if it is about no single object.
        object: the object, a `Replacement`, or the resourceVersion of a bookmark.
    """

    type: DeltaType
    key: str
    object: Any


Process = Callable[[Sequence[Delta], bool], None]


class DeltaQueue:
    """See the module. Any number of producers, one consumer."""

    def __init__(self, clock: Clock, transform: TransformFunc | None = None) -> None:
        """Make an empty queue.

        Args:
            clock: makes the condition that both sides wait on.
            transform: applied to every object that comes in.
        """
        self._transform = transform
        self._changed = clock.condition()
        self._items: deque[Delta] = deque()
        self._processing = False
        self._exclusive = False
        self._closed = False
        self._populated = False
        self._initial_left = 0
        self._synced = False

    # The producer's side

    def transformed(self, obj: Object) -> Object:
        """Return what the transform makes of an object.

        Raises:
            Exception: whatever the transform raises.
        """
        transformed: Object = obj if self._transform is None else self._transform(obj)
        return transformed

    def add(self, obj: Object) -> None:
        """Queue an object that is new.

        Raises:
            ObjectError: it has no key.
            Exception: whatever the transform raises; nothing is queued.
        """
        self._put_object(DeltaType.ADDED, obj)

    def update(self, obj: Object) -> None:
        """Queue an object that changed. Raises as `add`."""
        self._put_object(DeltaType.UPDATED, obj)

    def delete(self, obj: Object) -> None:
        """Queue the last state of an object that is gone. Raises as `add`."""
        self._put_object(DeltaType.DELETED, obj)

    def replace(self, listed: Pieces[Entry], resource_version: str, *, whole: bool = True) -> None:
        """Queue the result of a list.

        Args:
            listed: already `transformed`.
            resource_version: of the list.
            whole: whether these are all objects of the list.
        """
        info = Replacement(listed, resource_version, whole)
        self._put_initial(Delta(DeltaType.REPLACED_ALL, "", info))

    def resume(self, resource_version: str) -> None:
        """Queue that the store holds already what a list would bring, as of a resourceVersion."""
        self._put_initial(Delta(DeltaType.BOOKMARK, "", resource_version))

    def lost(self) -> None:
        """Queue that an object could not be queued, so the store will lack it."""
        with self._changed:
            self._put(Delta(DeltaType.LOST, "", None))

    def resync(self) -> None:
        """Queue a replay of the store."""
        with self._changed:
            self._put(Delta(DeltaType.SYNC_ALL, "", None))

    def bookmark(self, resource_version: str) -> None:
        """Queue a resourceVersion that the store stands at when it gets there."""
        with self._changed:
            self._put(Delta(DeltaType.BOOKMARK, "", resource_version))

    # The consumer's side

    def pop_batch(self, process: Process) -> bool:
        """Wait for entries and have as many processed as make a batch.

        Args:
            process: gets the batch, and whether it belongs to the initial list. If that raises,
                so does this, and the queue waits for another initial list.

        Returns:
            False if the queue is closed; what it still holds is dropped.
        """
        with self._changed:
            while not self._items and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
            initial = not self._synced
            batch = self._batch()
            self._processing = True
            self._exclusive = len(self._items) >= EVENTS_WAITING
        processed = False
        try:
            process(batch, initial)
            processed = True
        finally:
            self._processed(len(batch), processed=processed)
        return True

    def has_synced(self) -> bool:
        """Return whether the first list was processed."""
        return self._synced

    def idle(self) -> bool:
        """Return whether all that was queued is processed."""
        with self._changed:
            return not self._items and not self._processing

    def close(self) -> None:
        """Wake both sides; the consumer gets nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _put_object(self, kind: DeltaType, obj: Object) -> None:
        key = meta_namespace_key_func(obj)
        delta = Delta(kind, key, self.transformed(obj))
        with self._changed:
            self._put(delta)

    def _put_initial(self, delta: Delta) -> None:
        with self._changed:
            self._put(delta)
            if not self._populated:
                self._populated = True
                self._initial_left = len(self._items)

    def _put(self, delta: Delta) -> None:
        while self._exclusive and not self._closed:
            self._changed.wait()
        self._items.append(delta)
        self._changed.notify_all()

    def _batch(self) -> list[Delta]:
        """Take a batch: events with different keys, or one entry of another kind."""
        items = self._items
        if items[0].type not in EVENTS:
            return [items.popleft()]
        limit = min(BATCH_EVENTS, self._initial_left or BATCH_EVENTS)
        batch: list[Delta] = []
        keys: set[str] = set()
        while items and len(batch) < limit:
            delta = items[0]
            if delta.type not in EVENTS or delta.key in keys:
                break
            keys.add(delta.key)
            batch.append(items.popleft())
        return batch

    def _processed(self, number: int, *, processed: bool) -> None:
        with self._changed:
            self._processing = self._exclusive = False
            if self._initial_left:
                self._initial_left = max(0, self._initial_left - number)
                if not processed:
                    self._populated, self._initial_left = False, 0
            if self._populated and not self._initial_left:
                self._synced = True
            self._changed.notify_all()
