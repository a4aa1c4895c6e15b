"""What Endpoints and EndpointSlices should be, computed from scratch, and where a cluster differs.

    state = ClusterState.of(server.list)  # of an ApiServer
    assert endpoints_differences(state) == []
    assert slices_differences(state) == []

Promises
- Nothing is shared with the controllers but the rules of Kubernetes: from the services, pods and
  nodes alone it is worked out which endpoints there must be, each once, and with what they say.
- What Kubernetes leaves open is not compared: which slice an endpoint is in, old hints of endpoints
  that are not ready, and hints where an annotation has endpoints shared out to zones.
- Each difference is one line that names the service and the endpoint.

Not looked at: services without a selector or of type ExternalName, slices that others manage, and
slices of services that are gone, which the garbage collector takes.

Source: pkg/controller/endpoint, staging/src/k8s.io/endpointslice; KEP-752, KEP-4444.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlcache.objects import Object, Objects, labels_of, meta_namespace_key_func

RESOURCES = ("services", "pods", "nodes", "endpoints", "endpointslices")
MAX_ADDRESSES = 1000  # of an Endpoints object; it holds that many of more
MAX_ENDPOINTS = 100  # of a slice, unless the controller is told otherwise
_ENDPOINTS_LABELS = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
_CONDITIONS = ("ready", "serving", "terminating")
_ENDED = ("Failed", "Succeeded")
_HEADLESS = {"service.kubernetes.io/headless": ""}
_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
_LEADER = "control-plane.alpha.kubernetes.io/leader"
_SERVICE_NAME = "kubernetes.io/service-name"
_SLICE_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_SLICE_MANAGER = "endpointslice-controller.k8s.io"
_ZONE = "topology.kubernetes.io/zone"
_SHARED_OUT = (
    "service.kubernetes.io/topology-mode",
    "service.kubernetes.io/topology-aware-hints",
)

Port = tuple[str, str, int]  # name, protocol, number
Ports = frozenset[Port]


class ClusterState(NamedTuple):
    """All objects that are compared, at one moment at which nothing changes.

    Attributes:
        services, pods, nodes: what there is.
        endpoints, slices: what controllers made of it.
    """

    services: Objects
    pods: Objects
    nodes: Objects
    endpoints: Objects
    slices: Objects

    @classmethod
    def of(cls, list_all: Callable[[str], Objects]) -> ClusterState:
        """Return the state of an API server.

        Args:
            list_all: returns all objects of a resource, by its plural.
        """
        return cls(*map(list_all, RESOURCES))


class _Address(NamedTuple):
    """An address of Endpoints, on one port: `None` where a service has none."""

    port: Port | None
    ip: str
    pod: str
    node: str
    ready: bool

    def __str__(self) -> str:
        port = "no port" if self.port is None else _port_text(self.port)
        ready = "ready" if self.ready else "not ready"
        return f"{self.ip} of pod {self.pod} on {self.node or 'no node'}, {port}, {ready}"


class _Endpoint(NamedTuple):
    """An endpoint of a slice."""

    family: str
    ports: Ports
    ips: tuple[str, ...]
    pod: str
    node: str
    conditions: tuple[tuple[str, bool], ...]
    zone: str
    hints: str

    def __str__(self) -> str:
        ports = ", ".join(map(_port_text, sorted(self.ports))) or "no port"
        true = [name for name, value in self.conditions if value]
        return (
            f"{' '.join(self.ips) or 'nothing'} of pod {self.pod} on {self.node or 'no node'}"
            f" in {self.zone or 'no zone'}, {ports}, {' and '.join(true) or 'not ready'}"
            f"{self.hints and f', hints {self.hints}'}"
        )


def endpoints_differences(state: ClusterState) -> list[str]:
    """Return where the Endpoints differ from what they should be; [] if they do not."""
    stored = {meta_namespace_key_func(each): each for each in state.endpoints}
    find, found = _Pods(state.pods), []
    for service in state.services:
        key = meta_namespace_key_func(service)
        there = stored.pop(key, None)
        if not _has_endpoints(service):
            continue
        if there is None:
            found.append(f"Endpoints {key}: missing")
        else:
            wrong = [
                *_label_differences(there, service, _ENDPOINTS_LABELS),
                *_address_differences(there, _wanted_addresses(service, find.of(service))),
            ]
            found += [f"Endpoints {key}: {each}" for each in wrong]
    found += [
        f"Endpoints {key}: there is no such service"
        for key, each in stored.items()
        if _LEADER not in (each["metadata"].get("annotations") or {})
    ]
    return found


def slices_differences(
    state: ClusterState, *, zones: bool = True, max_endpoints: int = MAX_ENDPOINTS
) -> list[str]:
    """Return where the EndpointSlices differ from what they should be; [] if they do not.

    Args:
        state: of the cluster.
        zones: compare zones and hints, too. A zone of a node that changes is taken over by the next
            sync only, as upstream.
        max_endpoints: of a slice.
    """
    stored: defaultdict[str, Objects] = defaultdict(list)
    for each in state.slices:
        labels = labels_of(each)
        if labels.get(_SLICE_MANAGED_BY) == _SLICE_MANAGER:
            stored[f"{each['metadata']['namespace']}/{labels.get(_SERVICE_NAME)}"].append(each)
    nodes = {each["metadata"]["name"]: each for each in state.nodes}
    find, found = _Pods(state.pods), []
    for service in filter(_has_endpoints, state.services):
        key = meta_namespace_key_func(service)
        slices = stored[key]
        wanted = Counter(_wanted_endpoints(service, find.of(service), nodes, zones=zones))
        there = Counter(_stored_endpoints(service, slices, zones=zones))
        wrong = [*_slice_differences(service, slices, max_endpoints), *_compared(there, wanted)]
        found += [f"EndpointSlices {key}: {each}" for each in wrong]
    return found


# Services and pods


class _Pods:
    """Finds the pods of services."""

    def __init__(self, pods: Iterable[Object]) -> None:
        self._by_label: defaultdict[tuple[str, str, str], Objects] = defaultdict(list)
        self._by_namespace: defaultdict[str, Objects] = defaultdict(list)
        for pod in pods:
            namespace = pod["metadata"]["namespace"]
            self._by_namespace[namespace].append(pod)
            for label, value in labels_of(pod).items():
                self._by_label[namespace, label, value].append(pod)

    def of(self, service: Object) -> Iterator[Object]:
        """Yield the pods that a service selects, and that have an address and have not ended."""
        namespace, selector = service["metadata"]["namespace"], service["spec"]["selector"]
        candidates = [self._by_label[namespace, *term] for term in selector.items()]
        for pod in min(candidates, key=len, default=self._by_namespace[namespace]):
            status = pod.get("status") or {}
            has_all = selector.items() <= labels_of(pod).items()
            if has_all and status.get("phase") not in _ENDED and _ips(pod):
                yield pod


def _has_endpoints(service: Object) -> bool:
    spec = service["spec"]
    return spec.get("selector") is not None and spec.get("type") != "ExternalName"


def _is_headless(service: Object) -> bool:
    return service["spec"].get("clusterIP") in (None, "", "None")


def _families(service: Object) -> Sequence[str]:
    spec = service["spec"]
    if spec.get("ipFamilies"):
        families: Sequence[str] = spec["ipFamilies"]
        return families
    return ["IPv4", "IPv6"] if _is_headless(service) else [_family(spec["clusterIP"])]


def _family(ip: str) -> str:
    return "IPv6" if ":" in ip else "IPv4"


def _ips(pod: Object) -> list[str]:
    return [each["ip"] for each in (pod.get("status") or {}).get("podIPs") or ()]


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def _is_going(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _publishes(service: Object) -> bool:
    return bool(service["spec"].get("publishNotReadyAddresses"))


def _ports(service: Object, pod: Object) -> Ports:
    return frozenset(
        (port.get("name") or "", port.get("protocol") or "TCP", number)
        for port in service["spec"].get("ports") or ()
        if (number := _number(port, pod["spec"])) is not None
    )


def _number(port: Object, spec: Mapping[str, Any]) -> int | None:
    """Return the number of a service's port on a pod, None if the pod has no port of that name."""
    target = port.get("targetPort")
    if not isinstance(target, str):
        return int(target or 0)
    sidecars = (
        each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"
    )
    for container in (*(spec.get("containers") or ()), *sidecars):
        for named in container.get("ports") or ():
            same_protocol = (named.get("protocol") or "TCP") == (port.get("protocol") or "TCP")
            if named.get("name") == target and same_protocol:
                return int(named["containerPort"])
    return None


