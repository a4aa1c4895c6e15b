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


SPOILT: dict[str, dict[str, Any]] = {  # what a caller makes of {"app": "web", "tier": "a"}
    "value": {"app": "changed", "tier": "a"},
    "order": {"tier": "a", "app": "web"},
    "one less": {"tier": "a"},
    "one more": {"app": "web", "tier": "a", "more": "x"},
    "none": {},
    "no text": {"app": None, "tier": "a"},
    "two that read as one": {"app\0tier": "web\0a"},
    "one that reads as two": {"app": "tier\0web\0a"},
}
AFTERWARDS: tuple[dict[str, str] | None, ...] = (
    {"app": "db", "tier": "a"},
    {"app": "changed", "tier": "a"},
    {"tier": "a"},
    {},
    None,
)


@pytest.mark.parametrize("how", SPOILT)
def test_what_a_caller_made_of_labels_leaves_nothing_behind_after_the_next_write(
    how: str, tmp_path: Path
) -> None:
    """The labels that an object had are read from it, to be taken out of the index."""
    for labels in AFTERWARDS:
        with BACKENDS["sqlite"](tmp_path) as store, BACKENDS["sqlite"](tmp_path) as fresh:
            given: Any = pod("a", labels={"app": "web", "tier": "a"})
            other = pod("b", labels={"app": "web"})
            store.replace([given, other], "1")
            given["metadata"]["labels"].clear()
            given["metadata"]["labels"].update(SPOILT[how])
            written = [] if labels is None else [pod("a", labels=labels, rv="2")]
            for obj in written:
                store.update(obj)
            if labels is None:
                store.delete(pod("a"))
            fresh.replace([*written, other], "2")
            assert store.stats().label_keys == fresh.stats().label_keys
            for selector in ("app=web", "app=db", "app", "tier=a", "!tier", "app=changed", "more"):
                found, expected = (each.select("default", selector) for each in (store, fresh))
                assert names(found) == names(expected), (labels, selector)
