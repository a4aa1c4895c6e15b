"""What the server serves, as documents for clients: kubectl, the dynamic client.

Source: apimachinery meta/v1 APIResourceList, api/apidiscovery/v2.
"""

from __future__ import annotations

import base64
import hashlib

from sqlcache.objects import Object
from sqlcache.testing.apiserver.resources import Resource
from sqlcache.testing.apiserver.routes import Routes

VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2+sqlcache",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}


def document(routes: Routes, path: str, address: str) -> Object | None:
    """Return the discovery document at a path, None if there is none.

    Args:
        routes: all resources.
        path: of the request.
        address: host and port of the server.
    """
    match path.strip("/").split("/"):
        case ["version"]:
            return dict(VERSION)
        case ["api"]:
            return _core_versions(routes, address)
        case ["apis"]:
            return _groups(routes)
        case ["api", version]:
            return _resources(routes, "", version)
        case ["apis", group]:
            return _group(routes, group)
        case ["apis", group, version]:
            return _resources(routes, group, version)
    return None


def _core_versions(routes: Routes, address: str) -> Object:
    return {
        "kind": "APIVersions",
        "versions": routes.group_versions().get("", []),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def _groups(routes: Routes) -> Object:
    groups = [
        {key: value for key, value in found.items() if key not in ("kind", "apiVersion")}
        for name in routes.group_versions()
        if name and (found := _group(routes, name)) is not None
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group(routes: Routes, name: str) -> Object | None:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in routes.group_versions().get(name, [])
        if name
    ]
    if not versions:
        return None
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def _resources(routes: Routes, group: str, version: str) -> Object | None:
    found = routes.of(group, version)
    if not found:
        return None
    entries = [entry for resource in found for entry in _entries(resource)]
    head: Object = {"kind": "APIResourceList"}
    if group:
        head["apiVersion"] = "v1"  # the core API does without, for no known reason
    return {**head, "groupVersion": found[0].group_version, "resources": entries}


def _entries(resource: Resource) -> list[Object]:
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.singular or resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    entry["storageVersionHash"] = _storage_version_hash(resource)
    parts = [
        {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(verbs),
        }
        for name, verbs in resource.subresources.items()
    ]
    return [entry, *parts]


def _storage_version_hash(resource: Resource) -> str:
    """Source: apiserver endpoints/discovery storageversionhash.go."""
    text = f"{resource.group}/{resource.version}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def aggregated(routes: Routes, path: str) -> Object | None:
    """Return all groups and resources under /api or /apis in one document; None elsewhere.

    Source: k8s.io/api/apidiscovery/v2.
    """
    if path.strip("/") not in ("api", "apis"):
        return None
    core = path.strip("/") == "api"
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": version,
                    "resources": [_aggregated(each) for each in routes.of(group, version)],
                    "freshness": "Current",
                }
                for version in versions
            ],
        }
        for group, versions in routes.group_versions().items()
        if core is not bool(group)
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated(resource: Resource) -> Object:
    response_kind = {"group": "", "version": "", "kind": resource.kind}
    found: Object = {
        "resource": resource.plural,
        "responseKind": response_kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular or resource.kind.lower(),
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        found["shortNames"] = list(resource.short_names)
    if resource.categories:
        found["categories"] = list(resource.categories)
    if resource.subresources:
        found["subresources"] = [
            {"subresource": name, "responseKind": response_kind, "verbs": list(verbs)}
            for name, verbs in resource.subresources.items()
        ]
    return found
