"""Filed selectors: how few of them a question looks at."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from sqlcache.selectors import EVERYTHING, NOTHING, Selector, SelectorIndex, from_labels, parse

MANY = 2_000


class CountedLabels(dict[str, str]):
    """Labels that count how often a selector looks at them."""

    looked_at = 0

    def get(self, *arguments: str) -> str | None:  # type: ignore[override]
        self.looked_at += 1
        return super().get(*arguments)

    def __contains__(self, key: object) -> bool:
        self.looked_at += 1
        return super().__contains__(key)


@pytest.mark.parametrize(
    ("selector", "looks"),
    [
        (lambda i: from_labels({"svc": f"s{i}"}), 1),
        (lambda i: from_labels({"app": "web", "svc": f"s{i}", "tier": "front"}), 6),
        (lambda i: parse(f"app in (web,db),svc=s{i},!canary"), 6),
        (lambda i: parse(f"app=web,svc in (s{i},s{i + MANY})"), 4),
        (lambda i: parse(f"k{i},app!=db,!canary"), 3),
        (lambda i: parse(f"k{i}>5"), 1),
    ],
)
def test_question_looks_at_few_selectors_of_many(
    selector: Callable[[int], Selector], looks: int
) -> None:
    """One that all share is no place to file them: each goes where the fewest others are."""
    index: SelectorIndex[int] = SelectorIndex()
    for number in range(MANY):
        index.add(number, selector(number))
    labels = CountedLabels({"app": "web", "tier": "front", "svc": "s7", "k7": "9"})
    assert index.matching(labels) == [7]
    assert labels.looked_at <= looks


def test_scopes_are_asked_apart() -> None:
    index: SelectorIndex[str] = SelectorIndex()
    for number in range(MANY):
        index.add(f"ns{number}", EVERYTHING, f"ns{number}")
    index.add("all", parse("app=web"))
    labels = {"app": "web"}
    assert index.matching(labels, "ns7") == ["ns7"]
    assert index.matching(labels, "") == ["all"]
    assert index.matching(labels, "none") == []
    assert len(index.matching(labels)) == MANY + 1


def test_everything_matches_always_and_nothing_never() -> None:
    index: SelectorIndex[str] = SelectorIndex()
    index.add("everything", EVERYTHING)
    index.add("nothing", NOTHING)
    for labels in (None, {}, {"app": "web"}):
        assert index.matching(labels) == ["everything"]
    assert len(index) == 2
    index.add("everything", NOTHING)
    index.add("nothing", EVERYTHING)
    assert index.matching(None) == ["nothing"]


def test_removing_what_is_not_there_is_no_error() -> None:
    index: SelectorIndex[str] = SelectorIndex()
    index.remove("a")
    index.add("a", parse("app=web"))
    index.remove("b")
    assert index.matching({"app": "web"}) == ["a"]


def test_selectors_that_come_and_go_leave_no_memory() -> None:
    index: SelectorIndex[int] = SelectorIndex()

    def churn(start: int) -> None:
        for number in range(start, start + MANY):
            index.add(number, parse(f"svc=s{number},app in (a{number},b{number})"), f"ns{number}")
            index.remove(number - 10)
            index.add(number - 1, parse(f"svc=t{number}"), f"ns{number}")

    churn(0)
    tracemalloc.start()
    try:
        churn(MANY)
        before = tracemalloc.get_traced_memory()[0]
        churn(2 * MANY)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(index) <= 11
    assert grown < 100_000


@pytest.mark.parametrize(
    ("selector", "looked_at"),
    [
        ("app=web", {("app", "web")}),
        ("app in (web,db)", {("app", "web"), ("app", "db")}),
        ("app!=web", {("app", "web")}),
        ("app notin (web,db)", {("app", "web"), ("app", "db")}),
        ("svc=s7,app=web", {("app", "web"), ("svc", "s7")}),
        ("app", {("app", "web"), ("app", "db"), ("app", "7")}),
        ("!app", {("app", "web"), ("app", "db"), ("app", "7")}),
        ("app>5", {("app", "web"), ("app", "db"), ("app", "7")}),
        ("svc=s7,app<5", {("app", "web"), ("app", "db"), ("app", "7"), ("svc", "s7")}),
        ("", set()),
    ],
)
def test_values_that_no_selector_names_are_not_looked_at(
    selector: str, looked_at: set[tuple[str, str]]
) -> None:
    """So that most changes of labels concern no hot view."""
    index: SelectorIndex[str] = SelectorIndex()
    index.add("here", parse(selector), "shop")
    labels = [("app", "web"), ("app", "db"), ("app", "7"), ("svc", "s7"), ("svc", "s8")]
    assert {each for each in labels if index.looks_at([each], "shop")} == looked_at
    assert {each for each in labels if index.looks_at([each], "bank", "shop")} == looked_at
    assert not index.looks_at(labels, "bank")
    index.remove("here")
    assert not index.looks_at(labels, "shop")
