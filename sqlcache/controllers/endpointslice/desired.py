"""The endpoints that a service should have. Pure functions on decoded objects.

    address_types(service)              the families to make slices of
    desired_endpoints(service, pods, …) the endpoints of one family, by their ports

Promises
- Nothing that was given is changed: the objects belong to the caches.
- A pod on which a named port is unknown is an endpoint all the same, without that port.
- Pods that terminate are endpoints, which say so.

Elsewhere: in which slices they go (endpointslice.packing).
Source: endpointslice reconciler.go reconcileByAddressType; utils.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from sqlcache.controllers import pods as podfacts
from sqlcache.controllers.endpointslice.ports import Port, Ports, in_order
from sqlcache.controllers.endpointslice.slices import AddressType, Endpoint, Identity, identity
from sqlcache.controllers.ips import canonical_ip, family_of
from sqlcache.controllers.services import is_headless, publishes_not_ready, spec_of
from sqlcache.errors import MissingNodeError
from sqlcache.objects import Object, labels_of, meta_namespace_key_func

EndpointSet: TypeAlias = dict[Identity, Endpoint]

ZONE_LABEL = "topology.kubernetes.io/zone"  # v1.LabelTopologyZone
_FAMILIES: tuple[AddressType, ...] = ("IPv4", "IPv6")


class Desired(NamedTuple):
    """What the slices of one address type should hold.

    Attributes:
        by_ports: the endpoints by their ports. A set may be empty: there are pods with these
            ports, but none has an address of this family and a node.
        missing: why pods were left out that will be endpoints when their node is known.
    """

    by_ports: dict[Ports, EndpointSet]
    missing: list[MissingNodeError]


def address_types(service: Object) -> list[AddressType]:
    """Return the address types of a service.

    Services of old API servers name no families: the one of the cluster IP counts then; headless
    ones get both.

    Source: endpointslice utils.go getAddressTypesForService.
    """
    spec = spec_of(service)
    named = spec.get("ipFamilies") or ()
    types = [family for family in _FAMILIES if family in named]
    if types:
        return types
    return list(_FAMILIES) if is_headless(service) else [family_of(spec["clusterIP"])]


def desired_endpoints(
    service: Object,
    pods: Iterable[Object],
    address_type: AddressType,
    node: Callable[[str], Object | None],
) -> Desired:
    """Return the endpoints that the pods of a service give it.

    Args:
        service: one with a selector.
        pods: those that it selects.
        address_type: the family of their addresses.
        node: returns the node of that name, None if there is none.
    """
    desired = Desired({}, [])
    for pod in pods:
        if not podfacts.should_be_in_endpoints(pod, include_terminating=True):
            continue
        endpoints = desired.by_ports.setdefault(endpoint_ports(service, pod), {})
        name = podfacts.node_name(pod)
        found = node(name)
        if found is None and not publishes_not_ready(service):
            key = meta_namespace_key_func(service)
            desired.missing.append(MissingNodeError(pod["metadata"]["name"], key, name))
            continue
        endpoint = endpoint_of(pod, found, service, address_type)
        if endpoint["addresses"]:
            endpoints[identity(endpoint)] = endpoint
    return desired


def endpoint_ports(service: Object, pod: Object) -> Ports:
    """Return the ports of a service on a pod.

    Source: endpointslice utils.go getEndpointPorts.
    """
    return in_order(
        Port(port.get("name") or "", port.get("protocol") or "", number, port.get("appProtocol"))
        for port in spec_of(service).get("ports") or ()
        if (number := podfacts.find_port(pod, port)) is not None
    )


def endpoint_of(
    pod: Object, node: Object | None, service: Object, address_type: AddressType
) -> Endpoint:
    """Return a pod as an endpoint of a service; its addresses may be none.

    Source: endpointslice utils.go podToEndpoint.
    """
    serving, terminating = podfacts.is_ready(pod), podfacts.is_terminating(pod)
    fields = {
        "hostname": podfacts.hostname_in(pod, service),
        "nodeName": podfacts.node_name(pod),
        "zone": labels_of(node).get(ZONE_LABEL) if node else None,
    }
    return {
        "addresses": sorted(
            canonical_ip(ip) for ip in podfacts.pod_ips(pod) if family_of(ip) == address_type
        ),
        "conditions": {
            "ready": publishes_not_ready(service) or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": podfacts.target_ref(pod),
        **{field: text for field, text in fields.items() if text},
    }
