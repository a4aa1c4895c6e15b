"""EndpointSlices as objects: new ones, their labels and owner, and what makes endpoints equal.

Promises
- Nothing that was given is changed: the objects belong to the caches.

Source: endpointslice utils.go; endpointslice/util endpointset.go, controller_utils.go.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

from sqlcache.client.api import Resource
from sqlcache.controllers.endpointslice.ports import NO_PORTS, Port, Ports, port_hash
from sqlcache.controllers.services import HEADLESS_LABEL, is_headless
from sqlcache.controllers.triggers import TRIGGER_TIME_ANNOTATION
from sqlcache.objects import Object, labels_of
from sqlcache.selectors.validation import is_dns_subdomain

AddressType: TypeAlias = Literal["IPv4", "IPv6"]
Endpoint: TypeAlias = dict[str, Any]
Endpoints: TypeAlias = list[Endpoint]

ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices")
SERVICE_NAME_LABEL = "kubernetes.io/service-name"
MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
_RESERVED_LABELS = (SERVICE_NAME_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL)
_TYPE = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice"}


class Identity(NamedTuple):
    """What makes two endpoints of slices the same; all else of them may change in place."""

    addresses: tuple[str, ...]
    hostname: str
    namespace: str
    name: str


def identity(endpoint: Endpoint) -> Identity:
    """Return the identity of an endpoint: its addresses in any order, its hostname and target."""
    target = endpoint.get("targetRef") or {}
    return Identity(
        tuple(sorted(endpoint.get("addresses") or ())),
        endpoint.get("hostname") or "",
        target.get("namespace") or "",
        target.get("name") or "",
    )


def same_content(endpoint: Endpoint, other: Endpoint) -> bool:
    """Return whether endpoints of one identity are equal, hints and target's version aside."""
    return _content(endpoint) == _content(other)


def _content(endpoint: Endpoint) -> tuple[Any, ...]:
    conditions = endpoint.get("conditions") or {}
    target = endpoint.get("targetRef")
    if target is not None:
        target = {k: v for k, v in target.items() if v and k != "resourceVersion"}
    return (
        endpoint.get("nodeName"),
        endpoint.get("zone"),
        conditions.get("ready"),
        conditions.get("serving"),
        conditions.get("terminating"),
        target,
    )


def endpoints_of(endpoint_slice: Object) -> Endpoints:
    """Return the endpoints of a decoded slice: null and no endpoints are the same."""
    return endpoint_slice.get("endpoints") or []


def is_ready(endpoint: Endpoint) -> bool:
    """Return whether an endpoint says that it is ready."""
    return (endpoint.get("conditions") or {}).get("ready") is True


def with_endpoints(endpoint_slice: Object, endpoints: Endpoints) -> Object:
    """Return a copy to be written, with other endpoints.

    Ports and addresses are in the order in which Kubernetes writes them.
    """
    ports = endpoint_slice.get("ports")
    if ports:
        ports = sorted(ports, key=lambda port: port_hash(Port.of(port)))
    return {
        **endpoint_slice,
        "endpoints": [_in_order(endpoint) for endpoint in endpoints],
        "ports": ports,
    }


def _in_order(endpoint: Endpoint) -> Endpoint:
    addresses = endpoint.get("addresses") or []
    return endpoint if len(addresses) < 2 else {**endpoint, "addresses": sorted(addresses)}


def with_name(endpoint_slice: Object, name: str) -> Object:
    """Return a copy that is written over the stored slice of that name, whatever it is now."""
    return {**endpoint_slice, "metadata": {**endpoint_slice["metadata"], "name": name}}


def with_trigger_time(endpoint_slice: Object, trigger_time: str | None) -> Object:
    """Return a copy with this trigger time, or without any."""
    meta = endpoint_slice["metadata"]
    annotations = dict(meta.get("annotations") or {})
    annotations.pop(TRIGGER_TIME_ANNOTATION, None)
    if trigger_time is not None:
        annotations[TRIGGER_TIME_ANNOTATION] = trigger_time
    meta = {field: value for field, value in meta.items() if field != "annotations"}
    if annotations:
        meta["annotations"] = annotations
    return {**_TYPE, **endpoint_slice, "metadata": meta}


