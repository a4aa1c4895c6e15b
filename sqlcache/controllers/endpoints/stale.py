"""Which versions of Endpoints are known to be replaced: a cache that still shows one is late.

Source: pkg/controller/endpoint endpoints_tracker.go.
"""

from __future__ import annotations

import threading

from sqlcache.objects import Object, meta_namespace_key_func, resource_version


class StaleEndpointsTracker:
    """Remembers, for each object, the last version that was replaced. Thread-safe."""

    def __init__(self) -> None:
        """Remember nothing."""
        self._lock = threading.Lock()
        self._replaced: dict[str, str] = {}

    def replaced(self, endpoints: Object) -> None:
        """Note that this version of an object was replaced by another."""
        with self._lock:
            self._replaced[meta_namespace_key_func(endpoints)] = resource_version(endpoints)

    def is_stale(self, endpoints: Object) -> bool:
        """Return whether this version of an object is known to be replaced."""
        with self._lock:
            known = self._replaced.get(meta_namespace_key_func(endpoints))
        return known == resource_version(endpoints)

    def forget(self, key: str) -> None:
        """Forget an object that is gone."""
        with self._lock:
            self._replaced.pop(key, None)
