"""Fixtures with a test API server.

In a conftest.py:

    pytest_plugins = ["sqlcache.testing.pytest_plugin"]

| fixture | gives |
|---|---|
| `api_server` | a fresh server, stopped after the test |
| `api_server_factory` | a function that starts servers with options; all are stopped |
| `api_server_kubeconfig` | path of a kubeconfig file for `api_server` |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from sqlcache.testing.apiserver import ApiServer

StartServer: TypeAlias = Callable[..., ApiServer]


@pytest.fixture
def api_server_factory() -> Iterator[StartServer]:
    """Return a function that starts a server; it takes the arguments of `ApiServer`."""
    with ExitStack() as servers:

        def start(**options: Any) -> ApiServer:
            return servers.enter_context(ApiServer(**options))

        yield start


@pytest.fixture
def api_server(api_server_factory: StartServer) -> ApiServer:
    """Return a fresh server that lets everybody do all."""
    return api_server_factory()


@pytest.fixture
def api_server_kubeconfig(api_server: ApiServer, tmp_path: Path) -> Path:
    """Return the path of a kubeconfig file whose only context is `api_server`."""
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(api_server.kubeconfig()))  # JSON is YAML
    return path
