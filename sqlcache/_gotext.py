"""Text as Go prints and reads it, so that errors carry client-go's words.

Promises
- Every text returned can be encoded: a lone surrogate becomes U+FFFD, as in Go's JSON decoder.
- Time and memory are linear in the input.

Source: Go strconv.Quote, strconv.ParseInt, encoding/json; apimachinery field.Error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

_SURROGATE = re.compile("[\ud800-\udfff]")
_INT64 = re.compile(r"([+-]?)0*([0-9]{1,19})")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_SHORT_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}
_JSON_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


class _QuotedChars(dict[int, str]):
    """What Go's %q prints for a character, worked out once for each distinct one."""

    def __missing__(self, code: int) -> str:
        self[code] = quoted = _quoted_char(code)
        return quoted


def _quoted_char(code: int) -> str:
    char = chr(code)
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    if char.isprintable():  # the categories of strconv.IsPrint: L, M, N, P, S and the space
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def clean(text: str) -> str:
    """Return the text with every lone surrogate replaced by U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def quote(text: str) -> str:
    """Return the text as Go's %q prints it, in double quotes."""
    return f'"{clean(text).translate(_QuotedChars())}"'


def to_json(value: str | Sequence[str] | None) -> str:
    """Return the value as Go's json.Marshal prints it, with `<`, `>` and `&` escaped."""
    encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return clean(encoded).translate(_JSON_ESCAPES)


def byte_length(text: str) -> int:
    """Return the length in bytes of UTF-8, which is what Go's len counts."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def parse_int64(text: str | None) -> int | None:
    """Return the number that strconv.ParseInt(text, 10, 64) reads, or None where it fails.

    Stricter than int(): ASCII digits only, no spaces, no underscores, 64 bits.
    """
    match = _INT64.fullmatch(text) if text else None
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if _INT64_MIN <= number <= _INT64_MAX else None


def aggregate(messages: Iterable[str]) -> str:
    """Return several error texts as one: repeated ones once, two or more in brackets.

    Source: apimachinery field.ErrorList.ToAggregate, errors.Aggregate.
    """
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
