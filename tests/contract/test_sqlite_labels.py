"""Where not all labels are indexed: those parts of the contract that this can change.

Elsewhere: random operations and threads in these modes (tests/property), files and processes
(tests/integration/test_labels.py).
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sqlcache.store.labels import LabelPolicy
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing._contract_content import ContentContract
from sqlcache.testing._contract_indexes import IndexContract
from sqlcache.testing._contract_selectors import SelectorContract
from sqlcache.testing.contract import MakeStore, closing_stores
from tests.backends import open_file_store


class TestSqliteUnindexed(SelectorContract, IndexContract):
    """Packed, without an index of any label; values of index functions have one."""

    @pytest.fixture
    def make_store(self) -> Iterator[MakeStore]:
        # All decoded objects are kept: each answer reads them all.
        opened = partial(
            SqliteStore,
            None,
            objects="packed",
            hot_objects=20_000,
            labels=LabelPolicy(allow=()),
        )
        with closing_stores(opened) as make:
            yield make


class TestSqliteLimited(SelectorContract, ContentContract):
    """In memory, where a key loses its index at its second value."""

    @pytest.fixture
    def make_store(self) -> Iterator[MakeStore]:
        opened = partial(SqliteStore, None, labels=LabelPolicy(distinct_limit=1))
        with closing_stores(opened) as make:
            yield make


class TestSqliteFileOnDemand(SelectorContract):
    """On a file, where a key is indexed when a selector first uses it."""

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Iterator[MakeStore]:
        opened = partial(open_file_store, tmp_path, labels=LabelPolicy(on_demand=True))
        with closing_stores(opened) as make:
            yield make
