import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from sqlcache.errors import DatabaseError, StoreClosedError
from sqlcache.objects import Object
from sqlcache.store import migrations
from sqlcache.store._sql import engine
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.contract import MakeStore, StoreContract, closing_stores, content
from sqlcache.testing.factories import names, pod
from tests.backends import open_file_store


class TestSqliteFile(StoreContract):
    """On a file: each store has one of its own."""

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Iterator[MakeStore]:
        with closing_stores(partial(open_file_store, tmp_path)) as make:
            yield make


def by_app(obj: dict[str, dict[str, dict[str, str]]]) -> list[str]:
    return [obj["metadata"]["labels"]["app"]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


def test_reopened_file_has_the_same_content(path: Path) -> None:
    with SqliteStore(str(path), indexers={"app": by_app}) as store:
        store.replace([pod(name, "shop", {"app": f"a{name}"}) for name in "abc"], "5")
        store.update(pod("a", "shop", {"app": "web", "env": "prod"}, rv="7"))
        store.delete(pod("b", "shop", rv="8"))
        store.set_source("here")
        before = content(store)
    with SqliteStore(str(path), indexers={"app": by_app}) as store:
        assert content(store) == before
        assert store.last_store_sync_resource_version() == "8"
        assert store.source() == "here"
        assert names(store.select("shop", "app=web")) == ["a"]
        assert store.select("", "app=aa") == []
        store.update(pod("a", "shop", {"app": "db"}, rv="9"))
        assert store.select("", "env") == []
        assert sorted(store.list_index_func_values("app")) == ["ac", "db"]


def test_reopened_file_takes_the_index_functions_that_are_given_now(path: Path) -> None:
    with SqliteStore(str(path), indexers={"app": by_app}) as store:
        store.add(pod("a", labels={"app": "web"}))
    with SqliteStore(str(path), indexers={"app": lambda obj: ["other"]}) as store:
        assert store.list_index_func_values("app") == ["other"]
        assert store.index_keys("app", "web") == []
    with SqliteStore(str(path)) as store:
        assert store.get_indexers() == {}
        assert store.list_index_func_values("app") == []
        store.add_indexers({"app": by_app})
        assert store.index_keys("app", "web") == ["default/a"]
        assert store.list_index_func_values("app") == ["web"]


def test_unused_file_can_be_reopened(path: Path) -> None:
    SqliteStore(str(path)).close()
    with SqliteStore(str(path)) as store:
        assert store.list() == []
        assert store.last_store_sync_resource_version() == ""


def test_resources_of_one_file_are_kept_apart(path: Path) -> None:
    with SqliteStore(str(path), "pods") as pods, SqliteStore(str(path), "services") as services:
        pods.replace([pod("a", labels={"app": "web"}), pod("b")], "5")
        services.replace([pod("a", labels={"app": "db"})], "9")
        services.replace([pod("a", labels={"app": "cache"})], "10")
        assert names(pods.list()) == ["a", "b"]
        assert pods.last_store_sync_resource_version() == "5"
        assert services.select("", "app=web") == []
        assert names(pods.select("", "app=web")) == ["a"]
        assert pods.stats().objects == 2
        assert services.stats().resource == "services"
        assert [each.objects for each in services.stats().label_keys] == [1]
        services.replace([], "11")
        assert names(pods.select("", "app")) == ["a"]


def test_file_is_for_its_owner_only(path: Path) -> None:
    """Pods hold secrets in their environment."""
    with SqliteStore(str(path)) as store:
        store.add(pod("a"))
        modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    assert "cache.db" in modes
    assert set(modes.values()) == {0o600}


def test_closing_leaves_one_file(path: Path) -> None:
    with SqliteStore(str(path)) as store:
        store.replace([pod(f"p{number}") for number in range(100)], "1")
        store.list()
    assert [each.name for each in path.parent.iterdir()] == ["cache.db"]


def test_file_name_may_be_any(tmp_path: Path) -> None:
    for name in (
        ":memory:",
        "file:x?mode=memory",
        "a b.db",
        "a?b.db",
        "a#b%20.db",
        "ü.db",
        "file:x.db",
        "'\".db",
    ):
        path = tmp_path / name
        with SqliteStore(str(path)) as store:
            store.add(pod("a"))
        assert path.is_file()
        with SqliteStore(str(path)) as store:
            assert names(store.list()) == ["a"]


@pytest.mark.parametrize("name", ["cache.db", ":memory:", "file:x.db", "file:x?mode=memory"])
def test_relative_path_is_that_file_wherever_the_process_goes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers connect when they are needed, and SQLite takes some names for URIs or memory."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    with SqliteStore(name) as store:
        store.add(pod("a"))
        monkeypatch.chdir(there)
        assert names(store.list()) == ["a"]
        store.add(pod("b"))
    monkeypatch.chdir(here)
    assert migrations.check(name) == []
    with SqliteStore(name) as store:
        assert names(store.list()) == ["a", "b"]
    assert list(there.iterdir()) == []


def test_stores_of_one_process_wait_for_each_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resources of one file are filled side by side; one may take longer than the busy timeout."""
    monkeypatch.setattr(engine, "_BUSY_TIMEOUT_S", 0.01)
    link = path.with_name("link.db")
    SqliteStore(str(path)).close()
    link.symlink_to(path)
    writing, written = threading.Event(), threading.Event()

    def slowly() -> Iterator[Object]:
        yield pod("a")
        writing.set()
        written.wait(0.5)  # not before the other one waits
        yield pod("b")

    with SqliteStore(str(path)) as pods, SqliteStore(str(link), "services") as services:
        thread = threading.Thread(target=pods.replace, args=(slowly(), "1"))
        thread.start()
        writing.wait(60)
        services.add(pod("s"))
        written.set()
        thread.join()
        assert names(pods.list()) == ["a", "b"]
        assert names(services.list()) == ["s"]


def test_store_that_writes_another_of_its_file_in_the_middle_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not stuck for ever."""
    monkeypatch.setattr(engine, "_BUSY_TIMEOUT_S", 0.01)

    def also(services: SqliteStore) -> Iterator[Object]:
        yield pod("a")
        services.add(pod("s"))

    with SqliteStore(str(path)) as pods, SqliteStore(str(path), "services") as services:
        with pytest.raises(DatabaseError, match="has held it"):
            pods.replace(also(services), "1")
        assert pods.list() == services.list() == []


def open_files() -> list[str]:
    """Return the paths of the files that this process has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the folder's own, closed by now
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return found


def test_closing_waits_for_calls_under_way_and_leaves_nothing_open(path: Path) -> None:
    for _ in range(5):
        store = SqliteStore(str(path))
        store.replace([pod(f"p{number}") for number in range(500)], "1")
        started = threading.Barrier(5)

        def read(store: SqliteStore = store, started: threading.Barrier = started) -> None:
            started.wait(60)
            with suppress(StoreClosedError):
                while True:
                    assert len(store.list()) == 500

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        started.wait(60)
        time.sleep(0.02)
        store.close()
        opened = open_files()
        files = [each.name for each in path.parent.iterdir()]
        for thread in threads:
            thread.join()
        assert not [name for name in opened if name.startswith(str(path))]
        assert files == ["cache.db"]


def test_resources_of_a_file_have_sources_of_their_own(path: Path) -> None:
    with SqliteStore(str(path), "pods") as pods, SqliteStore(str(path), "services") as services:
        pods.set_source("here")
        services.set_source("there")
        assert (pods.source(), services.source()) == ("here", "there")
