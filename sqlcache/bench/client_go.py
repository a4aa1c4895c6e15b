"""What client-go itself shows on the same pods and questions, from `client_go.json`.

Nothing here is measured by this run. The figures are of client-go's thread-safe store in Go, once
as it is (namespace index, every pod of it looked at) and once with the label index of Kubernetes
PR #132396, an index function with a value for each label. The file's `what` says which versions,
which machine and when; each figure of a time is a median.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from sqlcache.bench.results import QUOTED, Result

BACKEND = "client-go"  # the name of its column


@cache
def _document() -> Mapping[str, Any]:
    content = files("sqlcache.bench").joinpath("client_go.json").read_bytes()
    document: Mapping[str, Any] = orjson.loads(content)
    return document


def source() -> str:
    """Return what was measured, where and when, in one sentence without its full stop."""
    return str(_document()["what"])


def pods() -> int:
    """Return the number of pods that the figures are for."""
    return int(_document()["pods"])


def index_bytes(case: str) -> int:
    """Return what the label index adds to the memory of a case."""
    return int(_case(case)["labelIndexExtraBytes"])


def queries(case: str) -> Iterator[tuple[str, int, float, float]]:
    """Yield kind, matches, and microseconds by label index and by scan, of a case's questions."""
    for row in _case(case)["queries"]:
        us = row["us"]
        indexed = us.get("labelIndex", us.get("labelIndexThenFilter"))
        yield row["kind"], int(row["matches"]), float(indexed), float(us["scanParsedSelector"])


def update_us(case: str, change: str) -> tuple[float, float]:
    """Return microseconds of an update with label index, and with the namespace index alone.

    Args:
        case: name of the case.
        change: "labels unchanged" or "one label changed".
    """
    change = {"labels unchanged": "labelsUnchanged", "one label changed": "oneLabelChanged"}[change]
    by_index = _case(case)["updateUs"]
    return float(by_index["withLabelIndex"][change]), float(by_index["namespaceIndexOnly"][change])


def quoted(
    scenario: str, query: str, variant: str, *, matches: int | None = None,
    us: float | None = None, size: int | None = None,
) -> Result:  # fmt: skip
    """Return a figure as a result of the backend `client-go`."""
    samples = [] if us is None else [us]
    facts = {QUOTED: source()}
    return Result(scenario, BACKEND, variant, query, pods(), matches, samples, size, facts)


def _case(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(row for row in _document()["cases"] if row["case"] == name)
    return found
