"""Two models on the same items: by how much they differ, and how sure that is.

Many such comparisons are adjusted for each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .clustered import CONFIDENCE, Clusters, Estimate, Floats, errors, mean, no_interval
from .distributions import binomial_p, t_between

POWER = 0.8
_EXACT = 16
"""Clusters up to which all ways to exchange the two models are tried."""
_FLIPS = 9_999
_RESAMPLED = 1_999
_FEWEST_RESAMPLED = 5
"""Clusters below which resampling them says nothing."""
_AT_ONCE = 2_000_000
"""Numbers that are held at once."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second model against the first, on the items where both have a number.

    Attributes:
        first: Mean of the first.
        second: Mean of the second.
        difference: Second minus first, with its interval.
        bootstrap: The same interval by resampling clusters, studentised; None of fewer than five
            clusters, or where none of them differs from the mean.
        p: That a difference as large comes about where neither is better, by exchanging the two
            within whole clusters; None of fewer than two clusters.
        mcnemar: The same by McNemar's exact test, of values that are 0 or 1 and items that share
            no source.
        higher: Items on which the second is higher.
        equal: Items on which both are the same, to rounding.
        lower: Items on which the second is lower.
    """

    first: float
    second: float
    difference: Estimate
    bootstrap: tuple[float, float] | None
    p: float | None
    mcnemar: float | None
    higher: int
    equal: int
    lower: int


def compare(
    first: Sequence[float], second: Sequence[float], clusters: Sequence[Hashable]
) -> Comparison:
    """Compare two models on the same items.

    Args:
        first: Values of one model, an item each; finite.
        second: Of the other, in the same order.
        clusters: What items share.

    Raises:
        ValueError: there are not as many of each, or none.
    """
    if len(first) != len(second):
        raise ValueError("as many values of one as of the other")
    before, after = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    differences = after - before
    by_cluster = Clusters.of(differences.tolist(), clusters)
    difference = mean(differences.tolist(), clusters)
    higher, lower = int((differences > _ROUNDING).sum()), int((differences < -_ROUNDING).sum())
    count = len(by_cluster.sums)
    return Comparison(
        float(before.mean()),
        float(after.mean()),
        difference,
        bootstrap(by_cluster),
        difference_p(first, second, clusters),
        _mcnemar(before, after) if count == len(differences) else None,
        higher,
        len(differences) - higher - lower,
        lower,
    )


def difference_p(
    first: Sequence[float], second: Sequence[float], clusters: Sequence[Hashable]
) -> float | None:
    """Give the p of `compare` alone; None of fewer than two clusters."""
    differences = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    sums = Clusters.of(differences.tolist(), clusters).sums
    return exchanged(sums) if len(sums) > 1 else None


def exchanged(sums: Sequence[float] | Floats) -> float:
    """Give the p of a sum of differences of which each might as well have had the other sign.

    Of up to 16 clusters all signs are tried, beyond that 9,999 drawn ones; these and what was
    observed count together, so p is never 0 (Phipson and Smyth, 2010). The draws are the same every
    time.

    Args:
        sums: Of the differences, by cluster.
    """
    of = np.asarray(sums, dtype=np.float64)
    of = of[of != 0]
    count = len(of)
    if not count:
        return 1.0
    reached = abs(float(of.sum())) * (1 - _ROUNDING)
    if count <= _EXACT:
        numbers = np.arange(2**count, dtype=np.int64)[:, None]
        signs = 1.0 - 2.0 * ((numbers >> np.arange(count)) & 1)
        return float((np.abs(signs @ of) >= reached).mean())
    rng = np.random.default_rng(0)
    as_far = 0
    for draws in _chunks(_FLIPS, count):
        signs = 1.0 - 2.0 * rng.integers(0, 2, size=(draws, count), dtype=np.int8)
        as_far += int((np.abs(signs @ of) >= reached).sum())
    return (1 + as_far) / (1 + _FLIPS)


def bootstrap(by_cluster: Clusters) -> tuple[float, float] | None:
    """The 95 % interval of the mean by drawing clusters with replacement.

    Each draw's distance from the mean is measured in its own standard error (bootstrap-t, Efron
    and Tibshirani, 1993, chapter 12): plain percentiles are too narrow where clusters are few. The
    draws are the same every time.

    Returns:
        None of fewer than five clusters, where `mean` has no interval, or where a draw has no
        error to measure by.
    """
    count, error, value = len(by_cluster.sums), by_cluster.error, by_cluster.value
    largest = float(np.abs(by_cluster.sums / by_cluster.counts).max())
    if count < _FEWEST_RESAMPLED or error is None or no_interval(by_cluster, largest):
        return None
    rng = np.random.default_rng(0)
    distances: list[Floats] = []
    for draws in _chunks(_RESAMPLED, count):
        drawn = rng.integers(0, count, size=(draws, count))
        sums, counts = by_cluster.sums[drawn], by_cluster.counts[drawn]
        values = sums.sum(axis=1) / counts.sum(axis=1)
        # A draw without any spread is infinitely far, or nowhere, and so on neither side.
        with np.errstate(divide="ignore", invalid="ignore"):
            distances.append((values - value) / errors(sums, counts))
    all_distances = np.concatenate(distances)
    all_distances = all_distances[~np.isnan(all_distances)]
    outer = (1 - CONFIDENCE) / 2
    low, high = np.quantile(all_distances, [outer, 1 - outer], method="closest_observation")
    if not np.isfinite([low, high]).all():
        return None
    return float(value - high * error), float(value - low * error)


def _mcnemar(first: Floats, second: Floats) -> float | None:
    """McNemar's exact test; None where values are others than 0 and 1."""
    if not np.isin(np.concatenate([first, second]), (0.0, 1.0)).all():
        return None
    gained, lost = int((second > first).sum()), int((second < first).sum())
    return binomial_p(gained, gained + lost)


