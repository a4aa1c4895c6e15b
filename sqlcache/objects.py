"""Kubernetes objects as plain JSON dicts: their metadata, keys and tombstones.

Promises
- An object is what a JSON decoder made of the API server's answer. Nothing here copies or changes
  it.
- Keys are client-go's: `namespace/name`, or `name` for cluster-scoped objects.

Elsewhere: which objects match (selectors), where they are kept (store).
Source: client-go tools/cache store.go, index.go, delta_fifo.go; apimachinery api/meta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from sqlcache.errors import KeyFormatError, ObjectError, shown

Object: TypeAlias = dict[str, Any]
Objects: TypeAlias = list[Object]
KeyFunc: TypeAlias = Callable[[Any], str]
IndexFunc: TypeAlias = Callable[[Any], list[str]]
Indexers: TypeAlias = Mapping[str, IndexFunc]
TransformFunc: TypeAlias = Callable[[Any], Any]

NAMESPACE_INDEX = "namespace"  # client-go cache.NamespaceIndex
ALL_NAMESPACES = ""  # metav1.NamespaceAll
_NO_META = "object has no meta: object does not implement the Object interfaces"


class ExplicitKey(str):
    """A key given in place of an object; key functions pass it through.

    Source: client-go cache.ExplicitKey.
    """

    __slots__ = ()


class DeletedFinalStateUnknown(NamedTuple):
    """A tombstone: the deletion of an object was missed and learnt from a relist.

    Attributes:
        key: the object's key.
        obj: its last known state, possibly old, or None.

    Source: client-go cache.DeletedFinalStateUnknown.
    """

    key: str
    obj: Any

    def __str__(self) -> str:
        """Return what Go prints, for error messages."""
        return f"{{Key:{self.key} Obj:{shown(self.obj)}}}"


class ObjectName(NamedTuple):
    """A namespace and a name. `str()` gives the key.

    Source: client-go cache.ObjectName.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        """Return the key."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def metadata(obj: Any) -> Mapping[str, Any]:
    """Return the metadata of an object.

    Raises:
        ObjectError: it is no object: not a mapping, or without a mapping `metadata`.

    Source: apimachinery meta.Accessor.
    """
    if isinstance(obj, dict):
        meta = obj.get("metadata")
        if isinstance(meta, dict):
            return meta
    raise ObjectError(obj, _NO_META)


def _text(obj: Any, meta: Mapping[str, Any], field: str) -> str:
    value = meta.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ObjectError(obj, f"metadata.{field} is not a string: {value!r:.200}")
    return value


def object_name(obj: Any) -> ObjectName:
    """Return namespace and name of an object; both may be empty.

    Raises:
        ObjectError: it is no object.

    Source: client-go cache.ObjectToName.
    """
    return ObjectName(*_names(obj))


def _names(obj: Any) -> tuple[str, str]:
    meta = metadata(obj)
    name, namespace = meta.get("name"), meta.get("namespace")
    if not isinstance(name, str):
        name = _text(obj, meta, "name")
    if not isinstance(namespace, str):
        namespace = _text(obj, meta, "namespace")
    return namespace, name


def resource_version(obj: Any) -> str:
    """Return the resourceVersion of an object, "" if it has none. Opaque: test equality only."""
    return _text(obj, metadata(obj), "resourceVersion")


def labels_of(obj: Any) -> Mapping[str, str]:
    """Return the labels of a stored object; empty if it has none. Not a copy, not checked."""
    labels: Mapping[str, str] | None = obj["metadata"].get("labels")
    return labels or {}


def meta_namespace_key_func(obj: Any) -> str:
    """Return the key of an object: `namespace/name`, or `name` if it has no namespace.

    Raises:
        ObjectError: it is no object; a tombstone is none.

    Source: client-go cache.MetaNamespaceKeyFunc.
    """
    if isinstance(obj, ExplicitKey):
        return str(obj)
    namespace, name = _names(obj)
    return f"{namespace}/{name}" if namespace else name


def deletion_handling_meta_namespace_key_func(obj: Any) -> str:
    """Return the key of an object or of a tombstone.

    Raises:
        ObjectError: it is neither.

    Source: client-go cache.DeletionHandlingMetaNamespaceKeyFunc.
    """
    if isinstance(obj, DeletedFinalStateUnknown):
        return obj.key
    return meta_namespace_key_func(obj)


def split_meta_namespace_key(key: str) -> ObjectName:
    """Return the namespace and name that a key stands for.

    Raises:
        KeyFormatError: the key has two slashes or more.

    Source: client-go cache.SplitMetaNamespaceKey.
    """
    parts = key.split("/")
    if len(parts) == 1:
        return ObjectName("", parts[0])
    if len(parts) == 2:
        return ObjectName(parts[0], parts[1])
    raise KeyFormatError(key)


def meta_namespace_index_func(obj: Any) -> list[str]:
    """Index by namespace; "" for cluster-scoped objects.

    Raises:
        ObjectError: it is no object.

    Source: client-go cache.MetaNamespaceIndexFunc.
    """
    return [_text(obj, metadata(obj), "namespace")]


def index_func_to_key_func_adapter(index_func: IndexFunc) -> KeyFunc:
    """Return a key function that gives the only value of an index function.

    Raises (the key function):
        ObjectError: the index function gave no value, or more than one.

    Source: client-go cache.IndexFuncToKeyFuncAdapter.
    """

    def key_func(obj: Any) -> str:
        values = index_func(obj)
        if len(values) > 1:
            raise ObjectError(obj, f"too many keys: [{' '.join(values)}]")
        if not values:
            raise ObjectError(obj, "unexpected empty indexKeys")
        return values[0]

    return key_func
