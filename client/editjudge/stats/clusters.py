"""Items of which some share a source: their clusters, a mean over them, and how sure it is.

What is made of means has its error by the jackknife: everything anew without a part of the
clusters.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .distributions import interpolate_t

Floats: TypeAlias = NDArray[np.float64]
CONFIDENCE = 0.95
_MOST = 0.5 + 1e-9
"""Of all weight: a cluster that has more decides the mean alone."""
_SAME = 1e-12
"""Of the largest value: a smaller error is rounding."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Sums of values by cluster.

    Attributes:
        sums: Of the values, each times its weight where it has any (float64, one for each cluster).
        counts: Of the items, or of their weights (likewise); a cluster of 0 is none.
    """

    sums: Floats
    counts: Floats

    @classmethod
    def of(cls, values: Sequence[float], clusters: Sequence[Hashable]) -> Clusters:
        """Of values and the cluster of each.

        Raises:
            ValueError: there are not as many of both, or none.
        """
        if len(values) != len(clusters) or not len(values):
            raise ValueError("as many clusters as values, and at least one")
        numbers: dict[Hashable, int] = {}
        of = np.array([numbers.setdefault(each, len(numbers)) for each in clusters])
        weights = np.asarray(values, dtype=np.float64)
        sums, counts = np.bincount(of, weights=weights), np.bincount(of)
        return cls(np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64))

    @property
    def value(self) -> float:
        """The mean over items, by their weights."""
        return math.fsum(self.sums) / math.fsum(self.counts)

    @property
    def count(self) -> int:
        """How many clusters."""
        return int(np.count_nonzero(self.counts))

    @property
    def error(self) -> float | None:
        """Of the mean; None of fewer than two clusters, or where one has all weight.

        The variance is (G - 1) / G times the sum over the G clusters of the square of how far the
        mean moves without it (the sandwich by the jackknife, CV3 of MacKinnon, Nielsen and Webb,
        2023: that of Liang and Zeger, 1986, takes the residual of a cluster that draws the mean to
        itself for small). Where each cluster is one item, this is the usual error of a mean.
        """
        if self.count < 2 or self.heaviest >= 1 - _SAME:
            return None
        own = self.counts > 0
        sums, counts = self.sums[own], self.counts[own]
        items = counts.sum()
        shifts = (sums - sums.sum() / items * counts) / (items - counts)
        return float(np.sqrt((self.count - 1) / self.count * (shifts * shifts).sum()))

    @property
    def heaviest(self) -> float:
        """The share of all weight that the cluster with the most has, 0..1."""
        return float(self.counts.max() / self.counts.sum())

    @property
    def freedom(self) -> float:
        """Degrees of freedom: one less than the effective number of clusters, at least 1.

        That is the square of all weights' sum by the sum of their squares (Kish, 1965), which is
        the number of clusters where all weigh the same.
        """
        effective = float(self.counts.sum() ** 2 / (self.counts**2).sum())
        return max(1.0, min(effective, self.count) - 1)


def explain_no_interval(by_cluster: Clusters, largest: float) -> str:
    """Why a mean has no interval; empty where it has one.

    Args:
        largest: Of the values, without their signs.
    """
    if by_cluster.count < 2:
        return "all edits share a source picture"
    if by_cluster.heaviest > _MOST:
        return HEAVY
    error = by_cluster.error
    if error is None or is_rounding(error, largest):
        return SAME
    return ""


HEAVY = "one source picture has more than half of the weight"
SAME = "it is the same by every source picture"


def is_rounding(error: float, largest: float) -> bool:
    """Whether an error is nothing but rounding: a width of 0 would be a promise."""
    return error <= _SAME * largest


def half_width(error: float, freedom: float) -> float:
    """Half of the 95 % interval, which is Student's.

    Args:
        error: The standard error.
        freedom: Its degrees of freedom, at least 1.
    """
    return interpolate_t((1 + CONFIDENCE) / 2, freedom) * error


GROUPS = 100
"""Most parts that are left out, one after the other."""


def jackknife_groups(clusters: int) -> NDArray[np.int64]:
    """The part that each cluster is left out with: each its own, or one of 100 drawn ones.

    The draw is the same every time.
    """
    if clusters <= GROUPS:
        return np.arange(clusters)
    return np.random.default_rng(0).permutation(clusters) % GROUPS


def jackknife_error(replicates: Floats) -> float | None:
    """The standard error of a number from what it is without each of K parts of the clusters.

    The variance is (K - 1) / K times the sum of squared deviations of these (Tukey; with parts of
    several clusters, Kott, 2001). Of a mean over clusters of one size, each a part, it is that of
    `clustered.mean`.

    Returns:
        None of fewer than two parts, or where the number is not defined without one (NaN).
    """
    count = len(replicates)
    if count < 2 or not np.isfinite(replicates).all():
        return None
    deviations = replicates - replicates.mean()
    return math.sqrt((count - 1) / count * math.fsum(deviations * deviations))


def pooled_freedom(variances: Floats, freedoms: Floats, parts: NDArray[np.bool_]) -> float:
    """Degrees of freedom of the error of what is made of M columns (Welch and Satterthwaite).

    Errors of columns that rest on the same parts of the clusters are wrong together, those of
    columns without a common one are not.

    Args:
        variances: What each column has of the variance (M); one at least is more than 0.
        freedoms: Of its own error (M), at least 1.
        parts: On which of the K parts it rests (M x K).

    Returns:
        1 to K - 1, of the K parts that any rests on.
    """
    counts = np.maximum(1, parts.sum(axis=1, keepdims=True))
    wrong = (variances / np.sqrt(freedoms)) @ (parts / np.sqrt(counts))
    freedom = float(variances.sum() ** 2 / (wrong @ wrong))
    return max(1.0, min(freedom, float(parts.any(axis=0).sum() - 1)))


def link_clusters(items: Iterable[Iterable[Hashable]]) -> array[int]:
    """Number items so that those which share any part, directly or through others, are alike.

    An item takes four bytes, and so does each part that came before.

    Args:
        items: The parts of each item; one without any part is alike to none.

    Returns:
        The number of each item's cluster, from 0 in order of first appearance.
    """
    above = array("I")
    first: dict[Hashable, int] = {}

    def top(number: int) -> int:
        while (upper := above[number]) != number:
            above[number] = above[upper]
            number = upper
        return number

    for number, parts in enumerate(items):
        above.append(number)
        for part in parts:
            other, own = top(first.setdefault(part, number)), top(number)
            above[max(own, other)] = min(own, other)
    numbers: dict[int, int] = {}
    return array("I", (numbers.setdefault(top(item), len(numbers)) for item in range(len(above))))
