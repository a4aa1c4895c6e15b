"""`explain`, `stats`, `migrate`, and the help of all commands."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import sqlcache
from sqlcache.cli import SUMMARIES, main
from sqlcache.testing import pod
from tests.integration.command import dump_of, error, output, run, wrong_usage

PODS = [
    pod(f"p{number}", f"ns{number % 2}", {"app": f"a{number % 3}", "name": f"p{number}"})
    for number in range(30)
]


@pytest.fixture(params=["--db", "--from"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    dump = tmp_path / "dump.json"
    dump.write_bytes(dump_of(*PODS))
    if request.param == "--from":
        return ["--from", str(dump)]
    db = f"sqlite:///{tmp_path / 'cluster.db'}"
    assert run("load", str(dump), "--db", db).exit_code == 0
    return ["--db", db]


class TestExplain:
    def test_json_says_what_the_query_does(self, source: list[str]) -> None:
        args = ["-l", "app=a1,name in (p1,p4)", "-n", "ns1", "-o", "json"]
        explanation = json.loads(output("explain", *args, *source))
        assert explanation["backend"] == "sqlite"
        assert explanation["selector"] == "app=a1,name in (p1,p4)"
        assert explanation["namespace"] == "ns1"
        assert explanation["matched"] == 1
        assert explanation["driving"] in explanation["selector"]
        assert explanation["plan"]

    def test_text(self, source: list[str]) -> None:
        lines = output("explain", "-A", "-l", "app=a1,name!=p1", *source).splitlines()
        assert lines[:5] == [
            "Selector:           app=a1,name!=p1",
            "Namespace:          <all>",
            "Backend:            sqlite",
            "Starts from:        app=a1 (about 10 objects)",
            "Matched:            9 objects",
        ]
        assert "Plan:" in lines
        assert "SQL:" in lines

    def test_everything_in_the_default_namespace(self, source: list[str]) -> None:
        lines = output("explain", *source).splitlines()
        assert lines[0].split() == ["Selector:", "<everything>"]
        assert lines[1].split() == ["Namespace:", "default"]

    def test_nodes_have_no_namespace(self, tmp_path: Path) -> None:
        path = tmp_path / "nodes.json"
        path.write_bytes(dump_of({"kind": "Node", "metadata": {"name": "n", "labels": {"a": ""}}}))
        args = ["--resource", "nodes", "--from", str(path), "-l", "a", "-o", "json"]
        assert json.loads(output("explain", *args))["matched"] == 1

    def test_usage(self) -> None:
        assert "Invalid value for '-l'" in wrong_usage("explain", "-l", "(", "--from", "x")
        assert "give --db" in wrong_usage("explain", "-l", "a")


class TestStats:
    def test_text(self, source: list[str]) -> None:
        text = output("stats", *source)
        summary, _, table = text.partition("\n\n")
        assert summary.splitlines()[:6] == [
            "Backend:          sqlite",
            "Resource:         pods",
            "Resource version: <none>",
            "Objects:          30",
            "Namespaces:       2",
            "Label keys:       2",
        ]
        rows = [line.split()[:3] for line in table.splitlines()]
        assert rows == [["LABEL", "KEY", "DISTINCT"], ["name", "30", "30"], ["app", "6", "30"]]

    def test_json(self, source: list[str]) -> None:
        found = json.loads(output("stats", "-o", "json", *source))
        assert found["objects"] == 30
        assert [entry["key"] for entry in found["label_keys"]] == ["name", "app"]
        assert found["database_bytes"] > 0

    def test_csv(self, source: list[str]) -> None:
        rows = list(csv.DictReader(io.StringIO(output("stats", "-o", "csv", *source))))
        assert [row["LABEL KEY"] for row in rows] == ["name", "app"]
        assert int(rows[0]["BYTES"]) > int(rows[1]["BYTES"]) > 0

    def test_label_keys_without_an_index(self, tmp_path: Path) -> None:
        """They are told with what they save, and explain names them."""
        dump, db = tmp_path / "dump.json", f"sqlite:///{tmp_path / 'cluster.db'}"
        dump.write_bytes(dump_of(*PODS))
        assert run("load", str(dump), "--db", db, "--labels", "limit=9").exit_code == 0
        rows = [*csv.DictReader(io.StringIO(output("stats", "-o", "csv", "--db", db)))]
        assert [(row["LABEL KEY"], row["UNINDEXED"]) for row in rows] == [
            ("name", "over the limit"),
            ("app", "-"),
        ]
        assert [row["DISTINCT"] for row in rows] == ["30", "6"]
        assert (rows[0]["BYTES"], rows[1]["SAVED"]) == ("0", "0")
        assert int(rows[0]["SAVED"]) > int(rows[1]["BYTES"]) > 0
        table = output("stats", "--db", db).partition("\n\n")[2].splitlines()
        assert table[1].split() == [
            "name",
            "30",
            "30",
            "0",
            "over",
            "the",
            "limit",
            rows[0]["SAVED"],
        ]
        (name, app) = json.loads(output("stats", "-o", "json", "--db", db))["label_keys"]
        assert (name["unindexed"], app["unindexed"]) == ("over the limit", "")
        explained = output("explain", "-A", "-l", "app=a1,name=p1", "--db", db).splitlines()
        assert "Without an index:   name=p1" in explained
        assert "Matched:            1 objects" in explained
        assert "Without an index" not in output("explain", "-A", "-l", "app=a1", "--db", db)

    def test_a_missing_file(self, tmp_path: Path) -> None:
        path = tmp_path / "x.db"
        assert "no such file" in error("stats", "--db", f"sqlite:///{path}")


class TestLabels:
    """`--labels` of the commands that fill stores."""

    @pytest.mark.parametrize(
        "command",
        [
            ("load", "x.json", "--db", "sqlite:///x.db"),
            ("mirror", "pods", "--backend", "sqlite:///x.db"),
            ("run",),
        ],
        ids=lambda command: command[0],
    )
    @pytest.mark.parametrize(
        ("policy", "says"),
        [
            ("deny=app=web", "'deny=app=web': 'app=web' is no label key: name part must"),
            ("allow=", "'allow=': '' is no label key"),
            ("allow=a deny=b", "'deny=b': allow names all keys that may be indexed: give it or"),
            ("limit=0", "'limit=0': distinct_limit is 1 or more, below 2**63, not 0"),
            ("limit=-3", "'limit=-3': distinct_limit is 1 or more, below 2**63, not -3"),
            ("limit=x", "'limit=x': a limit is a number, not 'x'"),
            ("sometimes", "'sometimes': a label policy is 'all', or some of allow="),
            ("", "'': a label policy is 'all', or some of allow="),
        ],
    )
    def test_wrong_usage(self, command: tuple[str, ...], policy: str, says: str) -> None:
        assert wrong_usage(*command, "--labels", policy).startswith(
            f"Invalid value for '--labels': {says}"
        )

    @pytest.mark.parametrize("backend", ["dict", "dict-index"])
    def test_backends_without_an_index_in_sql(self, backend: str) -> None:
        assert f"not with {backend}" in wrong_usage(
            "run", "--backend", backend, "--labels", "deny=churning"
        )

    def test_load_keeps_the_policy_of_the_file_and_takes_another(self, tmp_path: Path) -> None:
        dump, db = tmp_path / "dump.json", f"sqlite:///{tmp_path / 'cluster.db'}"
        dump.write_bytes(dump_of(*PODS))

        def unindexed(*args: str) -> dict[str, str]:
            assert run("load", str(dump), "--db", db, *args).exit_code == 0
            keys = json.loads(output("stats", "-o", "json", "--db", db))["label_keys"]
            return {each["key"]: each["unindexed"] for each in keys if each["unindexed"]}

        assert unindexed("--labels", "allow=app") == {"name": "not allowed"}
        assert unindexed() == {"name": "not allowed"}
        assert unindexed("--labels", "deny=app,churning") == {"app": "denied"}
        assert unindexed("--labels", "on-demand") == {
            "app": "not asked for",
            "name": "not asked for",
        }
        assert len(output("get", "-A", "-l", "app=a1", "--db", db).splitlines()) == 11
        assert unindexed() == {"name": "not asked for"}, "a reader had it indexed"
        assert unindexed("--labels", "all") == {}


class TestMigrate:
    @pytest.fixture
    def db(self, tmp_path: Path) -> str:
        db = f"sqlite:///{tmp_path / 'cluster.db'}"
        run("load", "-", "--db", db, stdin=dump_of(*PODS))
        return db

    def test_there_and_back(self, db: str) -> None:
        path = db.removeprefix("sqlite:///")
        head = output("migrate", "current", "--db", db)
        result = run("migrate", "downgrade", "base", "--db", db)
        assert result == (0, "", f"{path}: {head.strip()} -> base\n")
        assert output("migrate", "current", "--db", db) == "base\n"
        result = run("migrate", "upgrade", "--db", db)
        assert result == (0, "", f"{path}: base -> {head}")
        assert run("migrate", "check", "--db", db) == (0, "", f"{path}: as expected\n")

    def test_history_ends_with_the_first(self) -> None:
        assert "(after base)" in output("migrate", "history").splitlines()[-1]

    def test_differences_are_a_failure(self, db: str) -> None:
        import sqlite3

        connection = sqlite3.connect(db.removeprefix("sqlite:///"))
        connection.execute("ALTER TABLE object ADD COLUMN surprise TEXT")
        result = run("migrate", "check", "--db", db)
        assert (result.exit_code, result.stdout) == (1, "column object.surprise is not expected\n")
        assert result.stderr.endswith("differs from the schema in 1 place\n")
        connection.executescript(
            "DROP TABLE dictionary; CREATE TABLE extra (a); CREATE INDEX more ON resource (source);"
            "DROP INDEX object_by_scope; ALTER TABLE resource DROP COLUMN version;"
            "DROP TABLE sequence;"
            "CREATE TABLE sequence (name TEXT NOT NULL PRIMARY KEY, value TEXT);"
            "DROP TABLE label_key;"
            "CREATE TABLE label_key"
            " (id INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, n INTEGER NOT NULL)"
        )
        connection.close()
        result = run("migrate", "check", "--db", db)
        assert sorted(result.stdout.splitlines()) == [
            "column object.surprise is not expected",
            "column resource.version is missing",
            "column sequence.value has nullable True, not False",
            "column sequence.value has type TEXT, not BIGINT",
            "constraint without name of table label_key is missing",
            "index more of table resource is not expected",
            "index object_by_scope of table object is missing",
            "table dictionary is missing",
            "table extra is not expected",
        ]
        assert result.stderr.endswith("differs from the schema in 9 places\n")

    def test_tables_that_are_all_missing(self, db: str) -> None:
        run("migrate", "downgrade", "base", "--db", db)
        lines = run("migrate", "check", "--db", db).stdout.splitlines()
        assert "table object is missing" in lines
        assert all(line.endswith(" is missing") for line in lines)

    def test_unknown_revision(self, db: str) -> None:
        assert "nonsense" in error("migrate", "upgrade", "nonsense", "--db", db)
        assert "nonsense" in error("migrate", "downgrade", "nonsense", "--db", db)

    @pytest.mark.parametrize(
        "command", [["upgrade"], ["downgrade", "base"], ["current"], ["check"]]
    )
    def test_files_that_are_none_of_ours(self, tmp_path: Path, command: list[str]) -> None:
        path = tmp_path / "x.db"
        db = f"sqlite:///{path}"
        assert "no such file" in error("migrate", *command, "--db", db)
        assert not path.exists()
        path.write_text("hello " * 200)
        assert str(path) in error("migrate", *command, "--db", db)
        assert path.read_text() == "hello " * 200

    def test_usage(self) -> None:
        assert "Missing option '--db'" in wrong_usage("migrate", "current")
        assert "Missing argument" in wrong_usage("migrate", "downgrade", "--db", "sqlite:///x")


def commands(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield all commands below a group with their full names."""
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield f"{path} {name}", command
            yield from commands(command, f"{path} {name}")


