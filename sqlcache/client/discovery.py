"""What an API server serves, and the resource that a kubectl user means by a name.

Promises
- Two requests where the server knows aggregated discovery (Kubernetes 1.26), else one for each
  group and version. A group whose own server is down is left out.
- Names are kubectl's: plural, singular, kind, short name; any of them with a group or the beginning
  of one, or with version and group. Full names go before short ones; else the order is the
  server's: the core first, a group's preferred version first.

Elsewhere: the requests (client.documents).
Source: client-go discovery/discovery_client.go, restmapper/shortcut.go; apimachinery api/meta
restmapper.go; k8s.io/api/apidiscovery/v2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlcache.client.api import Resource
from sqlcache.errors import ApiDecodeError, ApiStatusError, UnknownResourceError, shown

Get: TypeAlias = Callable[[str, str], Any]
"""Takes a path and an Accept header and returns a decoded document."""

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
_ACCEPT = ",".join([*(_AGGREGATED.format(each) for each in ("v2", "v2beta1")), "application/json"])
_PLAIN = "application/json"


class ApiResource(NamedTuple):
    """A resource by all its names.

    Attributes:
        group: API group; "" for the core.
        version: of the group.
        plural: name in URLs.
        kind: of its objects.
        singular: name of one object.
        short_names: for people who type.
        namespaced: whether its objects lie in namespaces.
        verbs: what can be done with it, such as "list" and "watch".
    """

    group: str
    version: str
    plural: str
    kind: str
    singular: str
    short_names: tuple[str, ...]
    namespaced: bool
    verbs: tuple[str, ...]

    @property
    def qualified(self) -> str:
        """The name that no other resource has: `deployments.apps`, but `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def resource(self) -> Resource:
        """What a transport needs of it."""
        return Resource(self.group, self.version, self.plural)

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version


def discover(get: Get) -> list[ApiResource]:
    """Return all resources of an API server.

    Raises:
        ApiStatusError, OSError, ApiDecodeError: as `ApiDocuments.get`.
    """
    found: list[ApiResource] = []
    for root in ("/api", "/apis"):
        document = get(root, _ACCEPT)
        if _text(document, "kind") == "APIGroupDiscoveryList":
            found += _aggregated(document)
        else:
            found += _one_by_one(get, root, document)
    return found


def find(resources: Sequence[ApiResource], name: str) -> ApiResource:
    """Return the resource that a name stands for; one that can be listed, if there is a choice.

    Raises:
        UnknownResourceError: there is none.
    """
    wanted, _, group = name.lower().partition(".")
    for fits in (_has_name, _has_short_name):
        named = [each for each in resources if fits(each, wanted)]
        for in_group in (_is_in_group, _is_in_group_like):
            chosen = [each for each in named if in_group(each, group)]
            if chosen:
                return next((each for each in chosen if "list" in each.verbs), chosen[0])
    raise UnknownResourceError(name)


def _has_name(resource: ApiResource, name: str) -> bool:
    return name in (resource.plural, resource.singular, resource.kind.lower())


def _has_short_name(resource: ApiResource, name: str) -> bool:
    return name in resource.short_names


def _is_in_group(resource: ApiResource, group: str) -> bool:
    return group in ("", resource.group, f"{resource.version}.{resource.group}")


def _is_in_group_like(resource: ApiResource, group: str) -> bool:
    return resource.group.startswith(group)


def _aggregated(document: Any) -> Iterator[ApiResource]:
    for item in _mappings(document, "items"):
        metadata = item.get("metadata")
        group = _text(metadata, "name")
        for version in _mappings(item, "versions"):
            for entry in _mappings(version, "resources"):
                kind = _text(entry.get("responseKind"), "kind")
                yield ApiResource(
                    group,
                    _text(version, "version"),
                    _text(entry, "resource"),
                    kind,
                    _text(entry, "singularResource") or kind.lower(),
                    _texts(entry, "shortNames"),
                    _text(entry, "scope") == "Namespaced",
                    _texts(entry, "verbs"),
                )


def _one_by_one(get: Get, root: str, document: Any) -> Iterator[ApiResource]:
    for path, group, version in _versions(root, document):
        try:
            resources = get(path, _PLAIN)
        except ApiStatusError as error:
            # An extension's server that is down must not hide the others.
            if error.code in (404, 503):
                continue
            raise
        yield from _plain(resources, group, version)


def _versions(root: str, document: Any) -> Iterator[tuple[str, str, str]]:
    """Yield path, group and version, the preferred version of a group first."""
    if not isinstance(document, dict):
        raise ApiDecodeError(f"the API server sent no discovery document: {shown(document)}")
    if root == "/api":
        yield from ((f"{root}/{version}", "", version) for version in _texts(document, "versions"))
    for group in _mappings(document, "groups"):
        name, preferred = _text(group, "name"), _text(group.get("preferredVersion"), "version")
        versions = [_text(each, "version") for each in _mappings(group, "versions")]
        for version in sorted(versions, key=lambda each: each != preferred):
            yield f"{root}/{name}/{version}", name, version


def _plain(document: Any, group: str, version: str) -> Iterator[ApiResource]:
    for entry in _mappings(document, "resources"):
        plural, kind = _text(entry, "name"), _text(entry, "kind")
        if "/" in plural:
            continue  # a part of an object, such as pods/log
        yield ApiResource(
            group,
            version,
            plural,
            kind,
            _text(entry, "singularName") or kind.lower(),
            _texts(entry, "shortNames"),
            entry.get("namespaced") is True,
            _texts(entry, "verbs"),
        )


def _mappings(value: Any, field: str) -> Iterable[Mapping[str, Any]]:
    found = value.get(field) if isinstance(value, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _text(value: Any, field: str) -> str:
    found = value.get(field) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _texts(value: Any, field: str) -> tuple[str, ...]:
    found = value.get(field) if isinstance(value, dict) else None
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()
