"""What people need beside types: words for each field, and a request that works as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import cleandoc
from typing import Any

from editjudge.app.wire.base import Wire

_FIELDS = "Attributes:\n"
_INDENT = 4
_BEFORE = (
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgAQMAAABJtOi3AAAABlBMVEX////d3d0cZ2AmAAAAF0lEQVR42mNgIBb8/8/A"
    "xMDAQCWCWAAA9BUCHTVYa/EAAAAASUVORK5CYII="
)
_AFTER = (
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgAQMAAABJtOi3AAAABlBMVEX////IHh7kMBY6AAAAF0lEQVR42mNgIBb8/8/A"
    "xMDAQCWCWAAA9BUCHTVYa/EAAAAASUVORK5CYII="
)
_SCORE = {
    "edit": {
        "instruction": "make the square red",
        "sources": [{"data": _BEFORE, "name": "before.png"}],
        "edited": {"data": _AFTER, "name": "after.png"},
    },
    "dimensions": ["core.psnr.*"],
}
EXAMPLES: Mapping[str, Any] = {"/v1/score": _SCORE, "/v1/score:batch": {"requests": [_SCORE]}}
"""A body for each route that takes one: a grey square of 32 pixels that became red."""
PATTERN = "core.psnr.*"
ERROR = {
    "error": {
        "code": "INVALID_ARGUMENT",
        "message": "edit.mask: …",
        "field": "edit.mask",
        "mend": "…",
    }
}


def described(document: dict[str, Any]) -> dict[str, Any]:
    """An OpenAPI document with the words that our models' docstrings have for fields, and examples.

    It is changed and returned.
    """
    extended = _extended(Wire)
    for schema in document["components"]["schemas"].values():
        docstring = schema.get("description", "")
        words: dict[str, str] = {}
        for each in (*extended.get(docstring, ()), docstring):
            schema["description"], attributes = _parts(each)
            words |= attributes
        for name, field in schema.get("properties", {}).items():
            if name in words:
                field["description"] = words[name]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path in EXAMPLES:
                operation["requestBody"]["content"]["application/json"]["example"] = EXAMPLES[path]
            for parameter in operation.get("parameters", ()):
                parameter["example"] = [PATTERN]
            operation["responses"]["4XX"]["content"]["application/json"]["example"] = ERROR
    return document


def _extended(model: type[Wire]) -> dict[str, list[str]]:
    """Of each model that extends others, by its docstring: theirs, the farthest first."""
    above = {}
    for each in model.__subclasses__():
        bases = [base for base in reversed(each.__mro__[1:]) if issubclass(base, Wire)]
        if each.__doc__:
            above[cleandoc(each.__doc__)] = [cleandoc(base.__doc__ or "") for base in bases]
        above |= _extended(each)
    return above


def _parts(docstring: str) -> tuple[str, dict[str, str]]:
    """What it says of the whole, and of attributes by name."""
    whole, _, attributes = docstring.partition(_FIELDS)
    words: dict[str, str] = {}
    name = ""
    for line in attributes.splitlines():
        if line[:_INDENT].isspace() and not line[_INDENT : _INDENT + 1].isspace():
            name, _, words[name] = line.strip().partition(": ")
        elif name:
            words[name] = f"{words[name]} {line.strip()}".strip()
    return whole.strip(), words
