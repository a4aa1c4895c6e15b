"""From a path to what it names.

Source: apiserver endpoints/request requestinfo.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from sqlcache.testing.apiserver import status
from sqlcache.testing.apiserver.resources import Resource

_ITEM_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_PATH_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Route:
    """A resource, one object of it, or a part of one.

    Attributes:
        resource: of the objects.
        namespace: "" for all, or if they have none.
        name: "" for the collection.
        subresource: "", "status", "finalize".
        watch: the path says so, as /api/v1/watch/pods.
    """

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False

    def verb(self, method: str, *, watch: bool) -> str:
        """Return what a request wants to do.

        Args:
            method: of HTTP.
            watch: whether the query asks for a watch.

        Raises:
            ApiError: 405.
        """
        verbs = _ITEM_VERBS if self.name and not self.watch else _COLLECTION_VERBS
        verb = verbs.get(method, "")
        if verb == "list" and (watch or self.watch):
            verb = "watch"
        if verb not in self._allowed():
            raise status.method_not_allowed()
        return verb

    def _allowed(self) -> Iterable[str]:
        if self.subresource:
            return self.resource.subresources[self.subresource]
        if self.resource.namespaced and not self.namespace:
            return ("list", "watch")
        return self.resource.verbs


def path_verb(method: str) -> str:
    """Return the verb of a request for a path that is no resource."""
    return _PATH_VERBS.get(method, "get")


@dataclass(slots=True)
class Routes:
    """All resources, found by path and by name."""

    resources: list[Resource]

    def group_versions(self) -> dict[str, list[str]]:
        """Return the versions of each group; "" is the core API."""
        found: dict[str, list[str]] = {}
        for resource in self.resources:
            versions = found.setdefault(resource.group, [])
            if resource.version not in versions:
                versions.append(resource.version)
        return found

    def of(self, group: str, version: str) -> list[Resource]:
        """Return the resources of a group and version, sorted by name."""
        found = [each for each in self.resources if (each.group, each.version) == (group, version)]
        return sorted(found, key=lambda each: each.plural)

    def by_name(self, name: str) -> Resource:
        """Return a resource by its plural, or by `plural.group`.

        Raises:
            LookupError: there is none.
        """
        for resource in self.resources:
            if name in (resource.plural, resource.qualified):
                return resource
        raise LookupError(f"the server has no resource {name!r}; register it first")

    def resolve(self, path: str) -> Route | None:
        """Return what a path, still escaped, names; None if it is under no group and version.

        Raises:
            ApiError: 404, the group and version have no such resource.
        """
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[0] == "api" and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        served = {each.plural: each for each in self.of(group, version)}
        if not served:
            return None
        route = _route(served, rest)
        if route is None:
            raise status.no_such_resource()
        return route


def _route(served: dict[str, Resource], parts: list[str]) -> Route | None:
    watch = parts[0] == "watch"
    if watch:
        parts = parts[1:]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces" and not _is_subresource(served, parts):
        namespace, parts = parts[1], parts[2:]
    if not parts or len(parts) > 3 or "" in parts:
        return None
    resource = served.get(parts[0])
    name, subresource = (*parts[1:], "", "")[:2]
    if resource is None or (namespace and not resource.namespaced):
        return None
    if resource.namespaced and name and not namespace:
        return None
    if subresource and subresource not in resource.subresources:
        return None
    return Route(resource, namespace, name, subresource, watch)


def _is_subresource(served: dict[str, Resource], parts: list[str]) -> bool:
    namespaces = served.get("namespaces")
    return len(parts) == 3 and namespaces is not None and parts[2] in namespaces.subresources