COMMANDS = dict(commands(main, "sqlcache"))


class TestHelp:
    def test_of_the_whole(self) -> None:
        text = output("--help")
        for name, summary in SUMMARIES.items():
            assert f"  {name:<8} {summary}\n" in text

    def test_version(self) -> None:
        assert output("--version") == f"sqlcache, version {sqlcache.__version__}\n"

    @pytest.mark.parametrize("name", SUMMARIES)
    def test_summaries_are_those_of_the_commands(self, name: str) -> None:
        """They are kept apart so that help need not import every command."""
        assert COMMANDS[f"sqlcache {name}"].short_help == SUMMARIES[name]

    @pytest.mark.parametrize("name", COMMANDS)
    def test_summary_example_and_options(self, name: str) -> None:
        args = name.split()[1:]
        text = output(*args, "--help")
        assert output(*args, "-h") == text
        summary = text.split("\n\n")[1].strip()
        assert len(summary) < 80
        assert summary.endswith(".")
        for option in COMMANDS[name].params:
            if isinstance(option, click.Option):
                assert option.help is not None
                assert option.help.endswith((".", "]")), option.opts

    @pytest.mark.parametrize("name", COMMANDS)
    def test_examples_use_options_that_exist(self, name: str) -> None:
        """Every command has one, and reads it, up to the call of its function."""
        lines = [line for line in output(*name.split()[1:], "-h").splitlines() if name in line]
        examples = [line[line.index(name) :] for line in lines if line.startswith("    ")]
        assert examples
        for example in examples:
            arguments = example.removeprefix(name).partition(" > ")[0]
            COMMANDS[name].make_context(name, shlex.split(arguments))

    @pytest.mark.parametrize("name", ["nope", "_errors", "load.x"])
    def test_unknown_commands(self, name: str) -> None:
        assert "No such command" in wrong_usage(name)