# Endpoints


def _wanted_addresses(service: Object, pods: Iterable[Object]) -> set[_Address]:
    wanted = set()
    for pod in pods:
        ip = next((ip for ip in _ips(pod) if _family(ip) == _families(service)[0]), None)
        if ip is None or (_is_going(pod) and not _publishes(service)):
            continue
        ready = _publishes(service) or _is_ready(pod)
        ports: set[Port | None] = set(_ports(service, pod))
        if not service["spec"].get("ports") and _is_headless(service):
            ports = {None}
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName") or ""
        wanted |= {_Address(port, ip, name, node, ready) for port in ports}
    return wanted


def _stored_addresses(endpoints: Object) -> Iterator[_Address]:
    for subset in endpoints.get("subsets") or ():
        ports: list[Port | None] = [_port(each) for each in subset.get("ports") or ()]
        for field in ("addresses", "notReadyAddresses"):
            for address in subset.get(field) or ():
                for port in ports or [None]:
                    pod = (address.get("targetRef") or {}).get("name") or ""
                    node = address.get("nodeName") or ""
                    yield _Address(port, address["ip"], pod, node, field == "addresses")


def _address_differences(endpoints: Object, wanted: set[_Address]) -> list[str]:
    stored = Counter(_stored_addresses(endpoints))
    annotations = endpoints["metadata"].get("annotations") or {}
    is_cut = annotations.get(_OVER_CAPACITY) == "truncated"
    if _entries(wanted) <= MAX_ADDRESSES:
        return [*(["says that it is truncated"] if is_cut else ()), *_compared(stored, wanted)]
    count = sum(
        len(subset.get(field) or ())
        for subset in endpoints.get("subsets") or ()
        for field in ("addresses", "notReadyAddresses")
    )
    wrong = [f"too much: {each}" for each in sorted(map(str, stored - Counter(wanted)))]
    if not is_cut:
        wrong.append("does not say that it is truncated")
    if count != MAX_ADDRESSES:
        wrong.append(f"has {count:,} addresses instead of {MAX_ADDRESSES:,}")
    ready = _entries({each for each in wanted if each.ready})
    if sum(len(each.get("addresses") or ()) for each in endpoints.get("subsets") or ()) != min(
        ready, MAX_ADDRESSES
    ):
        wrong.append(f"does not have the {min(ready, MAX_ADDRESSES):,} ready addresses first")
    return wrong


