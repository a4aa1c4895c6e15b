"""docs/cli.md: every command in it gives the output beside it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import orjson
import pytest

from sqlcache.cli import main
from tests.integration.command import run

ROOT = Path(__file__).parents[2]
REAL = ROOT / "tests/data/real/04-k3s-support-bundle.json"
DOCS = (ROOT / "docs/cli.md").read_text()
POD = {"kind": "Pod", "metadata": {"name": "a"}}
SECONDS = re.compile(r"\d+\.\d (?=s\b|MB\b)")


def examples() -> Iterator[tuple[str, str]]:
    """Yield commands and what they print."""
    for block in re.findall(r"```console\n(.*?)```", DOCS, re.DOTALL):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = example.partition("\n")
            yield command, expected


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the files that the examples name."""
    monkeypatch.chdir(tmp_path)
    Path("cluster.json").write_bytes(REAL.read_bytes())
    Path("broken.json").write_bytes(orjson.dumps({"items": [POD, {**POD, "metadata": {}}]}))
    Path("cut.json").write_bytes(orjson.dumps({"items": [POD, POD]})[:56])
    Path("services.json").write_bytes(orjson.dumps({**POD, "kind": "Service"}))
    for resource in ("pods", "services"):
        run("load", "cluster.json", "--db", "sqlite:///cluster.db", "--resource", resource)


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize(("command", "expected"), list(examples()))
def test_example(command: str, expected: str) -> None:
    ours, _, pipe = command.partition(" | ")
    result = run(*shlex.split(ours)[1:])
    text = result.stdout + result.stderr
    if pipe.startswith("head -"):
        text = "".join(text.splitlines(keepends=True)[: int(pipe.removeprefix("head -"))])
    elif pipe.startswith("jq ."):
        text = f"{orjson.loads(text)[pipe.removeprefix('jq .')]}\n"
    assert SECONDS.sub("0.0 ", text) == expected


def endless() -> Iterator[str]:
    """Yield commands without output: they go on until they are ended."""
    for block in re.findall(r"```sh\n(.*?)```", DOCS, re.DOTALL):
        yield from block.splitlines()


@pytest.mark.parametrize("command", list(endless()))
def test_endless_example_can_be_parsed(command: str) -> None:
    program, name, *args = shlex.split(command)
    context = click.Context(main, **main.context_settings)
    found = main.get_command(context, name)
    assert program == "sqlcache"
    assert found is not None
    found.make_context(name, args, parent=context)


def test_every_command_is_described() -> None:
    for name in ("load", "mirror", "get", "watch", "run", "explain", "stats", "migrate", "demo"):
        assert f"\n## {name}\n" in DOCS
