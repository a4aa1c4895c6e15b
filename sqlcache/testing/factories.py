"""Objects for tests, and results in a form that is easy to compare.

Example:
    >>> store.add(pod("a", labels={"app": "web"}))
    >>> assert names(store.select("", "app=web")) == ["a"]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlcache.objects import Object, meta_namespace_key_func


def pod(
    name: str,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    rv: str | None = "1",
    uid: str | None = None,
    **fields: Any,
) -> Object:
    """Return a pod as an API server sends it, cut down to what is given.

    Args:
        name: its name.
        namespace: "" makes it cluster-scoped, without the field.
        labels: copied; None leaves the field out, an empty mapping does not.
        rv: its resourceVersion; None leaves the field out.
        uid: None leaves the field out.
        fields: further fields of the object, such as `spec={"nodeName": "n1"}`.
    """
    meta: dict[str, Any] = {"name": name}
    if namespace:
        meta["namespace"] = namespace
    if uid is not None:
        meta["uid"] = uid
    if rv is not None:
        meta["resourceVersion"] = rv
    if labels is not None:
        meta["labels"] = dict(labels)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, **fields}


def event(kind: str, obj: Any) -> dict[str, Any]:
    """Return a decoded watch event. Kind is "ADDED", "MODIFIED", "DELETED" or "BOOKMARK"."""
    return {"type": kind, "object": obj}


def names(objs: Iterable[Object]) -> list[str]:
    """Return the names of objects, sorted, repeats kept."""
    return sorted(obj["metadata"]["name"] for obj in objs)


def keys(objs: Iterable[Object]) -> list[str]:
    """Return `namespace/name` of objects, sorted, repeats kept."""
    return sorted(map(meta_namespace_key_func, objs))
