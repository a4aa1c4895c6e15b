"""What the readers of JSON and YAML give: documents whose arrays come item by item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple


class Mapping(NamedTuple):
    """A mapping at the top of a document.

    Attributes:
        fields: its names and values. An array comes as Array, to be used up before the next field.
    """

    fields: Iterator[tuple[str, Any]]


class Array(NamedTuple):
    """An array at the top of a document, or one level below.

    Attributes:
        items: its decoded items.
    """

    items: Iterator[Any]
