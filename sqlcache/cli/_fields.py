"""Reading fields of an object whose types nobody has checked: a wrong type counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return a string as it is, anything else as ""."""
    return value if isinstance(value, str) else ""


def texts(value: Any) -> list[str]:
    """Return the strings in a list that are not empty."""
    return (
        [item for item in value if item and isinstance(item, str)]
        if isinstance(value, list)
        else []
    )


def number(value: Any) -> int:
    """Return an integer as it is, anything else as 0."""
    return value if isinstance(value, int) else 0
