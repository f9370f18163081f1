"""What all wire models are, and their text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

Status: TypeAlias = Literal[
    "scored",
    "unscored",
    "failed",
    "not_applicable",
    "not_served",
    "missing_output",
    "pending",
]
"""What became of a dimension on an edit, everywhere."""
Number: TypeAlias = int | float


class Wire(BaseModel):
    """Strict JSON: no field that is not declared, no NaN, no infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def text_of(models: BaseModel | Sequence[BaseModel], *, indent: int | None = 2) -> str:
    """Strict JSON text.

    Args:
        indent: Spaces by which each level is moved; None for one line.
    """
    plain = (
        models.model_dump(mode="json")
        if isinstance(models, BaseModel)
        else [one.model_dump(mode="json") for one in models]
    )
    return json.dumps(plain, allow_nan=False, ensure_ascii=False, indent=indent)
