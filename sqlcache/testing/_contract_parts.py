"""What the parts of the contract share: fixtures, a store's whole content, threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from typing import Any, NamedTuple, Protocol

import pytest

from sqlcache.objects import Object
from sqlcache.store.api import Indexer

JOIN_TIMEOUT_S = 60.0  # far more than any of these threads needs: it fails only if one hangs
_SWITCH_INTERVAL_S = 1e-5  # CPython's 5 ms lets a short write pass unobserved


class MakeStore(Protocol):
    """Opens a new, empty store."""

    def __call__(self, **options: Any) -> Indexer:
        """Open a store with some of the options of `sqlcache.open_store`."""


class StoreFixtures:
    """The fixtures that a backend gives."""

    @pytest.fixture
    def make_store(self) -> Iterator[MakeStore]:
        raise NotImplementedError("a subclass of StoreContract has a fixture make_store")

    @pytest.fixture
    def store(self, make_store: MakeStore) -> Indexer:
        return make_store()


@contextmanager
def closing_stores(open_store: Callable[..., Indexer]) -> Iterator[MakeStore]:
    """Give a function that opens stores; all are closed at the end.

    Args:
        open_store: opens one store; takes the options.
    """
    with ExitStack() as stack:

        def make_store(**options: Any) -> Indexer:
            return stack.enter_context(open_store(**options))

        yield make_store


class Content(NamedTuple):
    """All that a store tells about itself.

    Attributes:
        objects: by key.
        listed: how many objects `list` gave.
        rv: the store's resourceVersion.
        indexes: keys by index name and value.
        labels: (distinct, objects) by label key.
    """

    objects: Mapping[str, Object | None]
    listed: int
    rv: str
    indexes: Mapping[str, Mapping[str, list[str]]]
    labels: Mapping[str, tuple[int, int]]


def content(store: Indexer) -> Content:
    """Return all that a store tells about itself, copied."""
    stats, size = store.stats(), store.size()
    assert size.objects == stats.objects
    indexed = sum(each.distinct for each in stats.label_keys if not each.unindexed)
    assert size.label_terms in (None, indexed)
    found = Content(
        objects={key: store.get_by_key(key) for key in store.list_keys()},
        listed=len(store.list()),
        rv=store.last_store_sync_resource_version(),
        indexes={
            name: {
                value: store.index_keys(name, value) for value in store.list_index_func_values(name)
            }
            for name in store.get_indexers()
        },
        labels={each.key: (each.distinct, each.objects) for each in stats.label_keys},
    )
    return deepcopy(found)


@contextmanager
def unchanged(store: Indexer) -> Iterator[None]:
    """Check that the block leaves a store as it was."""
    before = content(store)
    yield
    assert content(store) == before


@contextmanager
def switching_often() -> Iterator[None]:
    """Let Python switch threads far more often, so that races show."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def run_together(*calls: Callable[[], object]) -> None:
    """Run calls, each in a thread of its own, that start at once. Raise what one of them raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        try:
            start.wait(JOIN_TIMEOUT_S)
            call()
        except BaseException as error:  # noqa: BLE001 - raised again below, in the test's thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_TIMEOUT_S)
    assert not [thread for thread in threads if thread.is_alive()], "a thread hangs"
    for error in errors:
        raise error


def in_another_thread(call: Callable[[], object]) -> Any:
    """Return what a call returns in another thread; raise what it raises."""
    results: list[object] = []
    run_together(lambda: results.append(call()))
    return results[0]