def detectable(difference: Estimate, tests: int = 1) -> float | None:
    """The smallest difference that such a comparison finds in about four of five times.

    (t at 1 - 0.05 / 2 m + t at 0.8) standard errors for m tests that are made together, which is
    Holm's first step. The test is that of `exchanged`, so where signs are too few to get far
    below the level there is none.

    Args:
        tests: How many are adjusted for together, at least 1.
    """
    level = (1 - CONFIDENCE) / tests
    if difference.error is None or 4 * smallest_p(difference.clusters) >= level:
        return None
    freedom = difference.freedom
    return difference.error * (t_between(1 - level / 2, freedom) + t_between(POWER, freedom))


def smallest_p(clusters: int) -> float:
    """The least that `exchanged` can give: of all ways to set the signs two are as extreme."""
    return max(2.0 ** (1 - clusters), 1 / (1 + _FLIPS))


def _chunks(draws: int, each: int) -> Iterator[int]:
    """So many draws in portions of which each fits in memory."""
    most = max(1, _AT_ONCE // each)
    for begin in range(0, draws, most):
        yield min(most, draws - begin)


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust the p values of tests that are made together, so that each is as sure as if alone.

    The k-th smallest of m counts as m - k + 1 times itself, never less than one before it and at
    most 1 (Holm, 1979): the chance that any of them is falsely found stays below the level.
    """
    order = sorted(range(len(ps)), key=ps.__getitem__)
    adjusted = [1.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = largest
    return adjusted


def rank_ranges(better: Mapping[str, frozenset[str]]) -> dict[str, tuple[int, int]]:
    """The places that each model may have, from 1; those of equal ones overlap.

    The first is one more than how many models are surely better, the last is how many are not
    surely worse.

    Args:
        better: By model, those that are surely better.
    """
    worse = {name: sum(name in above for above in better.values()) for name in better}
    return {name: (1 + len(above), len(better) - worse[name]) for name, above in better.items()}
