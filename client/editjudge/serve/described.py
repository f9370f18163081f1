"""What people need beside types: words for each field, and a request that works as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import cleandoc
from typing import Any

from ..app.wire.base import Wire

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
    models = _models(Wire)
    for name, schema in document["components"]["schemas"].items():
        if name in models:
            schema["description"] = _parts(models[name])[0]
            _tell(schema.get("properties", {}), models[name])
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path in EXAMPLES:
                operation["requestBody"]["content"]["application/json"]["example"] = EXAMPLES[path]
            for parameter in operation.get("parameters", ()):
                parameter["example"] = [PATTERN]
            operation["responses"]["4XX"]["content"]["application/json"]["example"] = ERROR
    return document


def _models(of: type[Wire]) -> dict[str, type[Wire]]:
    """All models that there are, by name."""
    below = of.__subclasses__()
    return {each.__name__: each for each in below} | {
        name: each for model in below for name, each in _models(model).items()
    }


def _tell(fields: Mapping[str, dict[str, Any]], model: type[Wire]) -> None:
    """Say of fields what the docstrings of a model, and of those that it extends, say of them."""
    for each in reversed([base for base in model.__mro__ if issubclass(base, Wire)]):
        for name, words in _parts(each)[1].items():
            if name in fields:
                fields[name]["description"] = words


def _parts(model: type[Wire]) -> tuple[str, dict[str, str]]:
    """What a docstring says of the whole, and of its attributes by name."""
    whole, _, attributes = cleandoc(model.__doc__ or "").partition(_FIELDS)
    words: dict[str, str] = {}
    name = ""
    for line in attributes.splitlines():
        if line[:_INDENT].isspace() and not line[_INDENT : _INDENT + 1].isspace():
            name, _, words[name] = line.strip().partition(": ")
        elif name:
            words[name] = f"{words[name]} {line.strip()}".strip()
    return whole.strip(), words
