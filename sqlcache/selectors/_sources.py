"""Selectors from what Kubernetes objects and callers hold: LabelSelectors, label mappings.

Promises
- A malformed LabelSelector raises SelectorError with the path of the field and the input;
  an invalid one the text of client-go.

Source: apimachinery metav1.LabelSelectorAsSelector, labels.SelectorFromSet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from sqlcache._gotext import quote
from sqlcache.errors import SelectorError, shown
from sqlcache.selectors._parser import parse
from sqlcache.selectors._requirement import Operator, Requirement, unchecked
from sqlcache.selectors._selector import EVERYTHING, NOTHING, Selector

SelectorLike: TypeAlias = Selector | str | Mapping[str, Any]

_LABEL_SELECTOR_FIELDS = ("matchLabels", "matchExpressions")
_EXPRESSION_FIELDS = ("key", "operator", "values")
_EXPRESSION_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def as_selector(value: SelectorLike) -> Selector:
    """Return the selector that a caller means.

    Args:
        value: a Selector; a text for `parse`; a LabelSelector, which is a mapping with
            `matchLabels`, `matchExpressions` or both, none of them a string, and nothing else;
            or any other mapping, of labels that must be equal. An empty mapping selects everything.

    Raises:
        SelectorSyntaxError: the text is no selector.
        SelectorError: the LabelSelector is not valid.
        TypeError: the value is none of these. None is refused because it means everything to
            some parts of Kubernetes and nothing to others.
    """
    if isinstance(value, Selector):
        return value
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, Mapping):
        return from_label_selector(value) if _is_label_selector(value) else from_labels(value)
    raise TypeError(
        f"a selector is a Selector, a str or a mapping, not {type(value).__name__};"
        " to select all or none use EVERYTHING or NOTHING"
    )


def from_labels(labels: Mapping[str, str] | None) -> Selector:
    """Return the selector of objects that have all these labels; none selects everything.

    Keys and values are not validated, as the selector of a Service is not.

    Raises:
        TypeError: it is no mapping, or a key or value is no string.

    Source: apimachinery labels.SelectorFromSet, labels.ValidatedSetSelector.
    """
    if labels is None:
        return EVERYTHING
    if not isinstance(labels, Mapping):
        raise TypeError(f"labels are a mapping, not {type(labels).__name__}")
    for text in (part for item in labels.items() for part in item):
        if not isinstance(text, str):
            raise TypeError(
                f"label keys and values are str, not {type(text).__name__}: {shown(labels)}"
            )
    if not labels:
        return EVERYTHING
    return Selector(unchecked(key, Operator.EQUALS, (value,)) for key, value in labels.items())


def from_label_selector(selector: Mapping[str, Any] | None) -> Selector:
    """Return the selector that a decoded metav1.LabelSelector stands for.

    Args:
        selector: None selects nothing, an empty mapping everything; `matchLabels` and
            `matchExpressions` must both be met. A field that is None counts as absent.

    Raises:
        SelectorError: a field is unknown or of the wrong type, or a key, operator or value is
            not valid.

    Source: apimachinery metav1.LabelSelectorAsSelector.
    """
    if selector is None:
        return NOTHING
    reader = _Reader(selector)
    fields = reader.mapping(selector, "label selector", _LABEL_SELECTOR_FIELDS)
    requirements = [
        *_match_labels(reader, fields.get("matchLabels")),
        *_match_expressions(reader, fields.get("matchExpressions")),
    ]
    return Selector(requirements) if requirements else EVERYTHING


def _is_label_selector(value: Mapping[str, Any]) -> bool:
    return bool(value) and all(
        name in _LABEL_SELECTOR_FIELDS and not isinstance(part, str) for name, part in value.items()
    )


def _match_labels(reader: _Reader, value: Any) -> Iterator[Requirement]:
    path = "matchLabels"
    for key, wanted in reader.mapping(value, path).items():
        name = reader.text(key, f"key of {path}")
        yield Requirement(name, Operator.EQUALS, [reader.text(wanted, f"{path}[{key!r}]")])


def _match_expressions(reader: _Reader, value: Any) -> Iterator[Requirement]:
    for index, expression in enumerate(reader.items(value, "matchExpressions")):
        path = f"matchExpressions[{index}]"
        fields = reader.mapping(expression, path, _EXPRESSION_FIELDS)
        key = reader.text(fields.get("key", ""), f"{path}.key")
        name = reader.text(fields.get("operator", ""), f"{path}.operator")
        values = [
            reader.text(item, f"{path}.values[{position}]")
            for position, item in enumerate(reader.items(fields.get("values"), f"{path}.values"))
        ]
        operator = _EXPRESSION_OPERATORS.get(name)
        if operator is None:
            raise SelectorError(f"{quote(name)} is not a valid label selector operator")
        yield Requirement(key, operator, values or None)


class _Reader:
    """Checks the shape of the parts of one LabelSelector; its errors name that input."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def mapping(
        self, value: Any, path: str, known: tuple[str, ...] | None = None
    ) -> Mapping[Any, Any]:
        """Return a mapping, empty for None, whose keys are among those known if any are."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self._error(path, "a mapping", value)
        for name in value:
            if known is not None and name not in known:
                raise self._error(f"field of {path}", f"one of {', '.join(known)}", name)
        return value

    def items(self, value: Any, path: str) -> list[Any] | tuple[Any, ...]:
        """Return a list, empty for None."""
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            raise self._error(path, "a list", value)
        return value

    def text(self, value: Any, path: str) -> str:
        """Return a string."""
        if not isinstance(value, str):
            raise self._error(path, "a string", value)
        return value

    def _error(self, path: str, expected: str, value: Any) -> SelectorError:
        return SelectorError(
            f"{path} must be {expected}, not {shown(repr(value))}:"
            f" label selector {shown(repr(self._source))}"
        )
