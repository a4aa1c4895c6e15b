"""Hot views: the results of selectors that are asked again and again, kept true by the writer.

A view is one selector's result in one namespace, or in all. It is filed in a SelectorIndex, so
that a write finds the views that its objects enter, change in or leave. A read of a view runs no
SQL and takes no lock: SQLite gives the interpreter lock away at every call, and winning it back
from a busy thread takes milliseconds.

Promises
- A view shows the state after a whole write, never a part of one: what it shows is replaced, not
  changed.
- A view is kept from the second time on that its selector is asked, and if no write came between
  its read and its keeping.
- Members are bounded, and the memory that they take; the view unused for longest goes first, give
  or take those used since the last look at it.

Elsewhere: reading what is not here (selection), what a write changes (writer).
Source: design of client-go's thread_safe_store, whose index this stands in for; the second-chance
algorithm for page replacement (Corbató 1968).
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from sqlcache.objects import ALL_NAMESPACES, Object, Objects
from sqlcache.selectors import Selector, SelectorIndex
from sqlcache.store._sql.difference import Old
from sqlcache.store._sql.object_rows import Batch, Numbered, Row
from sqlcache.store._sql.terms import labels_and_values
from sqlcache.store.api import ViewStats

_Name: TypeAlias = tuple[str, Selector]

MEMBER_BYTES = 16  # of a member that is kept anyway: an id and a reference
_VIEW_BYTES = 1_024  # of a view without members
_REMEMBERED = 4_096  # selectors asked once
_BLOCK = 64  # members that a write copies to change one of them; half, or twice as many


class Write(NamedTuple):
    """A batch of objects, and the terms that those which moved or left had before."""

    batch: Batch
    old: Mapping[int, Old]


class HotViews:
    """The views of one store.

    Attributes:
        version: of the content that the views show; a reader notes it in the snapshot it reads.
    """

    def __init__(self, limit: int, limit_bytes: int) -> None:
        """Start without views.

        Args:
            limit: members of all views together. 0: no views.
            limit_bytes: of all views together; a view without members takes 1 KiB.
        """
        self.version = 0
        self._limit, self._limit_bytes = limit, limit_bytes
        self._lock = threading.Lock()  # not for readers
        self._views: dict[_Name, _View] = {}
        self._index: SelectorIndex[_View] = SelectorIndex()
        self._members = self._bytes = 0
        self._asked: dict[_Name, None] = {}
        self._asked_before: dict[_Name, None] = {}
        self._hits = self._misses = self._evictions = 0

    def find(self, namespace: str, selector: Selector) -> Objects | None:
        """Return a view's objects in a new list; None if there is no view.

        Args:
            namespace: "" means all namespaces.
            selector: what is asked.
        """
        view = self._views.get((namespace, selector))
        if view is None:
            self._misses += 1
            return None
        view.used = True
        self._hits += 1  # not exact under threads: it is not worth a lock
        shown = view.shown
        if len(shown) == 1:
            return shown[0].copy()
        objs: Objects = []
        for block in shown:
            objs += block
        return objs

    def wanted(self, namespace: str, selector: Selector) -> bool:
        """Return whether a selector, not found, should be put: it was asked before."""
        if not self._limit:
            return False
        name = (namespace, selector)
        if name in self._asked or name in self._asked_before:
            return True
        if len(self._asked) >= _REMEMBERED // 2:
            self._asked, self._asked_before = {}, self._asked
        self._asked[name] = None
        return False

    def put(
        self,
        namespace: str,
        selector: Selector,
        ids: Sequence[int],
        objs: Objects,
        version: int,
        size_bytes: int,
    ) -> None:
        """Keep a result as a view.

        Args:
            namespace: "" means all namespaces.
            selector: what was asked.
            ids: of the objects.
            objs: the objects, in the same order.
            version: of the snapshot that they were read in.
            size_bytes: what all objects take that nobody else holds. Members that come later are
                taken to be as large as these on average.
        """
        if len(ids) > self._limit or size_bytes > self._limit_bytes:
            return
        if any(before > after for before, after in pairwise(ids)):
            order = sorted(range(len(ids)), key=ids.__getitem__)
            ids, objs = [ids[place] for place in order], [objs[place] for place in order]
        each = MEMBER_BYTES + size_bytes // max(1, len(ids))
        view = _View((namespace, selector), ids, objs, each)
        with self._lock:
            if version != self.version or view.name in self._views:
                return  # it is out of date, or another reader was faster
            self._views[view.name] = view
            self._index.add(view, selector, namespace)
            self._grow(view, view.members, _VIEW_BYTES)
            self._make_room()

    def follow(self, writes: Sequence[Write] | None, version: int | None) -> Callable[[], None]:
        """Return what is to be called when writes are committed.

        Args:
            writes: the batches of one transaction, in order; None if all content was replaced.
            version: of the content after them; None if nobody else can write.
        """
        return partial(self._follow, writes, version)

    def stats(self) -> ViewStats:
        """Return counts."""
        with self._lock:
            return ViewStats(
                self._hits,
                self._misses,
                self._evictions,
                len(self._views),
                self._members,
                self._limit,
            )

    def _follow(self, writes: Sequence[Write] | None, version: int | None) -> None:
        with self._lock:
            if version is None:
                version = self.version + 1
            try:
                if writes is None or version != self.version + 1:  # somebody else wrote as well
                    self._clear()
                elif self._views:
                    self._apply(writes)
            except BaseException:
                self._clear()
                raise
            finally:
                self.version = version

    def catch_up(self, version: int) -> None:
        """Start anew from a version that a reader saw and that no writer of this store made."""
        with self._lock:
            if version > self.version:
                self._clear()
                self.version = version

    def _apply(self, writes: Sequence[Write]) -> None:
        edits = _Edits()
        for batch, old in writes:
            for stored in batch.leaving:
                edits.remove(self._of_old(old[stored.id]), stored.id)
            for object_id, row in batch.moved:
                after = self._of(row)
                before = [view for view in self._of_old(old[object_id]) if view not in after]
                edits.remove(before, object_id)
                edits.put(after, (object_id, row))
            for numbered in (*batch.fresh, *batch.same):
                edits.put(self._of(numbered[1]), numbered)
        for view, members in edits.views.items():
            self._grow(view, view.members - members)
            view.show()
        self._make_room()

    def _of(self, row: Row) -> list[_View]:
        return self._matching(row.namespace, row.labels)

    def _of_old(self, old: Old) -> list[_View]:
        return self._matching(old.namespace, labels_and_values(old.terms)[0])

    def _matching(self, namespace: str, labels: Mapping[str, str]) -> list[_View]:
        found = self._index.matching(labels, namespace)
        if namespace != ALL_NAMESPACES:
            found += self._index.matching(labels, ALL_NAMESPACES)
        return found

    def _grow(self, view: _View, members: int, size_bytes: int = 0) -> None:
        self._members += members
        self._bytes += members * view.member_bytes + size_bytes

    def _make_room(self) -> None:
        while self._members > self._limit or self._bytes > self._limit_bytes:
            name = next(iter(self._views))
            view = self._views.pop(name)
            if view.used:
                view.used = False
                self._views[name] = view
                continue
            self._index.remove(view)
            self._grow(view, -view.members, -_VIEW_BYTES)
            self._evictions += 1

    def clear(self) -> None:
        """Forget all views; those asked for again come back."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        self._views.clear()
        self._index = SelectorIndex()
        self._members = self._bytes = 0


