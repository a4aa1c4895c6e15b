"""Ids are never given twice: those of a cache that changed for years outgrow 32 bits."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Literal

import pytest

from sqlcache import open_store
from sqlcache.objects import Object
from sqlcache.store.sqlite import SqliteStore

SELECTORS = ("app=web", "app in (web,api)", "app=web,tier=a", "app!=web", "tier", "!tier")
LAST = [2**31 - 4, 2**32 - 4, 2**53 - 100]


def pod(number: int, **labels: str) -> Object:
    return {"metadata": {"namespace": "shop", "name": f"p-{number}", "labels": labels}}


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize(
    ("backend", "objects"),
    [("sqlite", "live"), ("sqlite", "packed"), ("sqlite:///{}/cache.db", None)],
)
def test_a_store_goes_on_with_ids_of_any_length(
    backend: str, objects: Literal["live", "packed"] | None, last: int, tmp_path: Path
) -> None:
    url = backend.format(tmp_path)
    with open_store("dict") as model, open_store(url, objects=objects) as store:
        assert isinstance(store, SqliteStore)
        for each in (model, store):
            each.replace([pod(number, app="web") for number in range(3)], "1")
        with store._db.writing() as connection:
            connection.execute("UPDATE sequence SET value = ?", (last,))
        for each in (model, store):
            each.apply(
                {"type": "ADDED", "object": pod(number, app=f"a-{number}", tier="a", n=str(number))}
                for number in range(3, 12)
            )
            each.apply(
                {"type": "MODIFIED", "object": pod(number, app="web", tier="abc"[number % 3])}
                for number in range(8)
            )
            each.delete(pod(7))
        for selector in SELECTORS:
            for _ in range(3):  # the last time from a hot view
                found, expected = (
                    sorted(pod["metadata"]["name"] for pod in each.select("shop", selector))
                    for each in (store, model)
                )
                assert found == expected, selector
        for each in (model, store):
            each.replace([pod(number, app="api") for number in range(5, 9)], "2")
        assert store.count("shop", "app=api") == model.count("shop", "app=api") == 4
        with store._db.reading() as connection:
            _assert_no_stray_rows(connection)


def _assert_no_stray_rows(connection: sqlite3.Connection) -> None:
    stray = connection.execute(
        "SELECT count(*) FROM posting WHERE label_id NOT IN (SELECT id FROM label)"
    ).fetchone()[0]
    counted = connection.execute("SELECT sum(n) FROM label").fetchone()[0]
    assert stray == 0
    assert counted == connection.execute("SELECT count(*) FROM posting").fetchone()[0] == 4
