"""What a mirrored file says of its resources: their other names, their group, their scope.

A file keeps this as objects of a resource of its own, so that `get deploy` or `get widgets` finds
in it what the API server that it came from calls by that name.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlcache.cli._fields import mapping, text, texts
from sqlcache.cli._options import FILE_PREFIX
from sqlcache.cli._resources import Naming, usual_naming
from sqlcache.client.discovery import ApiResource, find
from sqlcache.errors import DatabaseError, UnknownResourceError
from sqlcache.objects import Object, object_name
from sqlcache.store import open_store
from sqlcache.store.sqlite import SqliteStore

RECORDS = "mirrors.sqlcache"


def write_names(backend: str, resources: Iterable[ApiResource]) -> None:
    """Have a file know these resources by all their names.

    Args:
        backend: `sqlite:///path`.
        resources: those that it mirrors now; what it knows of others stays.

    Raises:
        DatabaseError: the file cannot be written.
    """
    records = [_record(resource) for resource in resources]
    with open_store(backend, RECORDS, hot_objects=0) as store:
        new = [each for each in records if store.get_by_key(object_name(each).name) != each]
        store.apply([{"type": "MODIFIED", "object": each} for each in new])


def naming_in(backend: str, name: str) -> Naming:
    """Return the resource that a name stands for in a file.

    Raises:
        DatabaseError: the file cannot be read, or it has other resources only.
    """
    path = backend.removeprefix(FILE_PREFIX)
    with SqliteStore(path, RECORDS, hot_objects=0) as store:
        known = sorted(map(_resource, store.list()))  # the core, group "", goes first
        stored = [each for each in store.resources() if each != RECORDS]
    try:
        found = find(known, name)
    except UnknownResourceError:
        naming = usual_naming(name)
        if known and naming.name == RECORDS:  # not listed with the others, but to be looked at
            return naming
        if stored and naming.name not in stored:
            has = f"no {naming.name} in it; it has {', '.join(stored)}"
            raise DatabaseError(path, has) from None
        return naming
    return Naming(found.qualified, found.namespaced)


def _record(resource: ApiResource) -> Object:
    return {
        "apiVersion": "sqlcache/v1",
        "kind": "Mirror",
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": resource.group,
            "version": resource.version,
            "plural": resource.plural,
            "kind": resource.kind,
            "singular": resource.singular,
            "shortNames": list(resource.short_names),
            "namespaced": resource.namespaced,
        },
    }


def _resource(record: Object) -> ApiResource:
    spec = mapping(record.get("spec"))
    return ApiResource(
        text(spec.get("group")),
        text(spec.get("version")),
        text(spec.get("plural")),
        text(spec.get("kind")),
        text(spec.get("singular")),
        tuple(texts(spec.get("shortNames"))),
        spec.get("namespaced") is True,
        ("list", "watch"),
    )
