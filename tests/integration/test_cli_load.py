"""`sqlcache load`: exact content, all or nothing, one line for everything that is wrong."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import orjson
import pytest

from sqlcache.objects import Object
from sqlcache.store import open_store
from sqlcache.testing import keys, pod
from tests.integration.command import dump_of, error, run, wrong_usage
from tests.unit.test_dumps import JSON_ERRORS, YAML_ERRORS

WEB = pod("web", "shop", {"app": "web"}, spec={"nodeName": "n1"})
OLD = pod("old", "shop")
SERVICE: Object = {"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}}


@pytest.fixture
def db(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'cluster.db'}"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(content: bytes, name: str = "dump.json") -> str:
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write


def content(db: str, resource: str = "pods") -> list[Object]:
    with open_store(db, resource) as store:
        return store.list()


def test_a_file_holds_what_the_dump_holds(db: str, write: Any) -> None:
    result = run("load", write(dump_of(WEB, OLD)), "--db", db)
    assert (result.exit_code, result.stdout) == (0, "")
    assert sorted(content(db), key=str) == sorted([WEB, OLD], key=str)
    with open_store(db) as store:
        assert keys(store.select("shop", "app=web")) == ["shop/web"]
        assert store.last_store_sync_resource_version() == ""


def test_summary_counts(db: str, write: Any) -> None:
    path = write(dump_of(WEB, OLD, SERVICE, WEB))
    stderr = run("load", path, "--db", db).stderr
    assert stderr.startswith(
        "Loaded 2 pods (1 came more than once, passed over 1 of other resources) from 0.0 MB into "
    )
    assert stderr.count("\n") == 1


def test_objects_that_are_gone_from_the_dump_go_from_the_file(db: str, write: Any) -> None:
    run("load", write(dump_of(WEB, OLD)), "--db", db)
    run("load", write(dump_of(WEB)), "--db", db)
    assert content(db) == [WEB]


def test_an_empty_list_empties_the_file(db: str, write: Any) -> None:
    run("load", write(dump_of(WEB)), "--db", db)
    assert run("load", write(dump_of()), "--db", db).exit_code == 0
    assert content(db) == []


def test_resources_are_apart(db: str, write: Any) -> None:
    path = write(dump_of(WEB, SERVICE))
    run("load", path, "--db", db)
    run("load", path, "--db", db, "--resource", "svc")
    assert content(db) == [WEB]
    assert content(db, "services") == [SERVICE]


def test_of_several_dumps_the_last_wins(db: str, write: Any) -> None:
    newer = pod("web", "shop", {"app": "api"})
    first, second = write(dump_of(WEB, OLD)), write(dump_of(newer), "newer.json")
    run("load", first, second, "--db", db)
    assert keys(content(db)) == ["shop/old", "shop/web"]
    assert newer in content(db)


def test_standard_input(db: str) -> None:
    assert run("load", "-", "--db", db, stdin=dump_of(WEB)).exit_code == 0
    assert content(db) == [WEB]


def test_a_directory(db: str, write: Any, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    write(dump_of(WEB), "d/pods.json")
    write(dump_of(SERVICE), "d/services.json")
    assert run("load", str(tmp_path / "d"), "--db", db).exit_code == 0
    assert content(db) == [WEB]


def test_the_file_of_a_real_cluster(db: str) -> None:
    path = Path(__file__).parents[1] / "data/real/04-k3s-support-bundle.json"
    dump = orjson.loads(path.read_bytes())
    for resource in ("pods", "services", "endpoints", "endpointslices", "nodes"):
        assert run("load", str(path), "--db", db, "--resource", resource).exit_code == 0
        assert sorted(content(db, resource), key=str) == sorted(dump[resource], key=str)


@pytest.mark.parametrize("case", JSON_ERRORS)
def test_wrong_json_changes_nothing(db: str, write: Any, case: str) -> None:
    """After a sound dump, so that the load is under way when it comes."""
    run("load", write(dump_of(OLD)), "--db", db)
    text, expected = JSON_ERRORS[case]
    path = write(text.encode() if isinstance(text, str) else text, "wrong.json")
    message = error("load", write(dump_of(WEB)), path, "--db", db)
    assert message.startswith(f"{path}: ")
    assert expected in message
    assert content(db) == [OLD]


@pytest.mark.parametrize("case", [case for case in YAML_ERRORS if case != "second document"])
def test_input_wrong_from_its_start_makes_no_file(
    db: str, write: Any, tmp_path: Path, case: str
) -> None:
    text, expected = YAML_ERRORS[case]
    path = write(text.encode() if isinstance(text, str) else text, "wrong.yaml")
    assert expected in error("load", path, "--db", db)
    assert os.listdir(tmp_path) == ["wrong.yaml"]


def test_a_dump_that_breaks_later_leaves_a_sound_empty_file(db: str, write: Any) -> None:
    path = write(dump_of(*[pod(f"p{number}") for number in range(3000)])[:-100])
    assert "cut short" in error("load", path, "--db", db)
    assert content(db) == []


def test_a_missing_dump_is_noticed_before_the_others_are_read(
    db: str, write: Any, tmp_path: Path
) -> None:
    missing = str(tmp_path / "missing.json")
    message = error("load", write(dump_of(WEB)), missing, "--db", db)
    assert message == f"{missing}: No such file or directory"
    assert os.listdir(tmp_path) == ["dump.json"]


def test_a_dump_without_a_name(db: str, write: Any) -> None:
    """What an empty variable of a shell becomes."""
    assert error("load", write(dump_of(WEB)), "", "--db", db) == "'': No such file or directory"


@pytest.mark.parametrize(
    ("resource", "count", "expected"),
    [
        ("po", 1, "1 pod "),
        ("pods", 2, "2 pods "),
        ("ep", 1, "1 endpoints "),
        ("widgets.example.com", 1, "1 object of widgets.example.com "),
    ],
)
def test_what_is_loaded_is_counted(db: str, resource: str, count: int, expected: str) -> None:
    kind = {"po": "Pod", "pods": "Pod", "ep": "Endpoints"}.get(resource, "Widget")
    version = "example.com/v1" if kind == "Widget" else "v1"
    objects = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": f"a{number}"}}
        for number in range(count)
    ]
    result = run("load", "-", "--db", db, "--resource", resource, stdin=dump_of(*objects))
    assert result.stderr.startswith(f"Loaded {expected}from ")


def test_a_file_in_a_folder_that_does_not_exist(write: Any, tmp_path: Path) -> None:
    path = tmp_path / "missing" / "cluster.db"
    message = error("load", write(dump_of(WEB)), "--db", f"sqlite:///{path}")
    assert message == f"{path}: No such file or directory"


@pytest.mark.parametrize("made_by", ["text", "other", "directory"])
def test_a_file_that_is_not_ours_is_not_touched(write: Any, tmp_path: Path, made_by: str) -> None:
    path = tmp_path / "other.db"
    if made_by == "text":
        path.write_text("hello " * 1000)
    elif made_by == "other":
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t (x)")
        connection.close()
    else:
        path.mkdir()
    before = path.read_bytes() if path.is_file() else b""
    assert str(path) in error("load", write(dump_of(WEB)), "--db", f"sqlite:///{path}")
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize("wrong", ["foreign", "newer", "cut short"])
@pytest.mark.parametrize("command", ["load", "get"])
def test_a_file_that_is_refused_gets_none_beside_it(
    write: Any, tmp_path: Path, command: str, wrong: str
) -> None:
    """Even a reader of SQLite makes some beside a file in WAL mode."""
    path = tmp_path / "other.db"
    dump, db = write(dump_of(WEB)), f"sqlite:///{path}"
    if wrong != "foreign":
        run("load", dump, "--db", db)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    connection.execute("CREATE TABLE t (x)")
    if wrong == "newer":
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    connection.close()
    if wrong == "cut short":
        os.truncate(path, path.stat().st_size - 4096)
    before = path.read_bytes(), sorted(os.listdir(tmp_path))
    options = [dump] if command == "load" else ["pods"]
    assert str(path) in error(command, *options, "--db", db)
    after = path.read_bytes(), sorted(os.listdir(tmp_path))
    assert after == before


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["load", "--db", "sqlite:///x.db"], "Missing argument"),
        (["load", "x.json"], "Missing option '--db'"),
        (["load", "x.json", "--db", "x.db"], "did you mean sqlite:///x.db?"),
        (["load", "x.json", "--db", ""], "is no sqlite:///PATH"),
        (["load", "x.json", "--db", "sqlite:///"], "is no sqlite:///PATH"),
        (["load", "x.json", "--db", "sqlite"], "is no sqlite:///PATH"),
        (["load", "x.json", "--db", "postgresql://host/x"], "is no sqlite:///PATH"),
        (["load", "x.json", "--db", "sqlite:///x.db", "--resource", ""], "a resource has a name"),
        (["load", "x.json", "--db", "sqlite:///x.db", "--append"], "No such option"),
    ],
)
def test_wrong_usage(args: list[str], expected: str) -> None:
    assert expected in wrong_usage(*args)