def _entries(addresses: Iterable[_Address]) -> int:
    """Return how many addresses subsets have in all: ports with equal addresses share a subset."""
    by_port: defaultdict[Port | None, set[_Address]] = defaultdict(set)
    for each in addresses:
        by_port[each.port].add(each._replace(port=None))
    return sum(map(len, {frozenset(each) for each in by_port.values()}))


# EndpointSlices


def _wanted_endpoints(
    service: Object, pods: Iterable[Object], nodes: Mapping[str, Object], *, zones: bool
) -> Iterator[_Endpoint]:
    for pod in pods:
        node = pod["spec"].get("nodeName") or ""
        if node not in nodes and not _publishes(service):
            continue
        zone = labels_of(nodes[node]).get(_ZONE, "") if node in nodes else ""
        serving, going = _is_ready(pod), _is_going(pod)
        ready = _publishes(service) or (serving and not going)
        conditions = {"ready": ready, "serving": serving, "terminating": going}
        for family in _families(service):
            ips = tuple(sorted(ip for ip in _ips(pod) if _family(ip) == family))
            if ips:
                yield _Endpoint(
                    family,
                    _ports(service, pod),
                    ips,
                    pod["metadata"]["name"],
                    node,
                    tuple(conditions.items()),
                    zone if zones else "",
                    _hints_text(service, ready, _hints(service, zone, node)) if zones else "",
                )


