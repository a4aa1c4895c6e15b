"""Writes in memory that SQLite fails in the middle of, as it does when memory ends.

A bound on the pages of the database stands in for that where one statement is to fail.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Literal

import pytest

import sqlcache
from sqlcache.errors import DatabaseError, StoreClosedError
from sqlcache.objects import Object
from sqlcache.store import sqlite
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.factories import names, pod

LIVE = pytest.mark.parametrize("objects", ["live"])
BOTH = pytest.mark.parametrize("objects", ["live", "packed"])


@pytest.fixture
def store(objects: Literal["live", "packed"]) -> Iterator[SqliteStore]:
    with closing(sqlcache.open_store("sqlite", objects=objects)) as opened:
        assert isinstance(opened, SqliteStore)
        opened.replace(pods("old", 100), "1")
        yield opened


def pods(name: str, count: int) -> list[Object]:
    """Return pods with one label of their own each."""
    return [
        pod(f"{name}{each}", labels={"app": "web", "x": name * 9 + str(each)})
        for each in range(count)
    ]


def connection_of(store: SqliteStore) -> sqlite3.Connection:
    assert store._memory is not None
    with store._memory.reading() as connection:
        return connection


def leave_room(store: SqliteStore, pages: int) -> None:
    connection = connection_of(store)
    used = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={used + pages}")


def is_as_before(store: SqliteStore) -> bool:
    counted = [store.count("", "app=web"), len(store.select("", "x")), len(store.list_keys())]
    return counted == [100] * 3 and names(store.select("", "x=" + "old" * 9 + "7")) == ["old7"]


@LIVE
def test_a_store_whose_write_failed_half_way_answers_no_more(store: SqliteStore) -> None:
    leave_room(store, 1)
    with pytest.raises(DatabaseError, match="is full"):
        store.apply({"type": "ADDED", "object": each} for each in pods("new", 1_000))
    for use in (
        lambda: store.count("", "x"),
        lambda: store.select("", "x!=1"),
        lambda: store.add(pod("a", labels={"app": "db"})),
        lambda: store.replace([], "2"),
    ):
        with pytest.raises(DatabaseError, match=r"a write failed half-way .*fill a new one"):
            use()
    store.close()
    with pytest.raises(StoreClosedError):
        store.count("", "x")


@BOTH
def test_a_replace_that_fails_half_way_leaves_the_store_as_it_was(store: SqliteStore) -> None:
    leave_room(store, 1)
    with pytest.raises(DatabaseError, match="is full"):
        store.replace(pods("new", 1_000), "2")
    assert is_as_before(store)
    leave_room(store, 1_000)
    store.replace(pods("new", 1_000), "2")
    assert store.count("", "x") == 1_000


@BOTH
def test_a_batch_of_several_statements_that_fails_leaves_the_store_as_it_was(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_OBJECTS_PER_PLAN", 50)
    leave_room(store, 1)
    with pytest.raises(DatabaseError, match="is full"):
        store.apply({"type": "ADDED", "object": each} for each in pods("new", 1_000))
    assert is_as_before(store)


@BOTH
def test_a_text_that_sqlite_does_not_take_leaves_the_store_as_it_was(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 100_000
    monkeypatch.setattr(sqlite, "_BYTES_PER_PLAN", limit // 4)
    connection_of(store).setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limit)
    with pytest.raises(DatabaseError, match="too big"):
        store.add(pod("new", labels={"app": "web", "x": "x" * limit}))
    assert is_as_before(store)
    store.delete(pod("old0"))
    assert store.count("", "app=web") == 99


WITH_LESS_AND_LESS_MEMORY = """
import sqlcache
from sqlcache.errors import DatabaseError
from sqlcache.testing.factories import pod

def pods(name, count):
    return [pod(f"{name}{each}", labels={"x": f"{name}-{each}"}) for each in range(count)]

outcomes = set()
for limit in range(4_000_000, 1_000_000, -100_000):  # SQLite lowers its limit, and never lifts it
    try:
        store = sqlcache.open_store("sqlite", objects=OBJECTS, compress=False)
        store.replace(pods("old", 100), "1")
    except MemoryError:
        break
    with store:
        with store._memory.reading() as connection:
            connection.execute(f"PRAGMA hard_heap_limit={limit}")
        before = {"x": 100, "x=old-7": 1, "x=new-7": 0}
        try:
            WRITE
            after, outcome = {"x": COUNT, "x=old-7": min(COUNT - 1_500, 1), "x=new-7": 1}, "written"
        except MemoryError:
            after, outcome = before, "not written"
        try:
            assert {each: store.count("", each) for each in after} == after, limit
        except DatabaseError as error:
            assert "a write failed half-way (out of memory)" in str(error), error
            outcome = "given up"
        outcomes.add(outcome)
print(*sorted(outcomes), sep=", ")
"""
APPLY = 'store.apply({"type": "ADDED", "object": each} for each in pods("new", 1_500))', "1_600"
REPLACE = 'store.replace(pods("new", 1_500), "2")', "1_500"


@pytest.mark.parametrize(
    ("objects", "write", "failure"),
    [
        ("live", APPLY, "given up"),
        ("live", REPLACE, "not written"),
        ("packed", APPLY, "not written"),
        ("packed", REPLACE, "not written"),
    ],
)
def test_without_memory_a_write_is_done_or_not_done_or_the_store_says_so(
    objects: str, write: tuple[str, str], failure: str
) -> None:
    script = WITH_LESS_AND_LESS_MEMORY.replace("OBJECTS", repr(objects))
    script = script.replace("WRITE", write[0]).replace("COUNT", write[1])
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    outcomes = done.stdout.strip().split(", ")
    if outcomes == ["written"]:
        pytest.skip("this SQLite is built not to count the memory that it takes")
    assert {"written", failure} <= {*outcomes} <= {"written", "not written", failure}
