"""The fields of the built-in kinds: objects are made to have these and no others.

`schema.json` names for each type its fields and their types: `str`, `int`, `[]` a list, `{}` a
map. It is made by tests/apiserver_schema.py from the models of the official client.

Promises
- After `conform` an object has only known fields, of the right JSON type, and no nulls.

Source: Go's encoding/json as the API server uses it; sigs.k8s.io/json strict decoding.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from sqlcache.errors import SqlcacheError
from sqlcache.objects import Object

_METADATA = "V1ObjectMeta"
_LEAVES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "datetime": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}
_GO_NAMES = {"str": "string", "datetime": "string", "int": "int32", "float": "float64"}
# Their Go types distinguish none and empty, or are sent as null when there are none.
_KEPT_EMPTY = frozenset({"containers", "endpoints", "ports", "subsets"})


class FieldTypeError(SqlcacheError, ValueError):
    """A field has a value of another JSON type."""


@cache
def _schema() -> Mapping[str, Mapping[str, str]]:
    text = files(__package__).joinpath("schema.json").read_text("utf-8")
    schema: Mapping[str, Mapping[str, str]] = json.loads(text)
    return schema


def conform(obj: Object, kind: str) -> list[str]:
    """Drop fields that the kind does not have, nulls and empty containers, in place.

    Args:
        obj: the object.
        kind: of a built-in resource; "" means any fields, with metadata.

    Returns:
        The paths of the fields that are unknown, sorted.

    Raises:
        FieldTypeError: a field has the wrong type.
    """
    if kind:
        return sorted(_conform(obj, kind, ""))
    obj["metadata"] = obj.get("metadata") or {}
    _check(obj["metadata"], _METADATA, "metadata")
    return sorted(_conform(obj["metadata"], _METADATA, "metadata"))


def _conform(part: Object, kind: str, path: str) -> Iterator[str]:
    fields = _schema()[kind]
    for name in list(part):
        where = f"{path}.{name}" if path else name
        value = part[name]
        if name not in fields:
            del part[name]
            yield where
        elif value is None:
            del part[name]
        else:
            _check(value, fields[name], where)
            yield from _inside(value, fields[name], where)
            if value in ([], {}) and fields[name][0] in "[{" and name not in _KEPT_EMPTY:
                del part[name]


def _inside(value: Any, kind: str, where: str) -> Iterator[str]:
    if kind.startswith("[]"):
        for index, each in enumerate(value):
            yield from _inside(each, kind[2:], f"{where}[{index}]")
    elif kind.startswith("{}"):
        for key, each in value.items():
            yield from _inside(each, kind[2:], f"{where}.{key}")
    elif kind in _schema():
        yield from _conform(value, kind, where)


def _check(value: Any, kind: str, where: str) -> None:
    if kind.startswith("[]"):
        _demand(value, (list,), where, f"[]{_GO_NAMES.get(kind[2:], kind[2:])}")
        for each in value:
            _check(each, kind[2:], where)
    elif kind.startswith("{}"):
        _demand(value, (dict,), where, f"map[string]{_GO_NAMES.get(kind[2:], kind[2:])}")
        for each in value.values():
            _check(each, kind[2:], where)
    elif kind in _LEAVES:
        _demand(value, _LEAVES[kind], where, _GO_NAMES.get(kind, kind))
    elif kind in _schema():
        _demand(value, (dict,), where, kind)


def _demand(value: Any, types: tuple[type, ...], where: str, wanted: str) -> None:
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        found = _json_name(value)
        raise FieldTypeError(
            f"json: cannot unmarshal {found} into Go struct field {where} of type {wanted}"
        )


def _json_name(value: Any) -> str:
    names = {bool: "bool", str: "string", dict: "object", list: "array", type(None): "null"}
    return names.get(type(value), "number")
