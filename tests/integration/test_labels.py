"""Bounded labels in a file: several processes, other policies, builders that die, downgrades."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pytest

from sqlcache.errors import DatabaseError
from sqlcache.objects import Objects
from sqlcache.store import migrations, open_store
from sqlcache.store._sql.label_keys import LabelKeys, label_keys
from sqlcache.store.labels import LabelPolicy
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.factories import event, names, pod

PODS = 1_200  # more than two steps of a builder
LONG_S = 60.0
ORPHANS = (  # rows that no name leads to
    "SELECT id FROM label WHERE scope_id NOT IN (SELECT id FROM scope)",
    "SELECT id FROM label WHERE key_id NOT IN (SELECT id FROM label_key)",
    "SELECT label_id FROM posting WHERE label_id NOT IN (SELECT id FROM label)",
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "cache.db")


def labelled(pods: int = PODS) -> Objects:
    """Return pods with a label that is their own, one of seven values, and one that few have."""
    made = []
    for number in range(pods):
        labels = {"own": f"v{number}", "app": f"a{number % 7}"}
        if number % 100 == 0:
            labels["rare"] = "yes"
        made.append(pod(f"p{number}", f"ns{number % 2}", labels))
    return made


def keys_of(path: str, resource: str = "pods") -> LabelKeys:
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT label_keys FROM resource WHERE name = ?"
        return label_keys(connection.execute(sql, (resource,)).fetchone()[0])


def assert_index_is_whole(path: str) -> None:
    """Check all tables of labels against the labels of the objects, and answers with a scan's."""
    with SqliteStore(path) as store:
        objs = store.list()
        by_key: defaultdict[str, defaultdict[tuple[str, str], set[str]]] = defaultdict(
            lambda: defaultdict(set)
        )
        for obj in objs:
            meta = obj["metadata"]
            for key, value in meta["labels"].items():
                by_key[key][meta["namespace"], value].add(f"{meta['namespace']}/{meta['name']}")
        for key, labels in by_key.items():
            for (namespace, value), members in [*labels.items()][:20]:
                found = {
                    f"{namespace}/{name}" for name in names(store.select(namespace, {key: value}))
                }
                assert found == members
    keys = keys_of(path)  # after those questions: they may have had keys indexed
    with closing(sqlite3.connect(path)) as connection:
        assert [connection.execute(sql).fetchall() for sql in ORPHANS] == [[]] * len(ORPHANS)
        carried = dict(connection.execute("SELECT name, n FROM label_key"))
        if keys.dropping:  # only then are there rows that nothing is counted in
            carried = {key: n for key, n in carried.items() if n}
        assert carried == {key: sum(map(len, labels.values())) for key, labels in by_key.items()}
        filed: defaultdict[str, dict[tuple[str, str], set[str]]] = defaultdict(dict)
        for key, namespace, value, n, members in connection.execute(
            "SELECT k.name, s.namespace, l.value, l.n, group_concat(o.key) FROM label l"
            " JOIN label_key k ON k.id = l.key_id JOIN scope s ON s.id = l.scope_id"
            " LEFT JOIN posting p ON p.label_id = l.id LEFT JOIN object o ON o.id = p.object_id"
            " GROUP BY l.id"
        ):
            filed[key][namespace, value] = set((members or "").split(","))
            assert key in keys.dropping or n == len(filed[key][namespace, value])
        for key, labels in by_key.items():
            if keys.complete(key):
                assert filed[key] == labels, key
            elif key not in keys.dropping | keys.building:
                assert key not in filed


