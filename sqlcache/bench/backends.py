"""The backends under test, by the names that `--backends` takes, and one of them opened.

| name | object mode | selectors |
|---|---|---|
| dict | live | scan: client-go, and the model for answers |
| dict-index | live | sets of keys |
| sqlite | live | SQL in memory; hot views from the second time on |
| sqlite-cold | live | SQL in memory, every time |
| sqlite-packed | bytes in the rows, decoded on the way out | SQL in memory |
| sqlite-file | bytes in the rows | SQL on a WAL file in a temporary directory |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from sqlcache.store import ObjectMode, open_store
from sqlcache.store.api import Indexer
from sqlcache.store.sqlite import SqliteStore


@dataclass(frozen=True, slots=True)
class Backend:
    """How a backend of the bench is opened.

    Attributes:
        name: as in `--backends` and in results.
        store: what `open_store` takes; None stands for a new file.
        objects: object mode, None where the backend has none.
        hot_members: bound of the hot views, None for the default.
    """

    name: str
    store: str | None
    objects: ObjectMode | None = None
    hot_members: int | None = None

    @property
    def database(self) -> bool:
        """Whether there are database pages to count."""
        return self.store in (None, "sqlite")

    @property
    def cold(self) -> bool:
        """Whether hot views are off."""
        return self.hot_members == 0

    @property
    def decodes(self) -> bool:
        """Whether a read may have to decode the object, so that a cold read differs."""
        return self.store is None or self.objects == "packed"


MODEL = "dict"  # its answers are the right ones
BACKENDS = {
    backend.name: backend
    for backend in (
        Backend("dict", "dict"),
        Backend("dict-index", "dict-index"),
        Backend("sqlite", "sqlite", "live"),
        Backend("sqlite-cold", "sqlite", "live", hot_members=0),
        Backend("sqlite-packed", "sqlite", "packed"),
        Backend("sqlite-file", None),
    )
}


class Subject:
    """One backend with one store open at a time."""

    def __init__(self, backend: Backend, directory: Path, resource: str) -> None:
        """Open an empty store.

        Args:
            backend: the backend.
            directory: where a file backend puts its files; whoever made it removes it.
            resource: plural resource name.
        """
        self.backend, self._directory, self._resource = backend, directory, resource
        self._numbers = count(1)
        self.store = self._open()

    def renew(self) -> Indexer:
        """Close the store and open an empty one."""
        self.store.close()
        self.store = self._open()
        return self.store

    def load(self, pods: Sequence[object]) -> None:
        """Make the store hold these pods."""
        self.store.replace(pods, resource_version="1")

    def cool(self) -> None:
        """Make the store hold no decoded object, so that the next reads are first reads."""
        if isinstance(self.store, SqliteStore):
            self.store.drop_hot_objects()

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def _open(self) -> Indexer:
        if self.backend.store is not None:
            backend = self.backend
            return open_store(
                backend.store,
                self._resource,
                objects=backend.objects,
                hot_members=backend.hot_members,
            )
        path = self._directory / f"cache-{next(self._numbers)}.db"
        return open_store(f"sqlite:///{path}", self._resource)
