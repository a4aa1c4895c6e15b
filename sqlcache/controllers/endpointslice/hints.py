"""Hints for kube-proxy: the zones and nodes that should use an endpoint, by trafficDistribution.

Only ready endpoints get hints. An endpoint that is not ready keeps those that it has, until it is
written anew for another reason, as upstream.

Elsewhere: hints in proportion to the CPUs of zones, an older way (endpointslice.topology).
Source: endpointslice/trafficdist; endpointslice utils.go hintsEnabled; topologycache utils.go
RemoveHintsFromSlices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlcache.controllers.endpointslice.packing import Plan
from sqlcache.controllers.endpointslice.slices import (
    Endpoint,
    endpoints_of,
    is_ready,
    with_endpoints,
)
from sqlcache.controllers.services import spec_of
from sqlcache.objects import Object

Hints: TypeAlias = dict[str, list[dict[str, str]]]

TOPOLOGY_MODE_ANNOTATION = "service.kubernetes.io/topology-mode"
OLD_TOPOLOGY_ANNOTATION = "service.kubernetes.io/topology-aware-hints"  # wins
PREFER_SAME_NODE = "PreferSameNode"
_CLOSE = ("PreferClose", "PreferSameZone", PREFER_SAME_NODE)


def wants_topology_hints(service: Object) -> bool:
    """Return whether an annotation asks for hints by the CPUs of zones."""
    annotations = service["metadata"].get("annotations") or {}
    value = annotations.get(OLD_TOPOLOGY_ANNOTATION, annotations.get(TOPOLOGY_MODE_ANNOTATION))
    return value in ("Auto", "auto")


def set_hints(plan: Plan, service: Object) -> None:
    """Give all slices of a plan the hints that a service's trafficDistribution asks for, or none.

    Unchanged slices with other hints are updated.
    """
    distribution = spec_of(service).get("trafficDistribution")
    if distribution not in _CLOSE:
        remove_hints(plan)
        return
    for_nodes = distribution == PREFER_SAME_NODE

    def is_wrong(endpoint: Endpoint) -> bool:
        stored = {kind: named for kind, named in (endpoint.get("hints") or {}).items() if named}
        return is_ready(endpoint) and stored != _close_hints(endpoint, for_nodes=for_nodes)

    def wanted(endpoint: Endpoint) -> Hints | None:
        if not is_ready(endpoint):
            return endpoint.get("hints")
        return _close_hints(endpoint, for_nodes=for_nodes) or None

    _rewrite(plan, is_wrong, wanted)


def remove_hints(plan: Plan) -> None:
    """Take the hints from all slices of a plan. Unchanged slices that have some are updated."""
    _rewrite(plan, lambda endpoint: endpoint.get("hints") is not None, lambda _: None)


def with_hints(endpoint: Endpoint, hints: Hints | None) -> Endpoint:
    """Return an endpoint with these hints: itself, if it has neither these nor others."""
    if hints is not None:
        return {**endpoint, "hints": hints}
    if "hints" not in endpoint:
        return endpoint
    return {field: value for field, value in endpoint.items() if field != "hints"}


def update_unchanged(plan: Plan, is_wrong: Callable[[Object], bool]) -> None:
    """Have the unchanged slices of a plan updated for which that is so."""
    wrong = [each for each in plan.unchanged if is_wrong(each)]
    plan.unchanged = [each for each in plan.unchanged if not any(each is it for it in wrong)]
    plan.update += [with_endpoints(each, endpoints_of(each)) for each in wrong]


def _rewrite(
    plan: Plan,
    is_wrong: Callable[[Endpoint], bool],
    wanted: Callable[[Endpoint], Hints | None],
) -> None:
    update_unchanged(plan, lambda each: any(map(is_wrong, endpoints_of(each))))
    for each in plan.create + plan.update:
        each["endpoints"] = [
            with_hints(endpoint, wanted(endpoint)) for endpoint in endpoints_of(each)
        ]


def _close_hints(endpoint: Endpoint, *, for_nodes: bool) -> Hints:
    """Return the hints that send traffic to an endpoint from its own zone, and node."""
    zone, node = endpoint.get("zone"), endpoint.get("nodeName")
    hints: Hints = {}
    if zone is not None:
        hints["forZones"] = [{"name": zone}]
    if node is not None and for_nodes:
        hints["forNodes"] = [{"name": node}]
    return hints
