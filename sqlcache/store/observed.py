"""A store whose calls somebody sees: for metrics and measurements.

Elsewhere: what is made of them (sqlcache.metrics, sqlcache.demo).
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeAlias

from sqlcache.store.api import Indexer

Call: TypeAlias = Callable[..., Any]

READS = (
    "get",
    "get_by_key",
    "get_by_keys",
    "list",
    "list_keys",
    "select",
    "selecting",
    "count",
    "index",
    "by_index",
    "index_keys",
    "list_index_func_values",
)
WRITES = ("add", "update", "delete", "replace", "apply", "transaction", "bookmark", "add_indexers")


class ObservedStore:
    """An `Indexer` that has the reads and writes of another go through a function."""

    def __init__(self, store: Indexer, around: Callable[[str, Call], Call]) -> None:
        """Observe a store.

        Args:
            store: does the work.
            around: called once with the name of each operation of `READS` and `WRITES` and with the
                method of the store; returns what is called instead.
        """
        self._store = store
        for method in (name for name in dir(Indexer) if not name.startswith("_")):
            call = getattr(store, method)
            if method in READS or method in WRITES:
                call = around(method, call)
            setattr(self, method, call)  # all: isinstance looks for them without __getattr__

    def __getattr__(self, name: str) -> Any:
        """Return what an Indexer need not have from the store itself."""
        return getattr(self._store, name)

    def __enter__(self) -> Self:
        """Return the store; leaving the `with` closes it."""
        self._store.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the store."""
        self._store.__exit__(exc_type, exc, traceback)
