"""IP addresses as the API writes them: read leniently, printed in one form.

Go's older parser, which Kubernetes keeps for stored objects, takes 010.042.000.001 for 10.42.0.1;
and Go has no IPv4-mapped IPv6 addresses: ::ffff:10.0.0.1 is IPv4.

Source: k8s.io/utils/net ParseIPSloppy, IsIPv6String; Go net.IP.String.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Literal

IPFamily = Literal["IPv4", "IPv6"]

PARSED = 1 << 16  # addresses whose parsed form is kept: some 20 MB
NO_ADDRESS = "<nil>"  # what Go prints for text that is no address
_LEADING_ZEROS = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9a-fA-F])")


def canonical_ip(text: str) -> str:
    """Return an address in the form in which the API stores it; "<nil>" for what is none."""
    return _parse(text)[0]


def family_of(text: str) -> IPFamily:
    """Return the family of an address; text that is no address counts as IPv4."""
    return _parse(text)[1]


@lru_cache(maxsize=PARSED)  # the same pods come again at every sync; parsing takes 5 µs
def _parse(text: str) -> tuple[str, IPFamily]:
    if "%" in text:  # a zone, which Go refuses
        return NO_ADDRESS, "IPv4"
    try:
        address = ip_address(_LEADING_ZEROS.sub("", text))
    except ValueError:
        return NO_ADDRESS, "IPv4"
    address = getattr(address, "ipv4_mapped", None) or address
    return str(address), "IPv6" if isinstance(address, IPv6Address) else "IPv4"
