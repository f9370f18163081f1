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
    several clusters, Kott, 2001). Of a mean over clusters of one size, each a part, it is that of
    `clustered.mean`.

    Returns:
        None of fewer than two parts, or where the number is not defined without one (NaN).
    """
    count = len(replicates)
    if count < 2 or not np.isfinite(replicates).all():
        return None
    deviations = replicates - replicates.mean()
    return math.sqrt((count - 1) / count * math.fsum(deviations * deviations))


def pooled_freedom(variances: Floats, freedoms: Floats, parts: NDArray[np.bool_]) -> float:
    """Degrees of freedom of the error of what is made of M columns (Welch and Satterthwaite).

    Errors of columns that rest on the same parts of the clusters are wrong together, those of
    columns without a common one are not.

    Args:
        variances: What each column has of the variance (M); one at least is more than 0.
        freedoms: Of its own error (M), at least 1.
        parts: On which of the K parts it rests (M x K).

    Returns:
        1 to K - 1, of the K parts that any rests on.
    """
    counts = np.maximum(1, parts.sum(axis=1, keepdims=True))
    wrong = (variances / np.sqrt(freedoms)) @ (parts / np.sqrt(counts))
    freedom = float(variances.sum() ** 2 / (wrong @ wrong))
    return max(1.0, min(freedom, float(parts.any(axis=0).sum() - 1)))
