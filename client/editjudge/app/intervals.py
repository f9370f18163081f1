"""Adds confidence intervals to the cells of a table, with counts of capped values.

A mean, weighted or not, has the standard error of a ratio of sums over clusters, which are edits
that share a source picture. So has a mean difference of pairs, of which both sides' pictures belong
to one cluster, and a mean after a transformation fitted to all models, which is taken as fitted.
What is made of other columns has that of the jackknife over the same clusters, in at most 100
parts. The interval is Student's, with as many degrees of freedom as the clusters that decide it:
few where few sources, or a heavy one, have most of the weight or of the variance. Where what the
clusters add is skewed, the ends of the bootstrap-t (`stats.bootstrap`) count where they are farther
away. A mean of values at the ends of a scale, such as Yes and No, has the interval of Korn and
Graubard (`share_interval`), beyond which no end of the bootstrap-t is taken on that scale.

How many edits a column asks about (`WeightedMean`) is taken as given.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..benchmarks.cell import Cell, Interval, Method
from ..benchmarks.column import Column, Composite, Mean, WeightedMean
from ..benchmarks.tabulation import Sample, Tabulation
from ..stats.bootstrap import INTERVAL_RESAMPLES, bootstrap_t
from ..stats.clusters import (
    FEW_DIFFER,
    HEAVY,
    LEVEL,
    SAME,
    Clusters,
    Floats,
    explain_no_interval,
    half_width,
    is_rounding,
    jackknife_groups,
    link_clusters,
    make_pseudo_values,
    pooled_freedom,
    share_interval,
)
from ..stats.paired_comparison import holm, measure_differences

_SMALLEST_T = 1.95
"""A t below this is not significant, whatever its degrees of freedom."""


_Values: TypeAlias = tuple[Floats, NDArray[np.int64]]
ColumnValues: TypeAlias = Mapping[str, _Values]
"""The values of some models in one column, on the same items.

