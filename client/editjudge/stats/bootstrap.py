"""The bootstrap-t over clusters: intervals and p values that do not assume symmetry.

Whole clusters are drawn with replacement. The mean of each resample is divided by its own standard
error, so the distribution of the result shows the skewness of the data (Hall, 1988, and for
clusters Cameron, Gelbach and Miller, 2008). An interval is longer on the side where rare values
may be missing from the sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .clusters import CONFIDENCE, Floats

RESAMPLES = 9_999
_ROUNDING = 1e-7
"""Share of the largest distance from the mean below which a resample counts as constant."""
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


def bootstrap_t(sums: Floats, counts: Floats) -> BootstrapResult:
    """Compute the intervals and p values of K means over the same G clusters.

    The standard error of a mean m is sqrt(G / (G - 1) * sum((s - m c)^2)) / sum(c), over the sums s
    and the counts c of the clusters. The resamples are the same every time.

    Args:
        sums: Sum of the values in each cluster (float64, K x G).
        counts: Number of values in each cluster, or their weight (float64, G), above 0.
    """
    mean = sums.sum(axis=1, keepdims=True) / counts.sum()
    # Sums of squares around the mean lose fewer digits.
    rests = sums - mean * counts
    _, error = _measure(np.ones((1, len(counts))), rests, counts)
    tolerance = _ROUNDING * np.abs(rests / counts).max(axis=1)
    samples = []
    for draws in draw_clusters(len(counts)):
        shifts, errors = _measure(draws.astype(np.float64), rests, counts)
        shifts[np.abs(shifts) <= tolerance] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(errors > tolerance, shifts / errors, np.copysign(np.inf, shifts))
        samples.append(np.where(shifts == 0, 0.0, t))
    t_values = np.sort(np.concatenate(samples), axis=0)
    value = mean[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(value == 0, 0.0, value / error[0])
        beyond = np.minimum((t_values >= own).sum(axis=0), (t_values <= own).sum(axis=0))
        # The order statistic at which p reaches its level, so that p and interval agree.
        rank = round((1 - CONFIDENCE) / 2 * (RESAMPLES + 1)) - 1
        low, high = (value - t_values[place] * error[0] for place in (-rank, rank - 1))
    return BootstrapResult(low, high, np.minimum(1.0, 2 * (1 + beyond) / (RESAMPLES + 1)))


def _measure(draws: Floats, rests: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard error (both R x K) of R resamples; `draws` counts their clusters."""
    clusters = len(counts)
    size = (draws @ counts)[:, None]
    mean = draws @ rests.T / size
    squares = draws @ (rests * rests).T - 2 * mean * (draws @ (rests * counts).T)
    squares += mean * mean * (draws @ (counts * counts))[:, None]
    return mean, np.sqrt(clusters / (clusters - 1) * np.maximum(squares, 0.0)) / size


def draw_clusters(clusters: int) -> Iterator[NDArray[np.uint8]]:
    """Draw G clusters with replacement, 9,999 times, and yield how often each was drawn.

    Yields:
        Resamples in chunks (uint8, R x G).
    """
    rows = max(1, _CHUNK_SIZE // clusters)
    for begin in range(0, RESAMPLES, rows):
        yield _draw_chunk(clusters, begin, min(rows, RESAMPLES - begin))


@lru_cache(maxsize=8)
def _draw_chunk(clusters: int, begin: int, rows: int) -> NDArray[np.uint8]:
    # Columns and pairs of models that rest on as many clusters share their resamples.
    rng = np.random.default_rng((clusters, begin))
    places = rng.integers(0, clusters, size=(rows, clusters)) + clusters * np.arange(rows)[:, None]
    counts = np.bincount(places.ravel(), minlength=rows * clusters)
    # A count above 255 has no chance: it would need a cluster in 256 of its draws.
    return counts.astype(np.uint8).reshape(rows, clusters)
