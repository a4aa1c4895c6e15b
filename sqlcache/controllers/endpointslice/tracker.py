"""Which generations of slices were written last: a cache that shows older ones is late.

A sync on such a cache would make slices twice, or undo what the sync before it did.

Differences from Kubernetes: a sync that met a stale cache is not left to retries alone, it comes
again when the cache shows what was written. A slice that somebody deletes may be gone from the
cache before the answer to our own write of it is noted, or may never have come there; upstream then
waits for it for ever.

Source: endpointslice/util endpointslice_tracker.go.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from sqlcache.controllers.endpointslice.slices import service_key
from sqlcache.objects import Object

_DELETED = -1  # the generation of a slice that was deleted, until the cache shows that
GONE = 1024  # slices that are known to be gone; an answer does not come later than so many others


class Written(NamedTuple):
    """A slice as it was written.

    Attributes:
        name: of the slice.
        generation: the one that a cache must show; -1 if it was deleted.
    """

    name: str
    generation: int


class SliceTracker:
    """Remembers the generation of each slice that was written, by service. Thread-safe."""

    def __init__(self) -> None:
        """Remember nothing."""
        self._lock = threading.Lock()
        self._by_service: dict[str | None, dict[str, Written]] = {}
        self._awaited: set[str | None] = set()  # services whose last sync met a stale cache
        self._gone: deque[str] = deque(maxlen=GONE)

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
        shown = {_uid(each): _generation(each) for each in slices}
        stale = any(
            uid in shown if generation == _DELETED else shown.get(uid, _DELETED) < generation
            for uid, (_, generation) in self._known(service).items()
        )
        with self._lock:
            (self._awaited.add if stale else self._awaited.discard)(service)
        return stale

    def missing(self, service: str, slices: Iterable[Object]) -> dict[str, str]:
        """Return the slices of a service that were written and are not among these: name by uid."""
        shown = set(map(_uid, slices))
        return {
            uid: name
            for uid, (name, generation) in self._known(service).items()
            if generation != _DELETED and uid not in shown
        }

    def forget_slice(self, service: str, uid: str) -> None:
        """Forget a slice that is gone though the cache never said so."""
        with self._lock:
            self._by_service.get(service, {}).pop(uid, None)

    def saw_addition(self, endpoint_slice: Object) -> None:
        """Note that a slice came to the cache: also one that was taken for gone.

        A list from an API server that is behind takes slices away, and the next one brings them
        back under the same uid.
        """
        with self._lock:
            if _uid(endpoint_slice) in self._gone:
                self._gone.remove(_uid(endpoint_slice))

    def is_news(self, endpoint_slice: Object) -> bool:
        """Return whether a slice that a cache shows asks for a sync of its service.

        It does if it is newer than what was written, or was not written here; and if the last sync
        found that the cache is stale.
        """
        if self._is_awaited(endpoint_slice):
            return True
        known = self._known(service_key(endpoint_slice)).get(_uid(endpoint_slice))
        return known is None or _generation(endpoint_slice) > known.generation

    def saw_deletion(self, endpoint_slice: Object) -> bool:
        """Note that a slice is gone from the cache.

        Returns:
            Whether that asks for a sync of its service: it was written here and then deleted by
            somebody else, or the last sync found that the cache is stale.
        """
        with self._lock:
            written = self._by_service.get(service_key(endpoint_slice), {})
            known = written.pop(_uid(endpoint_slice), None)
            self._gone.append(_uid(endpoint_slice))
        if known is None:
            return False
        return known.generation != _DELETED or self._is_awaited(endpoint_slice)

    def forget(self, service: str) -> None:
        """Forget the slices of a service that is gone."""
        with self._lock:
            self._by_service.pop(service, None)
            self._awaited.discard(service)

    def _is_awaited(self, endpoint_slice: Object) -> bool:
        with self._lock:
            return service_key(endpoint_slice) in self._awaited

    def _known(self, service: str | None) -> dict[str, Written]:
        with self._lock:
            return dict(self._by_service.get(service, {}))

    def _note(self, endpoint_slice: Object, generation: int) -> None:
        with self._lock:
            if _uid(endpoint_slice) in self._gone:
                return
            written = self._by_service.setdefault(service_key(endpoint_slice), {})
            written[_uid(endpoint_slice)] = Written(endpoint_slice["metadata"]["name"], generation)


def _uid(endpoint_slice: Object) -> str:
    return endpoint_slice["metadata"].get("uid") or ""


def _generation(endpoint_slice: Object) -> int:
    return endpoint_slice["metadata"].get("generation") or 0