By model, the value of each of N items (float64) and its cluster (int64). For a number that is no
plain mean the pseudo-values (Tukey) of the jackknife: one for each group of clusters that it leaves
out. Their mean is nearly the number."""


def is_surely_best(of: ColumnValues, model: str, models: Collection[str], *, higher_is_better: bool) -> bool:
    """Whether a model is significantly better than each other one.

    The test is that of `compare`, adjusted for these pairs (Holm, 5 %).

    Args:
        of: The values of the column.
        models: The models to compare it with; itself is left out. Without the values of one,
            nothing is sure.
    """
    if not {model, *models} <= of.keys():
        return False
    values, clusters = of[model]
    others = [of[other] for other in models if other != model]
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


Cells = Mapping[str, Mapping[str, Cell]]
Ranges: TypeAlias = Mapping[str, tuple[float, float]]
NO_LIMITS = (-math.inf, math.inf)
_WIDEST_RATING = 10.0
_MIN_WEIGHT = 1e-12
"""Share of the total weight below which a weight is a rounding error."""


@dataclass(frozen=True, slots=True)
class _Estimate:
    """A column's value, and its value without each group of clusters.

    Attributes:
        interval: None if the column has no value.
        without_group: The value without each group of clusters (float64; NaN if there is none).
        scores: Number of scored edits without each group (float64).
        groups_in: Whether the value depends on each group (bool).
        clusters_in: Whether the value depends on each cluster (bool).
        error: Its standard error; 0 if it is unknown.
        freedom: Degrees of freedom of the standard error, at least 1.
        is_heavy: Whether one source picture dominates the value.
    """

    interval: Interval | None
    without_group: Floats
    scores: Floats
    groups_in: NDArray[np.bool_]
    clusters_in: NDArray[np.bool_]
    error: float = 0.0
    freedom: float = 1.0
    is_heavy: bool = False


_Cells: TypeAlias = Mapping[str, Cell]
_Samples: TypeAlias = Mapping[str, Sample]
_Parts: TypeAlias = Mapping[str, _Estimate]
"""The estimates of columns, by id."""


class Intervals:
    """Adds intervals to the cells of a table.

    Args:
        columns: The columns of the table; a composite follows its parts.
        clusters: The cluster of each item, by the number of the item.
        ranges: The lowest and the highest value of each dimension; infinity where there is no highest.
    """

    def __init__(self, columns: Sequence[Column], clusters: Sequence[int], ranges: Ranges) -> None:
        self._columns = columns
        self._ranges = ranges
        self._clusters = np.asarray(clusters, dtype=np.int64)
        self._count = int(self._clusters.max(initial=-1)) + 1
        self._groups = jackknife_groups(self._count)

    def add_intervals(self, cells: _Cells, samples: _Samples) -> tuple[dict[str, Cell], dict[str, _Values]]:
        """Return the cells of a model with their intervals, and what their numbers are made of.

        Args:
            samples: Samples of the columns that are means, by id.
        """
        parts: dict[str, _Estimate] = {}
        for column in self._columns:
            cell = cells[column.id]
            if column.id in samples:
                parts[column.id] = self._estimate_mean(column, cell, samples[column.id])
            elif column.operands:
                operands = [parts[part] for part in column.operands]
                parts[column.id] = self._estimate_composite(column, cells, parts, operands)
            else:  # the transformation of its values could not be fitted
                parts[column.id] = self._empty_estimate
        values = {
            name: self._collect_values(cell.value, parts[name], samples.get(name))
            for name, cell in cells.items()
            if cell.value is not None
        }
        return {n: replace(cell, interval=parts[n].interval) for n, cell in cells.items()}, values

    def _collect_values(self, value: float, estimate: _Estimate, sample: Sample | None) -> _Values:
        """Collect the values of a mean, or the pseudo-values of any other number."""
        if sample is not None and not sample.weights:
            return sample.values, self._find_clusters(sample)
        groups = np.flatnonzero(estimate.groups_in)
        return make_pseudo_values(value, estimate.without_group[groups]).sums, groups

    def _find_clusters(self, sample: Sample) -> NDArray[np.int64]:
        clusters = self._clusters[np.asarray(sample.items, dtype=np.int64)]
        if not sample.partner_items:
            return clusters
        partners = np.asarray(sample.partner_items, dtype=np.int64)
        return _pair_clusters(clusters, self._clusters[partners])

    def _estimate_mean(self, column: Column, cell: Cell, sample: Sample) -> _Estimate:
        clusters = self._find_clusters(sample)
        values = np.asarray(sample.values)
        weights = np.asarray(sample.weights, dtype=np.float64) if sample.weights else None
        size = self._count
        sums = _sum_by_place(clusters, values if weights is None else values * weights, size)
        item_counts = _sum_by_place(clusters, np.ones(len(values)), size)
        counts = item_counts if weights is None else _sum_by_place(clusters, weights, size)
        has_part = counts > 0
        by_cluster = Clusters(sums[has_part], counts[has_part])
        group_counts = self._sum_by_group(counts)
        with np.errstate(invalid="ignore", divide="ignore"):
            without = (sums.sum() - self._sum_by_group(sums)) / (counts.sum() - group_counts)
        # A remainder of no weight is a rounding error.
        without[counts.sum() - group_counts <= _MIN_WEIGHT * counts.sum()] = np.nan
        scores = item_counts.sum() - self._sum_by_group(item_counts)
        if cell.value is None:
            return _Estimate(None, without, scores, group_counts > 0, has_part)
        why = explain_no_interval(by_cluster, float(np.abs(values).max(initial=0.0)))
        error, freedom = by_cluster.error or 0.0, by_cluster.freedom
        is_share, ends = _find_ends(column, sample, self._ranges)
        is_share = is_share and why in {"", SAME}
        has_scale = ends is not None and math.isfinite(ends[1] - ends[0]) and (is_share or not why)
        limits = _share_ends(cell.value, ends, by_cluster, len(values)) if ends and has_scale else NO_LIMITS
        count = by_cluster.count
        if is_share:
            interval = Interval(*limits, error or None, count, "korn-graubard")
        else:
            interval = _interval(cell.value, by_cluster, freedom, count, "clustered", why, limits)
        if ends and interval.low is not None and interval.high is not None:
            low, high = max(interval.low, ends[0]), min(interval.high, ends[1])
            interval = replace(interval, low=low, high=high)
        groups_in, heavy = group_counts > 0, why == HEAVY
        return _Estimate(interval, without, scores, groups_in, has_part, error, freedom, heavy)

    @property
    def _empty_estimate(self) -> _Estimate:
        zeros = np.zeros(self._group_count)
        clusters = np.zeros(self._count, dtype=np.bool_)
        return _Estimate(None, zeros + np.nan, zeros, zeros > 0, clusters)

    def _estimate_composite(
        self, column: Column, cells: _Cells, parts: _Parts, operands: Sequence[_Estimate]
    ) -> _Estimate:
        groups = reduce(np.logical_or, (part.groups_in for part in operands))
        clusters = reduce(np.logical_or, (part.clusters_in for part in operands))
        scores = np.sum([part.scores for part in operands], axis=0)
        without = np.full(len(groups), np.nan)
        value, count = cells[column.id].value, int(clusters.sum())
        if value is None:
            return _Estimate(None, without, scores, groups, clusters)
        # Leaving out a group that the value does not depend on does not change it.
        without = np.where(groups, self._leave_groups_out(column, cells, parts), value)
        replicates = without[groups]
        of = make_pseudo_values(value, replicates)
        error = of.error if np.isfinite(replicates).all() else None
        freedom, heavy = _pool_freedom(operands, list(_sensitivities(column, cells, parts)))
        why = _no_interval(count, error, float(np.abs(replicates).max(initial=0.0)))
        why = why or HEAVY * heavy
        interval = _interval(value, of, freedom, count, "jackknife", why)
        return _Estimate(interval, without, scores, groups, clusters, error or 0, freedom, heavy)

    def _leave_groups_out(self, column: Column, cells: _Cells, parts: _Parts) -> Floats:
        """Compute a composite without each group of clusters."""
        how = column.how
        if isinstance(how, Composite):
            names = {name: parts[of].without_group for name, of in how.of.items()}
            return np.array(
                [
                    math.nan if any(map(math.isnan, row)) else _evaluate(how, dict(zip(names, row, strict=True)))
                    for row in zip(*(each.tolist() for each in names.values()), strict=True)
                ]
            )
        if not isinstance(how, WeightedMean):
            raise TypeError(f"{column.id} is made of no columns")
        total, weight = np.zeros(self._group_count), np.zeros(self._group_count)
        for of, by in zip(how.of, how.by or how.of, strict=True):
            if cells[of].value is None or not cells[of].asked:
                continue
            scored_only = how.count == "scored"
            counts = np.full(self._group_count, float(cells[by].asked))
            weights = parts[by].scores if scored_only else counts
            # A part without weight does not count, even if it is NaN.
            total = total + np.where(weights > 0, weights * parts[of].without_group, 0.0)
            weight = weight + weights
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(total / weight, dtype=np.float64)

    @property
    def _group_count(self) -> int:
        return int(self._groups.max(initial=-1)) + 1

    def _sum_by_group(self, values: Floats) -> Floats:
        return _sum_by_place(self._groups, values, self._group_count)


def _find_ends(column: Column, sample: Sample, ranges: Ranges) -> tuple[bool, tuple[float, float] | None]:
    """Return whether all values of a column are ends of its scale, and the ends if it has any."""
    if not isinstance(column.how, Mean) or column.how.weighted_by:
        return False, None
    ends, values = ranges.get(column.how.of), np.asarray(sample.raw_values)
    if ends is None or values.min() < ends[0] or values.max() > ends[1]:
        return False, None
    scale, offset = column.how.affine
    low, high = sorted(scale * end + offset for end in ends)
    has_both = len(np.unique(values)) > 1
    # Both ends of a scale of ratings or shares are reached; the far end of a pixel distance says
    # nothing of how much its mean may vary.
    is_rating = ends[1] - ends[0] <= _WIDEST_RATING
    is_share = bool(np.isin(values, ends).all()) and (has_both or is_rating)
    return is_share, (low, high)


def _share_ends(value: float, ends: tuple[float, float], of: Clusters, items: int) -> tuple[float, float]:
    """The interval of a mean by its share of the way between the ends of its scale.

    Of all values with a given mean on a scale those at its ends vary most. So the interval is never
    too short, also for a column whose values happen to be all at one end, or nearly all.
    """
    first, width = ends[0], ends[1] - ends[0]
    error = (of.error or 0.0) / width
    low, high = share_interval((value - first) / width, error, of.freedom, items)
    return first + low * width, first + high * width


def _sum_by_place(places: NDArray[np.int64], values: Floats, size: int) -> Floats:
    """Sum the values of each place."""
    return np.bincount(places, weights=values, minlength=size).astype(np.float64, copy=False)


def _evaluate(how: Composite, values: Mapping[str, float]) -> float:
    """Evaluate a composite; NaN where it is not defined, as for a division by 0."""
    try:
        return how.fn(values)
    except (ArithmeticError, ValueError):
        return math.nan


def _sensitivities(column: Column, cells: _Cells, parts: _Parts) -> Iterator[float]:
    """Yield how much a composite changes if each of its columns changes by its standard error."""
    how = column.how
    if isinstance(how, Composite):
        values = {name: cells[of].value or 0.0 for name, of in how.of.items()}
        for name, of in how.of.items():
            by = parts[of].error
            above, below = values | {name: values[name] + by}, values | {name: values[name] - by}
            yield (_evaluate(how, above) - _evaluate(how, below)) / 2
    elif isinstance(how, WeightedMean):
        scored_only = how.count == "scored"
        by_cells = [cells[by] for by in how.by or how.of]
        weights = [float(cell.scored if scored_only else cell.asked) for cell in by_cells]
        for of, weight in zip(how.of, weights, strict=True):
            has_value = cells[of].value is not None
            yield parts[of].error * weight / sum(weights) if has_value and weight else 0.0


def _pool_freedom(operands: Sequence[_Estimate], effects: Sequence[float]) -> tuple[float, bool]:
    """The degrees of freedom of a composite, and whether one source picture dominates it."""
    variances = np.nan_to_num(np.square(effects), posinf=0.0)
    freedoms = np.array([part.freedom for part in operands])
    heavy = np.array([part.is_heavy for part in operands])
    total = float(variances.sum())
    if not total:
        return float(freedoms.min()), bool(heavy.all())
    freedom = pooled_freedom(variances, freedoms, np.array([part.groups_in for part in operands]))
    return freedom, float(variances[heavy].sum()) > total / 2


def _no_interval(clusters: int, error: float | None, largest: float) -> str:
    """Why a composite has no interval; empty if it has one."""
    if clusters < 2:
        return "all edits share a source picture" if clusters else "no edit counts in it"
    if error is None:
        return "a part of it rests on too few source pictures"
    return SAME if is_rounding(error, largest) else ""


def _interval(
    value: float,
    of: Clusters,
    freedom: float,
    clusters: int,
    method: Method,
    why: str,
    limits: tuple[float, float] = NO_LIMITS,
) -> Interval:
    """Make the interval of a value from what each cluster adds to it.

    It is empty if there is a reason against it. For skewed clusters its ends are the outer ones of
    Student's and of the bootstrap-t's, which are taken no farther than the limits: of few clusters
    the bootstrap-t may have no end, or one far beyond the scale.
    """
    error = of.error
    if why or error is None:
        return Interval(None, None, None, clusters, method, why)
    half = half_width(error, freedom)
    if not of.is_skewed:
        return Interval(value - half, value + half, error, clusters, method)
    result = bootstrap_t(of.sums[None], of.counts, INTERVAL_RESAMPLES, tests_zero=False)
    low = max(float(result.low[0]) + value - of.value, limits[0])
    high = min(float(result.high[0]) + value - of.value, limits[1])
    if math.isinf(high - low):
        return Interval(None, None, None, clusters, "bootstrap-t", FEW_DIFFER)
    return Interval(min(low, value - half), max(high, value + half), error, clusters, "bootstrap-t")


def _pair_clusters(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """The cluster of each pair: the least number of the clusters that pairs connect."""
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    numbers = np.asarray(link_clusters(pairs), dtype=np.int64)
    least = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(least, numbers, np.minimum(first, second))
    return np.asarray(least[numbers])


def with_intervals(
    columns: Sequence[Column],
    tabulation: Tabulation,
    clusters: Sequence[int],
    caps: Mapping[str, float],
    ranges: Ranges,
) -> tuple[dict[str, dict[str, Cell]], Mapping[str, ColumnValues]]:
    """Return the cells of a table with intervals and capped counts, and the values of columns.

    A cell is marked if it rests on items that not all models have; its values are left out.

    Args:
        columns: The columns of the table; a composite follows its parts.
        clusters: The cluster of each item, by the number of the item.
        caps: The value at which a dimension is capped, by dimension.
        ranges: The lowest and the highest value of each dimension; infinity where there is no highest.
    """
    table = tabulation.cells()
    intervals = Intervals(columns, clusters, ranges)
    items: dict[str, dict[str, NDArray[np.uint32]]] = {column.id: {} for column in columns}
    values: dict[str, dict[str, _Values]] = {column.id: {} for column in columns}
    for model, cells in table.items():
        samples = {column.id: sample for column, sample in tabulation.samples(model)}
        for name, sample in samples.items():
            if cells[name].value is not None:
                items[name][model] = np.frombuffer(sample.items, dtype=np.uint32)
        table[model], of_model = intervals.add_intervals(cells, samples)
        for name, each in of_model.items():
            values[name][model] = each
        for column in columns:
            at_cap = _count_capped(column, table[model], samples, caps)
            table[model][column.id] = replace(table[model][column.id], capped=at_cap)
    for column in columns:
        odd_models = _models_on_other_items(items[column.id])
        for model, cells in table.items():
            has_odd_part = any(cells[part].other_items for part in column.parts)
            if cells[column.id].value is not None and (model in odd_models or has_odd_part):
                cells[column.id] = replace(cells[column.id], other_items=True)
                values[column.id].pop(model, None)
    return table, values


def _count_capped(column: Column, cells: _Cells, samples: _Samples, caps: Mapping[str, float]) -> int:
    """Count the capped values of a column, or of the parts of a composite."""
    cap = caps.get(column.dimensions[0]) if column.dimensions else None
    if cap is not None and column.id in samples:
        return int(np.count_nonzero(np.asarray(samples[column.id].raw_values) == cap))
    return sum(cells[part].capped for part in column.operands)


def _models_on_other_items(items_by_model: Mapping[str, NDArray[np.uint32]]) -> frozenset[str]:
    """The models whose values rest on items that not all models have."""
    item_arrays = [*items_by_model.values()]
    if all(np.array_equal(item_arrays[0], each) for each in item_arrays):
        return frozenset()
    common = reduce(np.intersect1d, items_by_model.values())
    # Several outputs of an item are one item.
    return frozenset(model for model, items in items_by_model.items() if len(np.unique(items)) > len(common))
