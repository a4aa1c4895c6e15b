"""The EndpointSlice controller.

Flow: pod, service and slice events -> keys of services -> sync: read the caches, plan, write. Node
events -> the CPUs of zones -> keys of services whose hints are no longer good.

Promises
- A sync that finds all as it should be writes nothing.
- A sync does not trust a cache that does not show what this controller wrote: it raises, and is
  tried again.
- Slices that others manage, and services without a selector or of type ExternalName, with what
  they have, are left alone. Slices of a service that is gone are left to the garbage collector.

Source: pkg/controller/endpointslice endpointslice_controller.go.
"""

from __future__ import annotations

from sqlcache.client.api import ObjectsApi
from sqlcache.clock import Clock
from sqlcache.controllers.controller import WORKERS, Controller
from sqlcache.controllers.endpointslice.events import SliceEvents
from sqlcache.controllers.endpointslice.packing import MAX_ENDPOINTS
from sqlcache.controllers.endpointslice.reconcile import Reconciler
from sqlcache.controllers.endpointslice.slices import (
    ENDPOINT_SLICES,
    MANAGED_BY_LABEL,
    MANAGER,
    SERVICE_NAME_LABEL,
)
from sqlcache.controllers.endpointslice.topology import TopologyCache, is_topology_change
from sqlcache.controllers.endpointslice.tracker import SliceTracker
from sqlcache.controllers.events import EventRecorder
from sqlcache.controllers.podevents import PodEvents
from sqlcache.controllers.services import is_external_name, selector_of
from sqlcache.controllers.triggers import TriggerTimeTracker
from sqlcache.errors import AggregateError, ApiStatusError, NotFoundError, StaleSlicesError
from sqlcache.informer import HandlerFuncs, SharedInformer
from sqlcache.lister import Lister, PodLister, ServiceLister
from sqlcache.objects import (
    Object,
    Objects,
    split_meta_namespace_key,
)
from sqlcache.selectors import from_labels
from sqlcache.workqueue import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
    MetricsProvider,
    WorkQueue,
)

COMPONENT = "endpoint-slice-controller"  # in Events
LARGEST_MAX_ENDPOINTS = 1000  # the API server takes no more in a slice
# A failed sync waits longer than in other controllers: it may have written many slices.
FIRST_RETRY_S, LAST_RETRY_S = 1.0, 1000.0
RETRIES_PER_S, RETRY_BURST = 10.0, 100
PATIENCE = 3  # retries on a cache that is late, until the API server is asked
_NODES = "nodes"  # the one key of the queue of node events


