"""The columns that kubectl prints for an object, worked out as the API server does.

A field that older API servers did not write is taken from its predecessor, as newer ones do:
`status.podIP` for `podIPs`, `spec.clusterIP` for `clusterIPs`.

Elsewhere: a pod's state (_pods), ages (_ages), laying a table out (_output).
Source: kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from sqlcache.cli._ages import age
from sqlcache.cli._fields import mapping, mappings, number, text, texts
from sqlcache.cli._pods import condition, pod_state
from sqlcache.objects import Object

Cells: TypeAlias = list[str]
_NONE, _UNKNOWN = "<none>", "<unknown>"
_LOAD_BALANCER_CHARS = 16
_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE = "kubernetes.io/role"


class Columns(NamedTuple):
    """The table of a resource.

    Attributes:
        headers: of the usual columns.
        wide_headers: of those that `-o wide` adds.
        cells: a function from an object, the time and whether wide ones are wanted to cells.
    """

    headers: tuple[str, ...]
    wide_headers: tuple[str, ...]
    cells: Callable[[Object, datetime, bool], Cells]


def columns_of(resource: str) -> Columns:
    """Return the columns of a resource; name and age for those without their own."""
    return _COLUMNS.get(resource, _ANY)


def format_labels(labels: Any) -> str:
    """Return labels as `a=b,c=d`, sorted. Source: apimachinery labels.FormatLabels."""
    pairs = sorted(mapping(labels).items())
    return ",".join(f"{key}={value}" for key, value in pairs) or _NONE


def _name(obj: Object) -> str:
    return text(obj["metadata"].get("name"))


def _age(obj: Object, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _any(obj: Object, now: datetime, wide: bool) -> Cells:
    return [_name(obj), _age(obj, now)]


def _pod(pod: Object, now: datetime, wide: bool) -> Cells:
    state = pod_state(pod)
    cells = [
        _name(pod),
        f"{state.ready}/{state.total}",
        state.status,
        state.restarts.text(now),
        _age(pod, now),
    ]
    if wide:
        spec, status = mapping(pod.get("spec")), mapping(pod.get("status"))
        ips = [text(entry.get("ip")) for entry in mappings(status.get("podIPs"))]
        cells += [
            next(iter(ips), "") or text(status.get("podIP")) or _NONE,
            text(spec.get("nodeName")) or _NONE,
            text(status.get("nominatedNodeName")) or _NONE,
            _readiness_gates(spec, status),
        ]
    return cells


def _readiness_gates(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    gates = mappings(spec.get("readinessGates"))
    if not gates:
        return _NONE
    met = sum(condition(status, text(gate.get("conditionType"))) for gate in gates)
    return f"{met}/{len(gates)}"


def _service(service: Object, now: datetime, wide: bool) -> Cells:
    spec = mapping(service.get("spec"))
    ports = [
        f"{number(port.get('port'))}"
        f"{f':{node_port}' if (node_port := number(port.get('nodePort'))) > 0 else ''}"
        f"/{text(port.get('protocol'))}"
        for port in mappings(spec.get("ports"))
    ]
    cells = [
        _name(service),
        text(spec.get("type")),
        next(iter(texts(spec.get("clusterIPs"))), "") or text(spec.get("clusterIP")) or _NONE,
        _external_ip(spec, mapping(service.get("status")), wide),
        ",".join(ports) or _NONE,
        _age(service, now),
    ]
    return [*cells, format_labels(spec.get("selector"))] if wide else cells


def _external_ip(spec: Mapping[str, Any], status: Mapping[str, Any], wide: bool) -> str:
    kind, ips = spec.get("type"), texts(spec.get("externalIPs"))
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(ips) or _NONE
    if kind == "LoadBalancer":
        balancer = _load_balancer(status, wide)
        return ",".join([balancer, *ips] if balancer else ips) or "<pending>"
    return text(spec.get("externalName")) if kind == "ExternalName" else _UNKNOWN


def _load_balancer(status: Mapping[str, Any], wide: bool) -> str:
    entries = mappings(mapping(status.get("loadBalancer")).get("ingress"))
    addresses = {text(entry.get("ip")) or text(entry.get("hostname")) for entry in entries} - {""}
    joined = ",".join(sorted(addresses))
    if wide or len(joined) <= _LOAD_BALANCER_CHARS:
        return joined
    return f"{joined[: _LOAD_BALANCER_CHARS - 3]}..."


def _node(node: Object, now: datetime, wide: bool) -> Cells:
    spec, status = mapping(node.get("spec")), mapping(node.get("status"))
    info = mapping(status.get("nodeInfo"))
    cells = [
        _name(node),
        _node_status(spec, status),
        _roles(mapping(node["metadata"].get("labels"))),
        _age(node, now),
        text(info.get("kubeletVersion")),
    ]
    if wide:
        cells += [_address(status, "InternalIP"), _address(status, "ExternalIP")]
        names = ("osImage", "kernelVersion", "containerRuntimeVersion")
        cells += [text(info.get(name)) or _UNKNOWN for name in names]
    return cells


def _node_status(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    ready = [entry for entry in mappings(status.get("conditions")) if entry.get("type") == "Ready"]
    word = "Unknown"
    if ready:
        word = "Ready" if ready[-1].get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if spec.get("unschedulable") is True else word


def _roles(labels: Mapping[str, Any]) -> str:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return ",".join(sorted((roles | {text(labels.get(_ROLE))}) - {""})) or _NONE


def _address(status: Mapping[str, Any], kind: str) -> str:
    for entry in mappings(status.get("addresses")):
        if entry.get("type") == kind:
            return text(entry.get("address"))
    return _NONE


_ANY = Columns(("NAME", "AGE"), (), _any)
_COLUMNS = {
    "pods": Columns(
        ("NAME", "READY", "STATUS", "RESTARTS", "AGE"),
        ("IP", "NODE", "NOMINATED NODE", "READINESS GATES"),
        _pod,
    ),
    "services": Columns(
        ("NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"), ("SELECTOR",), _service
    ),
    "nodes": Columns(
        ("NAME", "STATUS", "ROLES", "AGE", "VERSION"),
        ("INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"),
        _node,
    ),
}
