"""The Endpoints controller.

Flow: pod and service events -> keys of services -> sync: read the caches, compute, compare, write
at most one object.

Promises
- A sync that finds all as it should be writes nothing.
- A sync does not trust a cache that still shows what this controller replaced: it raises, and is
  tried again.
- Services without a selector and of type ExternalName are left alone, with what they have.

Source: pkg/controller/endpoint endpoints_controller.go.
"""

from __future__ import annotations

from sqlcache.client.api import NAMESPACE_TERMINATING, ObjectsApi, Resource
from sqlcache.clock import Clock
from sqlcache.controllers.controller import WORKERS, Controller
from sqlcache.controllers.endpoints.desired import (
    CONTROLLER_NAME,
    desired_subsets,
    is_right,
    updated,
)
from sqlcache.controllers.endpoints.stale import StaleEndpointsTracker
from sqlcache.controllers.events import EventRecorder
from sqlcache.controllers.podevents import PodEvents
from sqlcache.controllers.services import is_external_name, selector_of
from sqlcache.controllers.triggers import TriggerTimeTracker
from sqlcache.errors import ApiDecodeError, ApiStatusError, NotFoundError, StaleCacheError
from sqlcache.informer import HandlerFuncs, SharedInformer
from sqlcache.lister import Lister, PodLister, ServiceLister
from sqlcache.objects import (
    Object,
    meta_namespace_key_func,
    resource_version,
    split_meta_namespace_key,
)
from sqlcache.selectors import from_labels
from sqlcache.workqueue import MetricsProvider

ENDPOINTS = Resource("", "v1", "endpoints")
LEADER_ANNOTATION = "control-plane.alpha.kubernetes.io/leader"  # resourcelock's


class EndpointsController(Controller):
    """Keeps the Endpoints of every service with a selector equal to its pods.

    Example:
        >>> controller = EndpointsController(
        ...     ApiObjects(connect()),
        ...     pods=factory.informer("pods"),
        ...     services=factory.informer("services"),
        ...     endpoints=factory.informer("endpoints"),
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
        endpoints: SharedInformer,
        workers: int = WORKERS,
        batch_period_s: float = 0.0,
        metrics: MetricsProvider | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Make a controller; it handles the informers' events from here on.

        Args:
            api: where Endpoints are written.
            pods: informer of pods; how its store answers selectors is what a sync mostly costs.
            services: informer of services.
            endpoints: informer of Endpoints.
            workers: how many services are synced at a time.
            batch_period_s: how long a service waits for more pod events before its sync.
            metrics: of its queues, `endpoint` and `endpoint_pod`.
            clock: for tests.
        """
        recorder = EventRecorder(api, CONTROLLER_NAME, clock=clock)
        super().__init__(
            "endpoint",
            (pods, services, endpoints),
            workers=workers,
            recorder=recorder,
            metrics=metrics,
            clock=clock,
        )
        self._api, self._events = api, recorder
        self._pods = PodLister(pods.store)
        self._services = ServiceLister(services.store)
        self._endpoints = Lister(endpoints.store, "endpoints")
        self._stale = StaleEndpointsTracker()
        self._triggers = TriggerTimeTracker()
        self.watch(
            pods,
            PodEvents(self, services.store, workers=workers, batch_period_s=batch_period_s),
        )
        self.watch_keys(services)
        self.watch(endpoints, HandlerFuncs(on_delete=self.enqueue))

    def sync(self, key: str) -> None:
        """Write the Endpoints of a service, if they are not as they should be.

        Args:
            key: `namespace/name` of the service.

        Raises:
            StaleCacheError: the cache does not show yet what was written last.
            ApiStatusError, OSError, ApiDecodeError: the API server refused, or was not reached.
        """
        namespace, name = split_meta_namespace_key(key)
        try:
            service = self._services.by_namespace(namespace).get(name)
        except NotFoundError:
            self._delete(key)
            return
        selector = selector_of(service)
        if selector is None or is_external_name(service):
            return
        pods = self._pods.pods(namespace).list(from_labels(selector))
        trigger_time = self._triggers.trigger_time(service, pods)  # counts even if all is well
        wanted = desired_subsets(service, pods)
        stored = self._stored(key)
        if stored is None or not _exists(stored) or not is_right(stored, service, wanted):
            self._write(stored, updated(stored, service, wanted, trigger_time))

    def caches_synced(self) -> None:
        """Have services of all Endpoints looked at: some may have gone while nobody watched.

        Objects that carry a leader election have no service, and stay.
        """
        for endpoints in self._endpoints.list():
            if LEADER_ANNOTATION not in (endpoints["metadata"].get("annotations") or {}):
                self.enqueue(endpoints)

    def _stored(self, key: str) -> Object | None:
        namespace, name = split_meta_namespace_key(key)
        try:
            stored = self._endpoints.by_namespace(namespace).get(name)
        except NotFoundError:
            return None
        if self._stale.is_stale(stored):
            raise StaleCacheError("endpoints", resource_version(stored), key)
        return stored

    def _write(self, stored: Object | None, wanted: Object) -> None:
        exists = stored is not None and _exists(stored)
        namespace, key = wanted["metadata"]["namespace"], meta_namespace_key_func(wanted)
        try:
            if stored is None or not exists:
                self._create(namespace, wanted)
                return
            written = self._api.update(ENDPOINTS, namespace, wanted)
        except (OSError, ApiDecodeError) as error:
            if exists:
                self._warn(wanted, "FailedToUpdateEndpoint", f"update endpoint {key}", error)
            else:
                text = f"create endpoint for service {key}"
                self._warn(wanted, "FailedToCreateEndpoint", text, error)
            raise
        # An update that changes nothing, for instance of an object that was cut again, leaves the
        # version as it is; taking it for replaced would block the service for ever.
        if resource_version(written) != resource_version(stored):
            self._stale.replaced(stored)

    def _create(self, namespace: str, wanted: Object) -> None:
        try:
            self._api.create(ENDPOINTS, namespace, wanted)
        except ApiStatusError as error:
            # It would be refused again and again until the namespace is gone.
            if not (error.is_forbidden() and error.has_cause(NAMESPACE_TERMINATING)):
                raise

    def _delete(self, key: str) -> None:
        namespace, name = split_meta_namespace_key(key)
        try:
            self._api.delete(ENDPOINTS, namespace, name)
        except ApiStatusError as error:
            if not error.is_not_found():
                raise
        self._triggers.forget(key)
        self._stale.forget(key)

    def _warn(self, endpoints: Object, reason: str, action: str, error: Exception) -> None:
        self._events.warn(endpoints, reason, f"Failed to {action}: {error}")


def _exists(stored: Object) -> bool:
    """Return whether an object was ever written: one without resourceVersion is created."""
    return resource_version(stored) != ""
