"""A mean over items of which some share a source, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .distributions import t_quantile

Floats: TypeAlias = NDArray[np.float64]
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its interval.

    Attributes:
        value: The mean over items.
        error: Its standard error; None of fewer than two clusters.
        low: Where its 95 % interval begins; None likewise.
        high: Where it ends.
        items: How many.
        clusters: Of items that share a source.
    """

    value: float
    error: float | None
    low: float | None
    high: float | None
    items: int
    clusters: int


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
        """Of the mean: see `mean`; None of fewer than two clusters."""
        count = self.count
        if count < 2:
            return None
        residuals = self.sums - self.value * self.counts
        squares = math.fsum(residuals * residuals)
        return math.sqrt(count / (count - 1) * squares) / math.fsum(self.counts)


def half_width(error: float, clusters: int) -> float:
    """Half of the 95 % interval: Student's, with a degree of freedom less than there are clusters.

    Args:
        error: The standard error.
        clusters: At least two.
    """
    return t_quantile((1 + CONFIDENCE) / 2, clusters - 1) * error


def mean(values: Sequence[float], clusters: Sequence[Hashable]) -> Estimate:
    """The mean over items with a 95 % interval that counts clusters.

    The variance is G / (G - 1) times the sum over the G clusters of (sum of its items' deviations
    from the mean) squared, by the square of the number of items (the sandwich of Liang and Zeger,
    1986, with the correction for few clusters); the interval is that of Student's distribution with
    G - 1 degrees of freedom. Where each cluster is one item, this is the usual interval of a mean.

    Args:
        values: At least one; finite.
        clusters: What items share, one for each value.

    Raises:
        ValueError: there are not as many of both, or none.
    """
    by_cluster = Clusters.of(values, clusters)
    value, error = by_cluster.value, by_cluster.error
    count = len(by_cluster.sums)
    if error is None:
        return Estimate(value, None, None, None, len(values), count)
    half = half_width(error, count)
    return Estimate(value, error, value - half, value + half, len(values), count)
