"""A file that a mirror is killed over, again and again, against a real server.

After each kill it opens, SQLite and its own indexes find it sound, and what it says of itself is
true: if it bears its source, its content is exactly what the server had at its resourceVersion;
otherwise (a list was cut short) each object is one that the server had. The next life ends equal
to the server, and its handlers have heard of everything.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sqlcache.clock import MonotonicClock, StopSignal
from sqlcache.informer import SharedInformer
from sqlcache.objects import DeletedFinalStateUnknown, Object
from sqlcache.objects import deletion_handling_meta_namespace_key_func as key_of
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.apiserver import ApiServer
from tests.integration.lives import pods_of
from tests.known_bugs.test_sqlite import assert_sound

ROOT = Path(__file__).resolve().parents[2]
PODS = 700  # a relist that changes them all is written in two chunks
NAMESPACES = ("shop", "bank")
ROUNDS = 5
PATIENCE_S = 20.0
Content = dict[str, Object]


def pod(number: int, **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"p{number}",
            "namespace": NAMESPACES[number % 2],
            "labels": {"app": f"a{number % 7}", **labels},
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


class Cluster:
    """A server, and a memory of all that it ever had, from a watch of its own."""

    def __init__(self, server: ApiServer, rng: random.Random) -> None:
        self.server, self._rng = server, rng
        self._there = set(range(PODS))
        self._versions: dict[str, list[tuple[int, Object | None]]] = {}
        self._seen = int(server.resource_version)
        self._watch = pods_of(server.url).watch(
            resource_version=server.resource_version,
            resource_version_match="",
            send_initial_events=False,
            allow_watch_bookmarks=False,
            timeout_seconds=600,
            stop=StopSignal(MonotonicClock()),
        )
        self._recorder = threading.Thread(target=self._record)

    def __enter__(self) -> Cluster:
        self._recorder.start()
        self.server.load("pods", map(pod, self._there))
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.close()
        self._recorder.join()

    def _record(self) -> None:
        for event in self._watch:
            obj = event["object"]
            version = int(obj["metadata"]["resourceVersion"])
            kept = None if event["type"] == "DELETED" else obj
            self._versions.setdefault(key_of(obj), []).append((version, kept))
            self._seen = version

    def change_one(self) -> None:
        number = self._rng.randrange(PODS + 50)
        if number not in self._there:
            self.server.create("pods", pod(number))
            self._there.add(number)
        elif self._rng.random() < 0.2:
            self.server.delete("pods", f"p{number}", NAMESPACES[number % 2])
            self._there.remove(number)
        else:
            patch = {"metadata": {"labels": {"gen": str(self._rng.randrange(10))}}}
            self.server.patch("pods", f"p{number}", patch, NAMESPACES[number % 2])

    def change_all(self) -> None:
        """Change every pod, and forget how: a watch from before is answered with 410."""
        wave = str(self._rng.randrange(1_000))
        objs = self.server.list("pods")
        for obj in objs:
            obj["metadata"]["labels"]["wave"] = wave
        self.server.load("pods", objs)
        self.settle()
        self.server.compact()

    def settle(self) -> None:
        """Wait until all changes are remembered."""
        deadline = time.monotonic() + PATIENCE_S
        while self._seen < int(self.server.resource_version):
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def at(self, version: int) -> Content:
        """Return what the server had at a resourceVersion."""
        found = {}
        for key, versions in self._versions.items():
            known = [obj for number, obj in versions if number <= version]
            if known and known[-1] is not None:
                found[key] = known[-1]
        return found

    def had(self, obj: Object) -> bool:
        """Return whether the server ever had this object."""
        return any(each == obj for _, each in self._versions[key_of(obj)])

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Change pods, some hundred a second, during a block."""
        done = threading.Event()

        def change() -> None:
            while not done.wait(0.001):
                self.change_one()

        thread = threading.Thread(target=change)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


class Lives:
    """Processes that keep one file true to a server, one after the other."""

    def __init__(self, path: Path, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.lives", str(path), url],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def killed_after(self, seconds: float) -> None:
        pid = self._begin(0)
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        assert self._line() == "dead"

    def dies_after(self, statements: int) -> None:
        pid = self._begin(statements)
        late = threading.Timer(PATIENCE_S, os.kill, (pid, signal.SIGKILL))
        late.start()
        assert self._line() == "dead"
        assert late.is_alive(), f"it never came to {statements} statements"
        late.cancel()
        late.join()

    def __enter__(self) -> Lives:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=PATIENCE_S)

    def _begin(self, statements: int) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{statements}\n")
        self._process.stdin.flush()
        return int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