class EndpointSliceController(Controller):
    """Keeps the EndpointSlices of every service with a selector equal to its pods.

    Example:
        >>> controller = EndpointSliceController(
        ...     ApiObjects(connect()),
        ...     pods=factory.informer("pods"),
        ...     services=factory.informer("services"),
        ...     nodes=factory.informer("nodes"),
        ...     endpoint_slices=factory.informer("endpointslices.discovery.k8s.io"),
        ... )
        >>> with factory, controller:
        ...     factory.start()
        ...     wait_for_signal()
    """

    def __init__(
        self,
        api: ObjectsApi,
        *,
        pods: SharedInformer,
        services: SharedInformer,
        nodes: SharedInformer,
        endpoint_slices: SharedInformer,
        max_endpoints_per_slice: int = MAX_ENDPOINTS,
        workers: int = WORKERS,
        batch_period_s: float = 0.0,
        metrics: MetricsProvider | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Make a controller; it handles the informers' events from here on.

        Args:
            api: where EndpointSlices are written.
            pods: informer of pods; how its store answers selectors is what a sync mostly costs.
            services: informer of services.
            nodes: informer of nodes.
            endpoint_slices: informer of EndpointSlices.
            max_endpoints_per_slice: that a slice is filled to, 1 to 1,000.
            workers: how many services are synced at a time.
            batch_period_s: how long a service waits for more pod events before its sync.
            metrics: of its queues, `endpoint_slice`, `endpoint_slice_pod` and
                `endpoint_slice_topology`.
            clock: for tests.

        Raises:
            ValueError: max_endpoints_per_slice is out of range.
        """
        if not 1 <= max_endpoints_per_slice <= LARGEST_MAX_ENDPOINTS:
            raise ValueError(
                f"max_endpoints_per_slice must be 1 to 1,000, not {max_endpoints_per_slice}"
            )
        recorder = EventRecorder(api, COMPONENT, clock=clock)
        super().__init__(
            "endpoint_slice",
            (pods, services, nodes, endpoint_slices),
            workers=workers,
            rate_limiter=MaxOfRateLimiter(
                ItemExponentialFailureRateLimiter(FIRST_RETRY_S, LAST_RETRY_S),
                BucketRateLimiter(RETRIES_PER_S, RETRY_BURST, clock),
            ),
            recorder=recorder,
            metrics=metrics,
            clock=clock,
        )
        self._api, self._events = api, recorder
        self._pods = PodLister(pods.store)
        self._services = ServiceLister(services.store)
        self._nodes = Lister(nodes.store, "node")
        self._slices = Lister(endpoint_slices.store, "endpointslice")
        self._tracker, self._topology = SliceTracker(), TopologyCache()
        self._triggers = TriggerTimeTracker()
        self._reconciler = Reconciler(
            api,
            self._nodes,
            tracker=self._tracker,
            topology=self._topology,
            recorder=recorder,
            max_endpoints=max_endpoints_per_slice,
        )
        self._topology_queue: WorkQueue[str] = self.new_queue(
            "endpoint_slice_topology", lambda _: self.update_topology(), 1
        )
        self.slice_events = SliceEvents(self.queue, self._tracker, batch_period_s=batch_period_s)
        self.watch(
            pods,
            PodEvents(self, services.store, workers=workers, batch_period_s=batch_period_s),
        )
        self.watch_keys(services)
        self.watch(
            nodes,
            HandlerFuncs(
                on_add=lambda *_: self._topology_queue.add(_NODES),
                on_update=self._node_changed,
                on_delete=lambda _: self._topology_queue.add(_NODES),
            ),
        )
        self.watch(endpoint_slices, self.slice_events)

    def sync(self, key: str) -> None:
        """Write the slices of a service that are not as they should be.

        Args:
            key: `namespace/name` of the service.

        Raises:
            StaleSlicesError: the cache does not show yet what was written last.
            AggregateError: the API server refused writes, or was not reached; or pods are on nodes
                that the cache does not know.
        """
        namespace, name = split_meta_namespace_key(key)
        try:
            service = self._services.by_namespace(namespace).get(name)
        except NotFoundError:
            self._triggers.forget(key)
            self._tracker.forget(key)
            self._topology.forget(key)
            return
        # Events tell what they are about; objects of a list do not.
        service = {"apiVersion": "v1", "kind": "Service", **service}
        selector = selector_of(service)
        if selector is None or is_external_name(service):
            return
        pods = self._pods.pods(namespace).list(from_labels(selector))
        existing = self._existing(namespace, name)
        if self._tracker.is_stale(key, existing):
            if self.queue.num_requeues(key) >= PATIENCE:
                self._forget_gone(key, existing)
            raise StaleSlicesError(key)
        trigger_time = self._triggers.trigger_time(service, pods)  # counts even if all is well
        try:
            self._reconciler.reconcile(service, _by_name(pods), _by_name(existing), trigger_time)
        except AggregateError as error:
            text = f"Error updating Endpoint Slices for Service {key}: {error}"
            self._events.event(service, "Warning", "FailedToUpdateEndpointSlices", text)
            raise

    def caches_synced(self) -> None:
        """Look at the nodes before the first sync, so that it does not take the hints away."""
        self.update_topology()

    def update_topology(self) -> None:
        """Look at the nodes, and have services synced that would get other hints now."""
        self._topology.set_nodes(self._nodes.list())
        for service in self._topology.overloaded():
            self.queue.add(service)

    def _existing(self, namespace: str, name: str) -> Objects:
        """Return the slices of a service that are this controller's, and that nobody deletes."""
        labels = {SERVICE_NAME_LABEL: name, MANAGED_BY_LABEL: MANAGER}
        found = self._slices.by_namespace(namespace).list(from_labels(labels))
        return [each for each in found if not each["metadata"].get("deletionTimestamp")]

    def _forget_gone(self, key: str, existing: Objects) -> None:
        """Forget slices that were written and are gone.

        One that somebody deletes while the watch is down may never come to the cache, and no event
        says that it went.
        """
        namespace, _ = split_meta_namespace_key(key)
        for uid, name in self._tracker.missing(key, existing).items():
            try:
                found = self._api.get(ENDPOINT_SLICES, namespace, name)
            except ApiStatusError as error:
                if not error.is_not_found():
                    raise
            else:
                if found["metadata"]["uid"] == uid:
                    continue
            self._tracker.forget_slice(key, uid)

    def _node_changed(self, old: Object, new: Object) -> None:
        if is_topology_change(old, new):
            self._topology_queue.add(_NODES)


def _by_name(objs: Objects) -> Objects:
    """Return objects in an order that does not depend on the backend."""
    return sorted(objs, key=lambda obj: str(obj["metadata"]["name"]))
