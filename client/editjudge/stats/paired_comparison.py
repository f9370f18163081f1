"""Compare two models on the same items: their difference, its intervals and its p value.

Holm's method adjusts the p values of several comparisons that are made together.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.strict import Strict
from .bootstrap import bootstrap_t
from .clusters import (
    CONFIDENCE,
    POWER,
    SAME,
    ClusterNames,
    Clusters,
    Floats,
    explain_no_interval,
    half_width,
    merge_clusters,
    number_clusters,
    t_quantile,
)

_EXACT = 16
"""The largest number of clusters for which every combination of signs is tried."""
_FLIPS = 9_999
_CHUNK_SIZE = 4_000_000
"""The largest number of signs in memory at once."""
_ROUNDING = 1e-9
_RULE_OF_THREE = 3.0


class Ends(Strict):
    """The ends of a 95 % interval, on the dimension's scale.

    Attributes:
        low: The lower end.
        high: The upper end.
    """

    low: float
    high: float


class OpenEnds(Strict):
    """The ends of a 95 % interval that may be open.

    Attributes:
        low: The lower end; None where there is none, because few clusters differ from the others.
        high: The upper end; None likewise.
    """

    low: float | None
    high: float | None


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
        interval: 95 % interval of the difference by Student's t distribution; None where there is
            no useful error, for example with one source.
        bootstrap: 95 % interval by the bootstrap-t (`stats.bootstrap`); None where there is none.
        reason: Why there are no intervals; empty where there are.
        p: Two-sided p value of the difference: the largest of three, by the t distribution, by the
            bootstrap-t and by exchanging the two models within whole sources (`sign_flip_p`). A p
            below 0.05 so means that both intervals exclude 0. Where the difference is the same by
            every source there are no intervals, and the exchange decides. None where there are none
            for another reason.
        unseen: The largest share of sources that could behave in a way that no source here does;
            see `largest_unseen_share`.
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
    bootstrap: OpenEnds | None
    reason: str
    p: float | None
    unseen: float
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
            None without a standard error, where an end of the bootstrap is open, or where there are
            too few sources for `sign_flip_p` to reach a p far below the level.
        """
        level = (1 - CONFIDENCE) / tests
        has_ends = self.bootstrap and None not in {self.bootstrap.low, self.bootstrap.high}
        if self.error is None or not has_ends or 4 * smallest_p(self.sources) >= level:
            return None
        errors = t_quantile(1 - level / 2, self.freedom) + t_quantile(POWER, self.freedom)
        return self.error * errors


