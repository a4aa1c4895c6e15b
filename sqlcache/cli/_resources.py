"""Resources by the names that kubectl's users type."""

from __future__ import annotations

import click

_ALIASES = {
    "pods": ("po", "pod"),
    "services": ("svc", "service"),
    "endpoints": ("ep",),
    "endpointslices": ("endpointslice",),
    "nodes": ("no", "node"),
    "namespaces": ("ns", "namespace"),
    "configmaps": ("cm", "configmap"),
    "deployments": ("deploy", "deployment"),
    "replicasets": ("rs", "replicaset"),
    "daemonsets": ("ds", "daemonset"),
    "statefulsets": ("sts", "statefulset"),
    "jobs": ("job",),
    "cronjobs": ("cj", "cronjob"),
    "ingresses": ("ing", "ingress"),
    "events": ("ev", "event"),
}
_BY_ALIAS = {alias: plural for plural, aliases in _ALIASES.items() for alias in aliases}
_CLUSTER_SCOPED = frozenset(
    {
        "apiservices",
        "clusterrolebindings",
        "clusterroles",
        "componentstatuses",
        "csidrivers",
        "csinodes",
        "customresourcedefinitions",
        "flowschemas",
        "ingressclasses",
        "mutatingwebhookconfigurations",
        "namespaces",
        "nodes",
        "persistentvolumes",
        "priorityclasses",
        "prioritylevelconfigurations",
        "runtimeclasses",
        "storageclasses",
        "validatingwebhookconfigurations",
        "volumeattachments",
    }
)


def plural(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the plural name of a resource; for click, as a callback."""
    name = value.lower()
    if not name.partition(".")[0]:
        raise click.BadParameter("a resource has a name, such as pods or services")
    return _BY_ALIAS.get(name, name)


def is_namespaced(resource: str) -> bool:
    """Tell whether a resource's objects lie in namespaces; custom ones are taken to."""
    return resource.partition(".")[0] not in _CLUSTER_SCOPED
