"""Ctrl-C before or right after any statement of a write leaves the state before or after it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from sqlcache.objects import Object
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.factories import pod
from tests.property.test_views import MODES, QUESTIONS, keyed, opened

WRITES = 200
MOST_STATEMENTS = 20  # of a write
Key = tuple[str, str]
State = dict[Key, Object]
Write = tuple[Callable[[], None], State]


class _Interrupted(BaseException):
    """As a KeyboardInterrupt, which would end the tests."""


class _Connection(sqlite3.Connection):
    """Is interrupted once.

    Attributes:
        left: how many statements until then; 0 for never.
        after: the last of them is run before.
    """

    left: ClassVar[int] = 0
    after: ClassVar[bool] = False

    def execute(self, *args: Any) -> sqlite3.Cursor:
        due = _Connection.left == 1
        _Connection.left = max(0, _Connection.left - 1)
        if due and not _Connection.after:
            raise _Interrupted
        cursor = super().execute(*args)
        if due:
            raise _Interrupted
        return cursor


def key(obj: Object) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def is_right(store: SqliteStore, state: State) -> bool:
    """Return whether a store holds these objects, and answers for them, asked twice."""
    return keyed(store.list()) == state and all(
        keyed(store.select(namespace, selector))
        == {
            each: obj
            for each, obj in state.items()
            if namespace in ("", each[0]) and selector.matches(obj["metadata"]["labels"])
        }
        for namespace, selector in QUESTIONS
        for _ in range(2)
    )


def a_pod(random: Random, rv: int) -> Object:
    labels = {"app": random.choice(["web", "db"]), "tier": random.choice("123")}
    name, namespace = f"p{random.randrange(9)}", random.choice(["shop", "lab"])
    return pod(name, namespace, labels=labels, rv=str(rv))


def a_write(store: SqliteStore, state: State, random: Random, rv: int) -> Write:
    """Return a write, and the state after it."""
    objs = {key(obj): obj for obj in (a_pod(random, rv) for _ in range(4))}
    first, obj = next(iter(objs.items()))
    without = {each: stored for each, stored in state.items() if each != first}
    match random.choice(["apply", "replace", "add", "delete"]):
        case "add":
            return partial(store.add, obj), {**state, first: obj}
        case "delete":
            return partial(store.delete, obj), without
        case "replace":
            return partial(store.replace, list(objs.values()), str(rv)), objs
        case _:
            events = [
                {"type": "DELETED" if each is obj else "MODIFIED", "object": each}
                for each in objs.values()
            ]
            others = {each: stored for each, stored in objs.items() if each != first}
            return partial(store.apply, events), {**without, **others}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("after", [False, True])
def test_state_is_that_before_or_after(
    mode: str, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=_Connection))
    monkeypatch.setattr(_Connection, "after", after)
    random = Random(f"{mode} {after}")
    with opened(mode, tmp_path, hot_objects=8) as store:
        state: State = {}
        interrupted = 0
        for turn in range(WRITES):
            write, written = a_write(store, state, random, turn)
            _Connection.left = 1 + turn % MOST_STATEMENTS
            try:
                write()
            except _Interrupted:
                interrupted += 1
            finally:
                _Connection.left = 0
            if not is_right(store, state):
                assert is_right(store, written)
                state = written
        assert interrupted >= WRITES / MOST_STATEMENTS
