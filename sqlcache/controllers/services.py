"""Services: what controllers read from one, and which of them a pod event concerns.

Promises
- A selector that is missing or null selects nothing; an empty one selects all pods.
- A pod event becomes a `PodProjectionKey`, small and hashable, so that equal events merge in a
  queue. (In client-go they do not: its queue compares pointers.)

Elsewhere: what changed in a pod (controllers.pods), the queue of events (controllers.podevents).
Source: endpointslice/util controller_utils.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlcache.controllers import pods
from sqlcache.objects import Object, labels_of, meta_namespace_key_func
from sqlcache.store.api import Indexer

HEADLESS_LABEL = "service.kubernetes.io/headless"  # v1.IsHeadlessService

LabelSet = frozenset[tuple[str, str]]


class PodProjectionKey(NamedTuple):
    """What a pod event says about the services that it concerns.

    Attributes:
        namespace: the pod's.
        labels: the pod's, now.
        old_labels: those before, if the event may have changed its services; else None.
        pod_changed: what an endpoint says of the pod may have changed.

    Source: endpointslice/util PodProjectionKey.
    """

    namespace: str
    labels: LabelSet
    old_labels: LabelSet | None = None
    pod_changed: bool = True


def projection(pod: Object) -> PodProjectionKey:
    """Return the key of a pod that came or went."""
    return PodProjectionKey(pod["metadata"].get("namespace") or "", _label_set(pod))


def update_projection(old: Object, new: Object) -> PodProjectionKey | None:
    """Return the key of an update, None if it concerns no service.

    An equal resourceVersion is a resync, and services have their own.

    Source: endpointslice/util GetPodUpdateProjectionKey.
    """
    if old["metadata"].get("resourceVersion") == new["metadata"].get("resourceVersion"):
        return None
    change = pods.change(old, new)
    if change.labels:
        return projection(new)._replace(old_labels=_label_set(old), pod_changed=change.pod)
    return projection(new) if change.pod else None


def services_to_update(services: Indexer, key: PodProjectionKey) -> set[str]:
    """Return the keys of the services that a pod event concerns.

    If the labels changed and nothing else, services that had the pod and still have it have
    nothing to do.

    Args:
        services: a store of services.
        key: the event.

    Source: endpointslice/util GetServicesToUpdate.
    """
    now = services_selecting(services, key.namespace, dict(key.labels))
    if key.old_labels is None:
        return now
    before = services_selecting(services, key.namespace, dict(key.old_labels))
    return now | before if key.pod_changed else now ^ before


def services_selecting(services: Indexer, namespace: str, labels: Mapping[str, str]) -> set[str]:
    """Return the keys of the services of a namespace that select a pod with these labels.

    A scan of the namespace's services on the `dict` backend, as in Kubernetes; a few look-ups on
    the others.

    Args:
        services: a store of services.
        namespace: exact name.
        labels: the pod's.

    Source: endpointslice/util getServicesForPod.
    """
    return {meta_namespace_key_func(service) for service in services.selecting(namespace, labels)}


def selector_of(service: Object) -> Mapping[str, str] | None:
    """Return the labels that a service wants of its pods; None if it selects nothing."""
    selector: Mapping[str, str] | None = spec_of(service).get("selector")
    return selector


def spec_of(service: Object) -> Mapping[str, Any]:
    """Return the spec of a service, empty if it has none."""
    return service.get("spec") or {}


def is_external_name(service: Object) -> bool:
    """Return whether a service is an alias of a DNS name, and so never has endpoints."""
    return spec_of(service).get("type") == "ExternalName"


def is_headless(service: Object) -> bool:
    """Return whether a service has no address of its own.

    Source: pkg/apis/core/v1/helper IsServiceIPSet.
    """
    return (spec_of(service).get("clusterIP") or "") in ("", "None")


def publishes_not_ready(service: Object) -> bool:
    """Return whether pods count as ready whatever they say (publishNotReadyAddresses)."""
    return bool(spec_of(service).get("publishNotReadyAddresses"))


def _label_set(pod: Object) -> LabelSet:
    return frozenset(labels_of(pod).items())
