from collections.abc import Iterator
from functools import partial

import pytest

from sqlcache.testing.contract import MakeStore, StoreContract, closing_stores
from tests.backends import SoonCompressed


class TestSqlitePacked(StoreContract):
    """In memory, with the objects as bytes in their rows, JSON or compressed as soon as there are
    enough to train a dictionary on; a few decoded ones are kept."""

    @pytest.fixture(params=[(0, False), (3, True)], ids=["cold", "compressed-hot-3"])
    def make_store(self, request: pytest.FixtureRequest) -> Iterator[MakeStore]:
        hot, compress = request.param
        opened = partial(SoonCompressed, None, objects="packed", hot_objects=hot, compress=compress)
        with closing_stores(opened) as make:
            yield make
