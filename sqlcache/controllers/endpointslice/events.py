"""Slice events, turned into the keys of services that need a sync.

What this controller wrote comes back as events, too; the tracker tells it from what others did.
A sync waits a second after a slice event, so that one will do for changes to several slices.

Source: pkg/controller/endpointslice onEndpointSliceAdd, onEndpointSliceUpdate,
onEndpointSliceDelete.
"""

from __future__ import annotations

import logging
from typing import Any

from sqlcache.controllers.endpointslice.slices import is_managed, service_key
from sqlcache.controllers.endpointslice.tracker import SliceTracker
from sqlcache.objects import DeletedFinalStateUnknown, Object
from sqlcache.workqueue import WorkQueue

_LOG = logging.getLogger(__name__)

MIN_DELAY_S = 1.0


class SliceEvents:
    """A handler of EndpointSlices that has their services synced when somebody changed them."""

    def __init__(
        self, queue: WorkQueue[str], tracker: SliceTracker, *, batch_period_s: float = 0.0
    ) -> None:
        """Make a handler.

        Args:
            queue: gets the keys of services.
            tracker: knows what this controller wrote.
            batch_period_s: how long a service waits for more events, if that is over a second.
        """
        self._queue, self._tracker = queue, tracker
        self._delay_s = max(MIN_DELAY_S, batch_period_s)

    def on_add(self, endpoint_slice: Object, is_in_initial_list: bool, /) -> None:
        """Note a slice that came."""
        self._tracker.saw_addition(endpoint_slice)
        if is_managed(endpoint_slice) and self._tracker.is_news(endpoint_slice):
            self._enqueue(endpoint_slice)

    def on_update(self, old: Object, new: Object, /) -> None:
        """Note a change, if somebody else made it or the slice came to or went from a service."""
        if old["metadata"].get("uid") != new["metadata"].get("uid"):
            self.on_delete(old)
            self.on_add(new, False)
        elif service_key(old) != service_key(new):
            self._enqueue(new)
            self._enqueue(old)
        elif is_managed(old) != is_managed(new) or (is_managed(new) and self._tracker.is_news(new)):
            self._enqueue(new)

    def on_delete(self, endpoint_slice: Any, /) -> None:
        """Note a slice that went, if this controller did not delete it."""
        if isinstance(endpoint_slice, DeletedFinalStateUnknown):
            if endpoint_slice.obj is None:
                _LOG.error("slice %s is gone and its service is unknown", endpoint_slice.key)
                return
            endpoint_slice = endpoint_slice.obj
        if is_managed(endpoint_slice) and self._tracker.saw_deletion(endpoint_slice):
            self._enqueue(endpoint_slice)

    def _enqueue(self, endpoint_slice: Object) -> None:
        service = service_key(endpoint_slice)
        if service is None:
            meta = endpoint_slice["metadata"]
            _LOG.warning("slice %s/%s names no service", meta.get("namespace"), meta["name"])
        else:
            self._queue.add_after(service, self._delay_s)
