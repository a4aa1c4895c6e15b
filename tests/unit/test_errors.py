"""Errors whose input is hostile: their messages stay short, and in Go's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sqlcache.errors import KeyFormatError, SelectorError, SelectorSyntaxError
from sqlcache.objects import split_meta_namespace_key
from sqlcache.selectors import (
    Operator,
    Requirement,
    from_label_selector,
    parse,
    parse_field_selector,
)

FIVE_MB = 5_000_000
HUGE = "x" * FIVE_MB


@pytest.mark.parametrize(
    ("key", "quoted"),
    [
        ("a/b/c", '"a/b/c"'),
        ("a/\0/c", r'"a/\x00/c"'),
        ("a/\n/\x1b[2J", r'"a/\n/\x1b[2J"'),
        ('a/"/\\', r'"a/\"/\\"'),
        ("é/日本/\u2028", r'"é/日本/\u2028"'),
        ("/\x7f/\U000e0001", r'"/\x7f/\U000e0001"'),
        ("/\udc80/", '"/\ufffd/"'),
    ],
)
def test_a_key_is_quoted_as_by_go(key: str, quoted: str) -> None:
    """fmt.Errorf("unexpected key format: %q", key)"""
    with pytest.raises(KeyFormatError) as caught:
        split_meta_namespace_key(key)
    assert str(caught.value) == f"unexpected key format: {quoted}"
    assert caught.value.key == key


@pytest.mark.parametrize("key", [f"//{HUGE}", "/" * FIVE_MB, "\0/" * (FIVE_MB // 2)])
def test_a_huge_key_is_shortened(key: str) -> None:
    with pytest.raises(KeyFormatError) as caught:
        split_meta_namespace_key(key)
    assert f"({len(key)} characters)" in str(caught.value)
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize(
    ("refuse", "text"),
    [
        (parse, HUGE),
        (parse, f"a={HUGE}"),
        (parse, f"a b{HUGE}"),
        (parse, f"a in ({HUGE},b c)"),
        (parse, f"a in ({','.join('x' * 64 + str(number) for number in range(50_000))})"),
        (parse, f"a=\0{HUGE}=b"),
        (parse_field_selector, HUGE),
        (parse_field_selector, f"{HUGE}=a"),
        (parse_field_selector, f"metadata.name={HUGE}=a"),
        (lambda text: Requirement(text, Operator.EXISTS, ()), HUGE),
        (lambda text: Requirement("a", Operator.IN, [text]), HUGE),
        (lambda text: from_label_selector({"matchLabels": {text: "b"}}), HUGE),
        (lambda text: from_label_selector({"matchLabels": {"a": text}}), HUGE),
    ],
    ids=range(13),
)
def test_a_huge_selector_is_shortened(refuse: Callable[[str], Any], text: str) -> None:
    with pytest.raises(SelectorError) as caught:
        refuse(text)
    assert len(str(caught.value)) < 2_000


def test_a_huge_token_leaves_the_words_around_it() -> None:
    with pytest.raises(SelectorSyntaxError) as caught:
        parse(f"a in (b {HUGE}")
    error = caught.value
    assert error.reason == f"unable to parse requirement: found '{HUGE}', expected: ',' or ')'"
    assert str(error).startswith("unable to parse requirement: found 'xxx")
    assert "', expected: ',' or ')' (at character 8 of 'a in (b xxx" in str(error)
    assert f"({len(error.reason)} characters)" in str(error)
