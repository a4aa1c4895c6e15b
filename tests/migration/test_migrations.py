"""Schema versions: up, down and up again, equal to the metadata, and files that are not ours."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

import sqlcache
from sqlcache.errors import (
    DamagedDatabaseError,
    DatabaseError,
    NotACacheError,
    SchemaVersionError,
)
from sqlcache.store import migrations
from sqlcache.store._sql import engine, upgrade
from sqlcache.store._sql.schema import METADATA
from sqlcache.testing.factories import pod

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "cache.db")


def filled(path: str, objects: int = 1) -> None:
    with sqlcache.open_store(f"sqlite:///{path}") as store:
        store.replace(
            [pod(f"p{number}", labels={"n": str(number)}) for number in range(objects)], "7"
        )


def schema(path: str) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
    return {name: " ".join((sql or "").split()) for name, sql in rows}


def test_migrated_schema_equals_the_metadata(path: str) -> None:
    migrations.upgrade(path)
    assert migrations.check(path) == []
    metadata = create_engine("sqlite://")
    with metadata.connect() as connection:
        METADATA.create_all(connection)
        made = inspect(connection)
        with closing(sqlite3.connect(path)) as file:
            migrated = inspect(create_engine("sqlite://", creator=lambda: file))
            for table in METADATA.tables:
                assert migrated.get_columns(table) is not None
                for read in ("get_pk_constraint", "get_unique_constraints", "get_indexes"):
                    assert getattr(migrated, read)(table) == getattr(made, read)(table), table
                columns = [
                    [(each["name"], str(each["type"]), each["nullable"]) for each in columns]
                    for columns in (migrated.get_columns(table), made.get_columns(table))
                ]
                assert columns[0] == columns[1]
    metadata.dispose()


def test_memory_has_the_schema_that_the_migrations_make(path: str) -> None:
    migrations.upgrade(path)
    pragmas = ("application_id", "user_version", "encoding", "auto_vacuum", "page_size")
    with closing(engine.connect(":memory:")) as memory, closing(sqlite3.connect(path)) as file:
        upgrade.create(memory)
        for statement in (
            "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name",
            "SELECT * FROM alembic_version",
            *(f"PRAGMA {name}" for name in pragmas),
        ):
            assert memory.execute(statement).fetchall() == file.execute(statement).fetchall()


def test_head_is_the_newest_migration() -> None:
    assert migrations.history()[0].revision == upgrade.HEAD


def test_reading_a_file_of_today_imports_neither_alembic_nor_sqlalchemy(path: str) -> None:
    filled(path)
    read = (
        "import sys, sqlcache\n"
        "with sqlcache.open_store('sqlite:///' + sys.argv[1]) as store:\n"
        "    print(store.list_keys(), sorted({'alembic', 'sqlalchemy'} & set(sys.modules)))\n"
    )
    told = subprocess.check_output([sys.executable, "-c", read, path], text=True)
    assert told == "['default/p0'] []\n"


def test_migrations_are_found_beside_the_package_too(tmp_path: Path) -> None:
    """Whoever starts Python in a checkout imports from there, whatever is installed."""
    for name in ("sqlcache", "migrations"):
        (tmp_path / name).symlink_to(ROOT / name)
    opened = "import sqlcache; sqlcache.open_store().close(); print(sqlcache.__file__)"
    told = subprocess.check_output([sys.executable, "-c", opened], text=True, cwd=tmp_path)
    assert told == f"{tmp_path}/sqlcache/__init__.py\n"


def test_every_step_goes_down_and_up_again(path: str) -> None:
    migrations.upgrade(path)
    before = schema(path)
    for each in migrations.history():
        migrations.downgrade(path, each.down_revision or "base")
        assert migrations.current(path) == each.down_revision
    for each in reversed(migrations.history()):
        migrations.upgrade(path, each.revision)
        assert migrations.current(path) == each.revision
    assert schema(path) == before
    assert migrations.check(path) == []


def test_a_store_opens_a_file_at_base_and_brings_it_up(path: str) -> None:
    filled(path)
    migrations.downgrade(path, "base")
    with sqlcache.open_store(f"sqlite:///{path}") as store:
        assert store.list() == []
        store.add(pod("a"))
    assert migrations.current(path) == migrations.history()[0].revision


def test_a_failing_migration_leaves_the_file_as_it_was(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path)
    before = schema(path)

    def fail(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("no such thing")

    monkeypatch.setattr("alembic.op.drop_table", fail, raising=True)
    with pytest.raises(DatabaseError, match="no such thing"):
        migrations.downgrade(path, "base")
    monkeypatch.undo()
    assert schema(path) == before
    with sqlcache.open_store(f"sqlite:///{path}") as store:
        assert store.list_keys() == ["default/p0"]


def newer(path: str) -> None:
    filled(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()


def foreign(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (a)")
        connection.commit()


def text(path: str) -> None:
    Path(path).write_text("apiVersion: v1\n" * 500)


def cut(path: str) -> None:
    filled(path, 2_000)
    os.truncate(path, os.path.getsize(path) // 2)


def cut_to_the_header(path: str) -> None:
    filled(path, 200)
    os.truncate(path, 60)


def scribbled(path: str) -> None:
    filled(path, 2_000)
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3000)


def directory(path: str) -> None:
    Path(path).mkdir()


def pipe(path: str) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (newer, SchemaVersionError, "9999"),
        (foreign, NotACacheError, "did not make"),
        (text, NotACacheError, "not an SQLite database"),
        (cut, DamagedDatabaseError, "cut short|damaged"),
        (cut_to_the_header, DatabaseError, "not an SQLite|cut short|damaged"),
        (scribbled, DamagedDatabaseError, "damaged"),
        (directory, NotACacheError, "directory"),
        (pipe, NotACacheError, "no regular file"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_not_touched(
    path: str, make: Callable[[str], None], error: type[Exception], words: str
) -> None:
    make(path)
    before = Path(path).read_bytes() if Path(path).is_file() else None
    for attempt in (
        lambda: sqlcache.open_store(f"sqlite:///{path}").close(),
        lambda: migrations.upgrade(path),
        lambda: migrations.downgrade(path, "base"),
        lambda: migrations.check(path),
        lambda: migrations.current(path),
    ):
        with pytest.raises(error, match=words) as raised:
            attempt()
        assert path in str(raised.value)
    assert before is None or Path(path).read_bytes() == before


def test_what_selects_is_found_in_a_file_of_the_first_version(path: str) -> None:
    """Its objects were written before anybody counted writes."""
    services = [pod(name, spec={"selector": {"app": name}}) for name in ("a", "b")]
    with sqlcache.open_store(f"sqlite:///{path}", "services") as store:
        store.replace(services, "7")
    migrations.downgrade(path, "0001")
    with sqlcache.open_store(f"sqlite:///{path}", "services") as store:
        assert store.selecting("", {"app": "a"}) == services[:1]
        store.update(pod("b", spec={"selector": {"app": "a"}}))
        assert len(store.selecting("", {"app": "a"})) == 2
        assert store.last_store_sync_resource_version() == "1"


@pytest.mark.parametrize("revision", ["nope", "", "+1", "-1", "000", "0003:0001", "\0"])
@pytest.mark.parametrize("step", [migrations.upgrade, migrations.downgrade])
def test_an_unknown_revision_is_named_with_those_known(
    path: str, step: Callable[[str, str], None], revision: str
) -> None:
    with pytest.raises(
        SchemaVersionError, match=r"no schema version .*; known: 0005, 0004, 0003, 0002, 0001"
    ):
        step(path, revision)
    assert not Path(path).exists()


def test_going_down_to_a_newer_version_is_refused(path: str) -> None:
    migrations.upgrade(path, "0002")
    with pytest.raises(SchemaVersionError, match="has schema version 0002, older than 0003"):
        migrations.downgrade(path, "0003")
    migrations.downgrade(path, "0002")
    assert migrations.current(path) == "0002"
    migrations.downgrade(path, "base")
    with pytest.raises(SchemaVersionError, match="has schema version base, older than 0001"):
        migrations.downgrade(path, "0001")


def test_going_up_to_an_older_version_changes_nothing(path: str) -> None:
    filled(path)
    newest = migrations.current(path)
    migrations.upgrade(path, "0001")
    assert migrations.current(path) == newest


def test_file_that_somebody_else_holds_is_an_error(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where Alembic runs the statement."""
    monkeypatch.setattr(engine, "_BUSY_TIMEOUT_S", 0.05)
    migrations.upgrade(path, "0001")
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        attempts: dict[Callable[[], None], str] = {
            lambda: migrations.upgrade(path): "another process has held it",
            lambda: migrations.downgrade(path, "base"): "is open in a store",
            lambda: sqlcache.open_store(f"sqlite:///{path}").close(): "another process has held it",
        }
        for attempt, reason in attempts.items():
            with pytest.raises(DatabaseError, match=reason) as raised:
                attempt()
            assert path in str(raised.value)
    assert migrations.current(path) == "0001"


