"""How far two sides agree on the same edits: a judge and people, two judges, several raters.

A statistic is a function of arrays of equal length, an entry for each record. One that is not
defined raises `NotDefined` with the reason: a judge that gives every edit the same value has no
rank correlation. Intervals come from the jackknife over clusters (`stats.clusters`).
"""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.strict import Strict
from .clusters import Floats, half_width, jackknife_groups, make_pseudo_values, number_clusters, share_interval

Array: TypeAlias = NDArray[Any]
Function: TypeAlias = Callable[..., float]
Scale: TypeAlias = Literal["plain", "correlation", "share"]
"""How an interval is made: symmetric, by Fisher's transformation, or as of a share."""
Level: TypeAlias = Literal["nominal", "ordinal", "interval"]

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
        by_chance: What answers reach that are drawn evenly from those that it tells apart; None
            where that depends on the records.
        counts_sources: Whether the function takes the number of each record's source too (int64, N).
        ends: The lowest and the highest value that it can have; no interval goes beyond.
    """

    function: Function
    scale: Scale = "plain"
    by_chance: float | None = 0.0
    counts_sources: bool = False
    ends: tuple[float, float] = (-math.inf, math.inf)


def estimate(statistic: Statistic, columns: Sequence[Array], clusters: Sequence[Hashable]) -> Figure:
    """Compute a statistic and its interval by the jackknife over clusters.

    Args:
        columns: Arrays of N entries each, the arguments of the statistic.
        clusters: The cluster of each record, for example its source picture.
    """
    if not len(clusters):
        return Figure(value=None, reason="there are no records with both sides")
    numbers = number_clusters(clusters)
    columns = [*columns, numbers] if statistic.counts_sources else columns
    try:
        value = statistic.function(*columns)
    except NotDefined as error:
        return Figure(value=None, reason=str(error))
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
        return Figure(value=value, reason="leaving out any one source picture changes nothing")
    return Figure(value=value, low=max(low, statistic.ends[0]), high=min(high, statistic.ends[1]))


def _interval(value: float, replicates: Floats, records: int, scale: Scale) -> tuple[float, float]:
    """Both ends of the interval; NaN where all replicates are equal and the scale has no other."""
    is_correlation, limit = scale == "correlation", 1 - _TOLERANCE
    if is_correlation and abs(value) > limit:
        return math.nan, math.nan
    if is_correlation:
        value, replicates = math.atanh(value), np.arctanh(np.clip(replicates, -limit, limit))
    pseudo_values = make_pseudo_values(value, replicates)
    if scale == "share":
        return share_interval(value, pseudo_values.error, pseudo_values.freedom, records) if records > 1 else (0.0, 1.0)
    half = half_width(pseudo_values.error or 0.0, pseudo_values.freedom)
    if not half > 0:
        return math.nan, math.nan
    low, high = value - half, value + half
    return (math.tanh(low), math.tanh(high)) if is_correlation else (low, high)


def correlation_of_few(statistic: Statistic, first: Floats, second: Floats) -> Figure:
    """Compute a correlation over models, each a sample of its own, with the interval by Fisher.

    The standard error of atanh(r) is 1 / sqrt(n - 3) for Pearson's r (Fisher, 1921) and
    sqrt((1 + r^2 / 2) / (n - 3)) for Spearman's (Bonett and Wright, 2000). With four models it is
    so long that it says little: an r of 0.95 has the interval [-0.13, 1.00].
    """
    try:
        value = statistic.function(first, second)
    except NotDefined as error:
        return Figure(value=None, reason=str(error))
    count = len(first)
    if count < 4:  # of two, all that can be said is whether both sides order them alike
        is_known = count == 3 or statistic.function is kendall
        return Figure(value=value if is_known else None, reason=f"fewer than {'four' if is_known else 'three'} models")
    if abs(value) > 1 - _TOLERANCE:
        return Figure(value=value, reason=f"complete agreement of {count} models")
    spread = 1 + value**2 / 2 if statistic.function is spearman else 1.0
    half, at = 1.959964 * math.sqrt(spread / (count - 3)), math.atanh(value)
    return Figure(value=value, low=math.tanh(at - half), high=math.tanh(at + half))


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


def root_mean_square_error(first: Floats, second: Floats) -> float:
    """Root of the mean squared difference, on the scale of the values; lower is better."""
    return math.sqrt(float(((first - second) ** 2).mean()))


def map_logistic(first: Floats, second: Floats) -> Floats:
    """Map the first side's values to the second side's scale by a rising or falling logistic.

    It is b2 + (b1 - b2) / (1 + exp(-(x - b3) / b4)), fitted by least squares, as the video quality
    experts group does before Pearson's correlation and RMSE (VQEG, 2000). The middle b3 is at most
    three standard deviations of x from its mean, the width b4 from .05 to 10 of them.

    Returns:
        The mapped values (float64, N).

    Raises:
        NotDefined: a side is constant, or there are fewer than five values.
    """
    from scipy.optimize import least_squares

    pearson(first, second)  # it says why there is no mapping
    if len(first) < 5:
        raise NotDefined("fewer than five values for the logistic mapping")
    spread = float(first.std())
    x = (first - first.mean()) / spread

    def basis(at: Floats) -> Floats:
        """The logistic of x from 0 to 1, and its ends fitted to the second side (N x 2 @ 2)."""
        share = 1 / (1 + np.exp(np.clip(-(x - at[0]) / at[1], -500, 500)))
        columns = np.stack([share, 1 - share], axis=1)
        ends, *_ = np.linalg.lstsq(columns, second, rcond=None)
        values: Floats = columns @ ends
        return values

    # The ends are linear, so that two of the four numbers are left to search for.
    fit = least_squares(lambda at: basis(at) - second, (0.0, 1.0), bounds=((-3.0, 0.05), (3.0, 10.0)), xtol=1e-6)
    return basis(fit.x)


def map_first(function: Function) -> Function:
    """Return a statistic after the first side was mapped by the logistic."""
    return lambda first, second: function(map_logistic(first, second), second)


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


def krippendorff_alpha(values: Floats, units: Array, level: Level) -> float:
    """Krippendorff's alpha of several raters: 1 is complete agreement, 0 is chance.

    It is 1 - D_o / D_e, the observed over the expected disagreement of pairs of values
    (Krippendorff, 2011, "Computing Krippendorff's alpha-reliability"). The squared distance of two
    values is 0 or 1 (nominal), that of the middles of their ranks (ordinal), or that of the values
    (interval).

    Args:
        values: The value of each rating (float64, N).
        units: The rated edit of each rating (N). An edit with a single rating does not count.
        level: What the values mean.
    """
    _, places, counts = np.unique(units, return_inverse=True, return_counts=True)
    pairable = counts[places] > 1
    if not pairable.any():
        raise NotDefined("no edit has two ratings")
    _, places, counts = np.unique(units[pairable], return_inverse=True, return_counts=True)
    points = _embed(values[pairable], level)
    total = len(points)
    # The sum of squared distances over ordered pairs is 2 n sum(x^2) - 2 sum(x)^2.
    sums = np.array([np.bincount(places, weights=axis) for axis in points.T])
    squares = np.bincount(places, weights=(points**2).sum(axis=1))
    within = ((counts * squares - (sums**2).sum(axis=0)) / (counts - 1)).sum()
    chance = (total * (points**2).sum() - (points.sum(axis=0) ** 2).sum()) / (total - 1)
    if chance <= _TOLERANCE * max(1.0, float((points**2).sum())):
        raise NotDefined("all ratings are equal")
    return float(1 - within / chance)


def _embed(values: Floats, level: Level) -> Floats:
    """Place values so that their squared distances are those of the level (float64, N x axes)."""
    kinds, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    if level == "nominal":
        return np.eye(len(kinds))[places]
    middles = np.cumsum(counts) - counts / 2
    points: Floats = middles[places] if level == "ordinal" else values - values.mean()
    return points[:, None]


CORRELATIONS = {
    "pearson": Statistic(pearson, "correlation"),
    "spearman": Statistic(spearman, "correlation"),
    "kendall": Statistic(kendall, "correlation"),
}
VALUES = CORRELATIONS | {
    "mae": Statistic(mean_absolute_error, ends=(0.0, math.inf)),
    "rmse": Statistic(root_mean_square_error, ends=(0.0, math.inf)),
    "pearson_mapped": Statistic(map_first(pearson), "correlation"),
    "rmse_mapped": Statistic(map_first(root_mean_square_error), ends=(0.0, math.inf)),
}
"""The statistics of two sides that give values."""
