"""How far judges agree, with each other and with themselves.

Pure functions of numbers. Where a figure is not defined there is none, and a reason: a judge that
says the same of everything has no rank correlation, and none is made up for it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from statistics import StatisticsError, correlation
from typing import TypeAlias

from pydantic.dataclasses import dataclass as result

from ..base.strict import STRICT
from ..benchmarks.cell import standard_deviation

Pair: TypeAlias = "tuple[float, float]"

_TOLERANCE = 1e-9
"""Values that differ by less are equal: a mean of probabilities is exact to rounding only."""


@result(frozen=True, slots=True, config=STRICT)
class Statistic:
    """A number, or why there is none.

    Attributes:
        value: Finite; None where it is not defined.
        reason: Empty where there is a value.
    """

    value: float | None
    reason: str = ""


def inter_judge_agreement(pairs: Sequence[Pair], *, two_valued: bool) -> dict[str, Statistic]:
    """How far two judges agree on the same edits.

    Args:
        pairs: What the first said and what the second said.
        two_valued: Whether every value is one of two, as of a question with right and wrong.

    Returns:
        `agreement` and `kappa` of values that are one of two, otherwise `spearman` and
        `mean_absolute_difference`.
    """
    if two_valued:
        return {"agreement": agreement(pairs), "kappa": kappa(pairs)}
    return {
        "spearman": spearman(pairs),
        "mean_absolute_difference": mean_absolute_difference(pairs),
    }


def intra_judge_agreement(edits: Sequence[Sequence[float]]) -> dict[str, Statistic]:
    """How far a judge agrees with itself.

    Args:
        edits: The values of each edit, one for each of at least two rounds.

    Returns:
        `equal`, the share of edits with the same value in every round, 0..1, and
        `standard_deviation` over rounds, its mean over edits, on the dimension's scale.
    """
    if not edits:
        return {"equal": _NO_DATA, "standard_deviation": _NO_DATA}
    equal = sum(max(values) - min(values) < _TOLERANCE for values in edits)
    spread = math.fsum(standard_deviation(values) or 0.0 for values in edits)
    return {
        "equal": Statistic(equal / len(edits)),
        "standard_deviation": Statistic(spread / len(edits)),
    }


def agreement(pairs: Sequence[Pair]) -> Statistic:
    """Share of pairs that are equal, 0..1; higher is better."""
    if not pairs:
        return _NO_DATA
    return Statistic(sum(abs(a - b) < _TOLERANCE for a, b in pairs) / len(pairs))


def kappa(pairs: Sequence[Pair]) -> Statistic:
    """Cohen's kappa: agreement beyond what the two judges' shares give by chance.

    (p_o - p_e) / (1 - p_e), with p_e the sum over values of the product of both shares
    (Cohen, 1960); at most 1, 0 by chance, negative below it. Not defined where chance alone
    makes them agree always: both say one and the same of everything.

    Args:
        pairs: Of values from a small set, equal to the bit where they are equal.
    """
    if not pairs:
        return _NO_DATA
    count = len(pairs)
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    # In whole numbers, so that it is exact whether chance alone explains all.
    chance = sum(first[value] * second[value] for value in first)
    if chance == count * count:
        return Statistic(None, "both judges say the same of everything")
    equal = sum(a == b for a, b in pairs)
    return Statistic((count * equal - chance) / (count * count - chance))


def spearman(pairs: Sequence[Pair]) -> Statistic:
    """Spearman's rank correlation, -1..1: Pearson's of the ranks, tied values sharing theirs.

    Not defined where a judge gives every edit the same value.
    """
    if len(pairs) < 2:
        return Statistic(None, "fewer than two values") if pairs else _NO_DATA
    first, second = ([side[i] for side in pairs] for i in (0, 1))
    try:
        rho = correlation(_ranks(first), _ranks(second))
    except StatisticsError:
        return Statistic(None, "a judge gives every edit the same value")
    return Statistic(max(-1.0, min(1.0, rho)))


def mean_absolute_difference(pairs: Sequence[Pair]) -> Statistic:
    """The mean distance of the two values, on the dimension's scale; lower is better."""
    if not pairs:
        return _NO_DATA
    return Statistic(math.fsum(abs(a - b) for a, b in pairs) / len(pairs))


_NO_DATA = Statistic(None, "no edit has a value from each")


def _ranks(values: Sequence[float]) -> list[float]:
    """From 1; equal values share the mean of the ranks they take."""
    ranks = [0.0] * len(values)
    order = sorted(range(len(values)), key=values.__getitem__)
    before = 0
    for _, group in groupby(order, key=values.__getitem__):
        members = list(group)
        for index in members:
            ranks[index] = before + (len(members) + 1) / 2
        before += len(members)
    return ranks
