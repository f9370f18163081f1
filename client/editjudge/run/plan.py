"""What to call for one edit, and what cannot be judged, before any call is made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..dimension import Dimension, Scorer
from ..item import Edit
from ..verdict import MissingOutput, NotApplicable, NotServed, Skip


@dataclass(frozen=True, slots=True)
class Plan:
    """The work for one edit.

    Attributes:
        calls: Fields to compute by scorer; equal scorers are one.
        skips: Dimensions that will have no verdict, and why.
        dimensions: The others, parts before what is derived from them.
    """

    calls: Mapping[Scorer, frozenset[str]]
    skips: Mapping[str, Skip]
    dimensions: tuple[Dimension, ...]


def make_plan(
    edit: Edit,
    dimensions: Iterable[Dimension],
    known: Mapping[str, Dimension],
    served: Collection[str],
) -> Plan:
    """Plan one edit.

    Args:
        dimensions: Those asked for; what they derive from is added.
        known: All dimensions, by id.
        served: The services at hand, as `role.variant`.

    Raises:
        KeyError: a dimension derives from one that is not known.
        ValueError: dimensions derive from each other in a circle.
    """
    skips: dict[str, Skip] = {}
    calls: dict[Scorer, frozenset[str]] = {}
    chosen: list[Dimension] = []
    for dimension in in_order(dimensions, known):
        skip = _skip(edit, dimension, served)
        if skip is not None:
            skips[dimension.id] = skip
            continue
        chosen.append(dimension)
        for reading in dimension.readings:
            calls[reading.scorer] = calls.get(reading.scorer, frozenset()) | {reading.field}
    return Plan(calls, skips, tuple(chosen))


def in_order(
    dimensions: Iterable[Dimension], known: Mapping[str, Dimension]
) -> tuple[Dimension, ...]:
    """The dimensions and what they derive from, parts first, each once."""
    done: dict[str, Dimension] = {}

    def add(dimension: Dimension, above: tuple[str, ...]) -> None:
        if dimension.id in above:
            raise ValueError(f"dimensions in a circle: {' -> '.join((*above, dimension.id))}")
        for part in dimension.parts:
            add(known[part], (*above, dimension.id))
        done.setdefault(dimension.id, dimension)

    for dimension in dimensions:
        add(dimension, ())
    return tuple(done.values())


def _skip(edit: Edit, dimension: Dimension, served: Collection[str]) -> Skip | None:
    reason = dimension.not_applicable(edit.item)
    if reason is not None:
        return NotApplicable(reason=reason)
    if edit.image is None:
        return MissingOutput(reason=edit.missing or "the model gave no image")
    absent = [role for role in dimension.roles if role not in served]
    if absent:
        return NotServed(reason=f"not served: {', '.join(absent)}")
    return None