def compare(
    first: Sequence[float] | Floats,
    second: Sequence[float] | Floats,
    clusters: ClusterNames,
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
    (test,) = measure_differences(differences[None], clusters)
    difference = test.of
    half = None if test.error is None else half_width(test.error, difference.freedom)
    higher, lower = int((differences > _ROUNDING).sum()), int((differences < -_ROUNDING).sum())
    return Comparison(
        edits=len(differences),
        sources=difference.count,
        first=float(before.mean()),
        second=float(after.mean()),
        difference=difference.value,
        error=test.error,
        freedom=difference.freedom,
        interval=None if half is None else Ends(low=difference.value - half, high=difference.value + half),
        bootstrap=test.bootstrap,
        reason=test.reason,
        p=test.p,
        unseen=largest_unseen_share(difference.count),
        wins=higher if higher_is_better else lower,
        ties=len(differences) - higher - lower,
        losses=lower if higher_is_better else higher,
    )


def largest_unseen_share(sources: int) -> float:
    """The largest share of sources that could behave in a way that none of n sources does (95 %).

    It is 3 / n, at most 1: the rule of three (Hanley and Lippman-Hand, 1983).
    """
    return min(1.0, _RULE_OF_THREE / sources)


class DifferenceTest(NamedTuple):
    """Test of whether the mean of clustered differences is 0; see `Comparison` for the fields."""

    of: Clusters
    error: float | None
    bootstrap: OpenEnds | None
    p: float | None
    reason: str


def measure_differences(differences: Iterable[Floats], clusters: ClusterNames) -> Iterator[DifferenceTest]:
    """Test K series of differences on the same N items.

    Args:
        differences: K rows of differences (float64, N); finite. They are read one after the other.
        clusters: The cluster of each item.
    """
    places = number_clusters(clusters)
    rows, largest = [], []
    for row in differences:
        if len(row) != len(clusters) or not len(clusters):
            raise ValueError(f"{len(row)} values, {len(clusters)} clusters: give one each")
        rows.append(np.bincount(places, weights=row))
        largest.append(float(np.abs(row).max()))
    sums = np.array(rows, dtype=np.float64)
    counts = np.bincount(places).astype(np.float64)
    flip_ps = sign_flip_p(sums)
    resamples = bootstrap_t(sums, counts) if len(counts) > 1 else None
    for k, of in enumerate(Clusters(row, counts) for row in sums):
        reason = explain_no_interval(of, largest[k])
        if resamples is None or reason not in {"", SAME}:
            yield DifferenceTest(of, None, None, None, reason)
        elif reason or of.error is None:
            # The t of both others is infinite here.
            yield DifferenceTest(of, None, None, float(flip_ps[k]), reason)
        else:
            p = max(float(flip_ps[k]), _t_p(of.value / of.error, of.freedom), float(resamples.p[k]))
            low, high = float(resamples.low[k]), float(resamples.high[k])
            bootstrap = OpenEnds(low=low if math.isfinite(low) else None, high=high if math.isfinite(high) else None)
            yield DifferenceTest(of, of.error, bootstrap, p, "")


def _t_p(t: float, freedom: float) -> float:
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(t)))


def sign_flip_p(sums: Floats) -> Floats:
    """Test whether sums of differences are 0, by flipping the signs of whole clusters.

    If at most 16 clusters have a sum other than 0, all combinations of their signs are tried;
    otherwise 9,999 random ones, which are the same every time (of more than 1,000 clusters those of
    1,000 parts). The observed combination counts among them, so p is never 0 (Phipson and Smyth,
    2010).

    Args:
        sums: K rows with the sum of the differences in each cluster (float64, K x G).

    Returns:
        The two-sided p values (float64, K), in (0, 1].
    """
    sums = merge_clusters(sums)
    thresholds = np.abs(sums.sum(axis=1)) * (1 - _ROUNDING)
    few = (sums != 0).sum(axis=1) <= _EXACT
    ps = np.ones(len(sums))
    for k in np.flatnonzero(few):
        totals = np.zeros(1)
        for each in sums[k][sums[k] != 0]:
            totals = np.concatenate((totals + each, totals - each))
        ps[k] = (np.abs(totals) >= thresholds[k]).mean()
    many = ~few
    if many.any():
        clusters = sums.shape[1]
        rows = max(1, _CHUNK_SIZE // clusters)
        extreme = np.zeros(int(many.sum()))
        for begin in range(0, _FLIPS, rows):
            signs = _draw_signs(clusters, begin, min(rows, _FLIPS - begin)).astype(np.float64)
            extreme += (np.abs(signs @ sums[many].T) >= thresholds[many]).sum(axis=0)
        ps[many] = (1 + extreme) / (1 + _FLIPS)
    return ps


@lru_cache(maxsize=8)
def _draw_signs(clusters: int, begin: int, rows: int) -> NDArray[np.int8]:
    rng = np.random.default_rng((clusters, begin))
    return 1 - 2 * rng.integers(0, 2, size=(rows, clusters), dtype=np.int8)


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
    order = np.argsort(ps, kind="stable")
    steps = np.arange(len(ps), 0, -1) * np.asarray(ps, dtype=np.float64)[order]
    adjusted_ps = np.empty(len(ps))
    adjusted_ps[order] = np.maximum.accumulate(np.minimum(1.0, steps))
    return [float(p) for p in adjusted_ps]


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
