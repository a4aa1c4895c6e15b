"""Objects by id, for readers of hot views, who hold no lock.

What a write changes is worked out first (`follow`), then shown in one step (`show`), which the
views fence (views).

Elsewhere: which ids a view has (views), where a locked reader finds objects (shelf).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sqlcache.objects import Object
from sqlcache.store._sql.object_rows import Batch, Numbered, Row


class Members(ABC):
    """Where views find objects by their ids.

    Attributes:
        by_id: the objects. Only `show` changes or removes those that a view has.
        size_bytes: of the JSON of the objects that nobody else holds.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, Object] = {}
        self.size_bytes = 0
        self._coming: dict[int, Object] = {}
        self._going: list[int] = []

    @abstractmethod
    def enter(self, members: Iterable[tuple[int, Object]], each_bytes: int) -> None:
        """A view has come with these members, of so many bytes on average."""

    @abstractmethod
    def leave(self, ids: Iterable[int]) -> None:
        """A view with these members has gone."""

    @abstractmethod
    def follow(self, batch: Batch, entering: Sequence[Numbered], leaving: Sequence[int]) -> None:
        """Work out what is to be shown of a batch.

        Args:
            batch: what was written.
            entering, leaving: the objects that come into or leave views, once for each view.
        """

    @abstractmethod
    def clear(self) -> None:
        """All views have gone."""

    def show(self) -> None:
        """Show what was worked out."""
        for object_id in self._going:
            self.by_id.pop(object_id, None)
        self.by_id.update(self._coming)
        self._going, self._coming = [], {}


class LiveMembers(Members):
    """All objects of a store that keeps them parsed; the shelf tells what changes."""

    def put(self, objs: Mapping[int, Object]) -> None:
        """Objects come or are replaced, at the next `show`."""
        self._coming.update(objs)

    def remove(self, object_id: int) -> None:
        """An object goes, at the next `show`."""
        self._coming.pop(object_id, None)
        self._going.append(object_id)

    def enter(self, members: Iterable[tuple[int, Object]], each_bytes: int) -> None:
        pass

    def leave(self, ids: Iterable[int]) -> None:
        pass

    def follow(self, batch: Batch, entering: Sequence[Numbered], leaving: Sequence[int]) -> None:
        pass

    def clear(self) -> None:
        pass


class DecodedMembers(Members):
    """The objects that views have, decoded, where the store keeps bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._views: Counter[int] = Counter()  # how many have an object, by its id
        self._sizes: dict[int, int] = {}

    def enter(self, members: Iterable[tuple[int, Object]], each_bytes: int) -> None:
        for object_id, obj in members:
            self._views[object_id] += 1
            if object_id not in self.by_id:
                self.by_id[object_id] = obj
                self._weigh(object_id, each_bytes)

    def leave(self, ids: Iterable[int]) -> None:
        for object_id in ids:
            if self._left(object_id):
                self.by_id.pop(object_id, None)

    def follow(self, batch: Batch, entering: Sequence[Numbered], leaving: Sequence[int]) -> None:
        for object_id, row in (*batch.same, *batch.moved):
            if object_id in self.by_id:
                self._come(object_id, row)
        for object_id, row in entering:
            self._views[object_id] += 1
            if object_id not in self._coming:
                self._come(object_id, row)
        for object_id in leaving:
            if self._left(object_id):
                self._coming.pop(object_id, None)
                self._going.append(object_id)

    def clear(self) -> None:
        self._views.clear()
        self.by_id.clear()
        self._sizes.clear()
        self.size_bytes = 0
        self._going, self._coming = [], {}

    def _come(self, object_id: int, row: Row) -> None:
        self._coming[object_id] = row.parsed()
        self._weigh(object_id, row.body.length if row.body else 0)

    def _weigh(self, object_id: int, size_bytes: int) -> None:
        self.size_bytes += size_bytes - self._sizes.get(object_id, 0)
        self._sizes[object_id] = size_bytes

    def _left(self, object_id: int) -> bool:
        """Count one view less; return whether it was the last."""
        self._views[object_id] -= 1
        if self._views[object_id] > 0:
            return False
        del self._views[object_id]
        self.size_bytes -= self._sizes.pop(object_id)
        return True
