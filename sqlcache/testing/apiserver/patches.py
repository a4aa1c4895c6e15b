"""Merge patch, JSON patch and strategic merge patch, as functions from object to object.

Promises
- The object given is not changed; the result shares no part with it that could be.

Strategic merge knows the merge keys of the kinds served; other lists are replaced whole.

Source: RFC 7386, RFC 6902; apimachinery util/strategicpatch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sqlcache.errors import SqlcacheError
from sqlcache.objects import Object

Pointer: TypeAlias = list[str]

# Lists that are merged item by item: field -> the item's key. None: values, merged as a set.
_METADATA_KEYS: Mapping[str, str | None] = {"ownerReferences": "uid", "finalizers": None}
_MERGE_KEYS: Mapping[str, Mapping[str, str | None]] = {
    "Pod": {
        **dict.fromkeys(
            (
                "containers",
                "initContainers",
                "ephemeralContainers",
                "volumes",
                "env",
                "imagePullSecrets",
                "resourceClaims",
                "schedulingGates",
            ),
            "name",
        ),
        "ports": "containerPort",
        "volumeMounts": "mountPath",
        "volumeDevices": "devicePath",
        "topologySpreadConstraints": "topologyKey",
        "hostAliases": "ip",
        "conditions": "type",
        "podIPs": "ip",
        "hostIPs": "ip",
    },
    "Service": {"ports": "port", "conditions": "type"},
    "Node": {"taints": "key", "conditions": "type", "addresses": "type", "podCIDRs": None},
    "Namespace": {"conditions": "type"},
}


class PatchError(SqlcacheError, ValueError):
    """A patch cannot be applied to the object."""


def merge(target: Any, patch: Any) -> Any:
    """Return the target with a JSON merge patch applied.

    Source: RFC 7386.
    """
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def strategic_merge(target: Object, patch: Object) -> Object:
    """Return the target, an object with a kind, with a strategic merge patch applied.

    Raises:
        PatchError: a directive is unknown, or an item has no merge key.

    Source: apimachinery strategicpatch.StrategicMergePatch.
    """
    keys = {**_METADATA_KEYS, **_MERGE_KEYS.get(target["kind"], {})}
    return _merge_maps(target, patch, keys)


def _merge_maps(target: Object, patch: Object, keys: Mapping[str, str | None]) -> Object:
    directive = patch.get("$patch")
    if directive == "delete":
        return {}
    if directive == "replace":
        return _without_directives(patch)
    if directive not in (None, "merge"):
        raise PatchError(f"Unknown patch type: {directive}")
    result = dict(target)
    if isinstance(retained := patch.get("$retainKeys"), list):
        result = {name: value for name, value in result.items() if name in retained}
    for name, value in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            field = name.partition("/")[2]
            result[field] = [each for each in result.get(field) or [] if each not in value]
        elif name.startswith("$"):
            continue
        elif value is None:
            result.pop(name, None)
        else:
            result[name] = _merge_values(result.get(name), value, name, keys)
    _order(result, patch, keys)
    return result


def _merge_values(target: Any, patch: Any, name: str, keys: Mapping[str, str | None]) -> Any:
    if isinstance(patch, dict):
        return _merge_maps(target if isinstance(target, dict) else {}, patch, keys)
    if not isinstance(patch, list):
        return patch
    before = target if isinstance(target, list) else []
    if name not in keys:
        return copy.deepcopy(patch)
    key = keys[name]
    if key is None:
        return before + [each for each in patch if each not in before]
    return _merge_lists(before, patch, key, keys)


def _merge_lists(
    target: list[Any], patch: list[Any], key: str, keys: Mapping[str, str | None]
) -> list[Any]:
    if any(isinstance(each, dict) and each.get("$patch") == "replace" for each in patch):
        return [_without_directives(each) for each in patch if each.get("$patch") != "replace"]
    result = list(target)
    for each in patch:
        if not isinstance(each, dict) or key not in each:
            raise PatchError(f"map: {each} does not contain declared merge key: {key}")
        found = [index for index, old in enumerate(result) if old.get(key) == each[key]]
        if each.get("$patch") == "delete":
            result = [old for old in result if old.get(key) != each[key]]
        elif found:
            result[found[0]] = _merge_maps(result[found[0]], each, keys)
        else:
            result.append(_merge_maps({}, each, keys))
    return result


def _order(result: Object, patch: Object, keys: Mapping[str, str | None]) -> None:
    for name, order in patch.items():
        if name.startswith("$setElementOrder/"):
            field = name.partition("/")[2]
            key = keys.get(field)
            wanted = [each[key] if key and isinstance(each, dict) else each for each in order]
            values = result.get(field) or []
            named = {
                id(each): wanted.index(value)
                for each in values
                if (value := each.get(key) if key and isinstance(each, dict) else each) in wanted
            }
            result[field] = sorted(values, key=lambda each: named.get(id(each), len(wanted)))


def _without_directives(part: Object) -> Object:
    return {
        name: _without_directives(value) if isinstance(value, dict) else value
        for name, value in part.items()
        if not name.startswith("$")
    }


def apply_json_patch(target: Any, operations: list[Any]) -> Any:
    """Return the target with the operations of a JSON patch applied, one after the other.

    Raises:
        PatchError: an operation is malformed, its path is not there, or a test fails.

    Source: RFC 6902.
    """
    result = copy.deepcopy(target)
    for operation in operations:
        if not isinstance(operation, dict):
            raise PatchError(f"not an operation: {operation}")
        apply = _OPERATIONS.get(str(operation.get("op")))
        if apply is None:
            raise PatchError(f"unexpected kind: {operation.get('op')}")
        result = apply(result, operation)
    return result


def _pointer(operation: Object, name: str = "path") -> Pointer:
    text = operation.get(name)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchError(f"{name} is no JSON pointer: {text}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _value(operation: Object) -> Any:
    if "value" not in operation:
        raise PatchError(f"operation without a value: {operation}")
    return copy.deepcopy(operation["value"])


def _step(container: Any, part: str, *, end: bool = False) -> Any:
    """Return the key of a container that a part of a pointer stands for."""
    if isinstance(container, dict):
        return part
    if not isinstance(container, list):
        raise PatchError(f"nothing below {part!r}")
    if end and part == "-":
        return len(container)
    if not part.isdecimal() or int(part) >= len(container) + end:
        raise PatchError(f"no index {part!r}")
    return int(part)


def _find(document: Any, pointer: Pointer) -> Any:
    for part in pointer:
        key = _step(document, part)
        if isinstance(document, dict) and key not in document:
            raise PatchError(f"missing path: {'/'.join(pointer)}")
        document = document[key]
    return document


def _add(document: Any, operation: Object) -> Any:
    return _put(document, _pointer(operation), _value(operation))


def _put(document: Any, pointer: Pointer, value: Any) -> Any:
    if not pointer:
        return value
    container = _find(document, pointer[:-1])
    key = _step(container, pointer[-1], end=True)
    if isinstance(container, list):
        container.insert(key, value)
    else:
        container[key] = value
    return document


def _remove(document: Any, operation: Object) -> Any:
    return _take(document, _pointer(operation))


def _take(document: Any, pointer: Pointer) -> Any:
    _find(document, pointer)
    if not pointer:
        return None
    container = _find(document, pointer[:-1])
    del container[_step(container, pointer[-1])]
    return document


def _replace(document: Any, operation: Object) -> Any:
    pointer, value = _pointer(operation), _value(operation)
    _find(document, pointer)
    return _put(_take(document, pointer), pointer, value)


def _move(document: Any, operation: Object) -> Any:
    source = _pointer(operation, "from")
    value = _find(document, source)
    return _put(_take(document, source), _pointer(operation), value)


def _copy(document: Any, operation: Object) -> Any:
    value = copy.deepcopy(_find(document, _pointer(operation, "from")))
    return _put(document, _pointer(operation), value)


def _test(document: Any, operation: Object) -> Any:
    found, wanted = _find(document, _pointer(operation)), _value(operation)
    if found != wanted or isinstance(found, bool) is not isinstance(wanted, bool):
        raise PatchError(f"testing path {operation['path']} failed")
    return document


_OPERATIONS: Mapping[str, Callable[[Any, Object], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
