"""JSON and TOML from elsewhere: whatever stands there, only `ValueError` is raised.

Both parsers of the standard library descend by recursion, so brackets within brackets end in an
error that is none of theirs.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any

_TOO_DEEP = "too many brackets within one another"


def parse_json(
    text: str | bytes,
    *,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
    number: Callable[[str], Any] | None = None,
) -> Any:
    """The value of a JSON text.

    Args:
        pairs: Makes an object of its members.
        number: Makes a value of a number with a fraction or an exponent, and of `NaN`, `Infinity`
            and `-Infinity`, which stand in the place of numbers and are no JSON.

    Raises:
        ValueError: it is none, or is nested more deeply than can be read.
    """
    try:
        return json.loads(text, object_pairs_hook=pairs, parse_float=number, parse_constant=number)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text.

    Raises:
        ValueError: it is none, or is nested more deeply than can be read.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
