"""Mean, standard error and interval of values that are clustered, for example edits of one source.

The error of a number that is computed from several means comes from a jackknife: the number is
computed again without each part of the clusters in turn.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
ClusterNames: TypeAlias = Sequence[Hashable] | NDArray[np.int64]
"""The cluster of each item: any names, or an array of numbers, which takes less memory."""
CONFIDENCE = 0.95
LEVEL = 0.05
"""A difference is significant if its p, adjusted by Holm's method, is below this level."""
POWER = 0.8
"""The chance to find a difference, by which detectable differences and numbers of sources are planned."""
_MOST = 0.5 + 1e-9
"""The largest share of all weight of one cluster; with more, it decides the mean alone."""
_MAX_SKEWNESS = 0.5
"""The largest skewness of clusters for which Student's interval covers about what it claims."""
_MIN_CLUSTERS = 8
ROUNDING = 1e-12
"""A standard error below this share of the largest value counts as rounding."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Sums of values and of weights by cluster.

    Attributes:
        sums: Sum of value times weight in each of G clusters (float64, G). The weight of an item is
            1 where items have none.
        counts: Number of items, or sum of their weights, in each cluster (float64, G). A cluster
            whose count is 0 does not take part.
    """

    sums: Floats
    counts: Floats

    @classmethod
    def of(cls, values: Sequence[float] | Floats, clusters: ClusterNames) -> Clusters:
        """Build the sums from each item's value and cluster.

        Raises:
            ValueError: The two differ in length, or are empty.
        """
        if len(values) != len(clusters) or not len(values):
            raise ValueError(f"{len(values)} values, {len(clusters)} clusters: give one each")
        numbers = number_clusters(clusters)
        weights = np.asarray(values, dtype=np.float64)
        sums, counts = np.bincount(numbers, weights=weights), np.bincount(numbers)
        return cls(np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64))

    @property
    def value(self) -> float:
        """The weighted mean over all items."""
        return math.fsum(self.sums) / math.fsum(self.counts)

    @property
    def count(self) -> int:
        """The number of clusters whose count is not 0."""
        return int(np.count_nonzero(self.counts))

    @property
    def error(self) -> float | None:
        """Standard error of the mean.

        It is None with fewer than two clusters, or where one cluster has all the weight. The
        variance is (G - 1) / G times the sum over the G clusters of the squared shift of the mean
        when that cluster is left out. This is the jackknife form of the cluster-robust variance
        (CV3 of MacKinnon, Nielsen and Webb, 2023). The form of Liang and Zeger (1986) is too small
        where one cluster pulls the mean towards itself. Where each cluster is one item, the result
        is the usual standard error of a mean.
        """
        if self.count < 2 or self.heaviest >= 1 - ROUNDING:
            return None
        own = self.counts > 0
        sums, counts = self.sums[own], self.counts[own]
        items = counts.sum()
        shifts = (sums - sums.sum() / items * counts) / (items - counts)
        return float(np.sqrt((self.count - 1) / self.count * (shifts * shifts).sum()))

    @property
    def is_skewed(self) -> bool:
        """Whether what the clusters add to the mean is too skewed for Student's distribution.

        Fewer than eight clusters do not show it.
        """
        rests = self.sums - self.value * self.counts
        # Of values near 0 this rounds to 0 though the variance does not.
        scale = float((rests**2).mean()) ** 1.5
        skewness = float((rests**3).mean()) / scale if scale else 0.0
        return self.count >= _MIN_CLUSTERS and abs(skewness) > _MAX_SKEWNESS

    @property
    def heaviest(self) -> float:
        """The heaviest cluster's share of all weight, 0..1."""
        return float(self.counts.max() / self.counts.sum())

    @property
    def freedom(self) -> float:
        """Degrees of freedom: the effective number of clusters less 1, at least 1.

        The effective number is the squared sum of the clusters' weights over the sum of their
        squares (Kish, 1965). Where all clusters weigh the same, it is the number of clusters.
        """
        squares = float((self.counts**2).sum())
        effective = float(self.counts.sum()) ** 2 / squares if squares else 0.0
        return max(1.0, min(effective, self.count) - 1)


def number_clusters(clusters: ClusterNames) -> NDArray[np.int64]:
    """Number clusters from 0 in order of first appearance (int64, one for each item)."""
    if isinstance(clusters, np.ndarray):
        _, first, places = np.unique(clusters, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[places]
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(each, len(numbers)) for each in clusters], dtype=np.int64)


