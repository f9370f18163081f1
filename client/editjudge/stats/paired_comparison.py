"""Two models on the same items: by how much they differ, and how sure that is.

Many such comparisons are adjusted for each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from ..base.strict import Strict
from .clusters import CONFIDENCE, Clusters, Floats, explain_no_interval, half_width
from .distributions import interpolate_t

POWER = 0.8
_EXACT = 16
"""Clusters up to which all ways to exchange the two models are tried."""
_FLIPS = 9_999
_AT_ONCE = 2_000_000
"""Numbers that are held at once."""
_ROUNDING = 1e-9


class Ends(Strict):
    """The ends of an interval of 95 %, on the dimension's scale."""

    low: float
    high: float


class Comparison(Strict):
    """The second model against the first, on the items where both have a number.

    Attributes:
        edits: How many these are.
        sources: How many different source pictures they have.
        first: Mean of the first.
        second: Mean of the second.
        difference: Second minus first.
        error: Standard error of the difference, by source; None where there is no interval.
        freedom: Degrees of freedom of that error.
        interval: Of the difference, by its error; None where that says nothing, as of one source.
        p: That a difference as large comes about where neither is better, by exchanging the two
            within whole sources; None of one source.
        wins: Edits on which the second is better.
        ties: Edits on which both are the same, to rounding.
        losses: Edits on which the second is worse.
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
        """The smallest difference that such a comparison finds in about four of five times.

        (t at 1 - 0.05 / 2 m + t at 0.8) standard errors for m tests that are made together, which
        is Holm's first step. The test is that of `sign_flip_p`, so there is no such difference if
        there are too few signs for a p far below the level.

        Args:
            tests: How many are adjusted for together, at least 1.
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
    """Give the p of `compare` alone; None of fewer than two clusters."""
    differences = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    sums = Clusters.of(differences.tolist(), clusters).sums
    return sign_flip_p(sums) if len(sums) > 1 else None


def sign_flip_p(sums: Sequence[float] | Floats) -> float:
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
    """The least that `sign_flip_p` can give: of all ways to set the signs two are as extreme."""
    return max(2.0 ** (1 - clusters), 1 / (1 + _FLIPS))


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust the p values of tests that are made together, so that each is as sure as if alone.

    The k-th smallest of m counts as m - k + 1 times itself, never less than one before it and at
    most 1 (Holm, 1979): the chance that any of them is falsely found stays below the level.
    """
    order = sorted(range(len(ps)), key=ps.__getitem__)
    adjusted_ps = [1.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted_ps[index] = largest
    return adjusted_ps


def rank_ranges(better: Mapping[str, frozenset[str]]) -> dict[str, tuple[int, int]]:
    """The places that each model may have, from 1; those of equal ones overlap.

    The first is one more than how many models are surely better, the last is how many are not
    surely worse.

    Args:
        better: By model, those that are surely better.
    """
    worse = {name: sum(name in above for above in better.values()) for name in better}
    return {name: (1 + len(above), len(better) - worse[name]) for name, above in better.items()}