def _stored_endpoints(service: Object, slices: Objects, *, zones: bool) -> Iterator[_Endpoint]:
    for each in slices:
        ports = frozenset(map(_port, each.get("ports") or ()))
        for endpoint in each.get("endpoints") or ():
            conditions = endpoint.get("conditions") or {}
            yield _Endpoint(
                each["addressType"],
                ports,
                tuple(endpoint["addresses"]),
                (endpoint.get("targetRef") or {}).get("name") or "",
                endpoint.get("nodeName") or "",
                tuple((name, bool(conditions.get(name))) for name in _CONDITIONS),
                endpoint.get("zone") or "" if zones else "",
                _hints_text(service, bool(conditions.get("ready")), endpoint.get("hints") or {})
                if zones
                else "",
            )


def _hints(service: Object, zone: str, node: str) -> Mapping[str, Any]:
    distribution = service["spec"].get("trafficDistribution")
    hints = {}
    if distribution in ("PreferClose", "PreferSameZone", "PreferSameNode") and zone:
        hints["forZones"] = [{"name": zone}]
    if distribution == "PreferSameNode" and node:
        hints["forNodes"] = [{"name": node}]
    return hints


def _hints_text(service: Object, ready: bool, hints: Mapping[str, Any]) -> str:
    """Return hints to be compared, "" where they are open."""
    annotations = service["metadata"].get("annotations") or {}
    if not ready or any(name in annotations for name in _SHARED_OUT):
        return ""
    return " ".join(
        f"{kind}={','.join(each['name'] for each in named)}"
        for kind, named in sorted(hints.items())
    )


def _slice_differences(service: Object, slices: Objects, max_endpoints: int) -> Iterator[str]:
    missing = set(_families(service)) - {each["addressType"] for each in slices}
    yield from (f"no slice of type {family}" for family in sorted(missing))
    for each in slices:
        name = each["metadata"]["name"]
        own = {_SERVICE_NAME: service["metadata"]["name"], _SLICE_MANAGED_BY: _SLICE_MANAGER}
        yield from (f"{name} {text}" for text in _label_differences(each, service, own))
        owners = each["metadata"].get("ownerReferences") or ()
        if [owner.get("uid") for owner in owners] != [service["metadata"]["uid"]]:
            yield f"{name} belongs to another object"
        size = len(each.get("endpoints") or ())
        if size > max_endpoints:
            yield f"{name} has {size:,} endpoints, more than {max_endpoints:,}"


# Both


def _label_differences(obj: Object, service: Object, own: Mapping[str, str]) -> Iterator[str]:
    wanted = {**labels_of(service), **own, **(_HEADLESS if _is_headless(service) else {})}
    if labels_of(obj) != wanted:
        yield f"has the labels {labels_of(obj)} instead of {wanted}"


def _compared(stored: Counter[Any], wanted: Iterable[Any]) -> Iterator[str]:
    """Yield what is missing, and what is too much or there too often."""
    missing = Counter(wanted)
    too_much = stored - missing
    yield from (f"missing: {each}" for each in sorted(map(str, (missing - stored).elements())))
    yield from (f"too much: {each}" for each in sorted(map(str, too_much.elements())))


def _port(port: Object) -> Port:
    return port.get("name") or "", port.get("protocol") or "TCP", port.get("port") or 0


def _port_text(port: Port) -> str:
    name, protocol, number = port
    return f"{name or 'port'} {number}/{protocol}"
