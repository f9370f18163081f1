"""Statistics of scores: how sure a mean is, and whether two models differ.

Items that share a source picture are not independent of each other, so everything here counts
clusters of items and not items. Pure functions of numbers.
"""

from .clustered import Estimate, mean
from .linked import linked
from .many import holm, rank_ranges
from .paired import Comparison, compare, detectable, difference_p, exchanged

__all__ = [
    "Comparison",
    "Estimate",
    "compare",
    "detectable",
    "difference_p",
    "exchanged",
    "holm",
    "linked",
    "mean",
    "rank_ranges",
]
