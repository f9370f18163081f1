"""The interval of a share, which holds near 0 and 1 too."""

from .clusters import CONFIDENCE, t_quantile


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
