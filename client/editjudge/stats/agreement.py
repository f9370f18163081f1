"""How far two sides agree on the same edits: a judge and people, two judges, several raters.

A statistic is a function of arrays of equal length, an entry for each record. One that is not
defined raises `NotDefined` with the reason: a judge that gives every edit the same value has no
rank correlation. Intervals come from the jackknife over clusters (`stats.clusters`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.strict import Strict
from .clusters import Floats, half_width, jackknife_groups, make_pseudo_values, number_clusters
from .shares import share_interval

Array: TypeAlias = NDArray[Any]
Function: TypeAlias = Callable[..., float]
Scale: TypeAlias = Literal["plain", "correlation", "share"]
"""How an interval is made: symmetric, by Fisher's transformation, or as of a share."""

_TOLERANCE = 1e-9
"""Values that differ by less count as equal: a mean of probabilities has rounding errors."""
_DIGITS = 9
_FEWEST = 3
"""The fewest clusters that give an interval."""


class NotDefined(Exception):
    """A statistic that is not defined on these records; its text is the reason."""


class Figure(Strict):
    """A statistic with its interval, or the reason why it is not defined.

    Attributes:
        value: None where the statistic is not defined.
        low: Lower end of the 95 % interval; None where there is none.
        high: Upper end, likewise.
        reason: Why there is no value, or no interval; otherwise empty.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""


class Statistic(NamedTuple):
    """A statistic of two sides.

    Attributes:
        function: Of the first side's values and the second side's (float64, N each).
        scale: See `Scale`.
    """

    function: Function
    scale: Scale = "plain"


def estimate(statistic: Statistic, columns: Sequence[Array], clusters: Sequence[Hashable]) -> Figure:
    """Compute a statistic and its interval by the jackknife over clusters.

    Args:
        columns: Arrays of N entries each, the arguments of the statistic.
        clusters: The cluster of each record, for example its source picture.
    """
    if not len(clusters):
        return Figure(value=None, reason="there are no records with both sides")
    try:
        value = statistic.function(*columns)
    except NotDefined as error:
        return Figure(value=None, reason=str(error))
    numbers = number_clusters(clusters)
    parts = jackknife_groups(int(numbers.max()) + 1)[numbers]
    count = int(parts.max()) + 1
    if count < _FEWEST:
        return Figure(value=value, reason=f"fewer than {_FEWEST} source pictures")
    try:
        replicates = [statistic.function(*(column[parts != part] for column in columns)) for part in range(count)]
    except NotDefined:
        return Figure(value=value, reason="it rests on a single source picture")
    low, high = _interval(value, np.array(replicates), len(numbers), statistic.scale)
    if math.isnan(low):
        return Figure(value=value, reason="it is the same without any one source picture")
    return Figure(value=value, low=low, high=high)


def _interval(value: float, replicates: Floats, records: int, scale: Scale) -> tuple[float, float]:
    """Both ends of the interval; NaN where all replicates are equal and the scale has no other."""
    if scale == "share":
        of = make_pseudo_values(value, replicates)
        return share_interval(value, of.error, of.freedom, records) if records > 1 else (0.0, 1.0)
    if scale == "correlation":
        limit = 1 - _TOLERANCE
        if abs(value) > limit:
            return math.nan, math.nan
        of = make_pseudo_values(math.atanh(value), np.arctanh(np.clip(replicates, -limit, limit)))
        half = half_width(of.error or 0.0, of.freedom)
        ends = math.tanh(math.atanh(value) - half), math.tanh(math.atanh(value) + half)
    else:
        of = make_pseudo_values(value, replicates)
        half = half_width(of.error or 0.0, of.freedom)
        ends = value - half, value + half
    return ends if half > 0 else (math.nan, math.nan)


def pearson(first: Floats, second: Floats) -> float:
    """Pearson's correlation, -1..1."""
    if len(first) < 2:
        raise NotDefined("fewer than two values")
    a, b = first - first.mean(), second - second.mean()
    scale = math.sqrt(float(a @ a)) * math.sqrt(float(b @ b))
    for side, rest in ((first, a), (second, b)):
        if np.abs(rest).max() <= _TOLERANCE * max(1.0, float(np.abs(side).max())):
            raise NotDefined("one side gives every edit the same value")
    return max(-1.0, min(1.0, float(a @ b) / scale))


def spearman(first: Floats, second: Floats) -> float:
    """Spearman's rank correlation, -1..1; tied values share the mean of their ranks."""
    from scipy.stats import rankdata

    return pearson(rankdata(first.round(_DIGITS)), rankdata(second.round(_DIGITS)))


def kendall(first: Floats, second: Floats) -> float:
    """Kendall's tau-b, -1..1, which is corrected for ties on both sides."""
    from scipy.stats import kendalltau

    pearson(first, second)  # it says why there is none
    return float(kendalltau(first.round(_DIGITS), second.round(_DIGITS), variant="b").statistic)


def mean_absolute_error(first: Floats, second: Floats) -> float:
    """Mean absolute difference, on the scale of the values; lower is better."""
    return float(np.abs(first - second).mean())


def equal_share(first: Array, second: Array) -> float:
    """The share of records with equal values, 0..1."""
    return float((np.abs(first - second) < _TOLERANCE).mean())


def cohen_kappa(first: Array, second: Array) -> float:
    """Cohen's kappa: agreement corrected for agreement by chance, at most 1; 0 is chance.

    It is (p_o - p_e) / (1 - p_e), where p_e is the sum over values of the product of both sides'
    shares of that value (Cohen, 1960).
    """
    values, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    table = np.zeros((len(values), len(values)), dtype=np.int64)
    np.add.at(table, (places[: len(first)], places[len(first) :]), 1)
    # Integers make the test for agreement by chance alone exact.
    count, chance = len(first), int(table.sum(axis=0) @ table.sum(axis=1))
    if chance == count * count:
        raise NotDefined("both sides give every edit the same value")
    return float((count * np.trace(table) - chance) / (count * count - chance))


VALUES = {
    "pearson": Statistic(pearson, "correlation"),
    "spearman": Statistic(spearman, "correlation"),
    "kendall": Statistic(kendall, "correlation"),
    "mae": Statistic(mean_absolute_error),
}
"""The statistics of two sides that give values."""
