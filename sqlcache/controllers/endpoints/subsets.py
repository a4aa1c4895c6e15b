"""Subsets of Endpoints: packed into their canonical form, compared, cut to size.

Addresses are dicts as in the API. `Packing` takes single (port, address) pairs, of pods or of a
stored object, and knows what subsets they make. Two packings can be compared without putting
anything in order, which is what most syncs need; the order is worked out for a write alone.

Promises
- An address is known by its IP and the uid of its target, so pods that share an IP are kept apart.
- On one port an address that is both is not ready.
- Ports with the same addresses, in the same state, share a subset. A port 0 is in no list of ports.
- Order is that of Kubernetes 1.36: addresses by the text of the IP, then uid; ports and subsets by
  hash.

Source: pkg/api/v1/endpoints util.go RepackSubsets; pkg/controller/endpoint truncateEndpoints.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from sqlcache.controllers.hashing import fnv1a_128, go_pointer

Address: TypeAlias = dict[str, Any]
Subset: TypeAlias = dict[str, Any]

MAX_ADDRESSES = 1000  # of an Endpoints object


class Port(NamedTuple):
    """A port of a subset: the fields of v1.EndpointPort."""

    name: str
    port: int
    protocol: str
    app_protocol: str | None

    @classmethod
    def of(cls, port: dict[str, Any]) -> Port:
        """Return the port that a decoded one is."""
        return cls(
            port.get("name") or "",
            port.get("port") or 0,
            port.get("protocol") or "",
            port.get("appProtocol"),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the port as in the API."""
        fields = {"name": self.name or None, "port": self.port, "protocol": self.protocol or None}
        fields["appProtocol"] = self.app_protocol
        return {field: value for field, value in fields.items() if value is not None}


class _Member(NamedTuple):
    """What makes two addresses of a port the same."""

    ip: str
    uid: str


_States: TypeAlias = frozenset[tuple[_Member, bool]]  # each with whether it is ready


class Packing:
    """(port, address) pairs, and the subsets that they make."""

    def __init__(self) -> None:
        """Hold no pair."""
        self._addresses: dict[_Member, Address] = {}
        self._ready: defaultdict[tuple[Port | None, int], dict[_Member, bool]] = defaultdict(dict)

    @classmethod
    def of(cls, subsets: Iterable[Subset]) -> Packing:
        """Return the pairs of a stored object's subsets.

        In Kubernetes, stored ports with an appProtocol are equal to nothing but themselves, for it
        is a pointer: what another writer split into several subsets so counts as split.
        """
        packing = cls()
        for number, subset in enumerate(subsets):
            ports: list[Port | None] = [Port.of(port) for port in subset.get("ports") or ()]
            for port in ports or [None]:
                place = number if port is not None and port.app_protocol is not None else 0
                for address in subset.get("addresses") or ():
                    packing.add(port, address, ready=True, place=place)
                for address in subset.get("notReadyAddresses") or ():
                    packing.add(port, address, ready=False, place=place)
        return packing

    def add(self, port: Port | None, address: Address, *, ready: bool, place: int = 0) -> None:
        """Add a pair.

        Args:
            port: None for an address without ports, of a headless service.
            address: in the form of the API; of those with one IP and uid the first is kept.
            ready: whether it takes connections there.
            place: keeps equal ports apart.
        """
        member = _Member(address["ip"], (address.get("targetRef") or {}).get("uid") or "")
        self._addresses.setdefault(member, address)
        members = self._ready[port, place]
        members[member] = ready and members.get(member, True)

    def same_as(self, other: Packing) -> bool:
        """Return whether both make the same subsets, resourceVersions of targets aside."""
        return self._groups() == other._groups() and all(
            _content(address) == _content(other._addresses[member])
            for member, address in self._addresses.items()
        )

    def subsets(self) -> list[Subset]:
        """Return the subsets in canonical form and order."""
        subsets = [self._subset(states, ports) for states, ports in self._groups().items()]
        return _by_hash(subsets, subset_text)

    def _groups(self) -> dict[_States, set[Port]]:
        groups: defaultdict[_States, set[Port]] = defaultdict(set)
        for (port, _), members in self._ready.items():
            named = (port,) if port is not None and port.port > 0 else ()
            groups[frozenset(members.items())].update(named)
        return groups

    def _subset(self, states: _States, ports: Iterable[Port]) -> Subset:
        members = sorted(states)
        lists: dict[str, list[Any]] = {
            "addresses": [self._addresses[member] for member, ready in members if ready],
            "notReadyAddresses": [
                self._addresses[member] for member, ready in members if not ready
            ],
            "ports": [port.as_dict() for port in _by_hash(ports, port_text)],
        }
        return {field: items for field, items in lists.items() if items}


