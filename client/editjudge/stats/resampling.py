"""Clusters drawn again, and clusters with signs changed: what a mean's error alone does not tell.

A bootstrap-t interval follows the skewness of values, to which Student's is blind: where an editor
gains a little on most pictures and fails badly on some, Student's interval is too short on the side
of the failures. Draws are the same every time, and shared by columns with as many clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .clusters import CONFIDENCE, Floats, jackknife_groups

TEST_DRAWS = 19_999
"""For tests: so many that their smallest p is that of the sign flips."""
INTERVAL_DRAWS = 1_999
"""For intervals alone."""
LEAST = 8
"""The smallest number of clusters that are drawn from."""
_PARTS = 1_000
"""The largest number of parts that are drawn or exchanged; more clusters are put together."""
_EXACT = 16
"""The largest number of clusters for which every combination of signs is tried."""
_FLIPS = 9_999
_AT_ONCE = 2_000_000
"""The largest number of draws in memory as floating-point numbers."""
_ROUNDING = 1e-9
_SAME = 1e-12


def bootstrap_ends(sums: Floats, counts: Floats, draws: int) -> Floats:
    """The ends that a confidence interval of a mean may have, one for each draw of clusters.

    G clusters are drawn with replacement; more than 1,000 are put together at random first. Each
    draw gives t* = (mean* - mean) / error*, and the possible end mean - t* error (Efron and
    Tibshirani, 1993, section 12.5). Errors are those of a ratio of sums over clusters (Liang and
    Zeger, 1986).

    Args:
        sums: Sums of M columns by cluster (float64, M x G).
        counts: The number of items in each cluster, all above 0 (float64, G).
        draws: How many.

    Returns:
        The possible ends (float64, M x draws). One is infinite where all drawn clusters are alike,
        and NaN where they have the column's mean besides, or where there are fewer than eight.
    """
    ends = np.full((len(sums), draws), np.nan)
    if len(counts) < LEAST:
        return ends
    sums, counts = _merge(sums), _merge(counts[None])[0]
    count = len(counts)
    total = counts.sum()
    means = sums.sum(axis=1) / total
    shifted = sums - means[:, None] * counts
    scales = np.sqrt((shifted**2).sum(axis=1))
    unit = shifted / np.where(scales > 0, scales, 1)[:, None]
    columns = np.concatenate([unit, unit * counts, unit**2]).T
    weights = np.stack([counts, counts**2], axis=1)
    for rows in _slice_rows(draws, count):
        drawn = _draw(count, draws)[rows].astype(np.float64)
        item_counts, squared_counts = (drawn @ weights).T[..., None]
        moved, crossed, squared = np.split(drawn @ columns, 3, axis=1)
        shifts = moved / item_counts
        variances = squared + shifts * (shifts * squared_counts - 2 * crossed)
        moved[np.abs(moved) < _ROUNDING] = 0
        variances[variances <= _SAME * squared] = 0
        with np.errstate(divide="ignore", invalid="ignore"):
            ends[:, rows] = (moved / np.sqrt(variances)).T
    ends = np.asarray(means[:, None] - ends * (scales / total)[:, None])
    ends[np.abs(ends) <= _ROUNDING * (scales / total)[:, None]] = 0
    return ends


def choose_ends(ends: Floats) -> tuple[float, float]:
    """The 95 % interval of possible ends; infinite where too few clusters differ."""
    cut = round((1 - CONFIDENCE) / 2 * (len(ends) + 1)) - 2
    low = np.partition(np.nan_to_num(ends, nan=-np.inf, posinf=np.inf, neginf=-np.inf), cut)[cut]
    high = -np.partition(-np.nan_to_num(ends, nan=np.inf, posinf=np.inf, neginf=-np.inf), cut)[cut]
    return float(low), float(high)


def bootstrap_ps(ends: Floats) -> Floats:
    """Two-sided p values of means of 0 from their possible ends (M x draws).

    It is below 0.05 just where `choose_ends` gives an interval without 0.
    """
    draws = ends.shape[1]
    beyond = np.minimum((~(ends > 0)).sum(axis=1), (~(ends < 0)).sum(axis=1))
    return np.asarray(np.minimum(1.0, 2 * (1 + beyond) / (1 + draws)))


def sign_flip_ps(sums: Floats) -> Floats:
    """Test whether sums of differences are 0, by flipping the signs of whole clusters.

    Up to 16 clusters whose sum is not 0, all combinations of signs are tried; beyond, 9,999 random
    ones, which are the same every time. The observed combination counts among them, so p is never
    0 (Phipson and Smyth, 2010).

    Args:
        sums: Sums of M columns of differences by cluster (float64, M x G).

    Returns:
        The two-sided p values (float64, M), in (0, 1].
    """
    sums = _merge(sums)
    thresholds = np.abs(sums.sum(axis=1)) * (1 - _ROUNDING)
    counts = np.count_nonzero(sums, axis=1)
    extreme = np.zeros(len(sums))
    if (counts > _EXACT).any():
        for rows in _slice_rows(_FLIPS, sums.shape[1]):
            signs = _draw_signs(sums.shape[1])[rows].astype(np.float64)
            extreme += (np.abs(signs @ sums.T) >= thresholds).sum(axis=0)
    ps = (1 + extreme) / (1 + _FLIPS)
    for column in np.flatnonzero(counts <= _EXACT):
        of = sums[column, sums[column] != 0]
        numbers = np.arange(2 ** len(of), dtype=np.int64)[:, None]
        signs = 1.0 - 2.0 * ((numbers >> np.arange(len(of))) & 1)
        ps[column] = (np.abs(signs @ of) >= thresholds[column]).mean()
    return ps


def _merge(rows: Floats) -> Floats:
    """Add up clusters at random where they are more than 1,000; M rows of them (M x G)."""
    if rows.shape[1] <= _PARTS:
        return rows
    parts = jackknife_groups(rows.shape[1], _PARTS)
    return np.array([np.bincount(parts, weights=row) for row in rows])


def smallest_p(clusters: int) -> float:
    """The smallest p that this number of clusters can give; 1 where none is drawn from them."""
    return 1.0 if clusters < LEAST else max(2.0 ** (1 - clusters), 1 / (1 + _FLIPS))


def _slice_rows(rows: int, width: int) -> Iterator[slice]:
    """Cut the rows of a matrix into parts that fit into memory."""
    step = max(1, _AT_ONCE // max(1, width))
    return (slice(begin, min(rows, begin + step)) for begin in range(0, rows, step))


@lru_cache(maxsize=4)
def _draw(clusters: int, draws: int) -> NDArray[np.uint8]:
    """How often each cluster is in each draw (draws x clusters)."""
    rng = np.random.default_rng(0)
    counts = np.empty((draws, clusters), dtype=np.uint8)
    for rows in _slice_rows(draws, clusters):
        of = rng.integers(0, clusters, size=(rows.stop - rows.start, clusters))
        places = of + clusters * np.arange(len(of))[:, None]
        drawn = np.bincount(places.ravel(), minlength=of.size).reshape(of.shape)
        counts[rows] = np.minimum(drawn, np.iinfo(np.uint8).max)
    return counts


@lru_cache(maxsize=2)
def _draw_signs(clusters: int) -> NDArray[np.int8]:
    """Random signs, 1 or -1 (flips x clusters)."""
    rng = np.random.default_rng(0)
    return 1 - 2 * rng.integers(0, 2, size=(_FLIPS, clusters), dtype=np.int8)
