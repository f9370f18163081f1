"""The interval of a share, which holds near 0 and 1 too."""

from __future__ import annotations

from .clusters import CONFIDENCE, Clusters, t_quantile


def share_interval(share: float, items: int, of: Clusters) -> tuple[float, float]:
    """Compute the 95 % interval of a share of clustered items (Korn and Graubard, 1998).

    It is the interval of Clopper and Pearson (1934) with an effective number of items: the number
    of independent items that would give the same standard error, reduced for the few degrees of
    freedom of that error, and never more than there are. At 0 and 1 there is no standard error.
    The effective number of clusters then counts, as if all items of a cluster were alike.

    Args:
        share: The observed share, 0..1.
        items: Number of items, at least 1.
        of: Their clusters, at least two.

    Returns:
        The lower and the upper end, within 0..1.
    """
    from scipy.special import betaincinv

    error = of.error or 0.0
    if 0 < share < 1 and error:
        effective = min(float(items), share * (1 - share) / error**2)
        quantiles = [t_quantile((1 + CONFIDENCE) / 2, n) for n in (max(1, items - 1), of.freedom)]
        effective = min(float(items), effective * (quantiles[0] / quantiles[1]) ** 2)
    else:
        effective = of.freedom + 1
    tail, hits = (1 - CONFIDENCE) / 2, effective * share
    low = betaincinv(hits, effective - hits + 1, tail) if share > 0 else 0.0
    high = betaincinv(hits + 1, effective - hits, 1 - tail) if share < 1 else 1.0
    return float(low), float(high)
