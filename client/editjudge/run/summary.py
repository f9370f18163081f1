"""The columns of a run: means with coverage, from what is stored and what was planned."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..column import Cell, Column, Mean
from ..dimension import Dimension
from ..signature import Signature
from ..verdict import NotApplicable, Scored
from .store import RunStore
from .work import Work

Cells = dict[str, dict[str, Cell]]


@dataclass
class _Values:
    numbers: array[float] = field(default_factory=lambda: array("d"))
    counts: Counter[str] = field(default_factory=Counter)
    imputed: int = 0
    inapplicable: int = 0


def columns(dimensions: Iterable[Dimension]) -> tuple[Column, ...]:
    """A mean for each dimension."""
    return tuple(
        Column(d.id, d.id.partition(".")[2] or d.id, Mean(d.id), d.higher_is_better, d.source)
        for d in dimensions
    )


def cells(store: RunStore, work: Work, signatures: Mapping[str, str]) -> Cells:
    """One number per model and dimension, over the items asked for.

    The same numbers as `column.tabulate` over the same outcomes, without having all of them in
    memory. What is still to be judged counts as `pending`.

    Args:
        work: As planned at the beginning; what it found standing or to do is counted anew.
        signatures: Of today, by dimension: verdicts with others are not counted.
    """
    found: dict[tuple[str, str], _Values] = {}
    # Where the run holds more than was asked for, what is counted must be looked at.
    asked = frozenset(work.ids[index] for index in work.asked)
    for one in store.verdicts(evidence=False):
        if one.model not in work.todo or signatures.get(one.dimension) != one.signature:
            continue
        if one.item not in asked:
            continue
        values = found.setdefault((one.model, one.dimension), _Values())
        if isinstance(one.verdict, NotApplicable):
            values.inapplicable += 1
            continue
        values.counts[one.verdict.status] += 1
        if isinstance(one.verdict, Scored):
            values.numbers.append(one.verdict.value)
            values.imputed += one.verdict.imputed
    return {
        model: {d.id: _cell(d, row[d.id], found.get((model, d.id)), signatures[d.id]) for d in ds}
        for model, row in work.counts.items()
        for ds in [work.order.dimensions]
    }


def _cell(
    dimension: Dimension, planned: Mapping[str, int], values: _Values | None, signature: str
) -> Cell:
    values = values or _Values()
    counts = dict(values.counts)
    for status in ("missing_output", "not_served"):
        if planned.get(status):
            counts[status] = planned[status]
    asked = sum(planned.values()) - values.inapplicable
    if (pending := asked - sum(counts.values())) > 0:
        counts["pending"] = pending
    mean = math.fsum(values.numbers) / len(values.numbers) if values.numbers else None
    made_of = Signature.parsed(signature).digest if values.counts else ""
    return Cell(
        mean,
        counts,
        values.imputed,
        "" if mean is not None else _why(counts),
        Signature.of(
            {"column": dimension.id, "aggregation": f"mean({dimension.id})", "of": made_of}
        ),
    )


def _why(counts: Mapping[str, int]) -> str:
    if not counts:
        return "not applicable to any item"
    words = {"missing_output": "no outputs", "not_served": "not served", "pending": "not judged"}
    if len(counts) == 1:
        return words.get(next(iter(counts)), "nothing scored")
    return "nothing scored"


def as_json(table: Cells) -> dict[str, Any]:
    """The cells as plain data."""
    return {
        model: {
            name: {
                "value": cell.value,
                "scored": cell.scored,
                "asked": cell.asked,
                "counts": dict(cell.counts),
                "imputed": cell.imputed,
                "reason": cell.reason,
                "signature": str(cell.signature),
            }
            for name, cell in row.items()
        }
        for model, row in table.items()
    }