@contextmanager
def child(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run Python in another process, which must end well; it says "ready" and reads its input."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
        yield process
        stderr = process.communicate("go\n", timeout=LONG_S)[1]
        assert process.returncode == 0, stderr
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


WRITE = """
import sys
from random import Random
from sqlcache.store import open_store
from sqlcache.store.labels import policy_of
from tests.integration.test_labels import churn
with open_store("sqlite:///" + sys.argv[1], labels=policy_of(sys.argv[2])) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    churn(store, int(sys.argv[3]))
"""


def churn(store: SqliteStore, writer: int) -> None:
    """Write pods with labels of a few values and of many, and ask for some meanwhile."""
    random = Random(writer)
    for step in range(60):
        batch = []
        for _ in range(10):
            number = random.randrange(150)
            labels = {"app": f"a{random.randrange(4)}", "own": f"{writer}-{step}-{number}"}
            obj = pod(f"p{number}", f"w{writer}", labels)
            batch.append(event(random.choice(("MODIFIED", "MODIFIED", "DELETED")), obj))
        store.apply(batch)
        found = store.select(f"w{writer}", "app=a1,own")
        assert all(obj["metadata"]["labels"]["app"] == "a1" for obj in found)
        assert len(found) == store.count(f"w{writer}", "app=a1")
        if step % 20 == 10:
            store.replace(store.list(), str(step)) if writer == 0 else None


@pytest.mark.parametrize("policy", ["limit=100", "deny=own", "on-demand", "limit=100 on-demand"])
def test_two_processes_write_one_file(path: str, policy: str) -> None:
    with child(WRITE, path, policy, 1) as process, SqliteStore(path) as store:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        churn(store, 2)
    keys = keys_of(path)
    assert keys.complete("own") == (policy == "on-demand")
    assert keys.complete("app")
    assert set(keys.over) == ({"own"} if "limit" in policy else set())
    assert_index_is_whole(path)


def test_whoever_opens_a_file_with_another_policy_brings_the_index_in_line(path: str) -> None:
    """Another process has it open meanwhile, and goes on under the new policy."""
    policies = [
        None,
        LabelPolicy(deny=["own"]),
        LabelPolicy(on_demand=True),
        LabelPolicy(distinct_limit=20),
        LabelPolicy(),
        LabelPolicy(allow=["rare"]),
        LabelPolicy(deny=["rare"], distinct_limit=3_000, on_demand=True),
        LabelPolicy(),
    ]
    with SqliteStore(path) as always_open:
        always_open.replace(labelled(300), "1")
        for number, policy in enumerate(policies):
            with SqliteStore(path, labels=policy) as store:
                store.add(pod(f"new{number}", "ns0", {"own": f"new{number}", "app": "a1"}))
                assert names(store.select("ns0", f"own=new{number}")) == [f"new{number}"]
            always_open.add(pod(f"late{number}", "ns1", {"own": f"x{number}", "rare": "yes"}))
            assert len(always_open.select("", "rare=yes")) == 3 + number + 1
            assert keys_of(path).policy == (policy or LabelPolicy())
            assert_index_is_whole(path)
    assert keys_of(path) == LabelKeys(since=keys_of(path).since)


def test_file_opened_without_a_policy_keeps_its_own(path: str) -> None:
    policy = LabelPolicy(deny=["own"], distinct_limit=4, on_demand=True)
    with SqliteStore(path, labels=policy) as store:
        store.replace(labelled(20), "1")
        assert store.count("", "app=a1") == 3
    with open_store(f"sqlite:///{path}") as store:
        store.add(pod("x", "ns0", {"app": "a1", "own": "x"}))
        assert store.count("", "app=a1") == 4
    assert keys_of(path).policy == policy
    assert dict(keys_of(path).over) == {"app": 14}, "seven values in two namespaces"


def test_key_whose_builder_failed_is_built_by_whoever_comes_next(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with SqliteStore(path, labels=LabelPolicy(on_demand=True)) as store:
        store.replace(labelled(), "1")
        filling, steps = store._writer.filling, iter(range(1))

        def fail(*args: object) -> object:
            if next(steps, None) is None:
                raise sqlite3.OperationalError("no more")
            return filling(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(store._writer, "filling", fail)
        assert len(store.select("", "app=a1")) == 172
        assert "Labels app stay without an index" in caplog.text
        caplog.clear()
        assert len(store.select("ns1", "app=a1")) == 86
        assert not caplog.records, "it is tried and said once"
    assert keys_of(path).building == {"app"}
    assert_index_is_whole(path)
    assert keys_of(path).complete("app")


def test_builder_leaves_a_key_to_whoever_begins_it_anew(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first builder wrote is gone: its last steps would make an index with holes."""
    with SqliteStore(path, labels=LabelPolicy(on_demand=True)) as store:
        store.replace(labelled(), "1")
        turn, turns = store._labels._turn, iter(range(2))

        def adopted_and_killed() -> object:
            if next(turns, None) is None:
                monkeypatch.setattr(store._labels, "_turn", turn)
                with SqliteStore(path, labels=LabelPolicy()) as other:
                    monkeypatch.setattr(other._writer, "filling", broken)
                    with pytest.raises(DatabaseError, match="killed"):
                        other.add(pod("x", "ns0", {"app": "a1"}))
            return turn()

        def broken(*_: object) -> object:
            raise sqlite3.OperationalError("killed")

        monkeypatch.setattr(store._labels, "_turn", adopted_and_killed)
        assert len(store.select("", "app=a1")) == 172
        assert not keys_of(path).complete("app")
        assert len(store.select("", "app=a1")) == 172
    with SqliteStore(path) as store:
        store.add(pod("x", "ns0", {"app": "a1"}))
        assert len(store.select("", "app=a1")) == 173
    assert keys_of(path).complete("app")
    assert_index_is_whole(path)


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("ready", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


def test_selector_does_not_wait_for_a_long_write_of_another_process(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sqlcache.store._sql.label_index._WAIT_S", 0.1)
    with SqliteStore(path, labels=LabelPolicy(on_demand=True)) as store:
        store.replace(labelled(), "1")
        with child(HOLD, path):
            assert len(store.select("", "app=a1")) == 172
            assert store.explain("", "app=a1").unindexed == ("app=a1",)
        assert not caplog.records
        assert store.explain("", "app=a1").unindexed == ()
        with SqliteStore(path, "services") as other, other._db.writing():
            # In one process, stores on one file wait for each other's writes.
            answers: list[int] = []
            thread = threading.Thread(target=lambda: answers.append(store.count("", "rare")))
            thread.start()
            thread.join(LONG_S)
            assert answers == [12]
        assert store.explain("", "rare").unindexed == ()
        timeout = store._db._writer.execute("PRAGMA busy_timeout").fetchone()  # type: ignore[attr-defined]
        assert timeout == (10_000,), "writes wait as long as ever again"
    assert_index_is_whole(path)


def test_selector_on_a_file_that_may_not_be_written_is_answered(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with SqliteStore(path, labels=LabelPolicy(on_demand=True)) as store:
        store.replace(labelled(), "1")
    with SqliteStore(path) as reader:
        reader._db._writer.execute("PRAGMA query_only=ON")  # type: ignore[attr-defined]
        for _ in range(2):
            assert len(reader.select("", "app=a1")) == 172
    assert [each.levelno for each in caplog.records] == [logging.WARNING]
    assert "Labels app stay without an index" in caplog.text


def test_key_over_the_limit_is_told_once_and_gives_its_rows_back(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with SqliteStore(path, labels=LabelPolicy(distinct_limit=500)) as store:
        store.apply(event("ADDED", obj) for obj in labelled(400))
        assert store.size().keys_over_limit == 0
        store.apply(event("ADDED", obj) for obj in labelled(PODS)[400:])
        assert [each.getMessage() for each in caplog.records] == [
            "Label own has 1200 values, more than the limit of 500: it loses its index"
        ]
        assert store.size().keys_over_limit == 1
        store.replace(labelled(PODS - 1), "2")
        store.add(labelled(PODS)[-1])
        assert len(caplog.records) == 1
        assert store.size().label_terms == 7 * 2 + 1
    assert keys_of(path).dropping == frozenset()
    assert_index_is_whole(path)
    with SqliteStore(path, labels=LabelPolicy(distinct_limit=5_000)) as store:
        store.bookmark("3")
        assert store.size().label_terms == PODS + 7 * 2 + 1
    assert_index_is_whole(path)


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("pods", [400, 3 * PODS])  # cleared away with one write, and with several
def test_rows_of_a_key_over_the_limit_go_though_its_namespaces_or_its_last_object_go_first(
    path: str, pods: int, left: int
) -> None:
    with SqliteStore(path, labels=LabelPolicy(distinct_limit=pods)) as store:
        objs = labelled(pods)
        store.replace(objs, "1")
        store.add(pod("one-more", "ns2", {"own": "one too many"}))  # "own" loses its index
        store.apply(event("DELETED", obj) for obj in objs[left:])
        store.delete(pod("one-more", "ns2"))
        assert_index_is_whole(path)
        for _ in range(2 * pods // 1_000 + 2):
            store.bookmark("2")
        assert keys_of(path).dropping == frozenset()
    assert_index_is_whole(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM scope WHERE n <= 0").fetchone() == (0,)
        rows = connection.execute("SELECT count(*) FROM posting").fetchone()[0]
        assert rows == left * 2  # "app" and "rare"


@pytest.mark.parametrize(
    "policy",
    [LabelPolicy(deny=["own"]), LabelPolicy(distinct_limit=20), LabelPolicy(on_demand=True)],
)
def test_going_down_empties_what_has_a_policy_and_nothing_else(
    path: str, policy: LabelPolicy
) -> None:
    """An older release takes every index for complete. It fills the resource from a new list."""
    services = [pod(f"s{number}", labels={"app": f"a{number}", "own": "s"}) for number in range(9)]
    with (
        SqliteStore(path, labels=policy, indexers={"i": lambda obj: ["x"]}) as pods,
        SqliteStore(path, "services", indexers={"i": lambda obj: ["y"]}) as other,
    ):
        pods.replace(labelled(300), "7")
        pods.set_source("https://one")
        other.replace(services, "8")
        other.set_source("https://two")
        assert pods.count("", "app=a1") == 43
    migrations.downgrade(path, "0004")
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT r.name, r.resource_version, r.source, count(o.id) FROM resource r"
            " LEFT JOIN object o ON o.resource_id = r.id GROUP BY r.id ORDER BY r.name"
        ).fetchall()
        assert rows == [("pods", "", None, 0), ("services", "8", "https://two", 9)]
        count = "SELECT count(*) FROM {} WHERE id NOT IN (SELECT {} FROM {})"
        assert connection.execute(count.format("scope", "scope_id", "label")).fetchone() == (0,)
        assert connection.execute(count.format("label", "label_id", "posting")).fetchone() == (0,)
        assert dict(connection.execute("SELECT name, n FROM label_key")) == {
            "app": 9,
            "i": 9,
            "own": 9,
        }
        assert connection.execute("SELECT sum(n) FROM label").fetchone() == (27,)
        assert connection.execute("SELECT count(*) FROM posting").fetchone() == (27,)
    migrations.upgrade(path)
    assert migrations.check(path) == []
    with SqliteStore(path) as pods, SqliteStore(path, "services") as other:
        assert pods.list() == []
        assert pods.source() == pods.last_store_sync_resource_version() == ""
        assert len(other.select("", "app=a1")) == 1
        pods.replace(labelled(300), "9")
        assert pods.count("", "app=a1,own") == 43
    assert keys_of(path) == LabelKeys()
    migrations.downgrade(path, "base")
