from collections.abc import Iterator

import pytest

from sqlcache.store.scan import DictStore
from sqlcache.testing.contract import MakeStore, StoreContract, closing_stores


class TestDict(StoreContract):
    @pytest.fixture
    def make_store(self) -> Iterator[MakeStore]:
        with closing_stores(DictStore) as make:
            yield make
