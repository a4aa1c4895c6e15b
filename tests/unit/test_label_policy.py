"""Which policies for label keys there are, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqlcache.errors import BackendError
from sqlcache.store import open_store
from sqlcache.store.labels import CHURNING_LABELS, LabelPolicy, policy_of
from sqlcache.testing.factories import names, pod

BOTH = "give it or deny, not both"


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("all", LabelPolicy()),
        (" all ", LabelPolicy()),
        ("allow=app", LabelPolicy(allow=["app"])),
        ("allow=app,example.com/tier", LabelPolicy(allow=["app", "example.com/tier"])),
        ("deny=churning", LabelPolicy(deny=CHURNING_LABELS)),
        ("deny=churning,name", LabelPolicy(deny=[*CHURNING_LABELS, "name"])),
        ("limit=1", LabelPolicy(distinct_limit=1)),
        ("on-demand", LabelPolicy(on_demand=True)),
        (
            "on-demand limit=10000  deny=a,b",
            LabelPolicy(deny=["b", "a"], distinct_limit=10_000, on_demand=True),
        ),
    ],
)
def test_text_tells_a_policy(text: str, policy: LabelPolicy) -> None:
    assert policy_of(text) == policy


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'': a label policy is 'all', or some of allow="),
        (" ", "' ': a label policy is"),
        ("on_demand", "'on_demand': a label policy is"),
        ("on-demand=yes", "'on-demand=yes': a label policy is"),
        ("everything", "'everything': a label policy is"),
        ("all limit=3", "'all': a label policy is"),
        ("deny=app=web", "'deny=app=web': 'app=web' is no label key: name part must consist of"),
        ("deny=a, b", "'deny=a,': '' is no label key: name part must be non-empty"),
        ("allow=", "'allow=': '' is no label key"),
        ("allow=a/b/c", "'a/b/c' is no label key: a valid label key must"),
        ("allow=a deny=b", BOTH),
        ("deny=b allow=a", BOTH),
        ("limit=0", "'limit=0': distinct_limit is 1 or more, below 2**63, not 0"),
        ("limit=-1", "'limit=-1': distinct_limit is 1 or more"),
        ("limit=9223372036854775808", "below 2**63, not 9223372036854775808"),
        ("limit=many", "'limit=many': a limit is a number, not 'many'"),
        ("limit=", "'limit=': a limit is a number, not ''"),
        ("limit", "'limit': a limit is a number"),
        ("limit=1.5", "a limit is a number, not '1.5'"),
        ("limit=1_000", "a limit is a number, not '1_000'"),
        ("limit=+5", "a limit is a number, not '+5'"),
        ("limit=\u0663", "a limit is a number, not '\u0663'"),
        ("limit=" + "9" * 5_000, "a limit is a number, not '999"),
        ("deny=a deny=b", "'deny=b': that is there twice"),
    ],
)
def test_text_that_tells_none_is_named(text: str, says: str) -> None:
    with pytest.raises(BackendError) as refused:
        policy_of(text)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"allow": "app"}, "allow is a collection of label keys, not the text 'app'"),
        ({"deny": "app"}, "deny is a collection"),
        ({"deny": ["app", 5]}, "a label key is text, not 5"),
        ({"allow": [""]}, "'' is no label key"),
        ({"allow": ["a"], "deny": ["b"]}, BOTH),
        ({"allow": [], "deny": ["b"]}, BOTH),
        ({"distinct_limit": 0}, "distinct_limit is 1 or more"),
        ({"distinct_limit": -5}, "not -5"),
        ({"distinct_limit": 2**63}, "below 2**63"),
        ({"distinct_limit": True}, "not True"),
        ({"distinct_limit": 1.5}, "not 1.5"),
        ({"distinct_limit": "5"}, "not '5'"),
        ({"on_demand": "no"}, "on_demand is True or False, not 'no'"),
        ({"deny": None}, "deny is a collection of label keys, not None"),
        ({"allow": 5}, "allow is a collection of label keys, not 5"),
    ],
)
def test_policy_that_means_nothing_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(BackendError) as refused:
        LabelPolicy(**options)
    assert says in str(refused.value)


@pytest.mark.parametrize("backend", ["dict", "dict-index"])
def test_backends_without_a_label_index_in_sql_take_none(backend: str) -> None:
    with pytest.raises(BackendError, match=r"has no option .* labels="):
        open_store(backend, labels=LabelPolicy())


@pytest.mark.parametrize("backend", ["sqlite", "sqlite:///cache.db"])
@pytest.mark.parametrize(
    ("policy", "unindexed"),
    [
        (None, {}),
        (LabelPolicy(), {}),
        (LabelPolicy(allow=["app"]), {"name": "not allowed"}),
        (LabelPolicy(deny=["name"]), {"name": "denied"}),
        (LabelPolicy(distinct_limit=3), {"name": "over the limit"}),
        (LabelPolicy(on_demand=True), {"app": "not asked for"}),
    ],
)
def test_store_is_opened_with_a_policy(
    backend: str,
    policy: LabelPolicy | None,
    unindexed: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(backend, labels=policy) as store:
        labels = [{"app": f"a{number % 2}", "name": f"p{number}"} for number in range(8)]
        store.replace([pod(each["name"], labels=each) for each in labels], "1")
        assert names(store.select("", "name=p3")) == ["p3"]
        found = {each.key: each for each in store.stats().label_keys}
        assert {key: each.unindexed for key, each in found.items() if each.unindexed} == unindexed
        for key, each in found.items():
            assert (each.bytes == 0) == (key in unindexed)
            assert (each.saved_bytes > 0) == (key in unindexed)
        terms = {"app": 2, "name": 8}
        assert store.size().label_terms == sum(terms[key] for key in terms.keys() - unindexed)
        assert names(store.select("", "app=a1,name!=p3")) == ["p1", "p5", "p7"]