class _View:
    """One result.

    Attributes:
        name: namespace and selector.
        shown: the objects, in blocks. The list and the lists in it are replaced, never changed:
            readers hold no lock.
        members: how many objects there are, as the writer knows it.
        member_bytes: what each is taken to need.
        used: since the last look at it.
    """

    __slots__ = ("_blocks", "member_bytes", "members", "name", "shown", "used")

    def __init__(self, name: _Name, ids: Sequence[int], objs: Objects, member_bytes: int) -> None:
        """Take ids in ascending order, and their objects."""
        self.name, self.members, self.used = name, len(ids), True
        self.member_bytes = member_bytes
        self._blocks = [
            _Block(array("q", ids[start : start + _BLOCK]), objs[start : start + _BLOCK])
            for start in range(0, len(ids), _BLOCK)
        ] or [_Block(array("q"), [])]
        self.show()

    def put(self, object_id: int, obj: Object, copied: set[_Block]) -> None:
        """Add or replace an object.

        Args:
            object_id: its id.
            obj: the object.
            copied: the blocks that this write has copied already.
        """
        number = self._number(object_id)
        block = self._blocks[number]
        place, there = block.place(object_id, copied)
        if there:
            block.objects[place] = obj
            return
        self.members += 1
        block.ids.insert(place, object_id)
        block.objects.insert(place, obj)
        if len(block.ids) > 2 * _BLOCK:
            half = _Block(block.ids[_BLOCK:], block.objects[_BLOCK:])
            del block.ids[_BLOCK:], block.objects[_BLOCK:]
            self._blocks.insert(number + 1, half)
            copied.add(half)

    def remove(self, object_id: int, copied: set[_Block]) -> None:
        """Take an object out, if it is there."""
        number = self._number(object_id)
        block = self._blocks[number]
        place, there = block.place(object_id, copied)
        if there:
            self.members -= 1
            del block.ids[place], block.objects[place]
            if not block.ids and len(self._blocks) > 1:
                del self._blocks[number]

    def show(self) -> None:
        """Let readers see what was written."""
        self.shown = [block.objects for block in self._blocks]

    def _number(self, object_id: int) -> int:
        if len(self._blocks) == 1:
            return 0
        # The first block whose last id is not smaller, or the last block.
        number = bisect_left(self._blocks, object_id, key=_Block.last)
        return min(number, len(self._blocks) - 1)


class _Block:
    """Some hundred objects with neighbouring ids: what a write copies of a large view."""

    __slots__ = ("ids", "objects")

    def __init__(self, ids: array[int], objects: Objects) -> None:
        self.ids, self.objects = ids, objects

    def last(self) -> int:
        """Return the highest id, -1 if there is none."""
        return self.ids[-1] if self.ids else -1

    def place(self, object_id: int, copied: set[_Block]) -> tuple[int, bool]:
        """Return where an id is or should be, and whether it is there; the objects may change."""
        if self not in copied:
            self.objects = self.objects.copy()
            copied.add(self)
        place = bisect_left(self.ids, object_id)
        return place, place < len(self.ids) and self.ids[place] == object_id


class _Edits:
    """What a write does to views.

    Attributes:
        views: those that it changes, with the members that they had.
    """

    def __init__(self) -> None:
        self.views: dict[_View, int] = {}
        self._copied: set[_Block] = set()

    def put(self, views: Sequence[_View], numbered: Numbered) -> None:
        if views:
            object_id, row = numbered
            obj = row.parsed()
            for view in views:
                self.views.setdefault(view, view.members)
                view.put(object_id, obj, self._copied)

    def remove(self, views: Sequence[_View], object_id: int) -> None:
        for view in views:
            self.views.setdefault(view, view.members)
            view.remove(object_id, self._copied)
