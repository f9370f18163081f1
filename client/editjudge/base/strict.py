"""Results are declared once: a declaration is its own strict JSON.

What has few fields and many objects is a dataclass with `STRICT` as its configuration, all else
is a `Strict` model. Both refuse fields that are not declared, NaN and infinity.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_jsonable_python

Number: TypeAlias = int | float

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


class Strict(BaseModel):
    """A result that cannot be changed."""

    model_config = ConfigDict(**STRICT, frozen=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the strict JSON form: `json.dumps` takes it as it is."""
        plain: dict[str, Any] = to_plain(self)
        return plain


def to_plain(result: object) -> Any:
    """What the JSON of a result, or of several, holds."""
    return to_jsonable_python(result, by_alias=True)


def to_json(result: object, *, indent: int | None = 2) -> str:
    """The strict JSON text of a result, or of several.

    Args:
        indent: Spaces by which each level is moved; None for one line.
    """
    return json.dumps(to_plain(result), allow_nan=False, ensure_ascii=False, indent=indent)
