"""Hot views: the results of selectors that are asked again and again, kept true by the writer.

A view is the ids of one selector's result in one namespace, or in all. It is filed in a
SelectorIndex, so that a write finds the views that its objects enter or leave; an object that
changes otherwise concerns no view, for all of them find it by its id. A read of a view runs no SQL
and takes no lock: SQLite gives the interpreter lock away at every call, and winning it back from a
busy thread takes milliseconds.

Promises
- A reader gets the state after a whole write, never a part of one: the writer works everything out
  first, then shows it between two steps of a counter, and a reader that saw the counter move, or
  odd, reads again.
- A view is kept from the second time on that its selector is asked, and if no write came between
  its read and its keeping.
- Members are bounded, and the memory that they and the selectors take; the view unused for longest
  goes first, give or take those used since the last look at it.
- What fails half-way, as by Ctrl-C, leaves no views rather than wrong ones.

Elsewhere: reading what is not here (selection), what a write changes (writer).
Source: design of client-go's thread_safe_store, whose index this stands in for; the second-chance
algorithm for page replacement (Corbató 1968); Linux's seqlock.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias

from sqlcache.objects import ALL_NAMESPACES, Objects
from sqlcache.selectors import Selector, SelectorIndex
from sqlcache.store._sql.difference import Old
from sqlcache.store._sql.members import Members
from sqlcache.store._sql.object_rows import Batch, Numbered, Row
from sqlcache.store._sql.terms import Label
from sqlcache.store.api import ViewStats

_Name: TypeAlias = tuple[str, Selector]

MEMBER_BYTES = 8  # of a member that is kept anyway: an id
VIEW_BYTES = 1_024  # of a view without members whose selector has one value
_TEST_BYTES = 512  # of each further term or value of its selector
_REMEMBERED = 4_096  # selectors asked once
_BLOCK = 1_024  # ids that a write copies to change one of them; half, or twice as many
_TRIES = 2  # of a reader without the lock


class Write(NamedTuple):
    """A batch of objects, and the terms that those which moved or left had before."""

    batch: Batch
    old: Mapping[int, Old]


class HotViews:
    """The views of one store.

    Attributes:
        version: of the content that the views show; a reader notes it in the snapshot it reads.
    """

    def __init__(self, limit: int, limit_bytes: int, members: Members) -> None:
        """Start without views.

        Args:
            limit: members of all views together. 0: no views.
            limit_bytes: of all views together; one takes 1 KiB, more if its selector is long, and
                what its members do.
            members: where objects are found. It is shown what was written with every write.
        """
        self.version = 0
        self._limit, self._limit_bytes = limit, limit_bytes
        self._members = members
        self._step = 0  # odd while a write is shown
        self._lock = threading.Lock()
        self._views: dict[_Name, _View] = {}
        self._index: SelectorIndex[_View] = SelectorIndex()
        self._count = self._own_bytes = 0
        # Hashes, for selectors may be long; should two be equal, one view comes early.
        self._asked: set[int] = set()
        self._asked_before: set[int] = set()
        self._hits = self._misses = self._evictions = 0

    def find(self, namespace: str, selector: Selector) -> Objects | None:
        """Return a view's objects in a new list; None if there is no view.

        Args:
            namespace: "" means all namespaces.
            selector: what is asked.
        """
        name = (namespace, selector)
        objs = None
        for _ in range(_TRIES):
            step = self._step
            try:
                objs = self._read(name)
            except KeyError:  # the view went, or changed, meanwhile
                continue
            if step == self._step and step % 2 == 0:
                break
        else:
            with self._lock:
                objs = self._read(name)
        # Not exact under threads: it is not worth a lock.
        if objs is None:
            self._misses += 1
        else:
            self._hits += 1
        return objs

    def _read(self, name: _Name) -> Objects | None:
        view = self._views.get(name)
        if view is None:
            return None
        view.used = True
        blocks = view.blocks
        ids = blocks[0] if len(blocks) == 1 else chain.from_iterable(blocks)
        return list(map(self._members.by_id.__getitem__, ids))

    def wanted(self, namespace: str, selector: Selector) -> bool:
        """Return whether a selector, not found, should be put: it was asked before."""
        if not self._limit:
            return False
        name = hash((namespace, selector))
        if name in self._asked or name in self._asked_before:
            return True
        if len(self._asked) >= _REMEMBERED // 2:
            self._asked, self._asked_before = set(), self._asked
        self._asked.add(name)
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
            size_bytes: what all objects take that nobody else holds.
        """
        own_bytes = _own_bytes(selector)
        if len(ids) > self._limit or own_bytes + size_bytes > self._limit_bytes:
            return
        if any(before > after for before, after in pairwise(ids)):
            order = sorted(range(len(ids)), key=ids.__getitem__)
            ids, objs = [ids[place] for place in order], [objs[place] for place in order]
        view = _View((namespace, selector), ids, own_bytes)
        with self._lock:
            if version != self.version or view.name in self._views:
                return  # it is out of date, or another reader was faster
            try:
                self._members.enter(zip(ids, objs, strict=True), size_bytes // max(1, len(ids)))
                self._views[view.name] = view
                self._index.add(view, selector, namespace)
                self._count += view.members
                self._own_bytes += own_bytes
                self._make_room()
            except BaseException:
                self._clear()
                raise

    def follow(self, writes: Sequence[Write] | None, version: int | None) -> Callable[[], None]:
        """Return what is to be called when writes are committed.

        Args:
            writes: the batches of one transaction, in order; None if all content was replaced.
            version: of the content after them; None if nobody else can write.
        """
        # Fixed now: what is called twice must not be done twice.
        return partial(self._follow, writes, self.version + 1 if version is None else version)

    def stats(self) -> ViewStats:
        """Return counts."""
        with self._lock:
            return ViewStats(
                self._hits,
                self._misses,
                self._evictions,
                len(self._views),
                self._count,
                self._limit,
            )

    def _follow(self, writes: Sequence[Write] | None, version: int) -> None:
        with self._lock:
            try:
                edits: dict[_View, _Edit] = {}
                if writes is None or version != self.version + 1:  # somebody else wrote as well
                    self._clear()
                elif self._views:
                    edits = self._edits(writes)
                self._show(edits, version)
                self._make_room()
            except BaseException:
                self._clear()
                self.version = version
                raise

    def _show(self, edits: Mapping[_View, _Edit], version: int) -> None:
        self._step |= 1
        try:
            self._members.show()
            for view, edit in edits.items():
                view.blocks = edit.blocks
                view.members += edit.change
                self._count += edit.change
            self.version = version
        except BaseException:
            self._clear()  # before anybody looks
            raise
        finally:
            self._step += 1

    def catch_up(self, version: int) -> None:
        """Start anew from a version that a reader saw and that no writer of this store made."""
        with self._lock:
            if version > self.version:
                self._clear()
                self.version = version

    def _edits(self, writes: Sequence[Write]) -> dict[_View, _Edit]:
        """Work out what writes do to views."""
        edits: dict[_View, _Edit] = {}

        def edit(view: _View) -> _Edit:
            return edits.get(view) or edits.setdefault(view, _Edit(view))

        for batch, old in writes:
            entering: list[Numbered] = []
            leaving: list[int] = []
            for stored in batch.leaving:
                for view in self._of_old(old[stored.id]):
                    edit(view).remove(stored.id)
                    leaving.append(stored.id)
            for numbered in batch.moved:
                object_id, row = numbered
                if not self._concerned(old[object_id], row, batch.changed[object_id]):
                    continue
                before = self._of_old(old[object_id])
                after = self._matching(row.namespace, row.labels)
                for view in before:
                    if view not in after:
                        edit(view).remove(object_id)
                        leaving.append(object_id)
                for view in after:
                    if view not in before:
                        edit(view).add(object_id)
                        entering.append(numbered)
            for numbered in batch.fresh:
                object_id, row = numbered
                for view in self._matching(row.namespace, row.labels):
                    edit(view).add(object_id)
                    entering.append(numbered)
            self._members.follow(batch, entering, leaving)
        return edits

    def _concerned(self, old: Old, row: Row, changed: Sequence[Label]) -> bool:
        """Return whether an object that moved may come into a view or leave one."""
        namespace = row.namespace
        return old.namespace != namespace or self._index.looks_at(
            changed, namespace, ALL_NAMESPACES
        )

    def _of_old(self, old: Old) -> list[_View]:
        return self._matching(old.namespace, old.labels)

    def _matching(self, namespace: str, labels: Mapping[str, str]) -> list[_View]:
        found = self._index.matching(labels, namespace)
        if namespace != ALL_NAMESPACES:
            found += self._index.matching(labels, ALL_NAMESPACES)
        return found

    @property
    def _bytes(self) -> int:
        return self._own_bytes + MEMBER_BYTES * self._count + self._members.size_bytes

    def _make_room(self) -> None:
        while self._count > self._limit or self._bytes > self._limit_bytes:
            name = next(iter(self._views))
            view = self._views.pop(name)
            if view.used:
                view.used = False
                self._views[name] = view
                continue
            self._index.remove(view)
            self._members.leave(chain.from_iterable(view.blocks))
            self._count -= view.members
            self._own_bytes -= view.own_bytes
            self._evictions += 1

    def clear(self) -> None:
        """Forget all views; those asked for again come back."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        self._views = {}
        self._members.clear()
        self._index = SelectorIndex()
        self._count = self._own_bytes = 0
        self._step += 2  # who has a view in hand may find newer members


class _View:
    """One result.

    Attributes:
        name: namespace and selector.
        blocks: the ids in ascending order, in parts. The list and what is in it are replaced, never
            changed: readers hold no lock.
        members: how many ids there are.
        own_bytes: what it takes without members.
        used: since the last look at it.
    """

    __slots__ = ("blocks", "members", "name", "own_bytes", "used")

    def __init__(self, name: _Name, ids: Sequence[int], own_bytes: int) -> None:
        """Take ids in ascending order."""
        self.name, self.members, self.used = name, len(ids), True
        self.own_bytes = own_bytes
        self.blocks = [
            array("q", ids[start : start + _BLOCK]) for start in range(0, len(ids), _BLOCK)
        ] or [array("q")]


class _Edit:
    """What a write does to a view's ids.

    Attributes:
        blocks: what the view is to have.
        change: of its number of members.
    """

    __slots__ = ("_copied", "blocks", "change")

    def __init__(self, view: _View) -> None:
        self.blocks, self.change = view.blocks.copy(), 0
        self._copied: set[int] = set()  # ids of the blocks that are this edit's own

    def add(self, object_id: int) -> None:
        """Add an id that is not there."""
        number = self._number(object_id)
        block = self._own(number)
        block.insert(bisect_left(block, object_id), object_id)
        self.change += 1
        if len(block) > 2 * _BLOCK:
            half = block[_BLOCK:]
            del block[_BLOCK:]
            self.blocks.insert(number + 1, half)
            self._copied.add(id(half))

    def remove(self, object_id: int) -> None:
        """Take an id out that is there."""
        number = self._number(object_id)
        block = self._own(number)
        del block[bisect_left(block, object_id)]
        self.change -= 1
        if not block and len(self.blocks) > 1:
            del self.blocks[number]

    def _number(self, object_id: int) -> int:
        if len(self.blocks) == 1:
            return 0
        # The first block whose last id is not smaller, or the last block.
        number = bisect_left(self.blocks, object_id, key=_last)
        return min(number, len(self.blocks) - 1)

    def _own(self, number: int) -> array[int]:
        block = self.blocks[number]
        if id(block) not in self._copied:
            block = self.blocks[number] = block[:]
            self._copied.add(id(block))
        return block


def _last(block: array[int]) -> int:
    return block[-1] if block else -1


def _own_bytes(selector: Selector) -> int:
    """Return what a view with that selector takes without members."""
    tests = text = 0
    for each in selector.requirements:
        tests += max(1, len(each.values))
        text += len(each.key) + sum(map(len, each.values))
    return VIEW_BYTES + _TEST_BYTES * max(0, tests - 1) + text
