"""Rows that a store in memory remembers are those that its tables have, whatever was written."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from sqlcache.objects import Object
from sqlcache.store import ObjectMode
from sqlcache.store._sql import counted_rows
from sqlcache.store.labels import LabelPolicy
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.factories import event, pod

POLICIES = [LabelPolicy(), LabelPolicy(deny={"own"}), LabelPolicy(distinct_limit=3)]
LABELS = (
    "SELECT s.kind, s.namespace, k.name, l.value, l.n FROM label l"
    " JOIN scope s ON s.id = l.scope_id JOIN label_key k ON k.id = l.key_id"
)
POSTINGS = (
    "SELECT s.kind, s.namespace, k.name, l.value, count(*) FROM label l"
    " JOIN scope s ON s.id = l.scope_id JOIN label_key k ON k.id = l.key_id"
    " JOIN posting p ON p.label_id = l.id GROUP BY l.id"
)


def made(random: Random) -> Object:
    name = f"p{random.randrange(12)}"
    labels = {"app": random.choice("abc"), "own": f"{name}-{random.randrange(3)}", "x": "1"}
    kept = {key: labels[key] for key in random.sample(sorted(labels), random.randrange(4))}
    return pod(name, random.choice(("shop", "lab")), kept)


def by_app(obj: Object) -> list[str]:
    return [value for key, value in obj["metadata"].get("labels", {}).items() if key == "app"]


def write(store: SqliteStore, random: Random) -> None:
    """Make one call, which may write with one statement or with several."""
    call = random.randrange(10)
    if call == 0:
        store.replace([made(random) for _ in range(random.randrange(12))], "1")
    elif call == 1:
        store.delete(random.choice(store.list() or [made(random)]))
    elif call == 2 and "by-app" not in store.get_indexers():
        store.add_indexers({"by-app": by_app})
    else:
        kinds = random.choices(("MODIFIED", "DELETED"), (3, 1), k=random.choice((1, 3, 3, 2_500)))
        store.apply(event(kind, made(random)) for kind in kinds)


def assert_tables_are_right(store: SqliteStore, policy: LabelPolicy) -> None:
    """Count what objects carry, and compare."""
    labels: Counter[tuple[Any, ...]] = Counter()
    namespaces: Counter[str] = Counter()
    carried: Counter[str] = Counter()
    for obj in store.list():
        meta = obj["metadata"]
        namespaces[meta["namespace"]] += 1
        carried.update(meta["labels"].keys())
        labels.update((0, meta["namespace"], *label) for label in meta["labels"].items())
        if "by-app" in store.get_indexers():
            labels.update((1, "", "by-app", value) for value in by_app(obj))
    keys = store._labels.keys
    labels = Counter({label: n for label, n in labels.items() if label[0] or keys.kept(label[2])})
    with store._db.reading() as connection:
        rows = {row[:-1]: row[-1] for row in connection.execute(LABELS)}
        postings = {row[:-1]: row[-1] for row in connection.execute(POSTINGS)}
        scopes = dict(connection.execute("SELECT namespace, n FROM scope WHERE kind = 0"))
        by_key = dict(connection.execute("SELECT name, n FROM label_key"))
    assert {label: n for label, n in rows.items() if label[0] or keys.kept(label[2])} == labels
    assert {label: n for label, n in postings.items() if label[0] or keys.kept(label[2])} == labels
    assert {scope: n for scope, n in scopes.items() if n} == namespaces
    assert {key: n for key, n in by_key.items() if n and key != "by-app"} == carried


@pytest.mark.parametrize("objects", ["live", "packed"])
@pytest.mark.parametrize("remembered", [0, 4, 10_000])
@pytest.mark.parametrize("policy", POLICIES, ids=["all", "deny", "limit"])
def test_tables_are_right_after_every_write(
    objects: ObjectMode, remembered: int, policy: LabelPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted_rows, "_REMEMBERED", remembered)
    random = Random(f"{objects} {remembered} {policy}")
    for _ in range(4):
        with SqliteStore(objects=objects, labels=policy) as store:
            for _ in range(25):
                write(store, random)
                assert_tables_are_right(store, policy)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted_rows, "_REMEMBERED", 100)
    with SqliteStore() as store:
        most = 0
        for step in range(200):
            store.apply([event("MODIFIED", pod(f"p{step % 7}", "shop", {"own": f"v{step}"}))])
            most = max(most, len(store._known_rows.terms))
        assert 90 < most < 110


def test_a_batch_of_known_labels_looks_nothing_up() -> None:
    with SqliteStore() as store:
        apps = {"p0": "a", "p1": "a", "p2": "b"}
        for names in (apps, apps, {"p0": "b"}, {"p0": "a"}, {"p3": "b", "p0": "b"}):
            statements: list[str] = []
            with store._db.reading() as connection:
                connection.set_trace_callback(statements.append)
            store.apply(
                event("MODIFIED", pod(name, "shop", {"app": app})) for name, app in names.items()
            )
        assert any("INTO batch" in each for each in statements)
        assert not any(each.startswith("SELECT") for each in statements)
