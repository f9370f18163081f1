"""Base of result classes, whose dump is the JSON of the command line and the services.

A class with few fields and many objects is a dataclass with `STRICT` as its configuration, every
other one is a `Strict` model. Both refuse fields that are not declared, NaN and infinity.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Number: TypeAlias = int | float

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


class FrozenModel(BaseModel):
    """An immutable class, such as settings or a specification, that refuses fields that are not declared."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Strict(FrozenModel):
    """An immutable result class."""

    model_config = STRICT

    def to_dict(self) -> dict[str, Any]:
        """Return the strict JSON form: `json.dumps` takes it as it is."""
        plain: dict[str, Any] = to_plain(self)
        return plain


def pick_fields(thing: object, *names: str) -> dict[str, Any]:
    """Return some attributes of an object by name."""
    return {name: getattr(thing, name) for name in names}


def list_fields(record: DataclassInstance) -> dict[str, Any]:
    """Return the fields of a dataclass by name, as they are; `asdict` copies what is in them, at ten times the cost."""
    return pick_fields(record, *(each.name for each in fields(record)))


def to_plain(result: object) -> Any:
    """Convert a result, or several, to plain JSON values."""
    return to_jsonable_python(result, by_alias=True)


def to_json(result: object, *, indent: int | None = 2) -> str:
    """Convert a result, or several, to strict JSON text.

    Args:
        indent: Spaces of indentation per level; None for one line.
    """
    return json.dumps(to_plain(result), allow_nan=False, ensure_ascii=False, indent=indent)
