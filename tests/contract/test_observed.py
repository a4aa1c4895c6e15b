"""The contract through a store whose calls are timed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from sqlcache.metrics import PrometheusMetrics
from sqlcache.store.api import Indexer
from sqlcache.store.indexed import DictIndexStore
from sqlcache.testing.contract import MakeStore, StoreContract, closing_stores


class TestObserved(StoreContract):
    """On the backend with the least to hide behind."""

    @pytest.fixture
    def make_store(self) -> Iterator[MakeStore]:
        metrics = PrometheusMetrics(CollectorRegistry())

        def open_store(**options: Any) -> Indexer:
            return metrics.observed(DictIndexStore(**options))

        with closing_stores(open_store) as make:
            yield make
