"""No statement of the SQLite backend may walk a table that it could search.

A wrong join order or an index chosen for the wrong column still gives right answers, and costs
milliseconds where microseconds are enough; so every statement that the store runs is recorded and
its query plan looked at.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sqlcache.objects import Object
from sqlcache.selectors import EVERYTHING
from sqlcache.store._sql import engine, selecting
from sqlcache.store._sql.statistics import LABELS_OF
from sqlcache.store.labels import LabelPolicy
from sqlcache.store.scan import DictStore
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.factories import names, pod

Parameters = tuple[Any, ...] | dict[str, Any]
# Tables, and the aliases that the statements give them.
GROWING = {"object", "label", "posting", "label_key", "scope", "o", "l", "p", "k", "s", "t"}
# Reading one namespace's or the whole cache's objects is what these were asked to do.
WHOLE_READS = (
    "SELECT json_group_array(id) FROM object WHERE resource_id",
    "ifnull(sum(n), 0)",
    "WHERE n <= 0",  # when a key has lost its index
    "DELETE FROM dictionary",  # when a dictionary or all objects were replaced
)
SELECTORS = (
    "app=web",
    "app=web,tier=a",
    "app=web,tier in (a,b),!canary",
    "app in (web,db)",
    "app!=web",
    "tier notin (a,b)",
    "app",
    "!app",
    "n>1",
    "app=web,n<5,canary",
)


@contextmanager
def recorded(store: SqliteStore) -> Iterator[dict[str, Parameters]]:
    """Record the SQL of every statement, with its parameters."""
    statements: dict[str, Parameters] = {}

    class Recording:
        def __init__(self, connection: sqlite3.Connection) -> None:
            self._connection = connection

        def execute(self, sql: str, parameters: Parameters = ()) -> sqlite3.Cursor:
            statements[sql] = parameters
            return self._connection.execute(sql, parameters)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

    database = store._db
    if not isinstance(database, engine.MemoryDatabase):
        raise TypeError("only a database in memory has the one connection to watch")
    connection = database._connection
    database._connection = Recording(connection)  # type: ignore[assignment, arg-type]
    try:
        yield statements
    finally:
        database._connection = connection


def populated(mode: str, labels: LabelPolicy | None = None) -> SqliteStore:
    indexers = {"node": lambda obj: [obj["metadata"]["namespace"], ""]}
    store = SqliteStore(
        objects=mode,  # type: ignore[arg-type]
        indexers=indexers,
        hot_objects=10,
        labels=labels,
        selector_func=lambda obj: EVERYTHING,
    )
    store.replace([labelled(number) for number in range(50)], "1")
    return store


def labelled(number: int, **labels: str) -> Object:
    app = "web" if number % 2 else "db"
    return pod(
        f"p{number}",
        f"ns{number % 3}",
        labels={"app": app, "n": str(number), "tier": "a", **labels},
    )


def scans(connection: sqlite3.Connection, sql: str, parameters: Parameters) -> list[str]:
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()
    steps = [str(row[3]) for row in rows]
    walked = [step for step in steps if step.startswith("SCAN ") and step.split()[1] in GROWING]
    # Searched, but only by what all of a resource's objects, or a namespace's labels, share.
    barely = ("object_1 (resource_id=?)", "PRIMARY KEY (scope_id=?)")
    return walked + [step for step in steps if step.endswith(barely)]


@pytest.mark.parametrize("labels", [None, LabelPolicy(distinct_limit=20, on_demand=True)])
@pytest.mark.parametrize("mode", ["live", "packed"])
def test_no_statement_walks_a_table(mode: str, labels: LabelPolicy | None) -> None:
    """With a policy, keys are indexed as they are asked for, and one goes over the limit."""
    with populated(mode, labels) as store, recorded(store) as statements:
        store.add(labelled(1, canary="yes"))
        store.apply(
            [
                {"type": "MODIFIED", "object": labelled(2)},
                {"type": "ADDED", "object": labelled(100)},
                {"type": "DELETED", "object": labelled(3)},
            ]
        )
        store.replace([labelled(number) for number in range(40)], "2")
        store.get_by_key("ns1/p1")
        store.by_index("node", "")
        store.index_keys("node", "")
        store.list_index_func_values("node")
        assert store.selecting("ns1", {})
        for namespace in ("ns1", ""):
            for selector in SELECTORS:
                store.select(namespace, selector)
                store.count(namespace, selector)
        assert store.size().keys_over_limit == (0 if labels is None else 1)
        store.add(labelled(1, canary="no"))  # what is left of that key is cleared away
        del statements[LABELS_OF]  # that was asked for the size alone
        database = store._db
        with database.reading() as connection:
            found = {
                sql: walked
                for sql, parameters in dict(statements).items()
                if sql.startswith(("SELECT", "INSERT", "UPDATE", "DELETE"))
                and not any(whole in sql for whole in WHOLE_READS)
                and (walked := scans(connection, sql, parameters))
            }
    assert not found, found
    assert len(statements) > 20


def test_questions_about_what_selects_walk_no_table_unless_others_wrote() -> None:
    with populated("packed") as store, store._db.reading() as connection:
        for sql in (selecting._VERSION, selecting._WRITTEN, selecting._MEMBERS):
            assert not scans(connection, sql, ("[]",) * sql.count("?"))


def test_a_term_moved_to_another_place_keeps_its_posting() -> None:
    """Terms are compared by place, so a key inserted before another one moves it."""
    with SqliteStore() as store:
        store.add(pod("a", labels={"b": "1", "c": "2"}))
        store.add(pod("a", labels={"a": "0", "b": "1", "c": "2"}))
        store.add(pod("a", labels={"c": "2", "b": "1"}))
        assert [store.count("", each) for each in ("a=0", "b=1", "c=2")] == [0, 1, 1]
        assert store._db.one("SELECT sum(n) FROM label") == 2
        assert store._db.one("SELECT count(*) FROM posting") == 2


def test_ids_beyond_32_bits_are_kept() -> None:
    with SqliteStore() as store:
        store.add(pod("a", labels={"app": "web"}))
        with store._db.writing() as connection:
            connection.execute("UPDATE sequence SET value = 5000000000")
        store.add(pod("b", labels={"app": "web", "tier": "x"}))
        store.add(pod("b", labels={"app": "db", "tier": "x"}))
        assert [store.count("", each) for each in ("app=web", "app=db", "tier=x")] == [1, 1, 1]
        store.delete(pod("b"))
        assert store._db.one("SELECT count(*) FROM posting") == 1


@pytest.mark.parametrize(
    "selector",
    [
        f"k in ({','.join(f'v{number}' for number in range(0, 4_000, 2))})",
        f"k notin ({','.join(f'v{number}' for number in range(0, 4_000, 2))})",
        ",".join(f"k!=v{number}" for number in range(0, 4_000, 2)),
        ",".join(f"k{number % 4} in (a,b,c,d,e,f)" for number in range(80)),
    ],
    ids=["in", "notin", "many terms", "many terms of few keys"],
)
def test_values_are_not_looked_up_in_each_namespace_where_there_are_fewer_labels(
    selector: str,
) -> None:
    """40,000 values in 1,500 namespaces took minutes, for 5,000 pods."""
    pods = [
        pod(f"p{number}", f"n{number}", {"k": f"v{number}", f"k{number % 4}": "a"})
        for number in range(300)
    ]
    store, scan = SqliteStore(), DictStore()
    with store, scan:
        store.replace(pods, "1")
        scan.replace(pods, "1")
        database = store._db
        assert isinstance(database, engine.MemoryDatabase)
        assert database._connection is not None
        thousands: list[int] = []
        database._connection.set_progress_handler(lambda: thousands.append(1), 1_000)
        assert names(store.select("", selector)) == names(scan.select("", selector))
        assert len(thousands) < 1_000, "a million steps of SQLite's machine"
