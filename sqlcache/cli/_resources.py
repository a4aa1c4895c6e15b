"""Resources by the names that kubectl's users type."""

from __future__ import annotations

from typing import NamedTuple

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
_SINGULAR = {plural: aliases[-1] for plural, aliases in _ALIASES.items()}
_SINGULAR["endpoints"] = "endpoints"
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


def names_of(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return what a user calls some resources; for click, as a callback."""
    return tuple(name_of(ctx, param, value) for value in values)


class Naming(NamedTuple):
    """A resource as a file or a dump knows it.

    Attributes:
        name: plural name, with its group where that is needed.
        namespaced: whether its objects lie in namespaces.
    """

    name: str
    namespaced: bool


def name_of(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return what a user calls a resource, if it can be a name; for click, as a callback."""
    if not value.partition(".")[0]:
        raise click.BadParameter("a resource has a name, such as pods or services")
    if "," in value or "/" in value:  # kubectl takes lists, and objects as pod/web
        raise click.BadParameter(f"{value!r} is not the name of one resource, such as pods")
    return value


def usual_naming(name: str) -> Naming:
    """Return what a name usually stands for; custom resources are taken to be namespaced."""
    lower = name.lower()
    plural = _BY_ALIAS.get(lower, lower)
    return Naming(plural, plural.partition(".")[0] not in _CLUSTER_SCOPED)


def counted(count: int, resource: str) -> str:
    """Return how many objects of a resource there are, in words."""
    if count != 1:
        return f"{count} {resource}"
    return f"1 {_SINGULAR[resource]}" if resource in _SINGULAR else f"1 object of {resource}"
