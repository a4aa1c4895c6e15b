from collections.abc import Iterator
from functools import partial

import pytest

from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.contract import MakeStore, StoreContract, closing_stores


class TestSqlitePacked(StoreContract):
    """In memory, with the objects as bytes in their rows; a few decoded ones are kept."""

    @pytest.fixture(params=[0, 3], ids=lambda hot: f"hot-{hot}")
    def make_store(self, request: pytest.FixtureRequest) -> Iterator[MakeStore]:
        opened = partial(SqliteStore, None, objects="packed", hot_objects=request.param)
        with closing_stores(opened) as make:
            yield make
