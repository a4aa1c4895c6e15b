"""What callers see after one of them changed an object that the cache shares.

It is read-only by convention. What happens otherwise depends on the object mode, and is defined.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sqlcache.selectors import service_selector
from sqlcache.store.api import Indexer
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.factories import names, pod
from tests.backends import BACKENDS

LIVE = ("dict", "dict-index", "sqlite")
PACKED = ("sqlite-packed", "sqlite-file")


def by_app(obj: dict[str, Any]) -> list[str]:
    return [obj["metadata"]["labels"]["app"]]


def in_another_thread(store: Indexer) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(store.get_by_key, "default/a").result()


def changed(store: Indexer) -> Any:
    """Change an object that the store gave out; return it."""
    obj: Any = store.get_by_key("default/a")
    obj["metadata"]["labels"]["app"] = "changed"
    return obj


@pytest.mark.parametrize("backend", LIVE)
def test_live_objects_are_the_ones_given_and_changes_are_seen_by_all(
    backend: str, tmp_path: Path
) -> None:
    with BACKENDS[backend](tmp_path) as store:
        given = pod("a", labels={"app": "web"})
        store.add(given)
        assert changed(store) is given
        assert in_another_thread(store) is given
        assert store.list()[0] is given
        assert store.select("", "")[0] is given


@pytest.mark.parametrize("backend", PACKED)
def test_packed_objects_are_decoded_anew_where_none_are_kept(backend: str, tmp_path: Path) -> None:
    with BACKENDS[backend](tmp_path, hot_objects=0) as store:
        store.add(pod("a", labels={"app": "web"}))
        changed(store)
        for obj in (in_another_thread(store), store.list()[0], store.select("", "app=web")[0]):
            assert obj == pod("a", labels={"app": "web"})


@pytest.mark.parametrize("backend", PACKED)
def test_packed_objects_that_are_kept_are_shared_until_the_next_write(
    backend: str, tmp_path: Path
) -> None:
    with BACKENDS[backend](tmp_path, hot_objects=10) as store:
        given = pod("a", labels={"app": "web"})
        store.add(given)
        given["metadata"]["labels"]["app"] = "mine"
        assert in_another_thread(store) == pod("a", labels={"app": "web"})
        assert in_another_thread(store) is changed(store)
        store.update(pod("a", labels={"app": "web"}, rv="2"))
        assert in_another_thread(store) == pod("a", labels={"app": "web"}, rv="2")


@pytest.mark.parametrize("backend", PACKED)
def test_dropped_hot_objects_are_decoded_anew(backend: str, tmp_path: Path) -> None:
    with BACKENDS[backend](tmp_path, hot_objects=10) as store:
        assert isinstance(store, SqliteStore)
        store.replace([pod(name, labels={"app": "web"}) for name in "abcdefgh"], "1")
        store.list()
        held = changed(store)
        store.drop_hot_objects()
        assert store.get_by_key("default/a") is not held
        assert names(store.select("default", "app=web")) == list("abcdefgh")
        assert {obj["metadata"]["labels"]["app"] for obj in store.list()} == {"web"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_selects_is_answered_from_what_was_stored(backend: str, tmp_path: Path) -> None:
    with BACKENDS[backend](tmp_path, selector_func=service_selector) as store:
        store.add(pod("a", spec={"selector": {"app": "web"}}))
        obj: Any = store.get_by_key("default/a")
        obj["spec"]["selector"]["app"] = "changed"
        assert names(store.selecting("default", {"app": "web"})) == ["a"]
        assert store.selecting("default", {"app": "changed"}) == []
        store.update(pod("a", spec={"selector": {"app": "db"}}))
        assert store.selecting("default", {"app": "web"}) == []
        assert names(store.selecting("default", {"app": "db"})) == ["a"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_indexes_answer_from_what_was_stored(backend: str, tmp_path: Path) -> None:
    with BACKENDS[backend](tmp_path, indexers={"app": by_app}) as store:
        store.replace([pod("a", labels={"app": "web"}), pod("b", labels={"app": "web"})], "1")
        changed(store)
        assert store.index_keys("app", "web") == ["default/a", "default/b"]
        assert store.list_index_func_values("app") == ["web"]
        scanned = store.explain("default", "app=web").driving == "scan"
        assert names(store.select("default", "app=web")) == (["b"] if scanned else ["a", "b"])
        store.update(pod("a", labels={"app": "db"}))
        assert names(store.select("default", "app=web")) == ["b"]
        assert store.index_keys("app", "db") == ["default/a"]
