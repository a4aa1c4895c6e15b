"""Ready-made transforms: what most caches need not keep of an object.

A transform runs on each object before it is stored and before handlers see it. It owns the object
and may change it.

Source: client-go cache.TransformStripManagedFields.
"""

from __future__ import annotations

from typing import Any

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def strip_managed_fields(obj: Any) -> Any:
    """Remove `metadata.managedFields` and kubectl's last-applied annotation; often half of it."""
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    if isinstance(meta, dict):
        meta.pop("managedFields", None)
        annotations = meta.get("annotations")
        if isinstance(annotations, dict) and LAST_APPLIED in annotations:
            kept = {name: text for name, text in annotations.items() if name != LAST_APPLIED}
            if kept:
                meta["annotations"] = kept
            else:
                del meta["annotations"]
    return obj
