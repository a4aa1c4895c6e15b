"""Which endpoints go into which slices, with as few writes as can be.

1. Endpoints stay in the slice in which they are. A slice in which one changed or went is written,
   and so is one whose labels are no longer those of the service; one that has none left is deleted.
2. New endpoints go into the slices that are written anyway, the fullest first.
3. If all that are left then fit into one slice that would not be written, they go into the one
   that they fill most; else new slices are made.

Slices are never merged or split to even them out: a write is sent to every node of the cluster.

Source: endpointslice reconciler.go reconcileByPortMapping; KEP-752.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from sqlcache.controllers.endpointslice.desired import EndpointSet
from sqlcache.controllers.endpointslice.ports import Ports
from sqlcache.controllers.endpointslice.slices import (
    AddressType,
    Endpoints,
    endpoints_of,
    identity,
    labels_differ,
    new_slice,
    same_content,
    slice_labels,
    with_endpoints,
    with_labels,
)
from sqlcache.objects import Object, Objects

MAX_ENDPOINTS = 100  # of a slice, unless it is set


@dataclass
class Plan:
    """What becomes of slices.

    Attributes:
        create: new slices, without a name.
        update: slices to be written under their names; copies, whose endpoints may be replaced.
        delete: stored slices that go.
        unchanged: stored slices that stay as they are: the caches' own objects.
    """

    create: Objects = field(default_factory=list)
    update: Objects = field(default_factory=list)
    delete: Objects = field(default_factory=list)
    unchanged: Objects = field(default_factory=list)

    def add(self, other: Plan) -> None:
        """Take over what another plan says."""
        self.create += other.create
        self.update += other.update
        self.delete += other.delete
        self.unchanged += other.unchanged


def pack(
    existing: Iterable[Object],
    desired: EndpointSet,
    *,
    service: Object,
    address_type: AddressType,
    ports: Ports,
    max_endpoints: int,
) -> Plan:
    """Return how the slices of one set of ports get to hold exactly the desired endpoints.

    Args:
        existing: those that are there, of this service, address type and set of ports.
        desired: the endpoints.
        service: the owner.
        address_type: of new slices.
        ports: of new slices.
        max_endpoints: that a slice is filled to. One that has more already is left so.
    """
    left = dict(desired)
    plan = _keep_in_place(existing, left, service)
    for each in sorted(plan.update, key=lambda each: -len(each["endpoints"])):
        _fill(each["endpoints"], left, max_endpoints)
    while left:
        roomy = _best_fit(plan.unchanged, len(left), max_endpoints)
        if roomy is None:
            endpoints: Endpoints = []
            plan.create.append(new_slice(service, address_type, ports, endpoints))
        else:
            plan.unchanged = [each for each in plan.unchanged if each is not roomy]
            plan.update.append(with_endpoints(roomy, endpoints_of(roomy)))
            endpoints = plan.update[-1]["endpoints"]
        _fill(endpoints, left, max_endpoints)
    return plan


def _keep_in_place(existing: Iterable[Object], left: EndpointSet, service: Object) -> Plan:
    """Take the endpoints that have a place out of `left`, and return what that changes."""
    plan = Plan()
    for each in existing:
        before = endpoints_of(each)
        after, changed = [], False
        for endpoint in before:
            wanted = left.pop(identity(endpoint), None)
            if wanted is not None:
                after.append(wanted)
            changed = changed or wanted is None or not same_content(wanted, endpoint)
        if changed and not after:
            plan.delete.append(each)
        elif changed or labels_differ(each, service):
            # Endpoints as they were have their hints, those of the desired state have none yet.
            written = with_endpoints(each, after if changed else before)
            plan.update.append(with_labels(written, slice_labels(service)))
        else:
            plan.unchanged.append(each)
    return plan


def _best_fit(slices: Objects, count: int, max_endpoints: int) -> Object | None:
    """Return the slice with the least room in which so many endpoints fit, None if there is none.

    So many that they fill a slice of their own are not put into another.
    """
    if count >= max_endpoints:
        return None
    fitting = [each for each in slices if len(endpoints_of(each)) + count <= max_endpoints]
    return max(fitting, key=lambda each: len(endpoints_of(each)), default=None)


def _fill(endpoints: Endpoints, left: EndpointSet, max_endpoints: int) -> None:
    """Move endpoints from `left` to a slice until it is full."""
    for key in list(islice(left, max(0, max_endpoints - len(endpoints)))):
        endpoints.append(left.pop(key))
