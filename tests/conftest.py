"""Set-up of all tests: failures that explain themselves, hypothesis profiles, leaks."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Before anything imports it, so that its assertions show the compared values.
pytest.register_assert_rewrite("sqlcache.testing")

_LEAVING_S = 2.0  # a thread that has done its work needs a moment to be gone

# deadline=None: two busy cores make single examples slow for no reason of ours.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _COMMON, derandomize=True, print_blob=True)
settings.register_profile("explore", _COMMON, max_examples=2_000)
settings.load_profile(os.environ.get("SQLCACHE_HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def _no_thread_is_left_behind() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + _LEAVING_S
    while left := [t for t in threading.enumerate() if t not in before and t.is_alive()]:
        if time.monotonic() > deadline:
            pytest.fail(f"the test left threads behind: {', '.join(t.name for t in left)}")
        time.sleep(0.01)


def pytest_collection_finish() -> None:
    """Take modules and the thousands of tests out of garbage collections: some 0.3 s for each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _nothing_is_left_frozen() -> Iterator[None]:
    """The bench freezes what it holds; for the tests after it that would all be leaked.

    Others end with everything thawed, also what was kept from the beginning.
    """
    before = gc.get_freeze_count()
    yield
    if not 0 < gc.get_freeze_count() <= before:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
