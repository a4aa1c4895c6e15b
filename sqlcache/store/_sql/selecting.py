"""Which objects select given labels: their selectors, filed in this process.

The tables are what is true. In memory nobody else writes, and the writer files what objects select
where readers are kept out. A file may be written by others, so each question compares the version
of the resource's row, as its snapshot shows it, with the one that the index stands at; what
changed in between is read from the object rows, of which each has the version of its last write.

Promises
- The keys given are those of the objects in the snapshot that `query` reads.
- A write costs its own objects, a question a few look-ups; only the first question after another
  process wrote reads more: the versions of all objects, and those that changed.

Elsewhere: filing selectors (sqlcache.selectors.index), the objects (shelf).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import orjson

from sqlcache.selectors import SelectorFunc, SelectorIndex
from sqlcache.store._base import Selectors, selector_of
from sqlcache.store._sql.counted import Query
from sqlcache.store._sql.packed import batched
from sqlcache.store._sql.shelf import Shelf

_OBJECTS_PER_READ = 500  # decoded at once when the index catches up

_VERSION = "SELECT version FROM resource WHERE id = ?"
_WRITTEN = "SELECT value FROM sequence WHERE name = 'version'"
_CHANGED = "SELECT json_group_array(id) FROM object WHERE resource_id = ? AND version > ?"
_MEMBERS = "SELECT ifnull(sum(n), 0) FROM scope WHERE resource_id = ? AND kind = 0"


class FiledSelectors:
    """What the objects of one resource select, by key.

    Attributes:
        lock: held from before a snapshot is taken until `matching` returns. In memory the lock of
            the database does for it.
    """

    def __init__(self, shelf: Shelf, selector_func: SelectorFunc, *, shared: bool) -> None:
        """Make an empty index.

        Args:
            shelf: the objects.
            selector_func: tells what one selects.
            shared: others may write to the database, and readers see different states of it.
        """
        self.lock: AbstractContextManager[object] = threading.Lock() if shared else nullcontext()
        self._shelf, self._selector_func, self._shared = shelf, selector_func, shared
        self._index: SelectorIndex[str] = SelectorIndex()
        self._version: int | None = None  # of the resource; None: what the index holds is unknown
        self._written = 0  # the last write of the database that is known to be in the index

    def matching(
        self, query: Query, resource_id: int, namespace: str, labels: Mapping[str, str]
    ) -> list[str]:
        """Return the keys of the objects whose selector matches.

        Args:
            query: reads the database, in a snapshot taken while `lock` was held: then it is not
                older than the index.
            resource_id: of the resource's row, 0 if it has none.
            namespace: "" means all namespaces.
            labels: of the object that may be selected.

        Raises:
            SelectorFunctionError: the function failed on an object that somebody else wrote.
        """
        if self._shared:
            self._catch_up(query, resource_id)
        return self._index.matching(labels, namespace or None)

    def follow(
        self, selectors: Selectors, version: int | None, *, whole: bool
    ) -> Callable[[], None]:
        """Return what is to be called when a write is committed.

        Args:
            selectors: what the objects written select.
            version: of the content after it; None if nobody else can write.
            whole: there are no other objects.
        """
        return partial(self._follow, selectors, version, whole=whole)

    def _follow(self, selectors: Selectors, version: int | None, *, whole: bool) -> None:
        with self.lock:
            if version is not None:
                known = -1 if self._version is None else self._version
                # A reader has seen the commit already, or somebody else's before it was not seen.
                if known >= version or (known + 1 != version and not whole):
                    return
            if whole:
                for key in self._index.keys() - selectors.keys():
                    self._index.remove(key)
            for key, selected in selectors.items():
                if selected is None:
                    self._index.remove(key)
                else:
                    namespace, selector = selected
                    self._index.add(key, selector, namespace)
            if version is not None:
                self._version = version

    def _catch_up(self, query: Query, resource_id: int) -> None:
        version = query(_VERSION, (resource_id,)) or 0
        if version == self._version:
            return
        self._version = None
        changed = orjson.loads(query(_CHANGED, (resource_id, self._written)))
        for ids in batched(changed, _OBJECTS_PER_READ):
            objects = self._shelf.stored(query, ids)
            for stored in self._shelf.find_ids(query, ids):
                selector = selector_of(self._selector_func, stored.key, objects[stored.id])
                self._index.add(stored.key, selector, stored.namespace)
        # What is there is filed now, so only objects that went can make a difference.
        if len(self._index) != query(_MEMBERS, (resource_id,)):
            for key in self._index.keys() - set(self._shelf.keys(query, resource_id)):
                self._index.remove(key)
        self._written, self._version = query(_WRITTEN, ()) or 0, version
