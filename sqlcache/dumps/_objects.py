"""The objects of one resource in a file's documents, each checked."""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sqlcache.dumps._content import Content, format_of, opened
from sqlcache.dumps._documents import Array, Mapping
from sqlcache.dumps._json import JsonText
from sqlcache.dumps._yaml import yaml_documents
from sqlcache.errors import DumpError, shown
from sqlcache.objects import Object

_OBJECT_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


def kind_is(kind: str, resource: str) -> bool:
    """Tell whether objects of a kind, "EndpointSlice", belong to a resource, "endpointslices".

    Args:
        kind: as in the object.
        resource: plural name; what follows a dot is its group, which is not looked at.

    Source: apimachinery meta.UnsafeGuessKindToResource.
    """
    singular, plural = kind.lower(), resource.lower().partition(".")[0]
    if singular.endswith("y") and plural == f"{singular[:-1]}ies":
        return True
    # The bare kind: Endpoints, and custom resources whose plural follows no rule.
    return plural in (singular, f"{singular}s", f"{singular}es")


class File:
    """Finds the objects of a resource in the documents of one file.

    Attributes:
        empty_lists: number of lists read that could have held such objects, but are empty.
    """

    def __init__(self, name: str, resource: str, others: Counter[str]) -> None:
        self._name, self._resource, self._others = name, resource, others
        self._plural = resource.partition(".")[0]
        self._document = 0  # number of the one being read, from 1
        self._assumed = False  # whether this document has a list that only its place makes ours
        self.empty_lists = 0

    def objects(self, path: str, on_bytes: Callable[[int], None]) -> Iterator[Object]:
        """Yield the objects of the file at a path."""
        with opened(path) as file:
            content = Content(self._name, file, on_bytes)
            start = content.peek()
            first = start.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
            # Nothing at all is no YAML: a `kubectl` that failed before a pipe needs no PyYAML.
            unnamed = format_of(path) is None and bool(start) and first not in (b"{", b"[")
            if format_of(path) == "YAML" or unnamed:
                documents = yaml_documents(self._name, content)
            else:
                documents = JsonText(self._name, content).documents()
            for document in documents:
                self._document += 1
                yield from self._objects(document)
        if not self._document:
            raise DumpError(self._name, "", "is empty")

    def _objects(self, document: Any) -> Iterator[Object]:
        self._assumed = False
        if isinstance(document, Array):
            yield from self._list("", document.items, "")
        elif isinstance(document, Mapping):
            yield from self._mapping(document.fields)
        elif document is not None:  # a YAML text may end with an empty document
            raise self._error("", f"{_a(document)} instead of an object or a list")

    def _mapping(self, fields: Iterable[tuple[str, Any]]) -> Iterator[Object]:
        """Yield the objects of a list, or of a whole cluster, or the one object."""
        rest: dict[str, Any] = {}
        has_list = False
        for name, value in fields:
            if not isinstance(value, Array):
                rest[name] = value
            elif name == "items" or _OBJECT_FIELDS.isdisjoint(rest):
                has_list = True
                yield from self._list(name, value.items, self._kind("", rest))
            else:
                rest[name] = list(value.items)
        kind = self._kind("", rest)
        if has_list:
            self._check_list(kind, rest)
        elif kind.endswith("List") and rest.get("items", "") is None:
            yield from self._list("items", (), kind)  # Go writes an empty list as null
        elif kind.endswith("List") and "items" in rest:
            raise self._error("items", f"{_a(rest['items'])} instead of a list")
        elif (obj := self._object("", rest, "")) is not None:
            yield obj

    def _list(self, name: str, items: Iterable[Any], list_kind: str) -> Iterator[Object]:
        """Yield the objects of an array, the value of the field of that name."""
        kind = list_kind.removesuffix("List")
        if name not in ("", "items", self._plural):
            self._others[name] += sum(1 for _ in items)
            return
        position = -1
        for position, item in enumerate(items):
            obj = self._object(f"{name}[{position}]", item, kind)
            if obj is not None:
                yield obj
        if position < 0:
            if kind and not kind_is(kind, self._resource):
                self._others[kind] += 0
            else:
                self.empty_lists += 1
                self._assumed = not kind

    def _check_list(self, kind: str, rest: dict[str, Any]) -> None:
        """Check a list against those of its fields that came after its items."""
        if not kind.endswith("List"):
            if "metadata" in rest:
                raise self._error("", "an object with a list before its kind and metadata")
        elif kind != "List" and self._assumed and not kind_is(kind[:-4], self._resource):
            raise self._error("", f"no {self._resource} in it, but a {shown(kind)}")

    def _object(self, where: str, obj: Any, list_kind: str) -> Object | None:
        """Return an object that is sound, or None if it belongs to another resource."""
        if not isinstance(obj, dict):
            raise self._error(where, f"{_a(obj)} instead of an object")
        kind = self._kind(where, obj) or list_kind
        if kind and not kind_is(kind, self._resource):
            self._others[kind] += 1
            return None
        if not kind:
            self._assumed = True
        meta = obj.get("metadata")
        if not isinstance(meta, dict):
            raise self._error(where, _instead("metadata", meta, "a mapping"))
        if not meta.get("name"):
            raise self._error(where, "metadata.name is missing")
        for field in ("name", "namespace"):
            if meta.get(field) is not None:
                self._check_text(where, f"metadata.{field}", meta[field])
        labels = meta.get("labels")
        if labels:
            if not isinstance(labels, dict):
                raise self._error(where, _instead("metadata.labels", labels, "a mapping"))
            for key, value in labels.items():
                self._check_text(where, "a label key", key)
                self._check_text(where, f"the label {shown(key)!r}", value)
        return obj

    def _check_text(self, where: str, what: str, text: Any) -> None:
        if not isinstance(text, str):
            raise self._error(where, _instead(what, text, "a string"))
        if "\0" in text:
            raise self._error(where, f"{what} contains NUL: {shown(repr(text))}")

    def _kind(self, where: str, obj: dict[str, Any]) -> str:
        kind = obj.get("kind") or ""
        if not isinstance(kind, str):
            raise self._error(where, _instead("kind", kind, "a string"))
        return kind

    def _error(self, where: str, reason: str) -> DumpError:
        document = f"document {self._document}" if self._document > 1 else ""
        return DumpError(self._name, ": ".join(filter(None, (document, where))), reason)


def _instead(what: str, value: Any, wanted: str) -> str:
    return f"{what} is missing" if value is None else f"{what} is {_a(value)} instead of {wanted}"


def _a(value: Any) -> str:
    """Return what a value is, as a noun."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    nouns: dict[type, str] = {str: "a string", dict: "a mapping", list: "a list"}
    return nouns.get(type(value), "a number")
