"""What comes from scipy, loaded where it is asked for."""

from __future__ import annotations

import importlib
from typing import Any

from ..base.errors import MissingExtra


def t_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's distribution.

    Args:
        share: Of its mass below, inside 0..1.
        freedom: Degrees of freedom, at least 1.

    Raises:
        MissingExtra: scipy is not installed.
    """
    return float(_scipy().t.ppf(share, freedom))


def binomial_p(successes: int, trials: int) -> float:
    """The exact two-sided p of so many successes where either outcome is as likely.

    It is 1 where there are no trials.

    Raises:
        MissingExtra: scipy is not installed.
    """
    if not trials:
        return 1.0
    return float(_scipy().binomtest(successes, trials).pvalue)


def _scipy() -> Any:
    try:
        return importlib.import_module("scipy.stats")
    except ImportError as error:
        raise MissingExtra("statistics", "stats") from error