def count_addresses(subsets: Iterable[Subset]) -> int:
    """Return the number of addresses of all subsets, ready or not."""
    return sum(
        len(subset.get("addresses") or ()) + len(subset.get("notReadyAddresses") or ())
        for subset in subsets
    )


def truncated(subsets: list[Subset]) -> list[Subset]:
    """Return subsets with no more than 1,000 addresses in all, ready ones before others.

    Each subset is cut to its share, rounded up, so the last may get less.

    Source: pkg/controller/endpoint truncateEndpoints.
    """
    if count_addresses(subsets) <= MAX_ADDRESSES:
        return subsets
    ready = sum(len(subset.get("addresses", ())) for subset in subsets)
    if ready > MAX_ADDRESSES:
        subsets = [{**subset, "notReadyAddresses": []} for subset in subsets]
        field, room = "addresses", MAX_ADDRESSES
    else:
        field, room = "notReadyAddresses", MAX_ADDRESSES - ready
    total, left = sum(len(subset.get(field, ())) for subset in subsets), room
    cut = []
    for subset in subsets:
        addresses = subset.get(field, [])
        share = math.ceil(len(addresses) / total * room)  # in floating point, as upstream
        kept = addresses[: min(share, left)]
        left -= len(kept)
        cut.append({name: items for name, items in {**subset, field: kept}.items() if items})
    return cut


def _content(address: Address) -> tuple[Any, ...]:
    """Return what makes two addresses equal; a null nodeName differs from an empty one."""
    target = address.get("targetRef")
    if target is not None:
        target = {k: v for k, v in target.items() if v and k != "resourceVersion"}
    return address["ip"], address.get("hostname") or "", address.get("nodeName"), target


def _by_hash(items: Iterable[Any], text: Any) -> list[Any]:
    found = list(items)
    return found if len(found) < 2 else sorted(found, key=lambda item: fnv1a_128(text(item)))


def port_text(port: Port) -> str:
    """Return a port as spew prints it, to be hashed."""
    return f"(v1.EndpointPort){_port_fields(port)}"


def _port_fields(port: Port) -> str:
    return (
        f"{{Name:(string){port.name} Port:(int32){port.port}"
        f" Protocol:(v1.Protocol){port.protocol}"
        f" AppProtocol:(*string){go_pointer(port.app_protocol)}}}"
    )


def subset_text(subset: Subset) -> str:
    """Return a subset as spew prints it, to be hashed."""
    ports = [_port_fields(Port.of(port)) for port in subset.get("ports", ())]
    ready, not_ready = (
        _list([_address_fields(address) for address in subset.get(field, ())])
        for field in ("addresses", "notReadyAddresses")
    )
    return (
        f"(v1.EndpointSubset){{Addresses:([]v1.EndpointAddress){ready}"
        f" NotReadyAddresses:([]v1.EndpointAddress){not_ready}"
        f" Ports:([]v1.EndpointPort){_list(ports)}}}"
    )


def _list(texts: list[str]) -> str:
    return f"[{' '.join(texts)}]" if texts else "<nil>"


def _address_fields(address: Address) -> str:
    return (
        f"{{IP:(string){address['ip']} Hostname:(string){address.get('hostname', '')}"
        f" NodeName:(*string){go_pointer(address.get('nodeName'))}"
        f" TargetRef:(*v1.ObjectReference){_reference_fields(address.get('targetRef'))}}}"
    )


def _reference_fields(reference: dict[str, str] | None) -> str:
    if reference is None:
        return "<nil>"
    values = [
        f"{field}:({kind}){reference.get(name, '')}" for field, kind, name in _REFERENCE_FIELDS
    ]
    return f"{{{' '.join(values)}}}"


_REFERENCE_FIELDS = (
    ("Kind", "string", "kind"),
    ("Namespace", "string", "namespace"),
    ("Name", "string", "name"),
    ("UID", "types.UID", "uid"),
    ("APIVersion", "string", "apiVersion"),
    ("ResourceVersion", "string", "resourceVersion"),
    ("FieldPath", "string", "fieldPath"),
)
