"""Inputs that broke other caches over SQL, where the contract suite does not cover them.

A full disk, a killed process and growing memory need processes and files. Each test names what went
wrong elsewhere. SQLCACHE_STRESS_SECONDS makes the long ones longer (default 3).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from sqlcache.errors import DamagedDatabaseError, DatabaseError, StoreClosedError
from sqlcache.objects import Object
from sqlcache.store.api import Indexer
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.contract import content
from sqlcache.testing.factories import event, keys, names, pod
from tests.known_bugs.children import GENERATION, generation, services

ROOT = Path(__file__).resolve().parents[2]
STRESS_S = float(os.environ.get("SQLCACHE_STRESS_SECONDS", "3"))
MIB = 2**20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


@contextmanager
def child(name: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run one of the children; kill it at the end if it still runs."""
    process = subprocess.Popen(
        child_command(name, *arguments),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with process:
            yield process
    finally:
        process.kill()


def child_command(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.known_bugs.children", name, *map(str, arguments)]


def output_of(*command: object) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_sound(path: Path) -> None:
    """Check the file as SQLite sees it, and that its indexes say what its objects say."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with SqliteStore(str(path)) as store:
        objs = store.list()
        pairs = {pair for obj in objs for pair in (obj["metadata"].get("labels") or {}).items()}
        for key, value in pairs:
            expected = [obj for obj in objs if obj["metadata"]["labels"].get(key) == value]
            assert keys(store.select("", {key: value})) == keys(expected)
        told = {each.key: each.objects for each in store.stats().label_keys}
        assert told == {
            key: sum(key in obj["metadata"]["labels"] for obj in objs) for key, _ in pairs
        }
        assert store.count("", "") == len(objs)


def run_all(seconds: float, *calls: Callable[[int], object]) -> None:
    """Repeat calls, each in a thread of its own, for some seconds; raise what they raise."""
    errors: list[BaseException] = []
    end = time.monotonic() + seconds

    def repeat(call: Callable[[int], object]) -> None:
        number = 0
        try:
            while time.monotonic() < end and not errors:
                call(number)
                number += 1
        except BaseException as error:  # noqa: BLE001 - raised again below, in the test's thread
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error


# Many threads and processes on one file: "database is locked" at once


@pytest.mark.timeout(120 + STRESS_S)
def test_writers_and_readers_of_one_store_never_meet_a_lock(path: Path) -> None:
    with SqliteStore(str(path)) as store:

        def writer(own: int) -> Callable[[int], None]:
            def write(number: int) -> None:
                labels = {"app": "web", "step": str(number)}
                store.update(pod(f"p{number % 20}", f"ns{own}", labels))
                store.apply([event("ADDED", pod(f"q{number}", f"ns{own}", labels))])
                store.delete(pod(f"q{number}", f"ns{own}"))

            return write

        def read(number: int) -> None:
            namespace = f"ns{number % 8}"
            assert len(store.select(namespace, "app=web")) <= 21
            assert store.select(namespace, "app!=web") == []
            assert store.count(namespace, "step") <= 21
            store.get_by_key(f"{namespace}/p{number % 20}")

        run_all(STRESS_S, *map(writer, range(8)), *[read] * 8)
        for own in range(8):
            assert {name[0] for name in names(store.select(f"ns{own}", ""))} == {"p"}
    assert_sound(path)


@pytest.mark.timeout(120 + STRESS_S)
def test_twenty_stores_of_one_file_may_write_at_once(path: Path) -> None:
    with ExitStack() as stack:
        stores = [
            stack.enter_context(SqliteStore(str(path), f"kind{number}")) for number in range(20)
        ]

        def writer(store: Indexer) -> Callable[[int], None]:
            def write(number: int) -> None:
                store.update(pod("a", labels={"gen": str(number)}, rv=str(number)))
                assert store.count("", f"gen={number}") == 1
                assert store.last_store_sync_resource_version() == str(number)

            return write

        run_all(STRESS_S, *map(writer, stores))
        for store in stores:
            assert len(store.list()) == 1


@pytest.mark.timeout(120 + STRESS_S)
def test_processes_may_share_a_file(path: Path) -> None:
    with SqliteStore(str(path)) as store, ExitStack() as stack:
        store.apply(generation(0))
        others = [
            stack.enter_context(child("read_and_write", path, f"kind{number}"))
            for number in range(2)
        ]
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
        run_all(STRESS_S, lambda number: store.apply(generation(number)))
        for other in others:
            stdout, stderr = other.communicate(timeout=60)
            assert (stdout, other.returncode) == ("done\n", 0), stderr
    assert_sound(path)


def test_what_selects_is_noticed_when_another_process_writes_it(path: Path) -> None:
    """An index that only its own process keeps true would go on giving the old answer."""

    def selecting(store: Indexer, number: int) -> list[Object]:
        return store.selecting("shop", {"gen": str(number % 2), "app": "web"})

    with SqliteStore(str(path), "services") as first, SqliteStore(str(path), "services") as second:
        first.apply(services(0))
        assert len(selecting(second, 0)) == GENERATION
        with child("select_for_ever", path) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "writing\n"
            seen = set()

            def read(number: int) -> None:
                found = selecting(first if number % 3 else second, number)
                assert len(found) in (0, GENERATION)
                versions = {obj["metadata"]["resourceVersion"] for obj in found}
                assert len(versions) <= 1
                assert all(int(version) % 2 == number % 2 for version in versions)
                seen.update(versions)

            run_all(STRESS_S / 3, read, read)
            process.kill()
            process.wait()
        assert len(seen) > 5
        last = int(first.last_store_sync_resource_version())
        for store in (first, second):
            assert len(selecting(store, last)) == GENERATION
            assert selecting(store, last + 1) == []
        second.apply(services(last + 1))
        assert len(selecting(first, last + 1)) == GENERATION


# Files opened twice: nil dereference, "statement from different database"


def test_second_store_of_a_file_sees_what_the_first_writes(path: Path) -> None:
    with SqliteStore(str(path)) as first, SqliteStore(str(path)) as second:
        for number in range(5):
            first.apply(generation(number))
            for _ in range(2):  # the second time, objects may come from a cache
                assert len(second.select("", f"gen={number}")) == GENERATION
                found = second.get_by_key("ns0/p0")
                assert found == first.get_by_key("ns0/p0")
                assert second.last_store_sync_resource_version() == str(number)
                assert content(first) == content(second)
        second.delete(pod("p0", "ns0", rv="9"))
        assert first.get_by_key("ns0/p0") is None
        assert first.last_store_sync_resource_version() == "9"


def test_closing_one_of_two_stores_leaves_the_other(path: Path) -> None:
    first, second = SqliteStore(str(path)), SqliteStore(str(path))
    first.apply(generation(1))
    first.close()
    second.apply(generation(2))
    assert second.count("", "gen=2") == GENERATION
    with pytest.raises(StoreClosedError):
        first.list()
    second.close()
    assert_sound(path)


# A reader that stops half-way: a pinned snapshot, a write-ahead log without end


def log_bytes(path: Path) -> int:
    log = Path(f"{path}-wal")
    return log.stat().st_size if log.exists() else 0


def test_half_read_result_does_not_let_the_log_grow(path: Path) -> None:
    with SqliteStore(str(path)) as store:
        store.replace([pod(f"p{i}", labels={"app": "web"}) for i in range(1_000)], "1")
        half_read = [iter(read) for read in (store.list(), store.select("", "app=web"))]
        for result in half_read:
            next(result)
        largest = 0
        for start in range(0, 10_000, 10):
            store.apply(
                event("MODIFIED", pod(f"p{i % 1_000}", labels={"app": "web", "n": str(i)}))
                for i in range(start, start + 10)
            )
            largest = max(largest, log_bytes(path))
        assert largest < 16 * MIB
        assert len(list(half_read[0])) == 999
        assert store.count("", "n") == 1_000


@pytest.mark.timeout(120 + STRESS_S)
def test_readers_that_never_pause_do_not_let_the_log_grow(path: Path) -> None:
    with SqliteStore(str(path)) as store:
        store.replace([pod(f"p{i}", labels={"app": "web"}) for i in range(500)], "1")
        sizes = []

        def write(number: int) -> None:
            store.apply(
                event("MODIFIED", pod(f"p{i}", labels={"app": "web", "n": str(number)}))
                for i in range(50)
            )
            sizes.append(log_bytes(path))

        def read(number: int) -> None:
            assert len(store.select("default", "app=web")) == 500

        run_all(STRESS_S, write, read, read, read)
        assert max(sizes) < 64 * MIB


# Memory that creeps: statements that were never closed


@pytest.mark.parametrize("kind", ["sqlite", "sqlite-packed", "sqlite-file"])
@pytest.mark.timeout(120 + 20 * STRESS_S)
def test_memory_stays_flat_over_updates_and_shapes(path: Path, kind: str) -> None:
    updates, shapes = int(3_000 * STRESS_S), int(300 * STRESS_S)
    told = output_of(*child_command("grow", kind, path, updates, shapes))
    grown = int(told.removeprefix("grown: "))
    assert grown < 10 * MIB


# Disk full, read-only, damaged, killed: a swallowed error and a later crash


def test_full_disk_is_an_error_and_nothing_is_half_written(tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o size=8m tmpfs {tmp_path} && exec "$@"'
    private = ["unshare", "--map-root-user", "--mount"]
    mount = [*private, "sh", "-c", script, "sh"]
    if not shutil.which("unshare") or subprocess.run([*mount, "true"], check=False).returncode:
        pytest.skip("no small file system can be mounted here")
    told = output_of(*mount, *child_command("fill_the_disk", tmp_path))
    assert "disk is full" in told or "disk I/O error" in told
    assert told.endswith("done\n")


def test_file_size_limit_is_an_error_and_nothing_is_half_written(path: Path) -> None:
    told = output_of(*child_command("exceed_the_file_size", path))
    assert told.startswith("refused: ")
    assert told.endswith("done\n")
    assert_sound(path)


@pytest.mark.parametrize("parent_too", [False, True], ids=["file", "folder"])
def test_read_only_file_is_an_error(parent_too: bool) -> None:
    """In a folder that another user may enter, unlike pytest's."""
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    try:
        path = folder / "cache.db"
        with SqliteStore(str(path)) as store:
            store.add(pod("a"))
        before = path.read_bytes()
        path.chmod(0o444)
        folder.chmod(0o555 if parent_too else 0o777)
        told = output_of(*child_command("open_what_may_not_be_written", path))
        assert told.startswith("refused: ")
        assert path.read_bytes() == before
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "cache.db"
    with pytest.raises(DatabaseError) as caught:
        SqliteStore(str(path))
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, OSError)


def test_page_damaged_while_the_file_was_closed_is_an_error_at_the_read(path: Path) -> None:
    """The first pages are sound, so it can be opened; the rest is found when it is needed."""
    with SqliteStore(str(path)) as store:
        store.replace([pod(f"p{i}", labels={"app": f"a{i}"}) for i in range(5_000)], "1")
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 2))
    errors: list[DatabaseError] = []
    try:
        with SqliteStore(str(path)) as store:
            for read in (store.list, store.list_keys, store.stats, lambda: store.select("", "app")):
                try:
                    read()
                except DamagedDatabaseError as error:
                    errors.append(error)
    except DatabaseError as error:
        errors.append(error)
    assert errors
    assert all(str(path) in str(error) for error in errors)


@pytest.mark.parametrize("attempt", range(3))
def test_killed_process_leaves_a_whole_batch(path: Path, attempt: int) -> None:
    with child("write_for_ever", path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        time.sleep(0.05 + 0.03 * attempt)
        process.kill()
    with SqliteStore(str(path)) as store:
        generations = {obj["metadata"]["labels"]["gen"] for obj in store.list()}
        assert len(generations) == 1
        assert len(store.list()) == GENERATION
        rv = store.last_store_sync_resource_version()
        assert generations == {rv}
        store.apply(generation(int(rv) + 1))
    assert_sound(path)
