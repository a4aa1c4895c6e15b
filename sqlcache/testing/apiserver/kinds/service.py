"""Services: types, ports and cluster IPs.

Source: kubernetes apis/core/v1 defaults.go, registry/core/service.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, ClassVar

from sqlcache.objects import Object
from sqlcache.testing.apiserver.kinds.base import Strategy, fill, items, section
from sqlcache.testing.apiserver.names import label_errors
from sqlcache.testing.apiserver.status import Cause, invalid_value, not_supported, required

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_FIRST_NODE_PORT = 30_000
_PORTS = range(1, 65_536)


class ServiceStrategy(Strategy):
    """Services of one server; it hands out cluster IPs and node ports in order."""

    returns_deleted = True
    create_on_update = True
    has_status = True
    metadata_checks = 3
    empty: ClassVar[Mapping[str, Any]] = {"spec": {}, "status": {"loadBalancer": {}}}

    def __init__(self) -> None:
        """Start with all addresses free."""
        self._addresses = count(1)
        self._node_ports = count(_FIRST_NODE_PORT)

    def name_errors(self, name: str) -> list[str]:
        return label_errors(name)

    def default(self, obj: Object) -> None:
        spec = section(obj, "spec")
        fill(spec, sessionAffinity="None", type="ClusterIP")
        for port in items(spec, "ports"):
            fill(port, protocol="TCP", port=0)
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port["port"]
        if spec["type"] != "ExternalName":
            fill(spec, internalTrafficPolicy="Cluster")
        if spec["type"] in ("NodePort", "LoadBalancer"):
            fill(spec, externalTrafficPolicy="Cluster")
        if spec["type"] == "LoadBalancer":
            fill(spec, allocateLoadBalancerNodePorts=True)
        if spec["sessionAffinity"] == "ClientIP":
            fill(spec, sessionAffinityConfig={"clientIP": {"timeoutSeconds": 10800}})
        fill(section(obj, "status"), loadBalancer={})

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj["status"] = {"loadBalancer": {}}
        self._allocate(obj["spec"])

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        after, before = new["spec"], old["spec"]
        if after["type"] == "ExternalName":
            return
        if before["type"] != "ExternalName":
            for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if not after.get(name) and name in before:
                    after[name] = before[name]
        self._allocate(after)

    def _allocate(self, spec: Object) -> None:
        if spec["type"] == "ExternalName":
            return
        if spec.get("clusterIP") == "None":
            spec["clusterIPs"] = ["None"]
            if not spec.get("selector"):
                fill(spec, ipFamilyPolicy="RequireDualStack", ipFamilies=["IPv4", "IPv6"])
        elif not spec.get("clusterIP"):
            number = next(self._addresses)
            spec["clusterIP"] = f"10.96.{number >> 8 & 255}.{number & 255}"
        fill(spec, clusterIPs=[spec["clusterIP"]])
        family = "IPv6" if ":" in spec["clusterIP"] else "IPv4"
        fill(spec, ipFamilies=[family], ipFamilyPolicy="SingleStack")
        if spec["type"] in ("NodePort", "LoadBalancer"):
            for port in items(spec, "ports"):
                if not port.get("nodePort"):
                    port["nodePort"] = next(self._node_ports)

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = []
        if spec["type"] not in _TYPES:
            causes.append(not_supported("spec.type", spec["type"], _TYPES))
        if spec["type"] == "ExternalName" and not spec.get("externalName"):
            causes.append(required("spec.externalName"))
        ports = items(spec, "ports")
        if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
            causes.append(required("spec.ports"))
        for index, port in enumerate(ports):
            if len(ports) > 1 and not port.get("name"):
                causes.append(required(f"spec.ports[{index}].name"))
            if port["port"] not in _PORTS:
                words = "must be between 1 and 65535, inclusive"
                causes.append(invalid_value(f"spec.ports[{index}].port", port["port"], words))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
        if "ExternalName" in (old["spec"]["type"], new["spec"]["type"]) or before == after:
            return []
        words = "may not change once set"
        return [invalid_value("spec.clusterIPs[0]", [after], words)]
