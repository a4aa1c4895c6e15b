"""A set of filed selectors against testing every one of them, step by step."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sqlcache.selectors import Selector, SelectorIndex, as_selector
from sqlcache.testing.strategies import labels, selectors

SCOPES = st.sampled_from(("", "shop", "bank"))
KEYS = st.integers(0, 11)
any_selector = selectors().map(as_selector)


def by_plain_rule(
    selectors: Mapping[int, tuple[str, Selector]],
    labels: Mapping[str, str] | None,
    scope: str | None,
) -> list[int]:
    return sorted(
        key
        for key, (where, selector) in selectors.items()
        if scope in (None, where) and selector.matches(labels)
    )


class IndexMachine(RuleBasedStateMachine):
    """Adds, replaces and removes; every question must get the plain rule's answer."""

    def __init__(self) -> None:
        super().__init__()
        self.index: SelectorIndex[int] = SelectorIndex()
        self.selectors: dict[int, tuple[str, Selector]] = {}

    @rule(key=KEYS, selector=any_selector, scope=SCOPES)
    def add(self, key: int, selector: Selector, scope: str) -> None:
        self.index.add(key, selector, scope)
        self.selectors[key] = (scope, selector)

    @rule(batch=st.dictionaries(KEYS, st.tuples(SCOPES, any_selector), max_size=12))
    def add_many(self, batch: dict[int, tuple[str, Selector]]) -> None:
        for key, (scope, selector) in batch.items():
            self.add(key, selector, scope)

    @rule(key=KEYS)
    def remove(self, key: int) -> None:
        self.index.remove(key)
        self.selectors.pop(key, None)

    @rule()
    def remove_all(self) -> None:
        for key in list(self.index.keys()):
            self.remove(key)
        assert not any(vars(self.index).values()), vars(self.index)

    @rule(labels=st.none() | labels(), scope=SCOPES | st.none())
    def ask(self, labels: dict[str, str] | None, scope: str | None) -> None:
        found = self.index.matching(labels, scope)
        assert sorted(found) == by_plain_rule(self.selectors, labels, scope)

    @rule(before=labels(), after=labels(), scope=SCOPES)
    def compare(self, before: dict[str, str], after: dict[str, str], scope: str) -> None:
        differing = before.items() ^ after.items()
        keys = {key for key, _ in differing}
        used = {
            each.key
            for where, selector in self.selectors.values()
            if where == scope
            for each in selector.requirements
        }
        if self.index.looks_at(differing, scope):
            assert used & keys
        else:
            found = (self.index.matching(labels, scope) for labels in (before, after))
            assert sorted(next(found)) == sorted(next(found))

    @invariant()
    def keys_are_those_that_were_added(self) -> None:
        assert len(self.index) == len(self.selectors)
        assert self.index.keys() == self.selectors.keys()

    @invariant()
    def nothing_empty_is_kept(self) -> None:
        for scope in self.index._scopes.values():
            assert scope.filed
            for filed in (scope._by_label, scope._by_key, scope._labels, scope._keys):
                assert all(filed.values())


TestIndexMachine = IndexMachine.TestCase
