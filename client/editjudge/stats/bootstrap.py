"""The bootstrap-t over clusters: intervals and p values that do not assume symmetry.

Whole clusters are drawn with replacement. The mean of each resample is divided by its own standard
error, so the distribution of the result shows the skewness of the data (Hall, 1988, and for
clusters Cameron, Gelbach and Miller, 2008). An interval is longer on the side where rare values
may be missing from the sample.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .clusters import CONFIDENCE, Floats, merge_clusters

TEST_RESAMPLES = 19_999
"""For a p value, whose least is then that of the sign flips (`smallest_p`)."""
INTERVAL_RESAMPLES = 1_999
"""For an interval alone."""
_ROUNDING = 1e-7
"""Share of the largest distance from the mean below which a resample counts as constant."""
_NOISE = 1e-13
"""Share of the mean below which the distance of a cluster from it is rounding."""
_LEAST_ERROR = 0.2
_CHUNK_SIZE = 4_000_000
"""The largest number of draws in memory at once."""


class BootstrapResult(NamedTuple):
    """Result of the bootstrap-t for K means.

    Attributes:
        low: Lower ends of the 95 % intervals (float64, K); minus infinity where resamples of equal
            values are so frequent that there is no end.
        high: Upper ends (float64, K); infinity likewise.
        p: Two-sided p values against a mean of 0 (float64, K), in (0, 1]. A p is below 0.05 exactly
            where the interval excludes 0.
    """

    low: Floats
    high: Floats
    p: Floats


def bootstrap_t(
    sums: Floats, counts: Floats, resamples: int = TEST_RESAMPLES, *, tests_zero: bool = True
) -> BootstrapResult:
    """Compute the intervals and p values of K means over the same G clusters.

    More than 1,000 clusters are drawn in 1,000 parts of several, which shows the same skewness.
    The standard error of a mean m is sqrt(G / (G - 1) * sum((s - m c)^2)) / sum(c), over the sums s
    and the counts c of the clusters. Each resample gives an end that the interval might have: the
    mean less the resample's t times this error. The resamples are the same every time.

    Args:
        sums: Sum of the values in each cluster (float64, K x G).
        counts: Number of values in each cluster, or their weight (float64, G), above 0.
        resamples: Number of resamples; with 1, a multiple of 40.
        tests_zero: Whether the values are differences. The standard error of a resample is then at
            least a fifth of what one cluster without a difference would make of it: of its mean
            over G. So a gain by all clusters but one is as sure as one by all, unless the odd one
            loses far more than the others gain.
    """
    rows = merge_clusters(np.vstack([sums, counts]))
    sums, counts = rows[:-1], rows[-1]
    values = sums.sum(axis=1) / counts.sum()
    # Sums of squares around the mean lose fewer digits.
    rests = sums - values[:, None] * counts
    rests[np.abs(rests) <= _NOISE * np.abs(values)[:, None] * counts] = 0.0
    _, error = _measure(np.ones((1, len(counts))), rests, counts)
    tolerance = _ROUNDING * np.abs(rests / counts).max(axis=1)
    ends = np.empty((resamples, len(sums)))
    for begin, draws in draw_clusters(len(counts), resamples):
        shifts, errors = _measure(draws.astype(np.float64), rests, counts)
        if tests_zero:
            errors = np.maximum(errors, _LEAST_ERROR * np.abs(values + shifts) / len(counts))
        shifts[np.abs(shifts) <= tolerance] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(errors > tolerance, shifts / errors, np.copysign(np.inf, shifts))
            possible = values - np.where(shifts == 0, 0.0, t) * error[0]
        # A tie with 0 is a tie on every machine.
        possible[np.abs(possible) <= tolerance] = 0.0
        ends[begin : begin + len(draws)] = possible
    beyond = np.minimum((ends >= 0).sum(axis=0), (ends <= 0).sum(axis=0))
    p = np.minimum(1.0, 2 * (1 + beyond) / (resamples + 1))
    # The order statistic at which p reaches its level, so that p and interval agree.
    place = round((1 - CONFIDENCE) / 2 * (resamples + 1)) - 2
    ends.partition((place, resamples - 1 - place), axis=0)
    return BootstrapResult(ends[place], ends[-1 - place], p)


def _measure(draws: Floats, rests: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard error (both R x K) of R resamples; `draws` counts their clusters."""
    clusters = len(counts)
    size = (draws @ counts)[:, None]
    mean = draws @ rests.T / size
    squares = draws @ (rests * rests).T - 2 * mean * (draws @ (rests * counts).T)
    squares += mean * mean * (draws @ (counts * counts))[:, None]
    return mean, np.sqrt(clusters / (clusters - 1) * np.maximum(squares, 0.0)) / size


def draw_clusters(clusters: int, resamples: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Draw G clusters with replacement, R times, and yield how often each was drawn.

    Yields:
        The number of the first resample of a chunk, and the chunk (uint8, its rows x G).
    """
    rows = max(1, _CHUNK_SIZE // clusters)
    for begin in range(0, resamples, rows):
        yield begin, _draw_chunk(clusters, begin, min(rows, resamples - begin))


@lru_cache(maxsize=8)
def _draw_chunk(clusters: int, begin: int, rows: int) -> NDArray[np.uint8]:
    # Columns and pairs of models that rest on as many clusters share their resamples.
    rng = np.random.default_rng((clusters, begin))
    places = rng.integers(0, clusters, size=(rows, clusters)) + clusters * np.arange(rows)[:, None]
    counts = np.bincount(places.ravel(), minlength=rows * clusters)
    # A count above 255 has no chance: it would need a cluster in 256 of its draws.
    return counts.astype(np.uint8).reshape(rows, clusters)
