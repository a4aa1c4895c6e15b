"""The Endpoints of services: one object a service, with the addresses of all its pods.

`EndpointsController` writes what kube-controller-manager 1.36 writes. To read: `desired` (what
should be), `subsets` (how addresses are packed), `stale` (a cache that is behind), `controller`.

Differences from Kubernetes: addresses with equal content count as the same in every comparison, in
whatever order or with whatever resourceVersion of a target they are stored, so there are fewer
writes; Events on an object about to be made go to its own namespace.

Source: pkg/controller/endpoint.
"""

from sqlcache.controllers.endpoints.controller import EndpointsController

__all__ = ["EndpointsController"]
