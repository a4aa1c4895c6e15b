"""Field selectors: text compared to fields of an object, as `kubectl --field-selector` sends them.

    selector := [ term ] { "," [ term ] }
    term     := FIELD ( "=" | "==" | "!=" ) VALUE

In a VALUE a backslash goes before each backslash, comma and equals sign. Nothing is trimmed.

Promises
- Accepts and refuses the same texts as the API server does for the fields declared; a text that
  is refused raises SelectorSyntaxError.
- A field that an object lacks compares as "".

Source: apimachinery fields.ParseSelector; registry/core/pod ToSelectableFields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from sqlcache._gotext import clean
from sqlcache.errors import SelectorSyntaxError
from sqlcache.selectors._requirement import Operator

FieldGetter: TypeAlias = Callable[[Mapping[str, Any]], str]

_ESCAPE_OR_COMMA = re.compile(r"\\.|,", re.DOTALL)
_ESCAPE_OR_EQUALS = re.compile(r"\\(.?)|=", re.DOTALL)
_OPERATOR = re.compile("!=|==|=")
_NEEDS_ESCAPE = re.compile(r"[\\,=]")


class FieldRequirement(NamedTuple):
    """One term: a field that must have a value, or must not.

    Attributes:
        field: path of the field, such as `spec.nodeName`.
        operator: `Operator.EQUALS` or `Operator.NOT_EQUALS`.
        value: the value, unescaped.

    Source: apimachinery fields.Requirement.
    """

    field: str
    operator: Operator
    value: str

    def __str__(self) -> str:
        """Return the term as `parse_field_selector` reads it."""
        value = _NEEDS_ESCAPE.sub(r"\\\g<0>", self.value)
        return f"{self.field}{self.operator}{value}"


@dataclass(frozen=True, slots=True, repr=False)
class FieldSelector:
    """A query over fields: all requirements must be met. Made by `parse_field_selector`.

    Attributes:
        requirements: in the order of their text, sorted.
        matches: a function from an object to whether it is selected.

    `str()` gives the canonical text.
    Source: apimachinery fields.Selector.
    """

    requirements: tuple[FieldRequirement, ...]
    matches: Callable[[Mapping[str, Any]], bool] = field(compare=False)

    @property
    def empty(self) -> bool:
        """Whether this selector restricts nothing."""
        return not self.requirements

    def __str__(self) -> str:
        """Return the text as `parse_field_selector` reads it."""
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        """Return the text with the class around it."""
        return f"FieldSelector({str(self)!r})"


class _Term(NamedTuple):
    text: str
    position: int  # character offset in the selector


def field_getter(path: str) -> FieldGetter:
    """Return a function from an object to the text of its field, "" if it has none.

    Args:
        path: names joined by dots, such as `spec.nodeName`. Lists are not entered.
    """
    names = path.split(".")

    def get(obj: Mapping[str, Any]) -> str:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return _text(value)

    return get


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _host_network(pod: Mapping[str, Any]) -> str:
    return _spec_host_network(pod) or "false"  # the field is left out of JSON when false


def _pod_ip(pod: Mapping[str, Any]) -> str:
    return _status_pod_ip(pod) or _first_ip(pod)


def _first_ip(pod: Mapping[str, Any]) -> str:
    status = pod.get("status")
    ips = status.get("podIPs") if isinstance(status, Mapping) else None
    first = ips[0] if isinstance(ips, list) and ips else None
    return _text(first.get("ip")) if isinstance(first, Mapping) else ""


_spec_host_network = field_getter("spec.hostNetwork")
_status_pod_ip = field_getter("status.podIP")

METADATA_FIELDS: Mapping[str, FieldGetter] = {
    path: field_getter(path) for path in ("metadata.name", "metadata.namespace")
}
POD_FIELDS: Mapping[str, FieldGetter] = {
    **METADATA_FIELDS,
    **{
        path: field_getter(path)
        for path in (
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.nominatedNodeName",
        )
    },
    "spec.hostNetwork": _host_network,
    "status.podIP": _pod_ip,
}


def parse_field_selector(
    text: str, fields: Mapping[str, FieldGetter] | Iterable[str] = POD_FIELDS
) -> FieldSelector:
    """Return the field selector that a text stands for; "" selects everything.

    Args:
        text: such as `spec.nodeName=node-1,status.phase!=Running`.
        fields: the fields supported: a mapping from path to a function that reads the field, or
            the paths alone. METADATA_FIELDS are those that every resource has.

    Raises:
        SelectorSyntaxError: the text is no field selector, or names a field not supported.
        TypeError: it is no string.

    Source: apimachinery fields.ParseSelector; core/v1 AddFieldLabelConversionFunc.
    """
    if not isinstance(text, str):
        raise TypeError(f"a field selector is a str, not {type(text).__name__}")
    getters = (
        fields if isinstance(fields, Mapping) else {path: field_getter(path) for path in fields}
    )
    # Go sorts the terms before it reads them, so the first error is that of the smallest.
    terms = sorted(_terms(text))
    requirements = [(_requirement(text, term), term.position) for term in terms]
    kept = [
        (requirement, position)
        for requirement, position in requirements
        if requirement.field or requirement.value  # `=` and `!=` alone restrict nothing
    ]
    for requirement, position in kept:
        if requirement.field not in getters:
            raise _not_supported(text, position, requirement.field, getters)
    return _field_selector([requirement for requirement, _ in kept], getters)


def _field_selector(
    requirements: Iterable[FieldRequirement], getters: Mapping[str, FieldGetter]
) -> FieldSelector:
    kept = tuple(requirements)
    tests = [(getters[path], value, operator is Operator.EQUALS) for path, operator, value in kept]

    def matches(obj: Mapping[str, Any]) -> bool:
        return all((get(obj) == value) is equal for get, value, equal in tests)

    return FieldSelector(kept, matches)


def _terms(text: str) -> Iterable[_Term]:
    """Yield the texts between commas that no backslash precedes, but for empty ones."""
    start = 0
    for match in _ESCAPE_OR_COMMA.finditer(text):
        if match[0] == ",":
            if start < match.start():
                yield _Term(text[start : match.start()], start)
            start = match.end()
    if start < len(text):
        yield _Term(text[start:], start)


def _requirement(text: str, term: _Term) -> FieldRequirement:
    match = _OPERATOR.search(term.text)
    if match is None:
        reason = f"invalid selector: '{clean(text)}'; can't understand '{clean(term.text)}'"
        raise SelectorSyntaxError(text, term.position, reason)
    operator = Operator.NOT_EQUALS if match[0] == "!=" else Operator.EQUALS
    value = _Term(term.text[match.end() :], term.position + match.end())
    return FieldRequirement(term.text[: match.start()], operator, _unescaped(text, value))


def _unescaped(text: str, value: _Term) -> str:
    def unescape(match: re.Match[str]) -> str:
        if match[1] and match[1] in "\\,=":
            return match[1]
        if match[0] == "=":
            # Go prints the character as a number.
            reason = f"unescaped character in value: {ord('=')}"
        else:
            reason = f"invalid escape sequence: {clean(match[0])}"
        position = value.position + match.start()
        raise SelectorSyntaxError(text, position, f"invalid field selector: {reason}")

    return _ESCAPE_OR_EQUALS.sub(unescape, value.text)


def _not_supported(
    text: str, position: int, path: str, supported: Iterable[str]
) -> SelectorSyntaxError:
    known = ", ".join(sorted(supported))
    reason = f"field label not supported: {clean(path)} (supported: {known})"
    return SelectorSyntaxError(text, position, reason)
