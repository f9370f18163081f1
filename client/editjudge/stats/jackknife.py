"""What is made of means, and how sure it is: everything anew without a part of the clusters."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .clustered import Floats

GROUPS = 100
"""Most parts that are left out, one after the other."""


def groups(clusters: int) -> NDArray[np.int64]:
    """The part that each cluster is left out with: each its own, or one of 100 drawn ones.

    The draw is the same every time.
    """
    if clusters <= GROUPS:
        return np.arange(clusters)
    return np.random.default_rng(0).permutation(clusters) % GROUPS


def jackknife_error(replicates: Floats) -> float | None:
    """The standard error of a number from what it is without each of K parts of the clusters.

    The variance is (K - 1) / K times the sum of squared deviations of these (Tukey; with parts of
    several clusters, Kott, 2001); the interval is Student's with K - 1 degrees of freedom. Of a
    mean over clusters of one size, each a part, it is that of `clustered.mean`.

    Returns:
        None of fewer than two parts, or where the number is not defined without one (NaN).
    """
    count = len(replicates)
    if count < 2 or not np.isfinite(replicates).all():
        return None
    deviations = replicates - replicates.mean()
    return math.sqrt((count - 1) / count * math.fsum(deviations * deviations))
