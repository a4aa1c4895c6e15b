"""Which backend `open_store` opens, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqlcache.errors import BackendError
from sqlcache.store import open_store


@pytest.mark.parametrize(
    ("variable", "argument", "backend"),
    [
        (None, None, "sqlite"),
        ("", None, "sqlite"),
        ("dict", None, "dict"),
        ("dict", "dict-index", "dict-index"),
        ("nonsense", "sqlite", "sqlite"),
        ("sqlite:///cache.db", None, "sqlite"),
    ],
)
def test_argument_then_variable_then_default_name_the_backend(
    variable: str | None,
    argument: str | None,
    backend: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SQLCACHE_BACKEND", raising=False)
    if variable is not None:
        monkeypatch.setenv("SQLCACHE_BACKEND", variable)
    with open_store(argument) as store:
        assert store.stats().backend == backend
    assert [path.name for path in tmp_path.iterdir()] == (
        ["cache.db"] if variable and "cache.db" in variable else []
    )


@pytest.mark.parametrize(
    ("backend", "says"),
    [
        ("redis", "unknown backend 'redis': choose dict, dict-index, sqlite or sqlite:///path"),
        ("", "unknown backend ''"),
        ("sqlite://", "unknown backend"),
        ("sqlite:///", "unknown backend"),
        ("sqlite:///:memory:", "the backend in memory is 'sqlite'"),
        ("sqlite:///a\0b", "contains no NUL"),
    ],
)
def test_what_is_no_backend_is_refused(
    backend: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BackendError, match=says):
        open_store(backend)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("backend", ["dict", "dict-index", "sqlite", "sqlite:///cache.db"])
@pytest.mark.parametrize(
    ("resource", "error"),
    [(None, TypeError), (b"pods", TypeError), ("po\0ds", BackendError), ("\ud800", BackendError)],
    ids=ascii,
)
def test_resource_is_text_that_every_backend_can_keep(
    backend: str,
    resource: Any,
    error: type[Exception],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match="resource"):
        open_store(backend, resource)
    assert list(tmp_path.iterdir()) == []
