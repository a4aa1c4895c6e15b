"""`--sort-by`: what a path leads to, and the order of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlcache.cli._sorting import SortPathError, parse_path, sort_by

KEYS = "abcdefgh"


def order(values: list[Any], path: str = ".spec.x") -> list[Any]:
    """Return values in their order as a field; None is a missing field."""
    objects = [
        {"metadata": {"name": str(n)}, "spec": {} if value is None else {"x": value}}
        for n, value in enumerate(values)
    ]
    return [obj["spec"].get("x") for obj in sort_by(objects, path)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3, 1, 2], [1, 2, 3]),
        ([2.5, 10, None, 1], [None, 1, 2.5, 10]),
        ([True, False], [False, True]),
        (["b", "a", "B"], ["B", "a", "b"]),
        (["pod-10", "pod-9", "pod-1"], ["pod-1", "pod-9", "pod-10"]),
        (["a01", "a1", "a001", "a2"], ["a1", "a01", "a001", "a2"]),
        (["a-", "a1", "ab"], ["a-", "a1", "ab"]),
        (["1Gi", "900Mi", "1e3", "500m"], ["500m", "1e3", "900Mi", "1Gi"]),
        (["1Gi", "900Mi", "x"], ["1Gi", "900Mi", "x"]),
        (["2", "10", "x", ""], ["", "2", "10", "x"]),
        (
            ["2021-10-01T00:00:00Z", "2021-09-30T00:00:00Z"],
            ["2021-09-30T00:00:00Z", "2021-10-01T00:00:00Z"],
        ),
        (["a", 5, None], [None, 5, "a"]),
        (["9" * 5000, "1" + "0" * 5000], ["9" * 5000, "1" + "0" * 5000]),
        (["x" + "9" * 5000, "x8"], ["x8", "x" + "9" * 5000]),
        ([], []),
    ],
)
def test_order(values: list[Any], expected: list[Any]) -> None:
    assert order(values) == expected


def test_equal_objects_keep_their_order() -> None:
    objects = [{"metadata": {"name": name, "x": name[0]}} for name in ("b1", "a1", "b2", "a2")]
    names = [obj["metadata"]["name"] for obj in sort_by(objects, "metadata.x")]
    assert names == ["a1", "a2", "b1", "b2"]


@given(st.lists(st.none() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)))
def test_order_is_total(values: list[Any]) -> None:
    ordered = order(values) if any(value is not None for value in values) else []
    assert order(ordered[::-1]) == order(ordered) if ordered else True


@pytest.mark.parametrize(
    "path",
    [
        ".status.list[0].name",
        "status.list[0].name",
        "{.status.list[0].name}",
        "{status.list[0].name}",
        ".status['list'][0]['name']",
        '.status["list"][-2].name',
        ".status.list[*].name",
        '.status.list[?(@.kind=="a")].name',
        ".status.list[?(@.of.kind=='inner')].name",
        ".*.list[0].name",
        r".annotations.example\.com/name",
    ],
)
def test_paths(path: str) -> None:
    objects = [
        {
            "metadata": {"name": name},
            "status": {
                "list": [
                    {"name": name, "kind": "a", "of": {"kind": "inner"}},
                    {"name": "z", "kind": "b"},
                ]
            },
            "annotations": {"example.com/name": name},
        }
        for name in KEYS[::-1]
    ]
    assert [obj["metadata"]["name"] for obj in sort_by(objects, path)] == list(KEYS)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "{}",
        ".",
        "{.a}{.b}",
        ".a[",
        ".a[x]",
        ".a[?(@.b>1)]",
        ".a[0:2]",
        "..a",
        ".a]",
        "$.a",
        ".a\\",
    ],
)
def test_paths_that_cannot_be_read(path: str) -> None:
    with pytest.raises(SortPathError, match="path"):
        parse_path(path)


def test_paths_that_lead_nowhere() -> None:
    with pytest.raises(SortPathError, match=r"no object has a field '.spec.y'"):
        order([1, 2], ".spec.y")
    with pytest.raises(SortPathError, match=r"'.spec' leads to a mapping in 0, not to a value"):
        order([1, 2], ".spec")


@pytest.mark.parametrize("name", [r"['example\.com/x']", "['example.com/x']", r"example\.com/x"])
def test_dots_of_a_label_key_may_be_escaped_in_quotes_too(name: str) -> None:
    """kubectl takes `['a\\.b']` for the key `a.b`: dictKeyRex in client-go's jsonpath parser."""
    objects = [
        {"metadata": {"name": value, "labels": {"example.com/x": value}}} for value in ("b", "a")
    ]
    found = sort_by(objects, f".metadata.labels{name if name[0] == '[' else f'.{name}'}")
    assert [obj["metadata"]["name"] for obj in found] == ["a", "b"]
