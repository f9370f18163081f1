"""Tables 2 and 3 of the paper, the preservation score of its figure 4, correctness by content."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...base.item import Item
from ..cell import NO_SCALING
from ..column import Aggregation, Column, Mean, PooledMean, of_tasks
from ..fusion import min_max
from . import taxonomy
from .switches import GieSwitches

TO_PERCENT = (100.0, 0.0)
_CORRECTNESS = "gie.functional_correctness"
_AGGREGATIONS: Mapping[str, Aggregation] = {"preservation": PooledMean(partial(min_max, invert=True), "gie.mse")}
"""What is no mean of a dimension."""


def _column(name: str, row: Mapping[str, Any]) -> Column:
    """Make a column of a row of `tables.toml`."""
    fields = {"of": name, "percent": False, "higher_is_better": True, **row}
    mean = Mean(f"gie.{fields.pop('of')}", affine=TO_PERCENT if fields.pop("percent") else NO_SCALING)
    return Column(f"gie.{name}", how=_AGGREGATIONS.get(name, mean), **fields)


def _part(name: str, title: str, how: Mean, source: str, group: str) -> Column:
    """Make a column of the correctness of some items."""
    return Column(f"gie.{name}", title, how, True, f"GIE-Bench, {source}", group)


def _shows(kind: str, item: Item) -> bool:
    return taxonomy.content(item.extra.get("content_type")) == kind


COLUMNS: tuple[Column, ...] = (
    *(
        _part(name, title, Mean(_CORRECTNESS, of_tasks(name), affine=TO_PERCENT), "table 2", "Functional Correctness")
        for name, title in taxonomy.TITLES.items()
    ),
    *(_column(name, row) for name, row in taxonomy.TABLES["columns"].items()),
    *(
        _part(
            f"content.{name}",
            row["title"],
            Mean(_CORRECTNESS, partial(_shows, name), affine=TO_PERCENT),
            "section 3.1",
            "Correctness by Content",
        )
        for name, row in taxonomy.CONTENTS.items()
    ),
)
"""All columns: functional correctness by type of edit, the paper's tables, and correctness by content."""


def columns(switches: GieSwitches) -> tuple[Column, ...]:
    """Return the columns for the switches that are on."""
    is_left_out = {"gie.unaligned": switches.any_alignment, "gie.preservation": switches.uncalibrated}
    return tuple(column for column in COLUMNS if not is_left_out.get(column.id))
