"""What the server serves: one `Resource` for each collection.

Source: the discovery documents of kube-apiserver 1.36; kubernetes apis/core/v1 conversion.go
(selectable fields).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlcache.objects import Object
from sqlcache.selectors import METADATA_FIELDS, POD_FIELDS, FieldGetter, field_getter
from sqlcache.testing.apiserver.kinds.base import Strategy
from sqlcache.testing.apiserver.kinds.cluster import (
    CustomStrategy,
    EventStrategy,
    LeaseStrategy,
    NamespaceStrategy,
    NodeStrategy,
)
from sqlcache.testing.apiserver.kinds.endpoints import EndpointSliceStrategy, EndpointsStrategy
from sqlcache.testing.apiserver.kinds.pod import PodStrategy
from sqlcache.testing.apiserver.kinds.service import ServiceStrategy

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_SUBRESOURCE_VERBS = ("get", "patch", "update")

_NAME: Mapping[str, FieldGetter] = {"metadata.name": METADATA_FIELDS["metadata.name"]}


@dataclass(frozen=True, eq=False, slots=True)
class Resource:
    """One collection: its names and its rules.

    Attributes:
        plural: as in the path, such as "pods".
        kind: of its objects, such as "Pod".
        group: "" is the core API.
        version: such as "v1".
        namespaced: whether its objects are in namespaces.
        singular: "" means the kind in lower case.
        short_names: kubectl's.
        categories: kubectl's, such as "all".
        strategy: the rules.
        fields: what field selectors can name, and how it is read.
        verbs: what can be done with it.
        subresources: path and verbs of each, "status" among them.
        warning: sent with every answer; "" for none.
        custom: whether a definition made it: its objects may have any field, and lists repeat
            kind and apiVersion in each item.
    """

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    singular: str = ""
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    strategy: Strategy = field(default_factory=CustomStrategy)
    fields: Mapping[str, FieldGetter] = field(default_factory=lambda: METADATA_FIELDS)
    verbs: Sequence[str] = ALL_VERBS
    subresources: Mapping[str, Sequence[str]] = field(default_factory=dict)
    warning: str = ""
    custom: bool = False

    @property
    def group_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name in messages: `endpointslices.discovery.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_kind(self) -> str:
        """The kind of a list."""
        return f"{self.kind}List"

    def key(self, namespace: str, name: str) -> str:
        """Return the key of an object in the storage."""
        return f"{namespace}/{name}" if self.namespaced else name

    def bookmark(self, meta: Object) -> Object:
        """Return the object of a bookmark: empty but for its metadata."""
        typed = {"kind": self.kind, "apiVersion": self.group_version, "metadata": meta}
        return typed if self.custom else {**typed, **self.strategy.empty}


def custom_resource(
    plural: str,
    kind: str,
    group: str,
    version: str = "v1",
    *,
    namespaced: bool = True,
    short_names: Sequence[str] = (),
    has_status: bool = True,
    selectable_fields: Sequence[str] = (),
) -> Resource:
    """Return a custom resource as a definition without a schema would make it.

    Args:
        plural: as in the path, such as "widgets".
        kind: such as "Widget".
        group: such as "example.com".
        version: such as "v1".
        namespaced: whether its objects are in namespaces.
        short_names: for kubectl.
        has_status: whether it has a /status.
        selectable_fields: paths that field selectors can name, beside metadata.name and
            metadata.namespace.
    """
    return Resource(
        plural,
        kind,
        group,
        version,
        namespaced=namespaced,
        short_names=tuple(short_names),
        strategy=CustomStrategy(has_status),
        fields={**METADATA_FIELDS, **{path: field_getter(path) for path in selectable_fields}},
        subresources=_STATUS if has_status else {},
        custom=True,
    )


def builtin_resources() -> list[Resource]:
    """Return the resources that every server has; they share nothing with those of another."""
    return [
        Resource(
            "endpoints",
            "Endpoints",
            singular="endpoints",
            short_names=["ep"],
            strategy=EndpointsStrategy(),
            warning="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ),
        Resource(
            "events", "Event", short_names=["ev"], strategy=EventStrategy(), fields=_EVENT_FIELDS
        ),
        Resource(
            "namespaces",
            "Namespace",
            namespaced=False,
            short_names=["ns"],
            strategy=NamespaceStrategy(),
            fields={**_NAME, "status.phase": field_getter("status.phase")},
            verbs=[verb for verb in ALL_VERBS if verb != "deletecollection"],
            subresources={"finalize": ["update"], **_STATUS},
        ),
        Resource(
            "nodes",
            "Node",
            namespaced=False,
            short_names=["no"],
            strategy=NodeStrategy(),
            fields={**_NAME, "spec.unschedulable": _unschedulable},
            subresources=_STATUS,
        ),
        Resource(
            "pods",
            "Pod",
            short_names=["po"],
            categories=["all"],
            strategy=PodStrategy(),
            fields=POD_FIELDS,
            subresources=_STATUS,
        ),
        Resource(
            "services",
            "Service",
            short_names=["svc"],
            categories=["all"],
            strategy=ServiceStrategy(),
            fields={
                **METADATA_FIELDS,
                "spec.clusterIP": field_getter("spec.clusterIP"),
                "spec.type": field_getter("spec.type"),
            },
            subresources=_STATUS,
        ),
        Resource("leases", "Lease", "coordination.k8s.io", strategy=LeaseStrategy()),
        Resource(
            "endpointslices",
            "EndpointSlice",
            "discovery.k8s.io",
            strategy=EndpointSliceStrategy(),
        ),
    ]


def _unschedulable(node: Mapping[str, Any]) -> str:
    return "true" if (node.get("spec") or {}).get("unschedulable") else "false"


def _event_source(event: Mapping[str, Any]) -> str:
    component = (event.get("source") or {}).get("component")
    return str(component or event.get("reportingComponent") or "")


_STATUS: Mapping[str, Sequence[str]] = {"status": _SUBRESOURCE_VERBS}
_EVENT_FIELDS: Mapping[str, FieldGetter] = {
    **METADATA_FIELDS,
    **{
        path: field_getter(path)
        for path in (
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        )
    },
    "source": _event_source,
}
