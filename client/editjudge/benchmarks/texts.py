"""Checks of the texts, names and numbers in data, with reasons in plain words."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from ..answers.texts import Option
from ..base.errors import TextError
from ..base.images import MAX_PATH
from ..base.item import MAX_TEXT_CHARACTERS, check_text
from ..base.parse import list_problems, parse_json

NO_JSON = "not JSON"
_MAX_ID = 255
_NO_NAMES = frozenset({"", ".", ".."})
# As the parser says where in one line it stopped.
_POSITION = re.compile(r"(?P<why>.*) at line \d+ column (?P<place>\d+)")
_WHY = {
    "trailing characters": "something follows the object",
    "expected value": "a JSON value must stand here",
    "invalid unicode code point": "it is not in UTF-8",
}


def is_blank(text: str) -> bool:
    """Whether a text has no visible character."""
    if text[:1].isalnum():  # nearly always, and this is asked of every text of a hundred thousand
        return False
    return not any(c.isprintable() and not c.isspace() for c in text)


def why_unusable(text: str) -> str:
    """Return why a text cannot be used; "" if it can."""
    if is_blank(text):
        return "is blank"
    try:
        check_text("", text)
    except TextError as error:
        return error.reason
    return ""


def _usable(text: str) -> str:
    if why := why_unusable(text):
        raise ValueError(why)
    return text


def check_name(text: str) -> str:
    """Return a text that can be an id.

    Raises:
        ValueError: it cannot; says why.
    """
    if len(text) > _MAX_ID or not text.isprintable():
        raise ValueError(f"an id has 1 to {_MAX_ID} printable characters")
    if not _NO_NAMES.isdisjoint(map(str.strip, text.split("/"))) or "\\" in text:
        raise ValueError("an id names a file: no empty part, no '.', '..' or backslash")
    return text


Text = Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS), AfterValidator(_usable)]
"""As it stands, and not blank: what was released is judged to the letter."""
OwnText = Annotated[str, AfterValidator(str.strip)]
"""As people write it; what cannot be used is a flaw of the item."""
Name = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True), AfterValidator(check_name)]
File = Annotated[str, Field(min_length=1, max_length=MAX_PATH)]


def find_question_flaw(question: Mapping[str, Any]) -> str:
    """Return why a question of an item cannot be asked; "" if it can, or has no answer.

    Args:
        question: As it stands: `question` and `answer`, and `options` where it has any.
    """
    for name in ("question", "answer"):
        text = question.get(name, "-")
        if not isinstance(text, str):
            return f"`{name}` of a question is a text, not {text!r}"
        if why := why_unusable(text):
            return f"`{name}` of a question {why}" if why == "is blank" else f"`{name}`: {why}"
    options = question.get("options", ["-", "--"])
    if not isinstance(options, list) or not all(isinstance(one, str) for one in options):
        return f"`options` of a question is a list of texts, not {options!r}"
    if any(map(is_blank, options)):
        return "one of the `options` of a question is blank"
    try:
        Option(tuple(options))
    except ValueError as error:
        return f"`options` of a question: {error}"
    return ""


def find_repeated_keys(pairs: list[tuple[str, Any]]) -> list[str]:
    """Return the keys that a JSON object has more than once, so that their values are unclear."""
    if len(pairs) == len(dict(pairs)):
        return []
    return [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]


def find_misreading(line: bytes) -> str:
    """Return what a parser would misread in a line of JSON; "" if nothing.

    A key that an object has more than once, or what stands for a number and is none.
    """
    odd: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> None:
        if twice := find_repeated_keys(pairs):
            odd.append(f"{', '.join(map(repr, twice))}: given more than once")

    def number(text: str) -> None:
        if not math.isfinite(float(text)):
            odd.append(f"{text} is no number that can be kept")

    parse_json(line, pairs=members, number=number)
    return next(iter(odd), "")


def describe_error(error: ValidationError, model: type[BaseModel]) -> str:
    """Describe in one line why an object failed validation.

    Args:
        model: The type that the object was validated against.
    """
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return _no_json(str(first["ctx"]["error"]))
    return "; ".join(str(problem) for problem in list_problems(error, model)[:3])


def _no_json(error: str) -> str:
    """Describe in words why a line cannot be parsed, and at which character."""
    position = _POSITION.fullmatch(error)
    if position is None:
        return f"{NO_JSON}: {error}"
    why = _WHY.get(position["why"], position["why"].replace("EOF while", "it ends while"))
    return f"{NO_JSON}, at character {position['place']}: {why}"
