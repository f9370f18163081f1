"""Table 2 of the paper: metrics by reasoning dimension, and their averages."""

from __future__ import annotations

import math
from functools import partial

from ...column import Column, Composite, InstanceWeighted, Mean
from ...fusion import Values
from ...item import Item
from .taxonomy import TAXONOMY, TESTS_KNOWLEDGE, reasoning_dimension

METRICS = {
    "visual_consistency": "VC",
    "visual_quality": "VQ",
    "instruction_following": "IF",
    "knowledge_plausibility": "KP",
}
TO_PERCENT = (25.0, -25.0)
"""1 to 5 becomes 0 to 100 (section 4.2)."""
_SOURCE = "KRIS-Bench, table 2"


def _in(dimension: str, item: Item) -> bool:
    return reasoning_dimension(item) == dimension


def _mean(values: Values) -> float:
    return math.fsum(values.values()) / len(values)


def _words(name: str) -> str:
    return name.replace("_", " ").title()


def _metrics(dimension: str) -> tuple[str, ...]:
    """The metrics that apply: three, or four where knowledge is tested."""
    return tuple(
        m for m in METRICS if m != "knowledge_plausibility" or dimension in TESTS_KNOWLEDGE
    )


def _of_dimension(dimension: str) -> tuple[Column, ...]:
    """A reasoning dimension: its metrics, and their mean."""
    where = partial(_in, dimension)
    parts = {name: f"kris.{dimension}.{name}" for name in _metrics(dimension)}
    return (
        *(
            Column(
                column,
                METRICS[name],
                Mean(f"kris.{name}", where, affine=TO_PERCENT),
                True,
                _SOURCE,
                _words(dimension),
            )
            for name, column in parts.items()
        ),
        Column(
            f"kris.{dimension}", "Avg", Composite(_mean, parts), True, _SOURCE, _words(dimension)
        ),
    )


def _average(name: str, dimensions: tuple[str, ...]) -> Column:
    """Over reasoning dimensions, each weighted by its items and not by its metrics."""
    how = InstanceWeighted(
        tuple(f"kris.{dimension}" for dimension in dimensions),
        by=tuple(f"kris.{dimension}.visual_consistency" for dimension in dimensions),
    )
    return Column(f"kris.{name}", "Average", how, True, _SOURCE, _words(name))


COLUMNS: tuple[Column, ...] = (
    *(
        column
        for name, dimensions in TAXONOMY.items()
        for column in (
            *(one for dimension in dimensions for one in _of_dimension(dimension)),
            _average(name, tuple(dimensions)),
        )
    ),
    _average("overall", tuple(d for dimensions in TAXONOMY.values() for d in dimensions)),
)
