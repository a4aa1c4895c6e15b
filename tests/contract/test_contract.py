"""The contract suite itself: what importing it needs, and that it leaves no method out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import sqlcache.testing
from sqlcache.store.api import Indexer
from sqlcache.testing.contract import StoreContract, closing_stores, unchanged
from sqlcache.testing.factories import pod
from tests.backends import BACKENDS

PUBLIC_METHODS = sorted(
    name for name in dir(Indexer) if not name.startswith("_") and callable(getattr(Indexer, name))
)


@pytest.mark.parametrize("module", ["sqlcache", "sqlcache.cli", "sqlcache.testing"])
def test_importing_needs_no_test_framework(module: str) -> None:
    """`sqlcache.testing` is for programs too; what needs pytest are modules of their own."""
    program = (
        f"import sys, {module}; print(sorted({{'pytest', 'hypothesis'}} & sys.modules.keys()))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert told.stdout == b"[]\n"


@pytest.mark.parametrize("method", PUBLIC_METHODS)
def test_contract_calls_each_method(method: str) -> None:
    folder = Path(sqlcache.testing.__file__).parent
    source = "".join(path.read_text() for path in folder.glob("_contract_*.py"))
    assert source.count(f"store.{method}(") >= 2


def test_contract_alone_says_what_is_missing() -> None:
    fixture = StoreContract.make_store
    with pytest.raises(NotImplementedError, match="make_store"):
        next(fixture.__wrapped__(StoreContract()))


def test_stores_are_closed_after_the_test(tmp_path: Path) -> None:
    for open_store in BACKENDS.values():
        with closing_stores(lambda open_store=open_store: open_store(tmp_path)) as make:
            store = make()
            store.add(pod("a"))
        with pytest.raises(RuntimeError, match="closed"):
            store.list()


def test_change_within_unchanged_is_noticed(tmp_path: Path) -> None:
    with BACKENDS["dict"](tmp_path) as store:
        store.add(pod("a", labels={"app": "web"}, rv="1"))
        changes: tuple[Callable[[], None], ...] = (
            lambda: store.bookmark("2"),
            lambda: store.add(pod("b", rv="2")),
            lambda: store.update(pod("a", labels={"app": "db"}, rv="2")),
            lambda: store.add_indexers({"x": lambda obj: ["y"]}),
        )
        for change in changes:
            with pytest.raises(AssertionError), unchanged(store):
                change()
