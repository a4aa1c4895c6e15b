"""The backends that every suite runs on, by name.

A store of each is opened by one call with a folder for its file, if it has one, and options.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from sqlcache.store._sql.compression import Training
from sqlcache.store.api import Indexer
from sqlcache.store.indexed import DictIndexStore
from sqlcache.store.labels import LabelPolicy
from sqlcache.store.scan import DictStore
from sqlcache.store.sqlite import SqliteStore

OpenStore = Callable[..., Indexer]

_number = count()


def new_path(folder: Path) -> str:
    """Return the path of a cache file that does not exist yet."""
    return str(folder / f"cache-{next(_number)}.db")


def open_file_store(folder: Path, **options: Any) -> SqliteStore:
    return SqliteStore(new_path(folder), **options)


class SoonCompressed(SqliteStore):
    """Trains a dictionary on its first eight objects: zstd wants that many at least."""

    training = Training(first=8)


BACKENDS: dict[str, OpenStore] = {
    "dict": lambda folder, **options: DictStore(**options),
    "dict-index": lambda folder, **options: DictIndexStore(**options),
    "sqlite": lambda folder, **options: SqliteStore(None, **options),
    "sqlite-packed": lambda folder, **options: SoonCompressed(None, objects="packed", **options),
    "sqlite-file": open_file_store,
}


def open_bounded_store(folder: Path, **options: Any) -> SqliteStore:
    """Open a store that indexes label keys on demand, and lets go of those with many values."""
    return SqliteStore(None, labels=LabelPolicy(distinct_limit=3, on_demand=True), **options)
