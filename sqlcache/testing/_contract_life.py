"""Contract: closing, the context manager, and calls on a closed store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sqlcache.errors import SqlcacheError, StoreClosedError
from sqlcache.lister import PodLister
from sqlcache.objects import ExplicitKey
from sqlcache.store.api import Indexer, Transaction
from sqlcache.testing._contract_content import by_app
from sqlcache.testing._contract_parts import MakeStore, StoreFixtures
from sqlcache.testing.factories import event, names, pod

_CALLS: dict[str, Callable[[Indexer], Any]] = {
    "add": lambda store: store.add(pod("a")),
    "update": lambda store: store.update(pod("a")),
    "delete": lambda store: store.delete(pod("a")),
    "replace": lambda store: store.replace([pod("a")], "1"),
    "apply": lambda store: store.apply([event("ADDED", pod("a"))]),
    "apply nothing": lambda store: store.apply([]),
    "transaction": lambda store: store.transaction(Transaction("add", pod("a"))),
    "transaction of nothing": lambda store: store.transaction(),
    "bookmark": lambda store: store.bookmark("1"),
    "set_source": lambda store: store.set_source("s"),
    "add_indexers": lambda store: store.add_indexers({"other": by_app}),
    "get": lambda store: store.get(pod("a")),
    "get by key": lambda store: store.get(ExplicitKey("a")),
    "get_by_key": lambda store: store.get_by_key("default/a"),
    "list": lambda store: store.list(),
    "list_keys": lambda store: store.list_keys(),
    "walk_keys": lambda store: store.walk_keys(),
    "resync": lambda store: store.resync(),
    "rv": lambda store: store.last_store_sync_resource_version(),
    "source": lambda store: store.source(),
    "select": lambda store: store.select("", "app=web"),
    "select all": lambda store: store.select("", ""),
    "select nothing": lambda store: store.select("", {"matchLabels": None}),
    "count": lambda store: store.count("", "app=web"),
    "selecting": lambda store: store.selecting("", {"app": "web"}),
    "explain": lambda store: store.explain("", "app=web"),
    "stats": lambda store: store.stats(),
    "size": lambda store: store.size(),
    "index": lambda store: store.index("app", pod("a")),
    "by_index": lambda store: store.by_index("app", "web"),
    "by_index of an unknown index": lambda store: store.by_index("nope", "web"),
    "index_keys": lambda store: store.index_keys("app", "web"),
    "list_index_func_values": lambda store: store.list_index_func_values("app"),
    "values of an unknown index": lambda store: store.list_index_func_values("nope"),
    "get_indexers": lambda store: store.get_indexers(),
    "lister": lambda store: PodLister(store).pods("default").get("a"),
    "with": lambda store: store.__enter__(),
}


class LifeContract(StoreFixtures):
    """What close() does."""

    @pytest.mark.parametrize("call", _CALLS.values(), ids=_CALLS)
    def test_closed_store_refuses_every_call(
        self, make_store: MakeStore, call: Callable[[Indexer], Any]
    ) -> None:
        store = make_store(indexers={"app": by_app})
        store.add(pod("a", labels={"app": "web"}))
        store.close()
        with pytest.raises(StoreClosedError, match=r"^the store is closed$") as caught:
            call(store)
        assert isinstance(caught.value, SqlcacheError)
        assert isinstance(caught.value, RuntimeError)

    def test_closing_twice_is_harmless(self, store: Indexer) -> None:
        store.add(pod("a"))
        store.close()
        store.close()
        with pytest.raises(StoreClosedError):
            store.list()

    def test_unused_store_can_be_closed(self, store: Indexer) -> None:
        store.close()

    def test_leaving_the_with_block_closes_the_store(self, store: Indexer) -> None:
        with store as entered:
            assert entered is store
            entered.add(pod("a"))
        with pytest.raises(StoreClosedError):
            store.list()

    def test_exception_in_the_with_block_closes_the_store_and_passes(self, store: Indexer) -> None:
        with pytest.raises(ZeroDivisionError), store:
            raise ZeroDivisionError
        with pytest.raises(StoreClosedError):
            store.list()

    def test_closing_inside_the_with_block_is_harmless(self, store: Indexer) -> None:
        with store:
            store.close()

    def test_results_outlive_the_store(self, make_store: MakeStore) -> None:
        """A read is fetched in full before it returns."""
        store = make_store(indexers={"app": by_app})
        store.replace([pod(name, labels={"app": "web"}) for name in "abc"], "1")
        results = (
            store.list(),
            store.select("", "app=web"),
            store.select("", "app!=db"),
            store.by_index("app", "web"),
        )
        store.close()
        for result in results:
            assert names(result) == ["a", "b", "c"]

    def test_stores_share_nothing(self, make_store: MakeStore) -> None:
        one, two = make_store(), make_store(indexers={"app": by_app})
        one.add(pod("a", labels={"app": "web"}, rv="5"))
        assert two.list() == []
        one.set_source("here")
        assert (two.last_store_sync_resource_version(), two.source()) == ("", "")
        assert one.get_indexers() == {}
        one.close()
        two.add(pod("b"))
        assert names(two.list()) == ["b"]
