"""Output that the commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click
from pydantic import BaseModel

WIDTH = 200
"""Wide enough to keep a table's rows whole, where there is no terminal."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print strict JSON.")


def print_json(data: BaseModel | Sequence[BaseModel]) -> None:
    """Print a model, or a list of them, as strict JSON."""
    plain = (
        data.model_dump(mode="json", by_alias=True)
        if isinstance(data, BaseModel)
        else [model.model_dump(mode="json", by_alias=True) for model in data]
    )
    click.echo(json.dumps(plain, allow_nan=False, ensure_ascii=False, indent=2))


def table_width() -> int | None:
    """The width of tables; None where the terminal has one."""
    return None if sys.stdout.isatty() else WIDTH
