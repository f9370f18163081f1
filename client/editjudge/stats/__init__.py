"""Statistics of scores: how sure a mean is, and whether two models differ.

Items that share a source picture are not independent of each other, so everything here counts
clusters of items and not items. Pure functions of numbers.
"""

from .clustered import Clusters, Estimate, Floats, half_width, mean
from .jackknife import groups, jackknife_error
from .linked import Linking, linked
from .many import holm, rank_ranges
from .paired import Comparison, compare, detectable, difference_p, exchanged

__all__ = [
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
    "rank_ranges",
]
