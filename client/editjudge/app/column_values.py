"""The values that the numbers of a column are made of, to test which model is surely the best."""

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from ..stats.clusters import Clusters, Floats
from ..stats.paired_comparison import holm, measure_differences

LEVEL = 0.05
"""A difference is significant if its p, adjusted by Holm's method, is below this level."""
_SMALLEST_T = 1.95
"""A t below this is not significant, whatever its degrees of freedom."""


class ColumnValues:
    """The values of some models in one column, on the same items.

    Args:
        values: By model, the value of each of N items (float64) and its cluster (int64). For a
            number that is no plain mean the pseudo-values (Tukey) of the jackknife: one for each
            group of clusters that it leaves out. Their mean is nearly the number.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, tuple[Floats, NDArray[np.int64]]]) -> None:
        self._values = values

    def is_surely_best(self, model: str, models: Collection[str], *, higher_is_better: bool) -> bool:
        """Whether a model is significantly better than each other one.

        The test is that of `compare`, adjusted for these pairs (Holm, 5 %).

        Args:
            models: The models to compare it with; itself is left out. Without the values of one,
                nothing is sure.
        """
        if not {model, *models} <= self._values.keys():
            return False
        values, clusters = self._values[model]
        others = [self._values[other] for other in models if other != model]
        if not all(np.array_equal(of_other, clusters) for _, of_other in others):
            return False
        gains = (values - np.array([each for each, _ in others])) * (1 if higher_is_better else -1)
        if not np.isfinite(gains).all():
            return False
        nearest = Clusters.of(gains[gains.mean(axis=1).argmin()], clusters)
        if nearest.error and nearest.value < _SMALLEST_T * nearest.error:
            return False  # most columns end here, without resampling
        tests = list(measure_differences(gains, clusters))
        ps = holm([1.0 if test.p is None else test.p for test in tests])
        return max(ps) < LEVEL and all(test.of.value > 0 for test in tests)
