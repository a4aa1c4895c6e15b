from collections.abc import Iterator
from functools import partial

import pytest

from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.contract import MakeStore, StoreContract, closing_stores


class TestSqlite(StoreContract):
    """In memory, with the parsed objects kept in the process."""

    @pytest.fixture
    def make_store(self) -> Iterator[MakeStore]:
        with closing_stores(partial(SqliteStore, None)) as make:
            yield make
