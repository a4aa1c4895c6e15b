"""The EndpointSlices of services: slices of up to 100 endpoints, one set of ports and one family.

`EndpointSliceController` writes what kube-controller-manager 1.36 writes. To read: `desired` (the
endpoints that should be), `packing` (in which slices they go), `hints` and `topology` (which zones
and nodes should use them), `tracker` (a cache that is behind), `reconcile` (the writes), and
`controller`. Below them: `slices` and `ports` (what slices are made of), `events` (slices that
somebody else changed).

Differences from Kubernetes: what upstream leaves to the order of Go's maps is in a fixed order
here, so equal clusters get equal slices on every backend; a slice that somebody replaced by one of
the same name while the watch was down is noticed.

Source: pkg/controller/endpointslice, staging/src/k8s.io/endpointslice.
"""

from sqlcache.controllers.endpointslice.controller import EndpointSliceController

__all__ = ["EndpointSliceController"]
