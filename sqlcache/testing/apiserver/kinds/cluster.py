"""Nodes, namespaces, events and leases.

No controller runs: a namespace that is deleted stays Terminating until its finalizers are taken
away by a PUT to /finalize, and its content stays.

Source: kubernetes registry/core/node, namespace, event; registry/coordination/lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sqlcache.objects import Object
from sqlcache.testing.apiserver.kinds.base import Strategy, carry, fill, items, section
from sqlcache.testing.apiserver.names import label_errors
from sqlcache.testing.apiserver.status import Cause, invalid_value

_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_EMPTY_NODE_STATUS = {
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "nodeInfo": dict.fromkeys(_NODE_INFO, ""),
}


class NodeStrategy(Strategy):
    """Nodes. A new one is tainted as not ready; its status is kept, unlike that of a pod."""

    metadata_checks = 3
    has_status = True
    empty: ClassVar[Mapping[str, Any]] = {"spec": {}, "status": _EMPTY_NODE_STATUS}

    def default(self, obj: Object) -> None:
        section(obj, "spec")
        status = section(obj, "status")
        fill(section(section(status, "daemonEndpoints"), "kubeletEndpoint"), Port=0)
        fill(section(status, "nodeInfo"), **dict.fromkeys(_NODE_INFO, ""))
        for condition in items(status, "conditions"):
            condition.setdefault("lastHeartbeatTime", None)
            condition.setdefault("lastTransitionTime", None)
        if isinstance(status.get("capacity"), dict) and status["capacity"]:
            fill(status, allocatable=dict(status["capacity"]))

    def prepare_create(self, obj: Object) -> None:
        spec = obj["spec"]
        taints = items(spec, "taints")
        if not any(_NOT_READY.items() <= each.items() for each in taints):
            spec["taints"] = [*taints, dict(_NOT_READY)]


class NamespaceStrategy(Strategy):
    """Namespaces."""

    returns_deleted = True
    metadata_checks = 3
    has_status = True
    empty: ClassVar[Mapping[str, Any]] = {"spec": {}, "status": {}}

    def name_errors(self, name: str) -> list[str]:
        return label_errors(name)

    def default(self, obj: Object) -> None:
        section(obj, "spec")
        section(obj, "status")
        if name := obj["metadata"].get("name"):
            section(obj["metadata"], "labels")["kubernetes.io/metadata.name"] = name

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Active"}
        finalizers = obj["spec"].get("finalizers") or []
        obj["spec"]["finalizers"] = [*finalizers, *({"kubernetes"} - set(finalizers))]

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        carry(new["spec"], old["spec"], "finalizers")

    def mark_deleted(self, obj: Object) -> None:
        section(obj, "status")["phase"] = "Terminating"

    def held_by_spec(self, obj: Object) -> bool:
        return bool(obj["spec"].get("finalizers"))


class EventStrategy(Strategy):
    """Events of the core API."""

    create_on_update = True
    empty: ClassVar[Mapping[str, Any]] = {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }

    def default(self, obj: Object) -> None:
        for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
            obj.setdefault(name, None)
        fill(obj, involvedObject={}, source={}, reportingComponent="", reportingInstance="")

    def validate(self, obj: Object) -> list[Cause]:
        involved = obj["involvedObject"].get("namespace") or "default"
        if involved == obj["metadata"].get("namespace"):
            return []
        named = obj["involvedObject"].get("namespace", "")
        words = "does not match event.namespace"
        return [invalid_value("involvedObject.namespace", named, words)]


class LeaseStrategy(Strategy):
    """Leases; an update must name the version that it replaces."""

    create_on_update = True
    unconditional_update = False
    empty: ClassVar[Mapping[str, Any]] = {"spec": {}}

    def default(self, obj: Object) -> None:
        section(obj, "spec")

    def validate(self, obj: Object) -> list[Cause]:
        words = "must be greater than 0"
        return [
            invalid_value(f"spec.{name}", value, words)
            for name in ("leaseDurationSeconds", "leaseTransitions")
            if isinstance(value := obj["spec"].get(name), int)
            and value < (1 if name == "leaseDurationSeconds" else 0)
        ]


class CustomStrategy(Strategy):
    """Custom resources: any content; the generation rises with all but metadata and status."""

    starts_generation = True
    unconditional_update = False

    def __init__(self, has_status: bool = True) -> None:
        """Take whether there is a /status."""
        self.has_status = has_status

    def prepare_status(self, new: Object, old: Object) -> None:
        super().prepare_status(new, old)
        version = new["metadata"].get("resourceVersion")
        new["metadata"] = {**old["metadata"], "resourceVersion": version}

    def raises_generation(self, new: Object, old: Object) -> bool:
        ignored = {"metadata", "status"} if self.has_status else {"metadata"}
        return any(new.get(name) != old.get(name) for name in {*new, *old} - ignored)
