"""Which generations of slices were written last: a cache that shows older ones is late.

A sync on such a cache would make slices twice, or undo what the sync before it did.

Source: endpointslice/util endpointslice_tracker.go.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from sqlcache.controllers.endpointslice.slices import service_key
from sqlcache.objects import Object

_DELETED = -1  # the generation of a slice that was deleted, until the cache shows that


class SliceTracker:
    """Remembers the generation of each slice that was written, by service. Thread-safe."""

    def __init__(self) -> None:
        """Remember nothing."""
        self._lock = threading.Lock()
        self._by_service: dict[str | None, dict[str, int]] = {}

    def wrote(self, endpoint_slice: Object) -> None:
        """Note a slice as the API server returned it from a write."""
        self._note(endpoint_slice, _generation(endpoint_slice))

    def deleted(self, endpoint_slice: Object) -> None:
        """Note that a slice was deleted: a cache that shows it is late."""
        self._note(endpoint_slice, _DELETED)

    def is_stale(self, service: str, slices: Iterable[Object]) -> bool:
        """Return whether these slices of a service are older than what was written.

        They are if one has an older generation or was deleted, or one that was written is missing.

        Args:
            service: its key.
            slices: all that the cache shows, but those that somebody is deleting.
        """
        with self._lock:
            known = dict(self._by_service.get(service, ()))
        shown = {_uid(each): _generation(each) for each in slices}
        return any(
            uid in shown if generation == _DELETED else shown.get(uid, _DELETED) < generation
            for uid, generation in known.items()
        )

    def is_news(self, endpoint_slice: Object) -> bool:
        """Return whether a slice is newer than what was written, or was not written here."""
        known = self._generation(endpoint_slice)
        return known is None or _generation(endpoint_slice) > known

    def saw_deletion(self, endpoint_slice: Object) -> bool:
        """Note that a slice is gone from the cache.

        Returns:
            Whether it was written here and then deleted by somebody else.
        """
        with self._lock:
            generations = self._by_service.get(service_key(endpoint_slice), {})
            known = generations.pop(_uid(endpoint_slice), None)
        return known is not None and known != _DELETED

    def forget(self, service: str) -> None:
        """Forget the slices of a service that is gone."""
        with self._lock:
            self._by_service.pop(service, None)

    def _generation(self, endpoint_slice: Object) -> int | None:
        with self._lock:
            generations = self._by_service.get(service_key(endpoint_slice), {})
            return generations.get(_uid(endpoint_slice))

    def _note(self, endpoint_slice: Object, generation: int) -> None:
        with self._lock:
            generations = self._by_service.setdefault(service_key(endpoint_slice), {})
            generations[_uid(endpoint_slice)] = generation


def _uid(endpoint_slice: Object) -> str:
    return endpoint_slice["metadata"].get("uid") or ""


def _generation(endpoint_slice: Object) -> int:
    return endpoint_slice["metadata"].get("generation") or 0
