"""What the controllers ask about a pod. Pure functions on decoded objects.

Promises
- Fields that are missing or null count as their zero value, as in Go.
- Nothing is changed; what is returned is new, or a string or number of the pod.

Source: endpointslice/util controller_utils.go; pkg/api/v1/pod util.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlcache.objects import Object, labels_of

_TERMINAL = ("Failed", "Succeeded")


class PodChange(NamedTuple):
    """How an update of a pod concerns endpoints.

    Attributes:
        pod: what an endpoint says of it may have changed.
        labels: the services that it belongs to may have changed.
    """

    pod: bool
    labels: bool


def ready_condition(pod: Object) -> Object | None:
    """Return the condition of type Ready, None if there is none."""
    for condition in _part(pod, "status").get("conditions") or ():
        if condition.get("type") == "Ready":
            found: Object = condition
            return found
    return None


def is_ready(pod: Object) -> bool:
    """Return whether the Ready condition is true."""
    condition = ready_condition(pod)
    return condition is not None and condition.get("status") == "True"


def is_terminal(pod: Object) -> bool:
    """Return whether all its containers have ended for good, whatever its restartPolicy."""
    return _part(pod, "status").get("phase") in _TERMINAL


def is_terminating(pod: Object) -> bool:
    """Return whether its deletion was asked for."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def pod_ip(pod: Object) -> str:
    """Return status.podIP, "" if it has none."""
    return _part(pod, "status").get("podIP") or ""


def pod_ips(pod: Object) -> list[str]:
    """Return the addresses of status.podIPs, as stored and in their order."""
    return [each.get("ip") or "" for each in _part(pod, "status").get("podIPs") or ()]


def node_name(pod: Object) -> str:
    """Return the name of its node, "" as long as it has none."""
    return _part(pod, "spec").get("nodeName") or ""


def should_be_in_endpoints(pod: Object, *, include_terminating: bool) -> bool:
    """Return whether a pod that a service selects is an endpoint of it.

    Args:
        pod: decoded.
        include_terminating: take pods whose deletion was asked for as well.

    Source: endpointslice/util ShouldPodBeInEndpoints.
    """
    if is_terminal(pod) or not (pod_ip(pod) or pod_ips(pod)):
        return False
    return include_terminating or not is_terminating(pod)


def hostname_in(pod: Object, service: Object) -> str:
    """Return the hostname of the pod's DNS name under a service; "" if it has none there.

    Source: endpointslice/util ShouldSetHostname.
    """
    spec, owner = _part(pod, "spec"), service["metadata"]
    belongs = spec.get("subdomain") == owner["name"] and pod["metadata"].get(
        "namespace"
    ) == owner.get("namespace")
    return (spec.get("hostname") or "") if belongs else ""


def find_port(pod: Object, service_port: Object) -> int | None:
    """Return the number of the pod's port that a port of a service means.

    A number is returned as it is, whether a container declares it or not. A name is looked up with
    its protocol among the containers, then the init containers that go on running (sidecars).

    Returns:
        The port number, None if no container has a port of that name.

    Source: pkg/api/v1/pod FindPort.
    """
    target = service_port.get("targetPort")
    if not isinstance(target, str):
        return int(target or 0)
    protocol = service_port.get("protocol") or ""
    for container in _serving_containers(pod):
        for port in container.get("ports") or ():
            if (port.get("name") or "") == target and (port.get("protocol") or "") == protocol:
                number: int = port.get("containerPort") or 0
                return number
    return None


def target_ref(pod: Object) -> dict[str, str]:
    """Return the reference to the pod that its endpoints carry.

    It has no resourceVersion: endpoints would change with every change of the pod.
    """
    meta = pod["metadata"]
    found = {field: meta.get(field) or "" for field in ("namespace", "name", "uid")}
    return {"kind": "Pod", **{field: text for field, text in found.items() if text}}


def change(old: Object, new: Object) -> PodChange:
    """Return how an update concerns endpoints. Phase and node alone do not.

    Of a terminating pod every update counts as a change of the pod, as upstream, where two
    timestamps are never the same pointer.

    Source: endpointslice/util podEndpointsChanged.
    """
    return PodChange(
        pod=is_terminating(old)
        or is_terminating(new)
        or is_ready(old) != is_ready(new)
        or pod_ips(old) != pod_ips(new),
        labels=labels_of(old) != labels_of(new) or _dns_name(old) != _dns_name(new),
    )


def _dns_name(pod: Object) -> tuple[str, str]:
    spec = _part(pod, "spec")
    return spec.get("hostname") or "", spec.get("subdomain") or ""


def _serving_containers(pod: Object) -> Iterator[Object]:
    spec = _part(pod, "spec")
    yield from spec.get("containers") or ()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container


def _part(pod: Object, name: str) -> dict[str, Any]:
    return pod.get(name) or {}
