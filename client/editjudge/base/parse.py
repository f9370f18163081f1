"""Parsers of JSON and TOML from outside: for any input they raise `ValueError` alone.

Both parsers of the standard library are recursive, so deeply nested brackets would raise a
`RecursionError`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pydantic import ValidationError

_TOO_DEEP = "too many brackets within one another"


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


def first_problem(error: ValidationError) -> Problem:
    """The first problem of a validation error."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"] if part != "[key]")
    return Problem(where, first["msg"].removeprefix("Value error, "))
