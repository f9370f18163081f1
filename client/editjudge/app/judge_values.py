"""What judges said of the edits of runs, as values that are compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ..base.text import group_by_key
from ..base.verdict import Score
from .view import RunView

Edit: TypeAlias = tuple[str, str]
"""An item and a model."""


@dataclass
class Judge:
    """What a judge said, with higher values for better edits.

    Attributes:
        values: The value of each edit in each round, by dimension and edit.
        ranges: Lowest and highest value of each dimension.
    """

    name: str
    values: dict[str, dict[Edit, tuple[float, ...]]] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)


def mean(values: Sequence[float]) -> float:
    """The mean, rounded once."""
    return math.fsum(values) / len(values)


def read_judges(view: RunView, *, is_only: bool = False) -> Iterator[Judge]:
    """Read the scores of each judge of a run, without those that a rule imputed.

    Args:
        is_only: Whether there is no other run, so that judges need no name of theirs.
    """
    run, spec = view.folder.name, view.resolved_spec
    rounds = group_by_key((each.judge, each) for each in view.spec.judge_rounds.each_round)
    several = len(rounds) > 1
    names = {judge: judge if is_only else f"{run}: {judge}" for judge in rounds if several}
    judges = [(Judge(names.get(judge, run)), of) for judge, of in rounds.items()]
    judges = judges or [(Judge(run), [])]
    readers: list[tuple[dict[Edit, tuple[float, ...]], int, list[str]]] = []
    for judge, own in judges:
        for of in spec.dimensions:
            ids = [n for one in own if (n := one.dimension_id(of.id)) in spec.dimensions_by_id]
            if not (of.round_of or of.of_data) and (ids or not several):
                sign = 1 if of.higher_is_better else -1
                low, high = sorted(sign * end for end in of.range)
                judge.values[of.id], judge.ranges[of.id] = {}, (low, high)
                readers.append((judge.values[of.id], sign, ids or [of.id]))
    for row in view.rows():
        for values, sign, ids in readers:
            outcomes = [row.outcomes.get(name) for name in ids]
            scores = [sign * o.value for o in outcomes if isinstance(o, Score) and not o.imputed]
            if len(scores) == len(ids):
                values[row.item.id, row.model] = tuple(scores)
    return (judge for judge, _ in judges)


def cluster_items(views: Sequence[RunView]) -> Callable[[str], Hashable]:
    """Make a function that tells which items share a source, by the first run."""
    clusters: dict[str, int] = {}
    for view in views[:1]:
        items = [ref.id for ref in view.resolved_spec.dataset.items()]
        clusters = dict(zip(items, view.clusters([True] * len(items)), strict=True))
    return lambda item: clusters.get(item, item)
