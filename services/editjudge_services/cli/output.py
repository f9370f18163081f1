"""Output that the commands share."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import BaseModel

from editjudge.base.screen import say_json


def print_json(data: BaseModel | Sequence[BaseModel]) -> None:
    """Print a model, or a list of them, as strict JSON."""
    plain = (
        data.model_dump(mode="json", by_alias=True)
        if isinstance(data, BaseModel)
        else [model.model_dump(mode="json", by_alias=True) for model in data]
    )
    say_json(json.dumps(plain, allow_nan=False, ensure_ascii=False, indent=2))
