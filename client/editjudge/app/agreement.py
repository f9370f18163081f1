"""Statistics of the agreement of judges, with each other and with themselves.

All functions are pure. A statistic that is not defined has no value but a reason: a judge that
gives every edit the same value has no rank correlation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import StatisticsError, correlation
from typing import TypeAlias

from pydantic.dataclasses import dataclass as result

from ..base.strict import STRICT
from ..benchmarks.cell import standard_deviation

Pair: TypeAlias = "tuple[float, float]"

_TOLERANCE = 1e-9
"""Values that differ by less count as equal: a mean of probabilities has rounding errors."""


@result(frozen=True, slots=True, config=STRICT)
class Statistic:
    """A statistic, or the reason why it is not defined.

    Attributes:
        value: Finite; None if the statistic is not defined.
        reason: Why there is no value; otherwise empty.
    """

    value: float | None
    reason: str = ""


def inter_judge_agreement(pairs: Sequence[Pair], *, two_valued: bool) -> dict[str, Statistic]:
    """Measure how far two judges agree on the same edits.

    Args:
        pairs: For each edit the values of the first and of the second judge.
        two_valued: Whether only two values occur, as for a question with a right answer.

    Returns:
        `agreement` and `kappa` if only two values occur, otherwise `spearman` and
        `mean_absolute_difference`.
    """
    if two_valued:
        return {"agreement": agreement(pairs), "kappa": kappa(pairs)}
    difference = mean_absolute_difference(pairs)
    return {"spearman": spearman(pairs), "mean_absolute_difference": difference}


def intra_judge_agreement(edits: Sequence[Sequence[float]]) -> dict[str, Statistic]:
    """Measure how far a judge agrees with itself over several rounds.

    Args:
        edits: For each edit its values, one for each of at least two rounds.

    Returns:
        `equal`, the share of edits with the same value in every round, 0..1, and
        `standard_deviation` over rounds, its mean over edits, on the dimension's scale.
    """
    if not edits:
        return {"equal": _NO_DATA, "standard_deviation": _NO_DATA}
    equal = sum(max(values) - min(values) < _TOLERANCE for values in edits)
    spread = math.fsum(standard_deviation(values) or 0.0 for values in edits)
    deviation = Statistic(spread / len(edits))
    return {"equal": Statistic(equal / len(edits)), "standard_deviation": deviation}


def agreement(pairs: Sequence[Pair]) -> Statistic:
    """The share of pairs whose values are equal, 0..1; higher is better."""
    if not pairs:
        return _NO_DATA
    return Statistic(sum(abs(a - b) < _TOLERANCE for a, b in pairs) / len(pairs))


def kappa(pairs: Sequence[Pair]) -> Statistic:
    """Cohen's kappa: agreement corrected for agreement by chance.

    It is (p_o - p_e) / (1 - p_e), where p_e is the sum over values of the product of both judges'
    shares of that value (Cohen, 1960). It is at most 1, and 0 for agreement by chance. It is not
    defined if both judges give every edit one and the same value.

    Args:
        pairs: Values from a small set; equal values must be bitwise equal.
    """
    if not pairs:
        return _NO_DATA
    count = len(pairs)
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    # Integers make the test for agreement by chance alone exact.
    chance = sum(first[value] * second[value] for value in first)
    if chance == count * count:
        return Statistic(None, "both judges give every edit the same value")
    equal = sum(a == b for a, b in pairs)
    return Statistic((count * equal - chance) / (count * count - chance))


def spearman(pairs: Sequence[Pair]) -> Statistic:
    """Spearman's rank correlation, -1..1; tied values share the mean of their ranks.

    It is not defined if a judge gives every edit the same value.
    """
    from scipy.stats import rankdata

    if len(pairs) < 2:
        return Statistic(None, "fewer than two values") if pairs else _NO_DATA
    first, second = ([side[i] for side in pairs] for i in (0, 1))
    try:
        rho = correlation(rankdata(first).tolist(), rankdata(second).tolist())
    except StatisticsError:
        return Statistic(None, "a judge gives every edit the same value")
    return Statistic(max(-1.0, min(1.0, rho)))


def mean_absolute_difference(pairs: Sequence[Pair]) -> Statistic:
    """The mean absolute difference of the pairs, on the dimension's scale; lower is better."""
    if not pairs:
        return _NO_DATA
    return Statistic(math.fsum(abs(a - b) for a, b in pairs) / len(pairs))


_NO_DATA = Statistic(None, "no edit has all the values")
