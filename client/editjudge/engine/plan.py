"""What to call for one edit, and what cannot be judged, before any call is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..base.item import Edit, Missing
from ..base.verdict import Outcome, Pending
from ..benchmarks.dimension import Dimension
from ..scorers.scorer import Scorer
from .fold import fold


@dataclass(frozen=True, slots=True)
class EditPlan:
    """The work for one edit.

    Attributes:
        calls: Fields to compute by scorer; equal scorers are one.
        outcomes: Of every dimension, by id; those that are `Pending` are to be judged.
    """

    calls: Mapping[Scorer, frozenset[str]]
    outcomes: Mapping[str, Outcome]


def edit_plan(edit: Edit, dimensions: Iterable[Dimension], unserved: Mapping[str, str]) -> EditPlan:
    """Plan one edit.

    Args:
        dimensions: In order, see `in_order`.
        unserved: By dimension id, why its own readings cannot be made.
    """
    dimensions = tuple(dimensions)
    outcomes = fold(dimensions, edit.item, missing=missing_of(edit), unserved=unserved)
    return EditPlan(calls_of(dimensions, outcomes), outcomes)


def missing_of(edit: Edit) -> Missing | None:
    """Why there is no output, possibly without a reason; None where there is one."""
    return None if edit.image else edit.missing or Missing("absent", "")


def calls_of(
    dimensions: Iterable[Dimension], outcomes: Mapping[str, Outcome]
) -> dict[Scorer, frozenset[str]]:
    """The fields to compute by scorer: the readings of what is to be judged."""
    calls: dict[Scorer, frozenset[str]] = {}
    for dimension in dimensions:
        if isinstance(outcomes[dimension.id], Pending):
            for reading in dimension.readings:
                calls[reading.scorer] = calls.get(reading.scorer, frozenset()) | {reading.field}
    return calls


def in_order(
    dimensions: Iterable[Dimension], known: Mapping[str, Dimension]
) -> tuple[Dimension, ...]:
    """The dimensions and what they derive from, parts first, each once.

    Raises:
        KeyError: a dimension derives from one that is not known.
        ValueError: dimensions derive from each other in a circle.
    """
    done: dict[str, Dimension] = {}

    def add(dimension: Dimension, above: tuple[str, ...]) -> None:
        if dimension.id in above:
            raise ValueError(f"dimensions in a circle: {' -> '.join((*above, dimension.id))}")
        for operand in dimension.operands:
            add(known[operand], (*above, dimension.id))
        done.setdefault(dimension.id, dimension)

    for dimension in dimensions:
        add(dimension, ())
    return tuple(done.values())
