"""What the Endpoints of a service should be. Pure functions on decoded objects.

    desired_subsets(service, pods)   what the pods make of its subsets
    updated(stored, service, …)      the whole object to write
    is_right(stored, service, …)     whether that can be left alone

Promises
- Nothing that was given is changed: the objects belong to the caches.
- A pod whose ports are all unknown to it is absent; one without an address of the service's family
  is, too.

Elsewhere: how addresses become subsets (endpoints.subsets), when this is asked
(endpoints.controller).
Source: pkg/controller/endpoint endpoints_controller.go syncService.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlcache.controllers import pods as podfacts
from sqlcache.controllers.endpoints.subsets import (
    MAX_ADDRESSES,
    Address,
    Packing,
    Port,
    count_addresses,
    truncated,
)
from sqlcache.controllers.ips import IPFamily, canonical_ip, family_of
from sqlcache.controllers.services import (
    HEADLESS_LABEL,
    is_headless,
    publishes_not_ready,
    spec_of,
)
from sqlcache.controllers.triggers import TRIGGER_TIME_ANNOTATION
from sqlcache.objects import Object, labels_of

MANAGED_BY_LABEL = "endpoints.kubernetes.io/managed-by"
CONTROLLER_NAME = "endpoint-controller"
_OWN_LABELS = (MANAGED_BY_LABEL, HEADLESS_LABEL)
OVER_CAPACITY_ANNOTATION = "endpoints.kubernetes.io/over-capacity"
TRUNCATED = "truncated"


def desired_subsets(service: Object, pods: Iterable[Object]) -> Packing:
    """Return the addresses and ports that the pods of a service give it.

    Args:
        service: one with a selector.
        pods: those that it selects.
    """
    packing = Packing()
    all_ready = publishes_not_ready(service)
    for pod in pods:
        if not podfacts.should_be_in_endpoints(pod, include_terminating=all_ready):
            continue
        address = _address(service, pod)
        if address is not None:
            ready = all_ready or podfacts.is_ready(pod)
            for port in _ports(service, pod):
                packing.add(port, address, ready=ready)
    return packing


def is_right(stored: Object, service: Object, wanted: Packing) -> bool:
    """Return whether a stored object can be left alone.

    A headless label that is missing or too much does not matter, as upstream. An object over
    capacity is never right, because it would have been cut.
    """
    subsets = stored.get("subsets") or []
    annotations = stored["metadata"].get("annotations") or {}
    return (
        count_addresses(subsets) <= MAX_ADDRESSES
        and OVER_CAPACITY_ANNOTATION not in annotations
        and _labels_are_right(labels_of(stored), labels_of(service))
        and wanted.same_as(Packing.of(subsets))
    )


def updated(
    stored: Object | None, service: Object, wanted: Packing, trigger_time: str | None
) -> Object:
    """Return the object to write.

    Args:
        stored: what is there, None if nothing; its other fields and annotations are kept.
        service: the owner.
        wanted: its addresses and ports.
        trigger_time: value of the annotation, None for none.
    """
    meta = service["metadata"]
    base = stored or {"metadata": {"name": meta["name"], "namespace": meta.get("namespace")}}
    subsets = wanted.subsets()
    fitting = truncated(subsets)
    annotations = _with(
        base["metadata"].get("annotations") or {},
        {
            TRIGGER_TIME_ANNOTATION: trigger_time,
            OVER_CAPACITY_ANNOTATION: None if fitting is subsets else TRUNCATED,
        },
    )
    labels = _with(
        labels_of(service),
        {
            MANAGED_BY_LABEL: CONTROLLER_NAME,
            HEADLESS_LABEL: "" if is_headless(service) else None,
        },
    )
    metadata = {**base["metadata"], "labels": labels, "annotations": annotations}
    wanted_fields = {"apiVersion": "v1", "kind": "Endpoints", "subsets": fitting}
    return _without_empty({**base, **wanted_fields, "metadata": _without_empty(metadata)})


def _address(service: Object, pod: Object) -> Address | None:
    family = _family(service, pod)
    ip = next((ip for ip in podfacts.pod_ips(pod) if family_of(ip) == family), None)
    if ip is None:
        return None
    hostname = podfacts.hostname_in(pod, service)
    return {
        "ip": canonical_ip(ip),
        **({"hostname": hostname} if hostname else {}),
        "nodeName": podfacts.node_name(pod),
        "targetRef": podfacts.target_ref(pod),
    }


def _family(service: Object, pod: Object) -> IPFamily:
    spec = spec_of(service)
    if spec.get("ipFamilies"):
        return "IPv6" if spec["ipFamilies"][0] == "IPv6" else "IPv4"
    return family_of(podfacts.pod_ip(pod) if is_headless(service) else spec["clusterIP"])


def _ports(service: Object, pod: Object) -> Iterable[Port | None]:
    """Return the ports of a service on a pod; [None] if the service may do without any."""
    spec = spec_of(service)
    if not spec.get("ports"):
        return [None] if spec.get("clusterIP") == "None" else []
    return [
        Port.of({**port, "port": number})
        for port in spec["ports"]
        if (number := podfacts.find_port(pod, port)) is not None
    ]


def _labels_are_right(stored: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Return whether an object has the labels of its service, and the one that names us.

    A service that has one of our own labels itself has its object written at each sync, as
    upstream: they are looked for among the labels of the object that are not ours.
    """
    found = {name: value for name, value in stored.items() if name not in _OWN_LABELS}
    return stored.get(MANAGED_BY_LABEL) == CONTROLLER_NAME and found == wanted


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy without empty lists and maps, which Go leaves out of what it sends."""
    return {name: value for name, value in fields.items() if value not in ([], {})}


def _with(old: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return a copy with some values set, and those that are None removed."""
    merged = {**old, **changes}
    return {name: value for name, value in merged.items() if value is not None}
