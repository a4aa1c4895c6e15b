"""What a wheel is made of: the lists in pyproject.toml against the files that there are."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def folder_of(package: str) -> Path:
    """Return where the files of a package lie."""
    folders: dict[str, str] = SETTINGS["package-dir"]
    for name in sorted(folders, key=len, reverse=True):
        if package == name or package.startswith(f"{name}."):
            below = package.removeprefix(name).replace(".", "/").lstrip("/")
            return ROOT / folders[name] / below
    raise AssertionError(package)


def test_every_package_is_listed() -> None:
    """One that is not works here, and is missing in a wheel."""
    tops = (ROOT / "sqlcache", ROOT / "migrations")
    present = {path.parent for top in tops for path in top.rglob("__init__.py")}
    assert {folder_of(package) for package in SETTINGS["packages"]} == present


def test_every_file_that_is_no_module_is_listed() -> None:
    listed = {
        path
        for package, patterns in SETTINGS["package-data"].items()
        for pattern in patterns
        for path in folder_of(package).glob(pattern)
    }
    present = {
        path
        for package in SETTINGS["packages"]
        for path in folder_of(package).iterdir()
        if path.is_file() and path.suffix not in (".py", ".pyc", ".pyi")
    }
    assert listed == present
    assert {path.name for path in listed} >= {"py.typed", "schema.json", "script.py.mako"}


def test_names_of_the_package_are_there_when_they_are_asked_for() -> None:
    """In a process of its own: here everything is imported already."""
    script = (
        "import sys, sqlcache\n"
        "assert not {'sqlalchemy', 'sqlite3', 'sqlcache.store'} & {*sys.modules}\n"
        "assert {*sqlcache.__all__, 'store', 'errors'} <= {*dir(sqlcache)}\n"
        "assert sqlcache.errors.SelectorError.__module__ == 'sqlcache.errors'\n"
        "for name in sqlcache.__all__:\n"
        "    assert getattr(sqlcache, name) is getattr(sqlcache, name)\n"
        "assert sqlcache.open_store is sqlcache.store.open_store\n"
        "try:\n"
        "    sqlcache.nothing\n"
        "except AttributeError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("module 'sqlcache' has no attribute 'nothing'\n", "")


@pytest.mark.parametrize(
    ("missing", "module", "extra"),
    [
        ("aiohttp", "sqlcache.testing.apiserver", "testing"),
        ("aiohttp", "sqlcache.testing.apiserver.server", "testing"),
        ("pytest", "sqlcache.testing.contract", "test"),
        ("hypothesis", "sqlcache.testing.strategies", "test"),
    ],
)
def test_what_needs_an_extra_names_it(missing: str, module: str, extra: str) -> None:
    """In a process of its own: here all of them are imported already."""
    script = f"import sys; sys.modules[{missing!r}] = None; import {module}"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    name = ".".join(module.split(".")[:3])
    last = f"ImportError: {name} needs: pip install 'sqlcache[{extra}]'"
    assert done.stderr.splitlines()[-1] == last
