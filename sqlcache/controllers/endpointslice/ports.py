"""Ports of EndpointSlices: what makes two sets of them the same, and their order.

A slice has the ports that all its endpoints have, so pods on which the ports of a service mean
other numbers go to other slices. A set of ports is a tuple in the order of their hashes, which is
the order in which Kubernetes writes them.

Source: endpointslice/util NewPortMapKey.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from sqlcache.controllers.hashing import fnv1a_128, go_pointer

HASHED = 4096  # ports whose hash is kept; one takes 12 µs


class Port(NamedTuple):
    """A port of a slice: the fields of discovery/v1 EndpointPort, each of which may be absent."""

    name: str | None
    protocol: str | None
    port: int | None
    app_protocol: str | None

    @classmethod
    def of(cls, port: dict[str, Any]) -> Port:
        """Return the port that a decoded one is."""
        return cls(
            port.get("name"), port.get("protocol"), port.get("port"), port.get("appProtocol")
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the port as in the API."""
        fields = {
            "name": self.name,
            "protocol": self.protocol,
            "port": self.port,
            "appProtocol": self.app_protocol,
        }
        return {field: value for field, value in fields.items() if value is not None}


Ports: TypeAlias = tuple[Port, ...]

NO_PORTS: Ports = ()


def in_order(ports: Iterable[Port]) -> Ports:
    """Return ports in the order of their hashes; equal sets give equal tuples."""
    found = tuple(ports)
    return found if len(found) < 2 else tuple(sorted(found, key=port_hash))


def ports_of(endpoint_slice: dict[str, Any]) -> Ports:
    """Return the ports of a decoded slice; null and no ports are the same."""
    return in_order(map(Port.of, endpoint_slice.get("ports") or ()))


@lru_cache(maxsize=HASHED)
def port_hash(port: Port) -> int:
    """Return the hash that Kubernetes orders ports by."""
    number = None if port.port is None else str(port.port)
    return fnv1a_128(
        f"(v1.EndpointPort){{Name:(*string){go_pointer(port.name)}"
        f" Protocol:(*v1.Protocol){go_pointer(port.protocol)}"
        f" Port:(*int32){go_pointer(number)}"
        f" AppProtocol:(*string){go_pointer(port.app_protocol)}}}"
    )
