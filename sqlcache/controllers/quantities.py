"""Quantities of resources, such as "3920m" CPUs.

Source: apimachinery api/resource Quantity.
"""

from __future__ import annotations

import re
from decimal import Decimal

_FORMAT = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,3}))?", re.ASCII
)
_POWERS_OF_TEN = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_POWERS_OF_1024 = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def quantity(value: str | float | None) -> Decimal:
    """Return the number that a decoded quantity stands for.

    Args:
        value: as in the API, where a plain number needs no quotes.

    Returns:
        0 for None and for what is no quantity.
    """
    match = _FORMAT.fullmatch(str(value))
    if match is None:
        return Decimal()
    number, binary, decimal, exponent = match.groups()
    power = _POWERS_OF_TEN[decimal] if decimal else int(exponent or 0)
    return Decimal(number).scaleb(power) * Decimal(1024 ** _POWERS_OF_1024.get(binary, 0))
