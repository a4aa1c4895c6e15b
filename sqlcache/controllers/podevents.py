"""Pod events, turned into the keys of services that need a sync.

The handler only notes what happened; which services that concerns is found by a worker, with the
services as they are by then.

Source: pkg/controller/endpoint, pkg/controller/endpointslice: addPod, updatePod, deletePod and the
pod queue.
"""

from __future__ import annotations

import logging
from typing import Any

from sqlcache.controllers.controller import Controller
from sqlcache.controllers.services import (
    PodProjectionKey,
    projection,
    services_to_update,
    update_projection,
)
from sqlcache.objects import DeletedFinalStateUnknown, Object
from sqlcache.store.api import Indexer
from sqlcache.workqueue import WorkQueue

_LOG = logging.getLogger(__name__)


class PodEvents:
    """A handler of pods that has their services synced."""

    def __init__(
        self,
        controller: Controller,
        services: Indexer,
        *,
        workers: int,
        batch_period_s: float = 0.0,
    ) -> None:
        """Make a handler, with a queue of its own in the controller.

        Args:
            controller: gets the keys of services in its queue.
            services: a store of services.
            workers: how many events are handled at a time.
            batch_period_s: how long a service waits for more pod events before its sync.
        """
        self._services, self._service_queue = services, controller.queue
        self._batch_period_s = batch_period_s
        self._pod_queue: WorkQueue[PodProjectionKey] = controller.new_queue(
            f"{controller.name}_pod", self._handle, workers
        )

    def on_add(self, pod: Object, is_in_initial_list: bool, /) -> None:
        """Note a pod that came."""
        self._pod_queue.add(projection(pod))

    def on_update(self, old: Object, new: Object, /) -> None:
        """Note a change, if it concerns endpoints."""
        key = update_projection(old, new)
        if key is not None:
            self._pod_queue.add(key)

    def on_delete(self, pod: Any, /) -> None:
        """Note a pod that went."""
        if isinstance(pod, DeletedFinalStateUnknown):
            if pod.obj is None:
                _LOG.error("pod %s is gone and its labels are unknown", pod.key)
                return
            pod = pod.obj
        self._pod_queue.add(projection(pod))

    def _handle(self, key: PodProjectionKey) -> None:
        """Have the services of an event synced."""
        for service in services_to_update(self._services, key):
            self._service_queue.add_after(service, self._batch_period_s)
