"""JSON documents read in chunks, so that a long array never lies in memory whole.

`json.JSONDecoder.raw_decode` finds where a value ends; orjson decodes it, because it is strict,
keeps one copy of each field name and reads numbers as the API server does. A list of 30,000 pods,
400 MB, takes 4.0 s and 6 MiB that way. ijson's C backend takes 2.8 s, but is no dependency, and as
an extra it would leave a second, unbounded way for those without it: orjson on the whole file, 14 s
(most of them in the garbage collector) and 1,800 MiB.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

from sqlcache.dumps._content import CHUNK_BYTES, Content
from sqlcache.dumps._documents import Array, Mapping
from sqlcache.errors import DumpError, shown

_MAX_VALUE_CHARS = 64 << 20  # etcd keeps objects of 1.5 MB; what is longer than this is no dump
_SPACE = re.compile(r"[ \t\n\r]*")
# Only the end of a value is wanted of this decoder, so numbers can stay text.
_RAW_DECODE = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
# What is found so near to the end of the text may be there because the text ends: the longest
# pieces that can be cut are `-Infinity` and the two halves of a `\uXXXX\uXXXX`.
_CUT_CHARS = 16
_CUT_TOKEN = re.compile(r"(t(ru?)?|f(a(ls?)?)?|n(ul?)?|Na?|-|[.eE][-+]?|u[0-9a-fA-F]{0,4})?")


class JsonText:
    """JSON documents, one after another, of which arrays can be read item by item."""

    def __init__(self, name: str, content: Content) -> None:
        self._name, self._content = name, content
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._position = "", 0
        self._line, self._column = 1, 1  # of the start of self._text
        self._bytes_read = 0

    def documents(self) -> Iterator[Any]:
        """Yield each document: a Mapping, an Array or a scalar. Use one up before the next."""
        while first := self._peek():
            if first == "{":
                yield Mapping(self._fields())
            else:
                yield self._array_or_value()

    def _fields(self) -> Iterator[tuple[str, Any]]:
        self._position += 1
        if self._peek() == "}":
            self._position += 1
            return
        while True:
            if self._peek() != '"':
                raise self._unexpected("a field name in quotes")
            name = self._value()
            self._take(":")
            self._peek()
            yield name, self._array_or_value()
            if self._take(",}") == "}":
                return

    def _array_or_value(self) -> Any:
        return Array(self._items()) if self._peek() == "[" else self._value()

    def _items(self) -> Iterator[Any]:
        self._position += 1
        if self._peek() == "]":
            self._position += 1
            return
        while True:
            self._peek()
            yield self._value()
            if self._take(",]") == "]":
                return

    def _peek(self) -> str:
        """Skip white space and return the next character, "" at the end."""
        while True:
            self._position = _SPACE.match(self._text, self._position).end()  # type: ignore[union-attr]
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._more():
                return ""

    def _take(self, wanted: str) -> str:
        found = self._peek()
        if not found or found not in wanted:
            raise self._unexpected(" or ".join(wanted))
        self._position += 1
        return found

    def _value(self) -> Any:
        end = self._end_of_value()
        try:
            value = orjson.loads(self._text[self._position : end])
        except orjson.JSONDecodeError as error:
            raise self._error(self._position + error.pos, f"not JSON: {error.msg}") from error
        self._position = end
        return value

    def _end_of_value(self) -> int:
        while True:
            try:
                end = _RAW_DECODE(self._text, self._position)[1]
            except json.JSONDecodeError as error:
                unterminated = error.msg.startswith("Unterminated")
                if (unterminated or self._near_end(error.pos)) and self._more():
                    continue
                if unterminated or _CUT_TOKEN.fullmatch(self._text[error.pos :].rstrip()):
                    raise self._cut_short() from error
                reason = error.msg[:1].lower() + error.msg[1:]
                raise self._error(error.pos, f"not JSON: {reason}") from error
            except RecursionError as error:
                raise self._error(self._position, "nested too deeply") from error
            # A number near the end of the text may go on.
            if self._text[end - 1] in '}]"' or not self._near_end(end) or not self._more():
                return end

    def _near_end(self, position: int) -> bool:
        return position > len(self._text) - _CUT_CHARS

    def _more(self) -> bool:
        """Read on, forgetting what lies before the position. Return False at the end."""
        rest = len(self._text) - self._position
        if rest > _MAX_VALUE_CHARS:
            raise self._error(self._position, f"a value longer than {_MAX_VALUE_CHARS} characters")
        chunk = self._content.read(max(CHUNK_BYTES, rest))  # growing: a long value is linear
        text = self._decoded(chunk)
        if not chunk:
            return False
        self._line, self._column = self._place(self._position)
        self._text = self._text[self._position :] + text
        self._position = 0
        return True

    def _decoded(self, chunk: bytes) -> str:
        pending = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            if not self._bytes_read and chunk[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                raise DumpError(self._name, "", "is UTF-16; write it as UTF-8") from error
            position = self._bytes_read - pending + error.start
            raise DumpError(self._name, f"byte {position}", f"not UTF-8: {error.reason}") from error
        self._bytes_read += len(chunk)
        return text

    def _place(self, position: int) -> tuple[int, int]:
        lines = self._text.count("\n", 0, position)
        if lines:
            return self._line + lines, position - self._text.rindex("\n", 0, position)
        return self._line, self._column + position

    def _error(self, position: int, reason: str) -> DumpError:
        line, column = self._place(position)
        return DumpError(self._name, f"line {line}, column {column}", reason)

    def _unexpected(self, wanted: str) -> DumpError:
        if _CUT_TOKEN.fullmatch(self._text, self._position) and not self._more():
            return self._cut_short()
        found = shown(repr(self._text[self._position]))
        return self._error(self._position, f"not JSON: expected {wanted}, found {found}")

    def _cut_short(self) -> DumpError:
        return self._error(len(self._text), "the file is cut short")
