"""The controllers that come with this package, and the resources that they look at, by name.

Source: cmd/kube-controller-manager/app controllermanager.go NewControllerDescriptors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from sqlcache.client.api import ObjectsApi, Resource
from sqlcache.controllers.controller import Controller
from sqlcache.controllers.endpoints import EndpointsController
from sqlcache.controllers.endpointslice import EndpointSliceController
from sqlcache.informer import SharedInformerFactory
from sqlcache.workqueue import MetricsProvider


class Watched(NamedTuple):
    """A resource that controllers look at.

    Attributes:
        resource: what it is.
        namespaced: whether its objects lie in namespaces.
    """

    resource: Resource
    namespaced: bool = True


SLICES = "endpointslices.discovery.k8s.io"
RESOURCES: Mapping[str, Watched] = {
    "pods": Watched(Resource("", "v1", "pods")),
    "services": Watched(Resource("", "v1", "services")),
    "nodes": Watched(Resource("", "v1", "nodes"), namespaced=False),
    "endpoints": Watched(Resource("", "v1", "endpoints")),
    SLICES: Watched(Resource("discovery.k8s.io", "v1", "endpointslices")),
}
"""By the names under which a `SharedInformerFactory` is asked for them."""


class NewController(Protocol):
    """Makes a controller that is not started."""

    def __call__(
        self,
        api: ObjectsApi,
        factory: SharedInformerFactory,
        *,
        workers: int,
        metrics: MetricsProvider | None,
    ) -> Controller:
        """Return it.

        Args:
            api: where it writes.
            factory: of its informers; asked by the names of `RESOURCES`.
            workers: how many keys it syncs at a time.
            metrics: of its queues.
        """


def _endpoints(
    api: ObjectsApi,
    factory: SharedInformerFactory,
    *,
    workers: int,
    metrics: MetricsProvider | None,
) -> Controller:
    return EndpointsController(
        api,
        pods=factory.informer("pods"),
        services=factory.informer("services"),
        endpoints=factory.informer("endpoints"),
        workers=workers,
        metrics=metrics,
    )


def _endpoint_slice(
    api: ObjectsApi,
    factory: SharedInformerFactory,
    *,
    workers: int,
    metrics: MetricsProvider | None,
) -> Controller:
    return EndpointSliceController(
        api,
        pods=factory.informer("pods"),
        services=factory.informer("services"),
        nodes=factory.informer("nodes"),
        endpoint_slices=factory.informer(SLICES),
        workers=workers,
        metrics=metrics,
    )


CONTROLLERS: Mapping[str, NewController] = {
    "endpoints": _endpoints,
    "endpointslice": _endpoint_slice,
}
