"""`--sort-by`: a JSONPath into each object, and the order of what it finds, as kubectl has them.

Of JSONPath this reads what leads to one value: names (`.metadata.name`, `['a.b']`), list positions
(`[0]`, `[-1]`, `[*]` for the first) and choosing an entry by a text (`[?(@.type=="Ready")]`).

Order: objects without the value first; then numbers; then texts, as quantities ("500m", "2Gi") if
all of them are, else naturally ("pod-9" before "pod-10"). kubectl decides between quantity and text
for each pair, which is no order for some mixtures.

Source: kubectl pkg/cmd/get/sorter.go, customcolumn.go RelaxedJSONPathExpression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from sqlcache.errors import SqlcacheError
from sqlcache.objects import Object, Objects

Step: TypeAlias = Callable[[Any], Iterable[Any]]

_RELAXED = re.compile(r"\{\.?([^{}]+)\}|\.?([^{}]+)")
_STEPS = re.compile(
    r"""\.(?P<name>(?:[^\\.\[\]'"()?@$*]|\\.)+)
    | \.?\[ \s* (?P<quoted>'[^']*'|"[^"]*") \s* \]
    | \.?\[ \s* (?P<position>-?\d+) \s* \]
    | \.?\[ \s* \* \s* \] | (?P<any>\.\*)
    | \.?\[\? \( \s* @\.(?P<field>[\w./-]+) \s* == \s* (?P<value>'[^']*'|"[^"]*") \s* \) \]
    """,
    re.VERBOSE,
)
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d{1,3}))?")
_split = re.compile(r"[0-9]+|[^0-9]", re.DOTALL).findall
_DIGITS = "0123456789"
_ZERO = ord("0")
_SUFFIXES = {
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate("num", start=-3)},
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


class SortPathError(SqlcacheError, ValueError):
    """A `--sort-by` path cannot be read, or leads nowhere."""


def parse_path(path: str) -> list[Step]:
    """Return the steps that a JSONPath takes from an object to its values.

    Args:
        path: `.metadata.name`, with or without the dot and braces around it.

    Raises:
        SortPathError: it is no such path.
    """
    relaxed = _RELAXED.fullmatch(path)
    if relaxed is None:
        raise SortPathError(f"no path such as .metadata.name: {path!r}")
    text = f".{relaxed[1] or relaxed[2]}"
    steps, position = [], 0
    while position < len(text):
        match = _STEPS.match(text, position)
        if match is None:
            raise SortPathError(f"cannot read {text[position:][:80]!r} in the path {path!r}")
        steps.append(_step(match))
        position = match.end()
    return steps


def _step(match: re.Match[str]) -> Step:
    if match["name"] is not None:
        return _field(_unescaped(match["name"]))
    if match["quoted"] is not None:
        # kubectl reads what is in quotes as a name after a dot, so its users escape dots there too.
        return _field(_unescaped(match["quoted"][1:-1]))
    if match["position"] is not None:
        return _item(int(match["position"]))
    if match["field"] is not None:
        return _chosen(match["field"].split("."), match["value"][1:-1])
    return _all


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _field(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _item(position: int) -> Step:
    def step(value: Any) -> Iterable[Any]:
        inside = isinstance(value, list) and -len(value) <= position < len(value)
        return [value[position]] if inside else []

    return step


def _chosen(path: Sequence[str], wanted: str) -> Step:
    steps = [_field(name) for name in path]
    return lambda value: [entry for entry in _all(value) if wanted in _found(steps, entry)]


def _all(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else []


def _found(steps: Iterable[Step], value: Any) -> list[Any]:
    values = [value]
    for step in steps:
        values = [found for value in values for found in step(value)]
    return values


def sort_by(objects: Objects, path: str) -> Objects:
    """Return objects in the order of what a path leads to; equal ones keep their order.

    Raises:
        SortPathError: the path cannot be read, leads nowhere in all objects, or to a mapping or
            list in one.
    """
    steps = parse_path(path)
    values = [next(iter(_found(steps, obj)), None) for obj in objects]
    if objects and all(value is None for value in values):
        raise SortPathError(f"no object has a field {path!r}")
    for obj, value in zip(objects, values, strict=True):
        if isinstance(value, (dict, list)):
            name = _name(obj)
            raise SortPathError(f"{path!r} leads to a {_noun(value)} in {name}, not to a value")
    texts = [value for value in values if isinstance(value, str)]
    text_key = _quantity if all(_QUANTITY.fullmatch(text) for text in texts) else _natural
    keys = [_key(value, text_key) for value in values]
    order = sorted(range(len(objects)), key=keys.__getitem__)
    return [objects[position] for position in order]


def _name(obj: Object) -> str:
    return str(obj["metadata"].get("name"))


def _noun(value: Any) -> str:
    return "mapping" if isinstance(value, dict) else "list"


def _key(value: Any, text_key: Callable[[str], Any]) -> tuple[int, Any]:
    if value is None:
        return 0, 0
    return (2, text_key(value)) if isinstance(value, str) else (1, value)


def _quantity(text: str) -> Decimal:
    """Return a quantity's number. Source: apimachinery api/resource ParseQuantity."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(text)
    exponent = Decimal(10) ** int(match[3]) if match[3] else Decimal(1)
    return Decimal(match[1]) * (_SUFFIXES[match[2]] if match[2] else exponent)


def _natural(text: str) -> list[tuple[int, int, str, int]]:
    """Return a key that compares runs of digits as numbers, all else by character.

    Source: fvbommel/sortorder NaturalLess.
    """
    return [
        _digits(piece) if piece[0] in _DIGITS else (ord(piece), 0, "", 0) for piece in _split(text)
    ]


def _digits(piece: str) -> tuple[int, int, str, int]:
    # A run of digits takes the place of the character "0" among others. Its length and then its
    # text compare as its number would, which Python refuses to make of 4,300 digits and more.
    significant = piece.lstrip("0")
    return _ZERO, len(significant), significant, len(piece)
