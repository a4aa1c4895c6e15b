"""A file that goes, or becomes another one, while a store has it open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sqlcache
from sqlcache.errors import DatabaseError
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.factories import names, pod

ENDS = ("", "-wal", "-shm")


def remove(path: Path) -> None:
    for end in ENDS:
        Path(f"{path}{end}").unlink()


def move(path: Path) -> None:
    for end in ENDS:
        Path(f"{path}{end}").rename(path.with_name(f"moved.db{end}"))


def replace(path: Path) -> None:
    remove(path)
    with sqlcache.open_store(f"sqlite:///{path}") as other:
        other.add(pod("another"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(str(path)) as opened:
        opened.add(pod("a"))
        yield opened


@pytest.mark.parametrize("happen", [remove, move, replace])
def test_a_store_whose_file_is_another_one_writes_no_more(
    store: SqliteStore, path: Path, happen: Callable[[Path], None]
) -> None:
    assert names(store.list()) == ["a"]
    happen(path)

    def read_with_another_connection() -> None:
        with store._db.reading():
            store.list()

    uses: tuple[Callable[[], None], ...] = (
        lambda: store.add(pod("b")),
        lambda: store.replace([pod("b")], "2"),
        lambda: store.bookmark("3"),
        read_with_another_connection,
    )
    for use in uses:
        with pytest.raises(DatabaseError, match="was removed or replaced while a store had it"):
            use()
    assert names(store.list()) == ["a"]
    assert path.exists() == (happen is replace)
    if happen is replace:
        with sqlcache.open_store(f"sqlite:///{path}") as other:
            assert names(other.list()) == ["another"]


def test_a_file_may_have_several_names(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with sqlcache.open_store(f"sqlite:///{link}") as other:
        other.add(pod("b"))
        store.add(pod("c"))
        assert names(other.list()) == names(store.list()) == ["a", "b", "c"]
