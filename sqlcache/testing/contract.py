"""What every store must do, as tests that any backend can be put through.

A backend gets one class. Its `make_store` fixture opens stores and closes them afterwards:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def make_store(self):
            with closing_stores(MyStore) as make:
                yield make

`make_store(**options)` takes what `sqlcache.open_store` takes: `indexers`, `key_func`, `transform`,
`selector_func` and `detect_mutation`. Each call gives a new, empty store. The `store` fixture is
one without options; a subclass may give another.

For failures that show the compared values, put this into `conftest.py` before anything imports the
contract:

    pytest.register_assert_rewrite("sqlcache.testing")

Promises
- Nothing but the public interface is used, so any implementation of `Indexer` can be tested.
- No test needs more than some seconds, a network or another process.

Elsewhere: what the methods promise (sqlcache.store.api).
"""

from __future__ import annotations

try:
    import pytest  # noqa: F401
except ImportError as error:
    raise ImportError("sqlcache.testing.contract needs: pip install 'sqlcache[test]'") from error

from sqlcache.testing._contract_content import ContentContract
from sqlcache.testing._contract_indexes import IndexContract
from sqlcache.testing._contract_life import LifeContract
from sqlcache.testing._contract_objects import ObjectContract
from sqlcache.testing._contract_parts import MakeStore, closing_stores, content, unchanged
from sqlcache.testing._contract_selecting import SelectingContract
from sqlcache.testing._contract_selectors import SelectorContract
from sqlcache.testing._contract_threads import ThreadContract

__all__ = ["MakeStore", "StoreContract", "closing_stores", "content", "unchanged"]


class StoreContract(
    ContentContract,
    ObjectContract,
    IndexContract,
    SelectorContract,
    SelectingContract,
    LifeContract,
    ThreadContract,
):
    """Subclass it with a `make_store` fixture. A backend never overrides a test."""
