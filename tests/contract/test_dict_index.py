from collections.abc import Iterator

import pytest

from sqlcache.store.indexed import DictIndexStore
from sqlcache.testing.contract import MakeStore, StoreContract, closing_stores


class TestDictIndex(StoreContract):
    @pytest.fixture
    def make_store(self) -> Iterator[MakeStore]:
        with closing_stores(DictIndexStore) as make:
            yield make
