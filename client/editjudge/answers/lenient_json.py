r"""JSON as multimodal LLMs write it, read without guessing.

Read beside strict JSON, because each has one meaning only: a comma before a closing bracket;
strings in single quotes, in which an apostrophe between two letters is text; raw line breaks and
tabs in strings; a backslash that escapes nothing (LaTeX, `\_` of markdown), which stays; `True`,
`False` and `None`. Not read: keys without quotes, typographic quotes, comments, missing commas,
quotes, brackets or braces, numbers that JSON does not have.

Own code, because the libraries either guess (json-repair closes what is open and keeps the
last of two keys) or know fewer of these forms, take hexadecimal numbers and bare keys, and
recurse without a limit (json5).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

from ..base.text import join_surrogates

Members: TypeAlias = "tuple[tuple[str, Value], ...]"
"""A JSON object as written: keys in order, repeated ones included."""
Value: TypeAlias = "str | float | bool | list[Value] | Members | None"

DEPTH = 32  # brackets within brackets; no contract needs more than three


class MalformedJson(Exception):
    """What stands there began as JSON and is none.

    Attributes:
        ended: The text ended before it was complete.
    """

    def __init__(self, reason: str, *, is_incomplete: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_incomplete = is_incomplete


# Possessive repeats: a quote without its partner costs one pass, never a search back.
_STRINGS = {
    '"': re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL),
    "'": re.compile(r"'((?:[^'\\]++|\\.|(?<=[^\W\d_])'(?=[^\W\d_]))*+)'", re.DOTALL),
}
_SPACE = re.compile(r"\s*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![\w.])")
_WORD = re.compile(r"-?[A-Za-z]+(?!\w)")
_WORDS: dict[str, float | bool | None] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
    # Read, so that the reason can name them; no contract takes them.
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"} | {c: c for c in "\"'\\/"}
_EXACT = 15  # characters: of so few and no exponent, no number is rounded
_HALF = re.compile(r"[\w.+-]{0,20}")


def parse_number(text: str) -> float | None:
    """The value of a JSON number and nothing else; None where it is not one."""
    return _to_float(text) if _NUMBER.fullmatch(text) else None


def _to_float(text: str) -> float:
    """A number as it is written: one that is not whole is not rounded to a whole one.

    5.0000000000000000001 lies above 5, and becomes the number above it that can be told from it.
    """
    value = float(text)
    if not value.is_integer() or (len(text) <= _EXACT and "e" not in text.lower()):
        return value
    try:
        side = Decimal(text).compare(Decimal(value))
    except InvalidOperation:  # an exponent of many digits, which is less than zero
        side = Decimal(-1 if text.startswith("-") else 1)
    return math.nextafter(value, math.copysign(math.inf, side)) if side else value


def to_json(value: Value) -> str:
    """A value as JSON text; keys that are given twice stay so."""
    if isinstance(value, tuple):
        pairs = (f"{to_json(key)}: {to_json(member)}" for key, member in value)
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(to_json, value)) + "]"
    text = json.dumps(value, ensure_ascii=False)
    # Every number was read as a float.
    return text.removesuffix(".0") if isinstance(value, float) else text


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, match[0])


class JsonReader:
    """Reads one value at a time.

    Attributes:
        at: Where the next token begins.
    """

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def members(self, depth: int = 1) -> Members:
        """The object at the brace here.

        Raises:
            Malformed: it is not one.
        """
        pairs: list[tuple[str, Value]] = []

        def member() -> None:
            key = self._string()
            self._expect(":")
            pairs.append((key, self._value(depth)))

        self._series("}", depth, member)
        return tuple(pairs)

    def values(self, depth: int = 1) -> list[Value]:
        """The list at the bracket here.

        Raises:
            Malformed: it is not one.
        """
        values: list[Value] = []
        self._series("]", depth, lambda: values.append(self._value(depth)))
        return values

    def _value(self, depth: int) -> Value:
        sign = self._peek()
        if sign == "{":
            return self.members(depth + 1)
        if sign == "[":
            return self.values(depth + 1)
        if sign in _STRINGS:
            return self._string()
        if match := _NUMBER.match(self.text, self.at):
            self.at = match.end()
            return _to_float(match[0])
        match = _WORD.match(self.text, self.at)
        if match and match[0] in _WORDS:
            self.at = match.end()
            return _WORDS[match[0]]
        raise self._malformed_here("a value")

    def _series(self, end: str, depth: int, read: Callable[[], None]) -> None:
        if depth > DEPTH:
            raise MalformedJson(f"more than {DEPTH} brackets within one another")
        self.at += 1
        while self._peek() != end:
            read()
            if self._peek() == end:
                break
            self._expect(",")
        self.at += 1

    def _string(self) -> str:
        pattern = _STRINGS.get(self._peek())
        if pattern is None:
            raise self._malformed_here("a key in quotes")
        match = pattern.match(self.text, self.at)
        if match is None:
            raise MalformedJson("a string is not closed", is_incomplete=True)
        self.at = match.end()
        return join_surrogates(_ESCAPE.sub(_unescape, match[1]))

    def _expect(self, sign: str) -> None:
        if self._peek() != sign:
            raise self._malformed_here(repr(sign))
        self.at += 1

    def _peek(self) -> str:
        match = _SPACE.match(self.text, self.at)
        if match:
            self.at = match.end()
        return self.text[self.at : self.at + 1]

    def _malformed_here(self, due: str) -> MalformedJson:
        rest = self.text[self.at : self.at + 20]
        if not rest:
            return MalformedJson(f"it ends where {due} is due", is_incomplete=True)
        # `tru`, `-`, `0.`: what could still become a value ends with the text.
        is_incomplete = _HALF.fullmatch(rest) is not None and self.at + len(rest) == len(self.text)
        return MalformedJson(f"{rest!r} stands where {due} is due", is_incomplete=is_incomplete)
