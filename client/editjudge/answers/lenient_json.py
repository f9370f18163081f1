r"""Read JSON as multimodal LLMs write it, without guessing.

These forms are accepted beside strict JSON, because each has one meaning only: a comma before a
closing bracket; strings in single quotes, in which an apostrophe between two letters is text; raw
line breaks and tabs in strings; a backslash that escapes nothing (LaTeX, `\_` of markdown), which
stays in the string; `True`, `False` and `None`. These are refused: keys without quotes, typographic
quotes, comments, missing commas, quotes, brackets or braces, and numbers that JSON does not have.

No library fits. json-repair guesses: it closes what is open and keeps the last of two equal keys.
json5 knows fewer of these forms, accepts hexadecimal numbers and bare keys, and recurses without a
limit.
"""

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

DEPTH = 32  # levels of nested brackets; no contract needs more than three


class MalformedJson(Exception):
    """A text begins as JSON but breaks its syntax.

    Attributes:
        reason: What is wrong, in one line.
        is_incomplete: Whether the text ended before the value was complete.
    """

    def __init__(self, reason: str, *, is_incomplete: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_incomplete = is_incomplete


# The repeats are possessive, so an unclosed quote costs one pass without backtracking.
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
    # Parsed only so that the error can name them; no contract accepts them.
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"} | {c: c for c in "\"'\\/"}
_EXACT = 15  # a float holds any number of so few characters, without an exponent, exactly enough
_HALF = re.compile(r"[\w.+-]{0,20}")


def parse_number(text: str) -> float | None:
    """Return the value of a text that is one JSON number; None for any other text."""
    return _to_float(text) if _NUMBER.fullmatch(text) else None


def _to_float(text: str) -> float:
    """Convert a JSON number to a float without rounding a fraction to a whole number.

    5.0000000000000000001 becomes the smallest float above 5.
    """
    value = float(text)
    if not value.is_integer() or (len(text) <= _EXACT and "e" not in text.lower()):
        return value
    try:
        side = Decimal(text).compare(Decimal(value))
    except InvalidOperation:  # a negative exponent of many digits: the number is just beside 0
        side = Decimal(-1 if text.startswith("-") else 1)
    return math.nextafter(value, math.copysign(math.inf, side)) if side else value


def to_json(value: Value) -> str:
    """Write a value as JSON text; repeated keys are written as often as they occur."""
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
    """A reader of one JSON value from a position in a text.

    Attributes:
        text: The text.
        at: Position of the next token; after a value was read, the position behind it.
    """

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at

    def members(self, depth: int = 1) -> Members:
        """Read the object whose opening brace is at `at`.

        Raises:
            MalformedJson: The object breaks the syntax.
        """
        pairs: list[tuple[str, Value]] = []

        def member() -> None:
            key = self._string()
            self._expect(":")
            pairs.append((key, self._value(depth)))

        self._series("}", depth, member)
        return tuple(pairs)

    def values(self, depth: int = 1) -> list[Value]:
        """Read the list whose opening bracket is at `at`.

        Raises:
            MalformedJson: The list breaks the syntax.
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
        # The text ends in what could still become a value, such as `tru`, `-` or `0.`.
        is_incomplete = _HALF.fullmatch(rest) is not None and self.at + len(rest) == len(self.text)
        return MalformedJson(f"{rest!r} stands where {due} is due", is_incomplete=is_incomplete)
