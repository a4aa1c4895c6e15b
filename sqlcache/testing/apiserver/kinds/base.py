"""What a resource does with its objects beyond keeping them.

Flow of a create: decode, `default`, `prepare_create`, `validate`, store.
Flow of an update: decode, `default`, `prepare_update` or `prepare_status`, `validate`,
`validate_update`, `raises_generation`, store.

Source: apiserver registry/rest RESTCreateStrategy, RESTUpdateStrategy, RESTGracefulDeleteStrategy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sqlcache.objects import Object
from sqlcache.testing.apiserver.names import subdomain_errors
from sqlcache.testing.apiserver.status import Cause


class Strategy:
    """The rules of one kind; those here fit a kind without spec, status and generation.

    Attributes:
        starts_generation: whether a new object has generation 1.
        create_on_update: whether PUT makes an object that is not there.
        unconditional_update: whether PUT may leave the resourceVersion out.
        returns_deleted: whether DELETE sends the object, not a Status.
        metadata_checks: how often the server checks the metadata of an update, and so how often it
            lists the cause.
        has_status: whether there is a /status, and the main resource ignores the field.
        empty: what a bookmark carries beside its metadata: the empty fields of the Go type.
    """

    starts_generation = False
    create_on_update = False
    unconditional_update = True
    returns_deleted = False
    metadata_checks = 2
    has_status = False
    empty: ClassVar[Mapping[str, Any]] = {}

    def name_errors(self, name: str) -> list[str]:
        """Return what is wrong with a name; empty if nothing is."""
        return subdomain_errors(name)

    def default(self, obj: Object) -> None:
        """Fill in what a client may leave out, at every write."""

    def prepare_create(self, obj: Object) -> None:
        """Fill in what the server decides when an object is made."""
        if self.has_status:
            obj.pop("status", None)

    def prepare_update(self, new: Object, old: Object) -> None:
        """Take over from the old object what an update cannot change."""
        if self.has_status:
            carry(new, old, "status")

    def prepare_status(self, new: Object, old: Object) -> None:
        """Take over from the old object what an update of /status cannot change."""
        for name in [*new, *old]:
            if name not in ("metadata", "status", "kind", "apiVersion"):
                carry(new, old, name)

    def validate(self, obj: Object) -> list[Cause]:
        """Return what is wrong with an object."""
        return []

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return what must not change."""
        return []

    def raises_generation(self, new: Object, old: Object) -> bool:
        """Return whether a changed object gets a new generation."""
        return False

    def grace_period_s(self, obj: Object, asked_s: int | None) -> int | None:
        """Return how long a deletion may take; None if the kind knows no such thing."""
        return None

    def mark_deleted(self, obj: Object) -> None:
        """Change an object whose deletion has begun."""

    def held_by_spec(self, obj: Object) -> bool:
        """Return whether the spec has finalizers of its own."""
        return False


def carry(new: Object, old: Object, name: str) -> None:
    """Make a field of the new object what it is in the old one."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def section(obj: Object, name: str) -> Object:
    """Return a part of an object, such as its spec; it is made if it is not there."""
    part = obj.get(name)
    if not isinstance(part, dict):
        part = obj[name] = {}
    return part


def items(part: Mapping[str, Any], name: str) -> list[Object]:
    """Return the objects in a list; empty if there is none."""
    found = part.get(name)
    if not isinstance(found, list):
        return []
    return [each for each in found if isinstance(each, dict)]


def fill(part: Object, **defaults: Any) -> None:
    """Set the fields that are not there."""
    for name, value in defaults.items():
        if part.get(name) is None:
            part[name] = value
