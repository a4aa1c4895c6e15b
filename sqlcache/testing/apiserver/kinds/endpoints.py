"""Endpoints and EndpointSlices.

Source: kubernetes apis/core/v1 and apis/discovery/v1 defaults.go, registry/core/endpoint,
registry/discovery/endpointslice.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, ClassVar

from sqlcache.objects import Object
from sqlcache.testing.apiserver.kinds.base import Strategy, fill, items
from sqlcache.testing.apiserver.names import subdomain_errors
from sqlcache.testing.apiserver.status import Cause, invalid_value, not_supported, required

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_ENDPOINTS_MAX = 1000
_ADDRESSES_MAX = 100


class EndpointsStrategy(Strategy):
    """Endpoints."""

    create_on_update = True

    def default(self, obj: Object) -> None:
        for subset in items(obj, "subsets"):
            for port in items(subset, "ports"):
                fill(port, protocol="TCP", port=0)
        if not obj.get("subsets"):
            obj.pop("subsets", None)

    def validate(self, obj: Object) -> list[Cause]:
        causes = []
        for number, subset in enumerate(items(obj, "subsets")):
            where = f"subsets[{number}]"
            if not items(subset, "addresses") and not items(subset, "notReadyAddresses"):
                causes.append(required(where, "must specify `addresses` or `notReadyAddresses`"))
            for name in ("addresses", "notReadyAddresses"):
                for index, address in enumerate(items(subset, name)):
                    field = f"{where}.{name}[{index}].ip"
                    if _ip(address.get("ip")) is None:
                        words = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
                        causes.append(invalid_value(field, address.get("ip", ""), words))
        return causes


class EndpointSliceStrategy(Strategy):
    """EndpointSlices; their generation rises with labels and annotations, too."""

    starts_generation = True
    empty: ClassVar[Mapping[str, Any]] = {"addressType": "", "endpoints": None, "ports": None}

    def default(self, obj: Object) -> None:
        fill(obj, addressType="")
        for endpoint in items(obj, "endpoints"):
            fill(endpoint, conditions={}, addresses=[])
        for port in items(obj, "ports"):
            fill(port, name="", protocol="TCP")
        for name in ("endpoints", "ports"):  # no difference is made between none and empty
            obj[name] = obj.get(name) or None

    def raises_generation(self, new: Object, old: Object) -> bool:
        return True

    def validate(self, obj: Object) -> list[Cause]:
        causes = []
        kind = obj["addressType"]
        if not kind:
            causes.append(required("addressType"))
        elif kind not in _ADDRESS_TYPES:
            causes.append(not_supported("addressType", kind, _ADDRESS_TYPES))
        endpoints = items(obj, "endpoints")
        if len(endpoints) > _ENDPOINTS_MAX:
            words = f"Too many: {len(endpoints)}: must have at most {_ENDPOINTS_MAX} items"
            causes.append(Cause("FieldValueTooMany", "endpoints", words))
        for index, endpoint in enumerate(endpoints):
            causes += _address_causes(f"endpoints[{index}].addresses", kind, endpoint["addresses"])
        names = [port["name"] for port in items(obj, "ports")]
        for index, name in enumerate(names):
            if name in names[:index]:
                field = f"ports[{index}].name"
                message = f'Duplicate value: "{name}"'
                causes.append(Cause("FieldValueDuplicate", field, message))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        if new["addressType"] == old["addressType"]:
            return []
        return [invalid_value("addressType", new["addressType"], "field is immutable")]


def _address_causes(field: str, kind: str, addresses: list[Any]) -> list[Cause]:
    if not addresses:
        return [required(field, "must contain at least 1 address")]
    if len(addresses) > _ADDRESSES_MAX:
        words = f"Too many: {len(addresses)}: must have at most {_ADDRESSES_MAX} items"
        return [Cause("FieldValueTooMany", field, words)]
    causes = []
    for address in addresses:
        if kind in ("IPv4", "IPv6"):
            version = int(kind[-1])
            ip = _ip(address)
            if ip is None:
                words = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
                causes.append(invalid_value(field, address, words))
            elif ip.version != version:
                causes.append(invalid_value(field, address, f"must be an {kind} address"))
        elif kind == "FQDN":
            causes += [invalid_value(field, address, why) for why in subdomain_errors(str(address))]
    return causes


def _ip(text: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text) if isinstance(text, str) else None
    except ValueError:
        return None