IDLE = """
import sys, sqlcache
with sqlcache.open_store("sqlite:///" + sys.argv[1]) as store:
    if sys.argv[2:]:
        store.list()
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("arguments", [[], ["reads"]])
@pytest.mark.parametrize("revision", ["base", "0001", "0004"])
def test_a_file_that_a_store_has_open_is_not_taken_down(
    path: str, revision: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor in this process. The store's ids and versions would begin anew without its knowledge."""
    monkeypatch.setattr(engine, "_BUSY_TIMEOUT_S", 0.05)
    filled(path)
    newest = migrations.current(path)
    with sqlcache.open_store(f"sqlite:///{path}") as store:
        for step in (store.list, lambda: store.add(pod("b"))):
            step()
            with pytest.raises(DatabaseError, match="is open in a store, here or elsewhere"):
                migrations.downgrade(path, revision)
            assert store.list()
    command = [sys.executable, "-c", IDLE, path, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(DatabaseError, match="is open in a store, here or elsewhere"):
            migrations.downgrade(path, revision)
        other.communicate(b"\n")
    assert other.returncode == 0
    assert migrations.current(path) == newest
    migrations.downgrade(path, revision)
    assert migrations.current(path) == (None if revision == "base" else revision)


KILLED_BEFORE_WAL_IS_ON = """
import os, signal, sys
from sqlcache.store._sql import engine, upgrade

path, whose, known = sys.argv[1:]
engine.prepare_file(path)
with_tables = known == "known"
connection = engine.connect_file(path)
if whose == "ours" and with_tables:
    upgrade.upgrade(connection)
elif with_tables:
    connection.execute("CREATE TABLE theirs (x)")
connection.execute("PRAGMA cache_size=1")  # so that pages go to the file before the commit
connection.execute("BEGIN IMMEDIATE")
if whose == "ours":
    connection.execute(f"PRAGMA application_id={upgrade.APPLICATION_ID}")
connection.execute("CREATE TABLE half (x)")
for _ in range(200):
    connection.execute("INSERT INTO half VALUES (zeroblob(3000))")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("known", ["known", "unknown"])
@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_file_whose_maker_was_killed_before_wal_was_on(path: str, whose: str, known: str) -> None:
    command = [sys.executable, "-c", KILLED_BEFORE_WAL_IS_ON, path, whose, known]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert Path(f"{path}-journal").exists()
    if (whose, known) == ("theirs", "known"):
        before = Path(path).read_bytes()
        with pytest.raises(NotACacheError, match="has a journal and is nothing that sqlcache made"):
            sqlcache.open_store(f"sqlite:///{path}")
        assert Path(path).read_bytes() == before
        return
    filled(path)  # nothing was ever committed but tables of ours
    assert migrations.check(path) == []
    assert not Path(f"{path}-journal").exists()


def test_disk_that_is_full_before_there_are_tables_is_an_error(path: str) -> None:
    """The file may grow to 8 KiB; its tables take more."""
    program = (
        "import resource, signal, sys, sqlcache;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192));"
        "sqlcache.open_store(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, f"sqlite:///{path}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"DatabaseError: {path}: " in done.stderr.splitlines()[-1]
    filled(path)
    assert migrations.check(path) == []


def test_files_are_created_for_their_owner_only(path: str) -> None:
    old = os.umask(0)
    try:
        with sqlcache.open_store(f"sqlite:///{path}") as store:
            store.add(pod("a"))
            modes = {
                each.name: stat.S_IMODE(each.stat().st_mode) for each in Path(path).parent.iterdir()
            }
    finally:
        os.umask(old)
    assert set(modes.values()) == {0o600}, modes


def test_two_that_open_a_new_file_at_once_both_succeed(path: str) -> None:
    errors: list[BaseException] = []
    barrier = threading.Barrier(4)

    def open_and_write(number: int) -> None:
        try:
            barrier.wait()
            with sqlcache.open_store(f"sqlite:///{path}") as store:
                store.add(pod(f"p{number}"))
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=open_and_write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    with sqlcache.open_store(f"sqlite:///{path}") as store:
        assert len(store.list_keys()) == 4


def test_opening_waits_for_one_that_writes_before_the_log_is_on(path: str) -> None:
    filled(path)
    other = engine.connect_file(path)
    other.execute("PRAGMA journal_mode=DELETE")
    other.execute("BEGIN IMMEDIATE")  # which SQLite does not wait for when it changes the mode
    done = threading.Timer(0.3, other.execute, ("COMMIT",))
    done.start()
    try:
        with sqlcache.open_store(f"sqlite:///{path}") as store:
            store.add(pod("later"))
            assert Path(f"{path}-wal").exists()
    finally:
        done.join()
        other.close()


def test_resources_in_one_file_are_kept_apart(path: str) -> None:
    backend = f"sqlite:///{path}"
    with sqlcache.open_store(backend) as pods, sqlcache.open_store(backend, "services") as services:
        pods.replace([pod("a", labels={"app": "web"})], "1")
        services.replace([pod("b", labels={"app": "web"})], "2")
        pods.replace([pod("c", labels={"app": "web"})], "3")
        assert pods.list_keys() == ["default/c"]
        assert services.list_keys() == ["default/b"]
        assert services.count("", "app=web") == 1
        versions = [each.last_store_sync_resource_version() for each in (pods, services)]
        assert versions == ["3", "2"]


def test_index_values_of_another_session_are_made_anew(path: str) -> None:
    """The functions may have changed, or may not be registered any more."""
    backend = f"sqlite:///{path}"
    with sqlcache.open_store(backend, indexers={"by": lambda obj: ["old"]}) as store:
        store.add(pod("a", labels={"app": "web"}))
    with sqlcache.open_store(backend, indexers={"by": lambda obj: ["new"]}) as store:
        assert store.list_index_func_values("by") == ["new"]
        assert store.index_keys("by", "old") == []
    with sqlcache.open_store(backend) as store:
        store.add(pod("b"))
        store.add_indexers({"by": lambda obj: [obj["metadata"]["name"]]})
        assert sorted(store.list_index_func_values("by")) == ["a", "b"]
        assert store.count("", "app=web") == 1
