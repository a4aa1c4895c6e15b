"""What the tests of informers share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlcache.store.api import Indexer
from sqlcache.testing.clock import VirtualClock
from tests.backends import BACKENDS


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Indexer]:
    with BACKENDS[request.param](tmp_path) as store:
        yield store
