"""Stores: what they promise (`api`), and choosing a backend (`open_store`).

| backend | file | selectors are answered by |
|---|---|---|
| `dict` | scan.py | a scan of the namespace, as client-go does |
| `dict-index` | indexed.py | sets of keys, one for each label of each namespace |
| `sqlite` | sqlite.py | an indexed query in memory |
| `sqlite:///path` | sqlite.py | an indexed query on a file that outlives the process |
"""

from __future__ import annotations

import os
from typing import Literal

from sqlcache.errors import BackendError
from sqlcache.objects import (
    Indexers,
    KeyFunc,
    TransformFunc,
    deletion_handling_meta_namespace_key_func,
)
from sqlcache.selectors import SelectorFunc
from sqlcache.store.api import Indexer
from sqlcache.store.indexed import DictIndexStore
from sqlcache.store.labels import LabelPolicy
from sqlcache.store.scan import DictStore
from sqlcache.store.sqlite import DEFAULT_HOT_OBJECTS, SqliteStore

BACKENDS = ("dict", "dict-index", "sqlite")
DEFAULT_BACKEND = "sqlite"
BACKEND_VARIABLE = "SQLCACHE_BACKEND"
_FILE_PREFIX = "sqlite:///"

ObjectMode = Literal["live", "packed"]


def open_store(
    backend: str | None = None,
    resource: str = "pods",
    *,
    indexers: Indexers | None = None,
    key_func: KeyFunc = deletion_handling_meta_namespace_key_func,
    transform: TransformFunc | None = None,
    selector_func: SelectorFunc | None = None,
    objects: ObjectMode | None = None,
    hot_objects: int | None = None,
    hot_members: int | None = None,
    compress: bool | None = None,
    labels: LabelPolicy | None = None,
    detect_mutation: bool = False,
) -> Indexer:
    """Open a store.

    Args:
        backend: "dict", "dict-index", "sqlite" (in memory) or "sqlite:///path" (a relative path;
            four slashes for an absolute one). Default: the variable SQLCACHE_BACKEND, else
            "sqlite".
        resource: plural resource name. A file keeps each resource apart.
        indexers: index functions by name, see `sqlcache.store.api`.
        key_func: makes an object's key.
        transform: runs on each object before it is stored.
        selector_func: tells what an object selects, for `selecting`; see `sqlcache.store.api`.
            Default: `service_selector` for "services", none for other resources.
        objects: SQL backends only. "live" keeps the parsed objects in the process (default in
            memory); "packed" keeps them as bytes in their rows (always so in a file).
        hot_objects: SQL backends with packed objects only. How many decoded objects are kept at
            most for callers that read them again, and of how many times 8 KiB of JSON; 0 keeps
            none.
        hot_members: SQL backends only. How many objects the results of selectors that are asked
            again and again, which are kept and kept true by the writer, have together at most; 0
            keeps no results. Default: 1,000,000 where objects are live, at 8 bytes each; else
            `hot_objects`, and again at most 8 KiB of JSON for each.
        compress: SQL backends with packed objects only. Whether those written from now on are
            compressed, by zstd with a dictionary trained on the first of them. Default: if a
            library is there (extra `zstd`, or Python 3.14). What is compressed needs it to be
            read, what is not stays readable.
        labels: SQL backends only. Which label keys are indexed; selectors are answered right
            whatever it is. Default: as the file was opened last; all in a new one and in memory.
        detect_mutation: raise `MutatedObjectError` when a caller changed a shared object. Slow;
            for tests.

    Returns:
        An Indexer. Close it, or use it as a context manager. It does not survive `fork`: open it
        in the process that uses it (sqlite.org/howtocorrupt.html).

    Raises:
        BackendError: no such backend, an option that it does not have, or a name that no file can
            keep.
        DatabaseError: the file cannot be opened; see its subclasses. `CompressedError`: its objects
            are compressed, and there is no library.
    """
    name = backend if backend is not None else os.environ.get(BACKEND_VARIABLE) or DEFAULT_BACKEND
    if name in ("dict", "dict-index"):
        if (objects, hot_objects, hot_members, compress, labels) != (None,) * 5:
            raise BackendError(
                f"backend {name!r} has no option objects=, hot_objects=, hot_members=, compress="
                " or labels="
            )
        memory = DictStore if name == "dict" else DictIndexStore
        return memory(
            resource,
            key_func=key_func,
            indexers=indexers,
            transform=transform,
            selector_func=selector_func,
            detect_mutation=detect_mutation,
        )
    return SqliteStore(
        _sqlite_path(name),
        resource,
        objects=objects,
        hot_objects=DEFAULT_HOT_OBJECTS if hot_objects is None else hot_objects,
        hot_members=hot_members,
        compress=compress,
        labels=labels,
        key_func=key_func,
        indexers=indexers,
        transform=transform,
        selector_func=selector_func,
        detect_mutation=detect_mutation,
    )


def _sqlite_path(backend: str) -> str | None:
    if backend == "sqlite":
        return None
    path = backend.removeprefix(_FILE_PREFIX)
    if path == backend or not path:
        raise BackendError(
            f"unknown backend {backend!r}: choose {', '.join(BACKENDS)} or sqlite:///path"
        )
    if path == ":memory:":  # SQLAlchemy's word for it; here it would be a file of that name
        raise BackendError(f"{backend!r} is no file: the backend in memory is 'sqlite'")
    if "\0" in path:
        raise BackendError(f"a path contains no NUL: {backend!r:.200}")
    return path