def explain_no_interval(by_cluster: Clusters, largest: float) -> str:
    """State why a mean has no interval; return "" if it has one.

    Args:
        by_cluster: The clusters of the mean.
        largest: The largest absolute value among the items.
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
SAME = "every source picture gives the same value"
FEW_DIFFER = "too few source pictures differ from the others"


def is_rounding(error: float, largest: float) -> bool:
    """Whether a standard error is so small that it is only rounding.

    An interval of width 0 would claim a certainty that the data do not give.
    """
    return error <= ROUNDING * largest


def half_width(error: float, freedom: float) -> float:
    """Half the width of the 95 % interval by Student's t distribution.

    Args:
        error: The standard error.
        freedom: Its degrees of freedom, at least 1.
    """
    return t_quantile((1 + CONFIDENCE) / 2, freedom) * error


def t_quantile(share: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution.

    Args:
        share: Share of the distribution below the quantile, inside 0..1.
        freedom: Degrees of freedom, above 0; any number.
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


_MAX_PARTS = 1_000
GROUPS = 100
"""The largest number of parts that the jackknife leaves out, one after the other."""


def jackknife_groups(clusters: int, most: int = GROUPS) -> NDArray[np.int64]:
    """Assign each cluster to the part that the jackknife leaves it out with.

    Up to `most` clusters are each a part of their own. More are spread over so many parts at
    random, in the same way every time.

    Returns:
        The index of each cluster's part (int64).
    """
    if clusters <= most:
        return np.arange(clusters)
    return np.random.default_rng(0).permutation(clusters) % most


def merge_clusters(rows: Floats) -> Floats:
    """Add up clusters where they are too many to resample.

    Args:
        rows: A sum of each of G clusters in each row (float64, K x G).

    Returns:
        The same of at most 1,000 parts, as `jackknife_groups` makes them.
    """
    if rows.shape[1] <= _MAX_PARTS:
        return rows
    parts = jackknife_groups(rows.shape[1], _MAX_PARTS)
    return np.array([np.bincount(parts, weights=row) for row in rows])


def make_pseudo_values(value: float, replicates: Floats) -> Clusters:
    """Make what each of K parts adds to a number that is made of means (Tukey, 1958).

    A part's pseudo-value is K times the number less K - 1 times the number without the part. The
    error of their mean is that of the jackknife: its variance is (K - 1) / K times the sum of the
    squared deviations of the replicates from their mean (for parts of several clusters, Kott,
    2001). For a mean over clusters of one size, each a part of its own, it is that of the mean.

    Args:
        value: The number.
        replicates: The number without each of the K parts of the clusters (float64, K).
    """
    count = len(replicates)
    return Clusters(count * value - (count - 1) * replicates, np.ones(count))


def pooled_freedom(variances: Floats, freedoms: Floats, parts: NDArray[np.bool_]) -> float:
    """Degrees of freedom of the error of a number made of M columns (Welch and Satterthwaite).

    Error estimates of two columns are correlated if the columns rest on the same parts of the
    clusters, and independent if they share no part.

    Args:
        variances: Each column's contribution to the variance (M); at least one is above 0.
        freedoms: Degrees of freedom of each column's own error (M), at least 1.
        parts: Which of the K parts each column rests on (M x K).

    Returns:
        A number from 1 to K - 1, where K counts only the parts that some column rests on.
    """
    counts = np.maximum(1, parts.sum(axis=1, keepdims=True))
    wrong = (variances / np.sqrt(freedoms)) @ (parts / np.sqrt(counts))
    freedom = float(variances.sum() ** 2 / (wrong @ wrong))
    return max(1.0, min(freedom, float(parts.any(axis=0).sum() - 1)))


def link_clusters(items: Iterable[Iterable[Hashable]]) -> array[int]:
    """Group items into clusters: items that share a part, directly or through others, are together.

    Each item takes four bytes of memory.

    Args:
        items: The parts of each item. An item without any part is a cluster of its own.

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


def share_interval(share: float, error: float | None, freedom: float, items: int) -> tuple[float, float]:
    """Compute the 95 % interval of a share of clustered items (Korn and Graubard, 1998).

    It is the interval of Clopper and Pearson (1934) with an effective number of items: the number
    of independent items that would give the same standard error, reduced for the few degrees of
    freedom of that error, and never more than there are. Where each cluster is one item, the result
    is the interval of Clopper and Pearson itself. At 0 and 1 there is no standard error. The
    effective number of clusters then counts, as if all items of a cluster were alike.

    Values between 0 and 1 vary less than those at the ends with the same mean, so that the interval
    is never too short for them.

    Args:
        share: The observed share, or the mean of values from 0 to 1.
        error: Its standard error, by at least two clusters; None or 0 where they are all alike.
        freedom: Degrees of freedom of that error: the effective number of clusters less 1.
        items: Number of items, at least 2.

    Returns:
        The lower and the upper end, within 0..1.
    """
    from scipy.special import betaincinv

    effective = freedom + 1
    if 0 < share < 1 and error:
        quantiles = [t_quantile((1 + CONFIDENCE) / 2, n) for n in (items - 1, freedom)]
        effective = items / (items - 1) * share * (1 - share) / error**2
        effective *= (quantiles[0] / quantiles[1]) ** 2
    effective = min(float(items), effective)
    tail, hits = (1 - CONFIDENCE) / 2, effective * share
    low = betaincinv(hits, effective - hits + 1, tail) if share > 0 else 0.0
    high = betaincinv(hits + 1, effective - hits, 1 - tail) if share < 1 else 1.0
    return float(low), float(high)
