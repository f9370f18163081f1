"""Student's distribution, as far as intervals and tests ask for it.

It is a short sum in closed form, so that nobody installs a library for a table's intervals; tests
hold it to scipy.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

_STEPS = 200


@lru_cache(maxsize=1024)
def t_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's distribution.

    Newton's steps from the normal one: within the upper half the distribution is concave and its
    quantile the larger, so that they never go too far. It is right to 1e-9 for shares between
    1e-5 and 1 - 1e-5.

    Args:
        share: Of its mass below, inside 0..1.
        freedom: Degrees of freedom, at least 1.

    Raises:
        ValueError: either is outside these.
    """
    if not (0 < share < 1 and freedom >= 1):
        raise ValueError("a share inside 0..1, and at least one degree of freedom")
    if share < 0.5:
        return -t_quantile(1 - share, freedom)
    half = freedom / 2
    peak = math.exp(math.lgamma(half + 0.5) - math.lgamma(half)) / math.sqrt(math.pi * freedom)
    quantile = NormalDist().inv_cdf(share)
    for _ in range(_STEPS):
        density = peak * math.exp(-(half + 0.5) * math.log1p(quantile**2 / freedom))
        step = (share - 0.5 - _within(quantile, freedom) / 2) / density
        quantile += step
        if abs(step) <= 1e-12 * quantile:
            break
    return quantile


def interpolate_t(share: float, freedom: float) -> float:
    """The same of degrees of freedom that are no whole number.

    It lies between its neighbours, geometrically and by 1 / freedom: within 4 % between 1 and 2,
    and within 1 % from there on, for shares from 0.8 to 0.999.

    Raises:
        ValueError: either is outside the range of `t_quantile`.
    """
    below = math.floor(freedom + 1e-9)
    rest = freedom - below
    if rest < 1e-9:
        return t_quantile(share, below)
    part = rest * (below + 1) / freedom
    low, high = t_quantile(share, below), t_quantile(share, below + 1)
    return math.copysign(abs(low) ** (1 - part) * abs(high) ** part, high)


def _within(t: float, freedom: int) -> float:
    """The mass of Student's distribution between -t and t.

    Abramowitz and Stegun (1964), 26.7.3 and 26.7.4.
    """
    cosine2 = freedom / (freedom + t * t)
    sine = t / math.sqrt(freedom + t * t)
    odd = freedom % 2
    terms = np.arange(1 + odd, freedom - 1, 2, dtype=np.float64)
    series = 1 + float(np.cumprod(cosine2 * terms / (terms + 1)).sum())
    if not odd:
        return sine * series
    angle = math.atan(t / math.sqrt(freedom))
    return 2 / math.pi * (angle + (sine * math.sqrt(cosine2) * series if freedom > 1 else 0.0))
