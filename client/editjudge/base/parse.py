"""Parsers of JSON and TOML from outside: for any input they raise `ValueError` alone.

Both parsers of the standard library are recursive, so deeply nested brackets would raise a
`RecursionError`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin

from .text import suggest_name

if TYPE_CHECKING:
    from pydantic import ValidationError

_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')\s*+\.\s*+){64}""")
_TOO_DEEP = "too many brackets within one another"
_TYPES = {
    "bool": "true or false", "float": "a number", "int": "a whole number", "string": "text",
    **dict.fromkeys(("dict", "model"), "a table (an object)"), **dict.fromkeys(("list", "tuple"), "a list"),
}  # fmt: skip
"""What a value must be, by the first word of pydantic's name of the error."""
_SUBJECT = re.compile("^(Input|String|Tuple|List|Dictionary) should")
_OF_A_TYPE = {"attributes_type", "from_float", "parsing", "sub_type", "type"}


def parse_json(
    text: str | bytes,
    *,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
    number: Callable[[str], Any] | None = None,
) -> Any:
    """Parse a JSON text.

    Args:
        pairs: Makes an object of its members.
        number: Makes a value of a number with a fraction or an exponent, and of `NaN`, `Infinity`
            and `-Infinity`, which stand in the place of numbers and are no JSON.

    Raises:
        ValueError: the text is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=pairs, parse_float=number, parse_constant=number)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text.

    Raises:
        ValueError: the text is not TOML, or is nested too deeply.
    """
    if _LONG_KEY.search(text):  # which takes time that grows with the square of its length
        raise ValueError("a key of more than 64 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def package_tables(package: str | None, file: str) -> dict[str, Any]:
    """Read a TOML file of this distribution.

    Args:
        package: As `__package__` of the module that reads it.
        file: Its path in the package.
    """
    return tomllib.loads((files(package or "") / file).read_text("utf-8"))


def describe_failure(error: Exception) -> str:
    """Say in plain words why a file cannot be read or written."""
    from pydantic_core import ValidationError

    match error:
        case OSError():
            return error.strerror or str(error)
        case UnicodeDecodeError():
            return "it is not text in UTF-8"
        case json.JSONDecodeError():
            return f"{error.msg}, at line {error.lineno}, character {error.colno}"
        case ValidationError():
            return str(first_problem(error))
    return str(error)


class Problem(NamedTuple):
    """What is wrong with data that a pydantic model refuses.

    Attributes:
        where: The keys to it, joined by dots; empty for the whole.
        message: What is wrong there.
    """

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def first_problem(error: ValidationError, kind: type | None = None) -> Problem:
    """The first problem of a validation error; see `list_problems`."""
    return list_problems(error, kind)[0]


def list_problems(error: ValidationError, kind: type | None = None) -> list[Problem]:
    """List the problems of a validation error in plain words, misspelt names first.

    Args:
        kind: The class of the data, whose names are suggested for those that it does not have.
    """
    details = error.errors(include_url=False, include_input=False)
    # A misspelt name explains why another is missing.
    details.sort(key=lambda each: each["type"] != "extra_forbidden")
    problems = []
    for each in details:
        # Brackets stand in what pydantic adds: `[key]`, and the member of a union.
        keys = [str(key) for key in each["loc"] if "[" not in str(key)]
        message = plain_message(each["type"], each["msg"])
        if each["type"] == "extra_forbidden" and (names := _names_at(kind, keys[:-1])):
            message += f"; {suggest_name(keys[-1], names)}"
        problems.append(Problem(".".join(keys), message))
    return problems


def plain_message(kind: str, message: str) -> str:
    """Say in plain words what pydantic says of a value, by the name of the error."""
    first, _, rest = kind.partition("_")
    if rest in _OF_A_TYPE and first in _TYPES:
        return f"must be {_TYPES[first]}"
    if kind == "extra_forbidden":
        return "no such field"
    if kind == "missing":
        return "is missing"
    return _SUBJECT.sub("must", message).removeprefix("Value error, ")


def _names_at(kind: Any, keys: list[str]) -> list[str]:
    """The names of the fields of the class that lies at some keys of another."""
    parts = iter(keys)
    for key in parts:
        if key not in getattr(kind, "model_fields", ()):
            return []
        kind = kind.model_fields[key].annotation
        if get_origin(kind) in {dict, list, tuple}:
            next(parts, None)
        kind = next((one for one in get_args(kind) if hasattr(one, "model_fields")), kind)
    return list(getattr(kind, "model_fields", ()))
