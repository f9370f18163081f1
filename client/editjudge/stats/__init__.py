"""Statistics of scores: how sure a mean is, and whether two models differ.

Items that share a source picture are not independent of each other, so everything here counts
clusters of items and not items. Pure functions of numbers.
"""

from .clustered import (
    HEAVY,
    SAME,
    Clusters,
    Estimate,
    Floats,
    Linking,
    groups,
    half_width,
    jackknife_error,
    linked,
    mean,
    no_interval,
    pooled_freedom,
    same,
)
from .paired import (
    Comparison,
    compare,
    detectable,
    difference_p,
    exchanged,
    holm,
    rank_ranges,
)

__all__ = [
    "HEAVY",
    "SAME",
    "Clusters",
    "Comparison",
    "Estimate",
    "Floats",
    "Linking",
    "compare",
    "detectable",
    "difference_p",
    "exchanged",
    "groups",
    "half_width",
    "holm",
    "jackknife_error",
    "linked",
    "mean",
    "no_interval",
    "pooled_freedom",
    "rank_ranges",
    "same",
]
