"""Selector text cut into tokens.

Promises
- The tokens are those of Go's lexer, which reads bytes: white space is space, tab, CR and LF,
  and all text but the symbols joins an identifier.
- NUL ends the input where a token could start, and is dropped right after a token.
- One pass, one token at a time: an error early in a long text is found early.

Source: apimachinery labels.Lexer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

END = ""
IDENTIFIER = "identifier"

_SYMBOLS = frozenset({"=", "==", "!=", "!", "(", ")", ",", "<", ">"})
# Matches at every position, so that finditer skips nothing.
_TOKEN = re.compile(
    r"[ \t\r\n]*+ (?: ( == | != | [=!(),<>] | [^=!(),<>\ \t\r\n\0]++ ) \0? | (?=\0|\Z) )",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A piece of the text.

    Attributes:
        kind: IDENTIFIER, END, or the symbol itself. The words `in` and `notin` are identifiers.
        literal: the piece; "" at the end.
        position: character offset in the text.
    """

    kind: str
    literal: str
    position: int


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a selector; the last one is an END."""
    for match in _TOKEN.finditer(text):
        literal = match[1]
        if literal is None:
            yield Token(END, "", match.end())
            return
        kind = literal if literal in _SYMBOLS else IDENTIFIER
        yield Token(kind, literal, match.start(1))
