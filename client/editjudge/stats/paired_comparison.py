"""Compare two models on the same items: their difference, its interval and its p value.

Holm's method adjusts the p values of several comparisons that are made together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from ..base.strict import Strict
from .clusters import CONFIDENCE, Clusters, Floats, explain_no_interval, half_width
from .distributions import interpolate_t

POWER = 0.8
_EXACT = 16
"""The largest number of clusters for which every combination of signs is tried."""
_FLIPS = 9_999
_AT_ONCE = 2_000_000
"""The largest number of signs in memory at once."""
_ROUNDING = 1e-9


class Ends(Strict):
    """The ends of a 95 % interval, on the dimension's scale."""

    low: float
    high: float


class Comparison(Strict):
    """The second model compared with the first, on the items for which both have a number.

    Attributes:
        edits: Number of these items.
        sources: Number of different source pictures among them.
        first: Mean of the first model.
        second: Mean of the second model.
        difference: Second minus first.
        error: Standard error of the difference, clustered by source; None without an interval.
        freedom: Degrees of freedom of that error.
        interval: 95 % interval of the difference; None where there is no useful error, for example
            with one source.
        p: Two-sided p value of the difference, by exchanging the two models within whole sources
            (`sign_flip_p`); None with one source.
        wins: Edits on which the second model is better.
        ties: Edits on which both models are equal, up to rounding.
        losses: Edits on which the second model is worse.
    """

    edits: int
    sources: int
    first: float
    second: float
    difference: float
    error: float | None
    freedom: float
    interval: Ends | None
    p: float | None
    wins: int
    ties: int
    losses: int

    def detectable(self, tests: int = 1) -> float | None:
        """The smallest difference that such a comparison detects with a power of 80 %.

        For m tests it is (t(1 - 0.05 / 2m) + t(0.8)) standard errors; the level is that of
        Holm's first step.

        Args:
            tests: Number m of tests that are adjusted together, at least 1.

        Returns:
            None without a standard error, or where there are too few sources for `sign_flip_p` to
            reach a p far below the level.
        """
        level = (1 - CONFIDENCE) / tests
        if self.error is None or 4 * smallest_p(self.sources) >= level:
            return None
        errors = interpolate_t(1 - level / 2, self.freedom) + interpolate_t(POWER, self.freedom)
        return self.error * errors


def compare(
    first: Sequence[float],
    second: Sequence[float],
    clusters: Sequence[Hashable],
    *,
    higher_is_better: bool = True,
) -> Comparison:
    """Compare two models on the same items.

    Args:
        first: The first model's value for each item; finite.
        second: The second model's values, in the same order.
        clusters: The cluster of each item, for example its source.
        higher_is_better: Whether a higher value wins; it affects `wins` and `losses` only.

    Raises:
        ValueError: The lengths differ, or there are no items.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values of one model, {len(second)} of the other")
    before, after = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    differences = after - before
    of = Clusters.of(differences.tolist(), clusters)
    why_not = explain_no_interval(of, float(np.abs(differences).max()))
    error = None if why_not else of.error
    half = None if error is None else half_width(error, of.freedom)
    higher, lower = int((differences > _ROUNDING).sum()), int((differences < -_ROUNDING).sum())
    return Comparison(
        edits=len(differences),
        sources=of.count,
        first=float(before.mean()),
        second=float(after.mean()),
        difference=of.value,
        error=error,
        freedom=of.freedom,
        interval=None if half is None else Ends(low=of.value - half, high=of.value + half),
        p=sign_flip_p(of.sums) if of.count > 1 else None,
        wins=higher if higher_is_better else lower,
        ties=len(differences) - higher - lower,
        losses=lower if higher_is_better else higher,
    )


def difference_p(
    first: Sequence[float], second: Sequence[float], clusters: Sequence[Hashable]
) -> float | None:
    """Return the p value of `compare` alone; None with fewer than two clusters."""
    differences = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    sums = Clusters.of(differences.tolist(), clusters).sums
    return sign_flip_p(sums) if len(sums) > 1 else None


def sign_flip_p(sums: Sequence[float] | Floats) -> float:
    """Test whether the sum of differences is 0, by flipping the signs of whole clusters.

    Up to 16 clusters, all combinations of signs are tried; beyond, 9,999 random ones, which are the
    same every time. The observed combination counts among them, so p is never 0 (Phipson and Smyth,
    2010). Clusters whose sum is 0 are left out.

    Args:
        sums: Sum of the differences in each cluster.

    Returns:
        The two-sided p value, in (0, 1].
    """
    of = np.asarray(sums, dtype=np.float64)
    of = of[of != 0]
    count = len(of)
    if not count:
        return 1.0
    threshold = abs(float(of.sum())) * (1 - _ROUNDING)
    if count <= _EXACT:
        numbers = np.arange(2**count, dtype=np.int64)[:, None]
        signs = 1.0 - 2.0 * ((numbers >> np.arange(count)) & 1)
        return float((np.abs(signs @ of) >= threshold).mean())
    rng = np.random.default_rng(0)
    count_as_extreme = 0
    draws_at_once = max(1, _AT_ONCE // count)
    for begin in range(0, _FLIPS, draws_at_once):
        draws = min(draws_at_once, _FLIPS - begin)
        signs = 1.0 - 2.0 * rng.integers(0, 2, size=(draws, count), dtype=np.int8)
        count_as_extreme += int((np.abs(signs @ of) >= threshold).sum())
    return (1 + count_as_extreme) / (1 + _FLIPS)


def smallest_p(clusters: int) -> float:
    """The smallest p that `sign_flip_p` can return for this number of clusters.

    Two combinations of signs are always as extreme as the observed one: itself and its opposite.
    """
    return max(2.0 ** (1 - clusters), 1 / (1 + _FLIPS))


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust the p values of tests that are made together (Holm, 1979).

    The k-th smallest of m p values is multiplied by m - k + 1. It is at least as large as the one
    before it, and at most 1. The chance of any false finding among the tests stays below the level.

    Returns:
        The adjusted p values, in the order of `ps`.
    """
    order = sorted(range(len(ps)), key=ps.__getitem__)
    adjusted_ps = [1.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted_ps[index] = largest
    return adjusted_ps


def rank_ranges(better: Mapping[str, frozenset[str]]) -> dict[str, tuple[int, int]]:
    """The range of ranks that each model may have; the ranges of models that do not differ overlap.

    The best rank is 1 plus the number of models that are significantly better. The worst is the
    number of models that are not significantly worse, the model itself included.

    Args:
        better: For each model, the models that are significantly better than it.

    Returns:
        The best and the worst rank of each model; 1 is the top.
    """
    worse = {name: sum(name in above for above in better.values()) for name in better}
    return {name: (1 + len(above), len(better) - worse[name]) for name, above in better.items()}
