"""The columns of a run: means with coverage, from what is stored and what was planned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..base.signature import Signature
from ..benchmarks.cell import Cell, Tally
from ..benchmarks.column import Column, Mean
from ..benchmarks.dimension import Dimension
from ..engine.runplan import RunPlan
from ..storage.store import RunStore

Cells = dict[str, dict[str, Cell]]


def columns(dimensions: Iterable[Dimension]) -> tuple[Column, ...]:
    """A mean for each dimension."""
    return tuple(
        Column(d.id, d.id.partition(".")[2] or d.id, Mean(d.id), d.higher_is_better, d.source)
        for d in dimensions
    )


def cells(store: RunStore, plan: RunPlan) -> Cells:
    """One number per model and dimension, over the items asked for.

    The same numbers as `column.tabulate` over the same outcomes, without having all of them in
    memory. What is still to be judged counts as `pending`.

    Args:
        plan: As made at the beginning; what stood or was to do then is counted anew. Verdicts
            with other signatures than its own are not counted.
    """
    tallies: dict[tuple[str, str], Tally] = {}
    # Where the run holds more than was asked for, what is counted must be looked at.
    asked = frozenset(plan.ids[index] for index in plan.asked)
    for stored in store.verdicts(evidence=False):
        today = plan.signatures.get(stored.dimension) == stored.signature
        if today and stored.model in plan.todo and stored.item in asked:
            tally = tallies.setdefault((stored.model, stored.dimension), Tally())
            tally.add(stored.verdict)
    return {
        model: {
            d.id: _cell(d, row[d.id], tallies.get((model, d.id), Tally()), plan.signatures[d.id])
            for d in plan.order.dimensions
        }
        for model, row in plan.counts.items()
    }


def _cell(dimension: Dimension, planned: Mapping[str, int], tally: Tally, signature: str) -> Cell:
    made_of = Signature.parsed(signature).digest if tally.counts else ""
    for status in ("missing_output", "not_served", "unscored"):
        if planned.get(status):
            tally.counts[status] += planned[status]
    asked = sum(planned.values()) - tally.inapplicable
    if (pending := asked - tally.counts.total()) > 0:
        tally.counts["pending"] = pending
    parts = {"column": dimension.id, "aggregation": f"mean({dimension.id})", "of": made_of}
    return tally.cell(_why(tally.counts), Signature.of(parts))


def _why(counts: Mapping[str, int]) -> str:
    if not counts:
        return "not applicable to any item"
    words = {"missing_output": "no outputs", "not_served": "not served", "pending": "not judged"}
    if len(counts) == 1:
        return words.get(next(iter(counts)), "nothing scored")
    return "nothing scored"
