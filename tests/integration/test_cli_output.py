"""Tables, CSV, JSON and YAML as they are written."""

from __future__ import annotations

import csv
import io
import json
import sys
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sqlcache.cli._errors import describe
from sqlcache.cli._output import (
    OutputError,
    Table,
    write_csv,
    write_json,
    write_list,
    write_object,
    write_table,
    write_yaml,
)
from sqlcache.errors import DatabaseError, DumpError
from sqlcache.testing import pod

TABLE = Table(("NAME", "AGE", "L"), [["a", "5d", ""], ["long-name", "1", "x"]])


def written(show: Any, *args: Any, **options: Any) -> str:
    """Return what a function writes to standard output."""
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        show(*args, **options)
    assert isinstance(stdout.buffer, io.BytesIO)
    return stdout.buffer.getvalue().decode()


def test_table_is_laid_out_as_kubectl_does() -> None:
    assert written(write_table, TABLE) == (
        "NAME        AGE   L\n"
        "a           5d    \n"
        "long-name   1     x\n"
    )  # fmt: skip


def test_table_without_headers() -> None:
    assert written(write_table, TABLE, headers=False) == (
        "a           5d    \n"
        "long-name   1     x\n"
    )  # fmt: skip


@pytest.mark.parametrize("headers", [True, False])
def test_table_without_rows(headers: bool) -> None:
    expected = "NAME   AGE   L\n" if headers else ""
    assert written(write_table, Table(TABLE.headers, []), headers=headers) == expected


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("two\nlines", "two..."),
        ("\rover", "..."),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("bell\x07", "bell\\x07"),
        ("tab\t", "tab\\t"),
        ("c1\x9b2J", "c1\\x9b2J"),
        ("ä日", "ä日"),
    ],
)
def test_cells_cannot_command_the_terminal(cell: str, shown: str) -> None:
    assert written(write_table, Table(["N"], [[cell]]), headers=False) == f"{shown}\n"


@given(
    st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=2))
)
def test_csv_is_read_back_as_it_was(rows: list[list[str]]) -> None:
    text = written(write_csv, Table(["A", "B"], rows))
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["A", "B"], *rows]


PODS = [
    pod("b", labels={"z": "1", "a": "\u2028ü\x1b"}, x={}, y=[]),
    pod("a", spec={"n": [1, None]}),
]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_list_is_that_of_kubectl(count: int) -> None:
    """Four spaces, sorted names, the fields of a List in their order."""
    document = {
        "apiVersion": "v1",
        "items": PODS[:count],
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }
    expected = json.dumps(document, indent=4, sort_keys=True, ensure_ascii=False)
    assert written(write_list, PODS[:count]) == f"{expected}\n".replace("\x1b", "\\u001b")


def test_object_is_that_of_kubectl() -> None:
    expected = json.dumps(PODS[1], indent=4, sort_keys=True)
    assert written(write_object, PODS[1]) == f"{expected}\n"


def test_dataclasses_become_objects() -> None:
    assert written(write_json, {"a": (1, 2)}) == '{\n  "a": [\n    1,\n    2\n  ]\n}\n'


def test_yaml_is_read_back_as_it_was() -> None:
    text = written(write_yaml, {"items": PODS, "x": "2021-01-01", "y": "on", "z": "012"})
    assert yaml.safe_load(text) == {"items": PODS, "x": "2021-01-01", "y": "on", "z": "012"}


def test_yaml_without_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(OutputError, match="pip install 'sqlcache\\[yaml\\]'"):
        write_yaml({})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError(2, "No such file or directory", "x"), "x: No such file or directory"),
        (FileNotFoundError(2, "No such file or directory", ""), "'': No such file or directory"),
        (OSError(2, "Not there", "a", None, "b"), "a: b: Not there"),
        (OSError("without a number"), "without a number"),
        (DatabaseError("x.db", "is full"), "x.db: is full"),
        (DumpError("new\nline\x1b[2J", "", "y"), "new line [2J: y"),
        (OSError(), "OSError"),
    ],
)
def test_errors_are_one_line(error: Exception, expected: str) -> None:
    assert describe(error) == expected
