"""Tables 2 and 3 of the paper, the preservation score of its figure 4, correctness by content."""

from collections.abc import Iterator, Mapping
from functools import partial

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


def _shows(kind: str, item: Item) -> bool:
    return taxonomy.content(item.extra.get("content_type")) == kind


def _list_columns() -> Iterator[Column]:
    """Yield functional correctness by type of edit, the rows of `tables.toml`, and correctness by content."""
    for name, title in taxonomy.TITLES.items():
        mean = Mean(_CORRECTNESS, of_tasks(name), affine=TO_PERCENT)
        yield Column(f"gie.{name}", title, mean, True, "GIE-Bench, table 2", "Functional Correctness")
    for name, row in taxonomy.TABLES["columns"].items():
        fields = {"of": name, "percent": False, "higher_is_better": True, **row}
        mean = Mean(f"gie.{fields.pop('of')}", affine=TO_PERCENT if fields.pop("percent") else NO_SCALING)
        yield Column(f"gie.{name}", how=_AGGREGATIONS.get(name, mean), **fields)
    for name, row in taxonomy.CONTENTS.items():
        mean = Mean(_CORRECTNESS, partial(_shows, name), affine=TO_PERCENT)
        source, group = "GIE-Bench, section 3.1", "Correctness by Content"
        yield Column(f"gie.content.{name}", row["title"], mean, True, source, group)


COLUMNS = tuple(_list_columns())


def columns(switches: GieSwitches) -> tuple[Column, ...]:
    """Return the columns for the switches that are on."""
    is_left_out = {"gie.unaligned": switches.any_alignment, "gie.preservation": switches.uncalibrated}
    return tuple(column for column in COLUMNS if not is_left_out.get(column.id))
