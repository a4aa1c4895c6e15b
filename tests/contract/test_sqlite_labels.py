from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sqlcache.store.labels import LabelPolicy
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.contract import MakeStore, StoreContract, closing_stores
from tests.backends import open_file_store


class TestSqliteUnindexed(StoreContract):
    """Packed, without an index of any label."""

    @pytest.fixture
    def make_store(self) -> Iterator[MakeStore]:
        opened = partial(SqliteStore, None, objects="packed", labels=LabelPolicy(allow=()))
        with closing_stores(opened) as make:
            yield make


class TestSqliteLimited(StoreContract):
    """In memory, where a key loses its index at its second value."""

    @pytest.fixture
    def make_store(self) -> Iterator[MakeStore]:
        opened = partial(SqliteStore, None, labels=LabelPolicy(distinct_limit=1))
        with closing_stores(opened) as make:
            yield make


class TestSqliteFileOnDemand(StoreContract):
    """On a file, where a key is indexed when a selector first uses it."""

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Iterator[MakeStore]:
        opened = partial(open_file_store, tmp_path, labels=LabelPolicy(on_demand=True))
        with closing_stores(opened) as make:
            yield make
