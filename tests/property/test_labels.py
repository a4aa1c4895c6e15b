"""A label key is indexed while a writer goes on: no answer is wrong, and the index is whole."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest

from sqlcache.store.labels import LabelPolicy
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.factories import names, pod

PODS = 3_000


@pytest.mark.parametrize("mode", ["live", "packed", "file"])
@pytest.mark.parametrize("seed", range(2))
def test_key_is_indexed_under_concurrent_writes(mode: str, seed: int, tmp_path: Path) -> None:
    """`one` is on exactly one pod in each state, `k` moves at random."""
    random = Random(seed)
    policy = LabelPolicy(on_demand=True)
    path = str(tmp_path / "cache.db") if mode == "file" else None
    objects = None if mode == "file" else mode
    with SqliteStore(path, labels=policy, objects=objects, hot_members=0) as store:  # type: ignore[arg-type]
        first = {str(number): {"k": str(number % 7)} for number in range(PODS)}
        first["0"] = {"k": "0", "one": "x"}
        store.replace([pod(name, labels=labels) for name, labels in first.items()], "1")
        content = dict(first)
        errors: list[str] = []
        reading = threading.Event()
        stop = threading.Event()

        def write() -> None:
            holder = "0"
            reading.wait(60)
            while not stop.is_set():
                target = str(random.randrange(PODS))
                batch = {name: {"k": str(random.randrange(7))} for name in (holder, target)}
                batch[target]["one"] = "x"
                content.update(batch)
                store.apply(
                    {"type": "MODIFIED", "object": pod(name, labels=labels)}
                    for name, labels in batch.items()
                )
                holder = target

        def read() -> None:
            reading.set()
            for _ in range(30):
                for selector in ("one=x", "one", "one in (x,y)"):
                    found = names(store.select("", selector))
                    errors.extend([f"{selector}: {found}"] if len(found) != 1 else [])

        writer = threading.Thread(target=write)
        readers = [threading.Thread(target=read) for _ in range(2)]
        for thread in (writer, *readers):
            thread.start()
        store.count("", "k=3")
        for thread in readers:
            thread.join()
        stop.set()
        writer.join()
        assert errors == []
        for value in map(str, range(7)):
            expected = sorted(name for name, labels in content.items() if labels["k"] == value)
            assert names(store.select("", f"k={value}")) == expected
        assert store.explain("", "k=3,one").unindexed == ()
        assert {each.key: each.unindexed for each in store.stats().label_keys} == {
            "k": "",
            "one": "",
        }
