"""Statistics of scores: how sure a mean is, and whether two models differ.

Items that share a source picture are not independent of each other, so everything here counts
clusters of items and not items. Pure functions of numbers.
"""
