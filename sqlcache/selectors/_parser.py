"""Selector text to Selector, with Go's error texts.

    selector    := "" | requirement { "," requirement }
    requirement := ["!"] KEY
                 | KEY ( "=" | "==" | "!=" | ">" | "<" ) [ VALUE ]
                 | KEY ( "in" | "notin" ) "(" [ VALUE ] { "," [ VALUE ] } ")"

Promises
- Accepts and refuses the same texts as labels.Parse; a text that is refused raises
  SelectorSyntaxError, whatever it holds and however long it is.
- No recursion; time is linear in the length of the text.

Source: apimachinery labels.Parser.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from sqlcache._gotext import aggregate, clean
from sqlcache.errors import SelectorSyntaxError
from sqlcache.selectors._lexer import END, IDENTIFIER, Token, tokens
from sqlcache.selectors._requirement import (
    Operator,
    Problem,
    Requirement,
    key_problems,
    unchecked,
    value_problems,
)
from sqlcache.selectors._selector import EVERYTHING, Selector

_BINARY_OPERATORS = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}
_EXPECTED_OPERATORS = ", ".join(_BINARY_OPERATORS.values())
_SET_OPERATORS = frozenset({Operator.IN, Operator.NOT_IN})
_STARTS_REQUIREMENT = frozenset({IDENTIFIER, "!"})
_ENDS_REQUIREMENT = frozenset({END, ","})
_STARTS_VALUE_LIST = frozenset({IDENTIFIER, ","})
_ENDS_VALUE = frozenset({",", ")"})
_INSIDE = "unable to parse requirement: "

# Values to the offset of the token that gave them.
_Values: TypeAlias = dict[str, int]


def parse(text: str) -> Selector:
    """Return the selector that a text stands for; "" selects everything.

    Raises:
        SelectorSyntaxError: the text is no selector; `reason` is Go's error without `<nil>: `,
            the path of a field that has none.
        TypeError: it is no string.

    Source: apimachinery labels.Parse.
    """
    if not isinstance(text, str):
        raise TypeError(f"a label selector is a str, not {type(text).__name__}")
    requirements = _Parser(text).requirements()
    return Selector(requirements) if requirements else EVERYTHING


class _Parser:
    """One token of lookahead over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._next = next(self._tokens)

    def requirements(self) -> list[Requirement]:
        """Return the requirements in the order of the text."""
        found: list[Requirement] = []
        if self._next.kind == END:
            return found
        expected = "!, identifier, or 'end of string'"
        while True:
            if self._next.kind not in _STARTS_REQUIREMENT:
                raise self._unexpected(self._next, expected)
            found.append(self._requirement())
            separator = self._take()
            if separator.kind == END:
                return found
            if separator.kind != ",":
                raise self._unexpected(separator, "',' or 'end of string'")
            expected = "identifier after ','"

    def _requirement(self) -> Requirement:
        negated = self._next.kind == "!"
        if negated:
            self._take()
        key = self._key()
        if negated:
            return unchecked(key, Operator.DOES_NOT_EXIST, ())
        if self._next.kind in _ENDS_REQUIREMENT:
            return unchecked(key, Operator.EXISTS, ())
        operator = self._operator()
        values = self._value_set() if operator in _SET_OPERATORS else self._exact_value()
        listed = sorted(values)
        if problems := list(value_problems(key, operator, listed)):
            raise self._invalid(values[problems[0].value or ""], problems)
        return unchecked(key, operator, listed)

    def _key(self) -> str:
        token = self._take()
        if token.kind != IDENTIFIER:
            raise self._unexpected_inside(token, "identifier")
        if problems := key_problems(token.literal):
            raise self._invalid(token.position, problems)
        return token.literal

    def _operator(self) -> Operator:
        token = self._take()
        operator = _BINARY_OPERATORS.get(token.literal)
        if operator is None:
            raise self._unexpected_inside(token, _EXPECTED_OPERATORS)
        return operator

    def _exact_value(self) -> _Values:
        if self._next.kind in _ENDS_REQUIREMENT:
            return {"": self._next.position}
        token = self._take()
        if token.kind != IDENTIFIER:
            raise self._unexpected_inside(token, "identifier")
        return {token.literal: token.position}

    def _value_set(self) -> _Values:
        opening = self._take()
        if opening.kind != "(":
            # No comma in Go's text here.
            reason = f"found '{clean(opening.literal)}' expected: '('"
            raise self._error(opening.position, f"{_INSIDE}{reason}")
        if self._next.kind == ")":
            return {"": self._take().position}
        if self._next.kind not in _STARTS_VALUE_LIST:
            raise self._unexpected_inside(self._next, "',', ')' or identifier")
        values = self._value_list()
        self._take()
        return values

    def _value_list(self) -> _Values:
        """Return the values up to a closing parenthesis; each side of a comma may be empty."""
        values: _Values = {}
        while True:
            token = self._take()
            if token.kind == IDENTIFIER:
                values.setdefault(token.literal, token.position)
                if self._next.kind not in _ENDS_VALUE:
                    raise self._unexpected_inside(self._next, "',' or ')'")
            elif token.kind == ",":
                if not values or self._next.kind in _ENDS_VALUE:
                    values.setdefault("", token.position)
            else:
                raise self._unexpected_inside(token, "',', or identifier")
            if self._next.kind == ")":
                return values

    def _take(self) -> Token:
        token = self._next
        if token.kind != END:
            self._next = next(self._tokens)
        return token

    def _unexpected(self, token: Token, expected: str) -> SelectorSyntaxError:
        reason = f"found '{clean(token.literal)}', expected: {expected}"
        return self._error(token.position, reason)

    def _unexpected_inside(self, token: Token, expected: str) -> SelectorSyntaxError:
        reason = f"found '{clean(token.literal)}', expected: {expected}"
        return self._error(token.position, f"{_INSIDE}{reason}")

    def _invalid(self, position: int, problems: Iterable[Problem]) -> SelectorSyntaxError:
        reason = aggregate(problem.message for problem in problems)
        return self._error(position, f"{_INSIDE}{reason}")

    def _error(self, position: int, reason: str) -> SelectorSyntaxError:
        return SelectorSyntaxError(self._text, position, reason)