class Replica:
    """A handler that keeps what it was told, and objects to what cannot be."""

    def __init__(self) -> None:
        self.content: Content = {}
        self.wrong: list[str] = []

    def on_add(self, obj: Any, is_in_initial_list: bool, /) -> None:
        self._expect(key_of(obj) not in self.content, f"added twice: {key_of(obj)}")
        self.content[key_of(obj)] = obj

    def on_update(self, old: Any, new: Any, /) -> None:
        self._expect(self.content.get(key_of(new)) == old, f"another old: {key_of(new)}")
        self.content[key_of(new)] = new

    def on_delete(self, obj: Any, /) -> None:
        known = self.content.pop(key_of(obj), None)
        if isinstance(obj, DeletedFinalStateUnknown):  # perhaps of a store that was not resumed
            self._expect(known in (None, obj.obj), f"another tombstone: {obj.key}")
        else:
            self._expect(known is not None, f"deleted twice: {key_of(obj)}")

    def _expect(self, fine: bool, otherwise: str) -> None:
        if not fine:
            self.wrong.append(otherwise)


def by_key(objs: list[Object]) -> Content:
    return {key_of(obj): obj for obj in objs}


def versions(content: Content) -> dict[str, str]:
    return {key: obj["metadata"]["resourceVersion"] for key, obj in content.items()}


def check(path: Path, cluster: Cluster) -> bool:
    """Check a file that nobody has open; return whether it bears its source."""
    cluster.settle()
    assert_sound(path)
    with SqliteStore(str(path)) as store:
        content = by_key(store.list())
        version = store.last_store_sync_resource_version()
        if store.source():
            assert content == cluster.at(int(version))
            return True
        assert all(cluster.had(obj) for obj in content.values())
        return False


def catch_up(path: Path, cluster: Cluster) -> list[str]:
    """Run an informer on the file until it is equal to the server; return what it asked first."""
    server = cluster.server
    before = len(server.requests)
    list_watch = pods_of(server.url)
    replica = Replica()
    with SqliteStore(str(path)) as store, SharedInformer(list_watch, store) as informer:
        registration = informer.add_handler(replica)
        cluster.change_one()  # a quiet server takes seconds to confirm that it goes on
        assert informer.wait_for_sync(PATIENCE_S)
        assert registration.wait_for_sync(PATIENCE_S)
        wanted = by_key(server.list("pods"))
        deadline = time.monotonic() + PATIENCE_S
        while not versions(by_key(store.list())) == versions(wanted) == versions(replica.content):
            assert time.monotonic() < deadline, "the informer never catches up"
            time.sleep(0.01)
        assert by_key(store.list()) == replica.content == wanted
    list_watch.close()
    assert replica.wrong == []
    return [
        "list" if each.query.get("sendInitialEvents") else each.verb
        for each in server.requests[before:]
        if each.resource == "pods"
    ]


@pytest.mark.timeout(120)
def test_killed_mirror_leaves_a_true_file(tmp_path: Path) -> None:
    rng = random.Random(20_260)
    path = tmp_path / "cache.db"
    whole: list[bool] = []
    asked: list[str] = []
    with (
        ApiServer() as server,
        Cluster(server, rng) as cluster,
        Lives(path, server.url) as lives,
    ):
        lives.dies_after(12)  # in the first list
        whole.append(check(path, cluster))
        for _ in range(ROUNDS):
            with cluster.busy():
                lives.killed_after(rng.uniform(0.05, 0.3))
            whole.append(check(path, cluster))
            with cluster.busy():
                lives.dies_after(rng.randrange(20, 120))
            whole.append(check(path, cluster))
            cluster.change_all()  # so the next life begins with a relist
            with cluster.busy():  # after the relist there must be something to write
                lives.dies_after(rng.randrange(8, 60))
            whole.append(check(path, cluster))
            asked += catch_up(path, cluster)[:1]
            with cluster.busy():
                lives.killed_after(rng.uniform(0.05, 0.15))
            whole.append(check(path, cluster))
            asked += catch_up(path, cluster)[:1]
    assert len(whole) == 1 + 4 * ROUNDS
    assert {True, False} == set(whole), "kills within and without a list"
    assert set(asked) == {"watch", "list"}, "files that were resumed, and some that were not"
