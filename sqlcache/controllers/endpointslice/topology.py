"""Topology-aware hints: endpoints shared out to zones in proportion to the CPUs of their nodes.

    TopologyCache.set_nodes(nodes)      when nodes come, go, or change
    TopologyCache.set_hints(plan, …)    at each sync of a service that asks for it
    TopologyCache.overloaded()          the services that need another one

A service gets hints only if no zone has so few endpoints that each of them would see 20 % more
traffic than it should; else it gets none at all. Endpoints are hinted to their own zone as far as
that goes; the rest are given to zones that have too few.

Differences from Kubernetes: where an endpoint may be given to several zones, upstream takes any;
here the first by name, so that it is the same on every backend.

Source: endpointslice/topologycache; KEP-2433.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple

from sqlcache.controllers.endpointslice.desired import ZONE_LABEL
from sqlcache.controllers.endpointslice.hints import remove_hints, update_unchanged, with_hints
from sqlcache.controllers.endpointslice.packing import Plan
from sqlcache.controllers.endpointslice.slices import (
    AddressType,
    Endpoint,
    endpoints_of,
    is_ready,
)
from sqlcache.controllers.quantities import quantity
from sqlcache.objects import Object, labels_of

OVERLOAD = 0.2  # how much more traffic than its share an endpoint may see
_FEWEST = 1 / (1 + OVERLOAD)  # endpoints of a zone, as a part of its share
_CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_NO_NODE_INFO = (
    "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
)
_NO_ZONE = "One or more endpoints do not have a zone specified"
_TOO_FEW = "Insufficient number of endpoints"
_OVERLOADED = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"  # noqa: E501


class Notice(NamedTuple):
    """A Kubernetes Event to be recorded on a service."""

    type: str
    reason: str
    message: str


class Allocation(NamedTuple):
    """How many endpoints a zone should get.

    Attributes:
        minimum: with fewer, it is overloaded.
        maximum: with more, others are.
        desired: its share, but no less than the minimum.
    """

    minimum: int
    maximum: int
    desired: float


class _CannotHintError(Exception):
    """There is no good way to share out the endpoints; the text says why."""


class TopologyCache:
    """Knows the CPUs of zones, and how endpoints were shared out. Thread-safe."""

    def __init__(self) -> None:
        """Know no node and no service."""
        self._lock = threading.Lock()
        self._shares: dict[str, float] = {}
        self._by_service: dict[str, dict[AddressType, Counter[str]]] = {}
        self._hinted: set[str] = set()

    def set_nodes(self, nodes: Iterable[Object]) -> None:
        """Take the nodes as they are now."""
        shares = cpu_shares(nodes)
        with self._lock:
            self._shares = shares

    def overloaded(self) -> list[str]:
        """Return the keys of services with too few endpoints in some zone, sorted."""
        with self._lock:
            return sorted(
                service
                for service, by_type in self._by_service.items()
                if any(_is_overloaded(counts, self._shares) for counts in by_type.values())
            )

    def set_hints(self, plan: Plan, service: str, address_type: AddressType) -> list[Notice]:
        """Give the slices of a plan hints, or take those that they have if that cannot be.

        Args:
            plan: the slices of one address type.
            service: its key.
            address_type: that type.

        Returns:
            What to tell about it.
        """
        with self._lock:
            shares = self._shares
        try:
            counts = _share_out(plan, shares)
        except _CannotHintError as why:
            self.remove(service, address_type)
            remove_hints(plan)
            return [_disabled(str(why), address_type)]
        with self._lock:
            told = service in self._hinted
            self._by_service.setdefault(service, {})[address_type] = counts
            self._hinted.add(service)
        if told:
            return []
        message = f"Topology Aware Hints has been enabled, addressType: {address_type}"
        return [Notice("Normal", "TopologyAwareHintsEnabled", message)]

    def stop_hints(self, service: str, address_type: AddressType) -> list[Notice]:
        """Forget how endpoints were shared out: the service asks for it no more.

        Returns:
            What to tell about it: something if it had hints.
        """
        with self._lock:
            had = service in self._hinted
        self.remove(service, address_type)
        return [_disabled("Topology Aware Hints has been disabled", address_type)] if had else []

    def remove(self, service: str, address_type: AddressType) -> None:
        """Forget how the endpoints of one address type were shared out."""
        with self._lock:
            by_type = self._by_service.get(service, {})
            by_type.pop(address_type, None)
            if not by_type:
                self._by_service.pop(service, None)
            self._hinted.discard(service)

    def forget(self, service: str) -> None:
        """Forget a service that is gone."""
        with self._lock:
            self._by_service.pop(service, None)
            self._hinted.discard(service)


def cpu_shares(nodes: Iterable[Object]) -> dict[str, float]:
    """Return the part of all CPUs that each zone has, by name; nothing if that is not known.

    Nodes that are not ready, or of the control plane, do not count. All others need a zone and
    allocatable CPUs, and there must be two zones or more.

    Source: topologycache.go SetNodes.
    """
    cpus: dict[str, Decimal] = {}
    for node in nodes:
        labels = labels_of(node)
        if any(label in labels for label in _CONTROL_PLANE_LABELS) or not _is_node_ready(node):
            continue
        zone, cpu = labels.get(ZONE_LABEL), _allocatable_cpu(node)
        if not zone or not cpu:
            return {}
        cpus[zone] = cpus.get(zone, Decimal()) + cpu
    total = _millis(sum(cpus.values(), Decimal()))
    if len(cpus) < 2 or not total:
        return {}
    return {zone: _millis(cpu) / total for zone, cpu in sorted(cpus.items())}


def is_topology_change(old: Object, new: Object) -> bool:
    """Return whether an update of a node may change the shares of zones.

    Source: endpointslice_controller.go updateNode.
    """
    return _is_node_ready(old) != _is_node_ready(new) or labels_of(old).get(
        ZONE_LABEL
    ) != labels_of(new).get(ZONE_LABEL)


def _share_out(plan: Plan, shares: Mapping[str, float]) -> Counter[str]:
    """Set the hints of a plan and return how many endpoints each zone has then."""
    allocations = _allocations(plan, shares)
    counts = _keep_good_slices(plan, allocations)
    written = plan.create + plan.update
    for each in written:
        each["endpoints"] = [_in_own_zone(endpoint) for endpoint in endpoints_of(each)]
        counts.update(endpoint["zone"] for endpoint in endpoints_of(each) if is_ready(endpoint))
    giving, receiving = _transfers(allocations, counts)
    for each in written:
        each["endpoints"] = [
            _given_away(endpoint, giving, receiving, counts) for endpoint in endpoints_of(each)
        ]
    return counts


def _allocations(plan: Plan, shares: Mapping[str, float]) -> dict[str, Allocation]:
    """Return what each zone should get.

    Source: topologycache.go getAllocations.
    """
    if not shares:
        raise _CannotHintError(_NO_NODE_INFO)
    slices = chain(plan.create, plan.update, plan.unchanged)
    count = sum(is_ready(endpoint) for each in slices for endpoint in endpoints_of(each))
    numbers = f"({count} endpoints, {len(shares)} zones)"
    if count < len(shares):
        raise _CannotHintError(f"{_TOO_FEW} {numbers}")
    minimums = {zone: math.ceil(share * count * _FEWEST) for zone, share in shares.items()}
    spare = count - sum(minimums.values())
    if spare < 0:
        raise _CannotHintError(f"{_OVERLOADED} {numbers}")
    return {
        zone: Allocation(minimum, minimum + spare, max(shares[zone] * count, float(minimum)))
        for zone, minimum in minimums.items()
    }


def _keep_good_slices(plan: Plan, allocations: Mapping[str, Allocation]) -> Counter[str]:
    """Have unchanged slices updated whose hints do not do, and count the hints of the others.

    Source: topologycache sliceinfo.go getAllocatedHintsByZone.
    """
    counts: Counter[str] = Counter()

    def is_wrong(endpoint_slice: Object) -> bool:
        hinted = _hints_by_zone(endpoint_slice)
        if hinted is None or any(
            zone not in allocations or counts[zone] + number > allocations[zone].maximum
            for zone, number in hinted.items()
        ):
            return True
        counts.update(hinted)
        return False

    update_unchanged(plan, is_wrong)
    return counts


def _hints_by_zone(endpoint_slice: Object) -> Counter[str] | None:
    """Return how many endpoints are hinted to each zone; None if a ready one has no hint."""
    counts: Counter[str] = Counter()
    for endpoint in filter(is_ready, endpoints_of(endpoint_slice)):
        zones = (endpoint.get("hints") or {}).get("forZones")
        if not zones:
            return None
        counts.update(zone["name"] for zone in zones)
    return counts


def _in_own_zone(endpoint: Endpoint) -> Endpoint:
    if not is_ready(endpoint):
        return endpoint
    if not endpoint.get("zone"):
        raise _CannotHintError(_NO_ZONE)
    return with_hints(endpoint, {"forZones": [{"name": endpoint["zone"]}]})


def _transfers(
    allocations: Mapping[str, Allocation], counts: Mapping[str, int]
) -> tuple[Counter[str], Counter[str]]:
    """Return how many endpoints zones should give to others, and how many they should get.

    Source: topologycache utils.go getGivingAndReceivingZones.
    """
    surplus = {
        zone: counts.get(zone, 0) - allocation.desired for zone, allocation in allocations.items()
    }
    to_give = {zone: number for zone, number in surplus.items() if number > 0}
    to_get = {zone: -number for zone, number in surplus.items() if number < 0}
    giving: Counter[str] = Counter()
    receiving: Counter[str] = Counter()
    while to_give and to_get:
        giver, receiver = max(to_give, key=to_give.__getitem__), max(to_get, key=to_get.__getitem__)
        given, got = to_give[giver], to_get[receiver]
        # Half an endpoint too many in one zone is no reason to send traffic to another one, unless
        # that one lacks a whole endpoint.
        if min(given, got) < 0.5 or max(given, got) < 1.0:
            break
        giving[giver] += 1
        receiving[receiver] += 1
        to_give[giver] -= 1.0
        to_get[receiver] -= 1.0
    return giving, receiving


def _given_away(
    endpoint: Endpoint, giving: Counter[str], receiving: Counter[str], counts: Counter[str]
) -> Endpoint:
    """Return an endpoint, hinted to another zone if its own still has one to give."""
    zone = endpoint.get("zone")
    if zone is None or not is_ready(endpoint) or giving[zone] <= 0:
        return endpoint
    to = next(each for each, number in receiving.items() if number > 0)
    giving[zone] -= 1
    receiving[to] -= 1
    counts[zone] -= 1
    counts[to] += 1
    return with_hints(endpoint, {"forZones": [{"name": to}]})


def _is_overloaded(counts: Mapping[str, int], shares: Mapping[str, float]) -> bool:
    """Return whether endpoints that were shared out should be so again.

    Source: topologycache utils.go serviceOverloaded.
    """
    total = float(sum(counts.values()))
    return not shares or any(
        zone not in counts or counts[zone] < math.ceil(total * share * _FEWEST)
        for zone, share in shares.items()
    )


def _disabled(why: str, address_type: AddressType) -> Notice:
    return Notice("Warning", "TopologyAwareHintsDisabled", f"{why}, addressType: {address_type}")


def _is_node_ready(node: Object) -> bool:
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return False


def _allocatable_cpu(node: Object) -> Decimal:
    """Return how many CPUs pods may have; 0 if the node does not say."""
    allocatable: Mapping[str, Any] = (node.get("status") or {}).get("allocatable") or {}
    return quantity(allocatable.get("cpu"))


def _millis(number: Decimal) -> int:
    """Return thousandths, rounded up."""
    return math.ceil(number * 1000)