def with_labels(endpoint_slice: Object, labels: dict[str, str]) -> Object:
    """Return a copy with other labels."""
    return {**endpoint_slice, "metadata": {**endpoint_slice["metadata"], "labels": labels}}


def slice_labels(service: Object) -> dict[str, str]:
    """Return the labels that slices of a service should have: the service's, and our own."""
    own = {SERVICE_NAME_LABEL: service["metadata"]["name"], MANAGED_BY_LABEL: MANAGER}
    if is_headless(service):
        own[HEADLESS_LABEL] = ""
    return {**_without_reserved(service), **own}


def labels_differ(endpoint_slice: Object, service: Object) -> bool:
    """Return whether a slice must be written for its labels; the reserved ones do not count."""
    return _without_reserved(endpoint_slice) != _without_reserved(service)


def _without_reserved(obj: Object) -> dict[str, str]:
    return {key: value for key, value in labels_of(obj).items() if key not in _RESERVED_LABELS}


def is_managed(endpoint_slice: Object) -> bool:
    """Return whether a slice says that this controller takes care of it."""
    return labels_of(endpoint_slice).get(MANAGED_BY_LABEL) == MANAGER


def service_key(endpoint_slice: Object) -> str | None:
    """Return the key of the service that a slice names, None if it names none."""
    name = labels_of(endpoint_slice).get(SERVICE_NAME_LABEL)
    return f"{endpoint_slice['metadata'].get('namespace') or ''}/{name}" if name else None


def is_owned_by(endpoint_slice: Object, service: Object) -> bool:
    """Return whether a slice belongs to this very service, not to one of the same name before."""
    uid = service["metadata"].get("uid") or ""
    return any(
        (owner.get("uid") or "", owner.get("kind"), owner.get("apiVersion"))
        == (uid, "Service", "v1")
        for owner in endpoint_slice["metadata"].get("ownerReferences") or ()
    )


def new_slice(
    service: Object, address_type: AddressType, ports: Ports, endpoints: Endpoints
) -> Object:
    """Return a slice to be created.

    Args:
        service: the owner.
        address_type: of all its endpoints.
        ports: that all its endpoints have.
        endpoints: taken as they are; the list becomes part of the slice.
    """
    meta = service["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": meta["name"],
        "uid": meta.get("uid") or "",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        **_TYPE,
        "metadata": {
            "generateName": _name_prefix(meta["name"]),
            "namespace": meta.get("namespace") or "",
            "labels": slice_labels(service),
            "ownerReferences": [owner],
        },
        "addressType": address_type,
        "ports": [port.as_dict() for port in ports],
        "endpoints": endpoints,
    }


def placeholder(service: Object, address_type: AddressType) -> Object:
    """Return the slice that says of a service that it has no endpoints."""
    return new_slice(service, address_type, NO_PORTS, [])


def is_placeholder(endpoint_slice: Object, service: Object, address_type: AddressType) -> bool:
    """Return whether a stored slice can stay as the placeholder of a service.

    Of the metadata only namespace and labels count, as upstream, and there a label without a value
    is as good as none.
    """
    meta, wanted = endpoint_slice["metadata"], service["metadata"]
    return (
        (meta.get("namespace") or "") == (wanted.get("namespace") or "")
        and _with_values(labels_of(endpoint_slice)) == _with_values(slice_labels(service))
        and endpoint_slice.get("addressType") == address_type
        and not endpoint_slice.get("ports")
        and not endpoint_slice.get("endpoints")
    )


def _with_values(labels: Any) -> dict[str, str]:
    return {key: value for key, value in labels.items() if value}


def _name_prefix(service_name: str) -> str:
    """Return the prefix of generated names: with a dash, if that can begin a name of a slice.

    Source: endpointslice utils.go getEndpointSlicePrefix; apimachinery NameIsDNSSubdomain.
    """
    completed = f"{service_name[:-1]}a"  # upstream tries one character less than it will send
    return f"{service_name}-" if is_dns_subdomain(completed) else service_name
