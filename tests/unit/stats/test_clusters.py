"""Means with intervals: as the libraries say, and as often right as they claim."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats as scipy

from editjudge.stats.clusters import Clusters, link_clusters, number_clusters
from editjudge.stats.paired_comparison import compare


def mean(values: Sequence[float], clusters: Sequence[Hashable]) -> Any:
    """The mean, as that of a difference from nothing."""
    return compare([0.0] * len(values), values, clusters)


VALUES = st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=40)


@given(values=VALUES)
def test_of_single_items_it_is_the_usual_interval(values: list[float]) -> None:
    array = np.array(values)
    assume(array.std() > 1e-9 * np.abs(array).max())
    told = mean(values, range(len(values)))
    error = scipy.sem(array)
    assert told.difference == pytest.approx(array.mean(), rel=1e-9, abs=1e-9)
    assert told.error == pytest.approx(error, rel=1e-9, abs=1e-9)
    half = scipy.t.ppf(0.975, len(values) - 1) * error
    ends = told.interval.low, told.interval.high
    assert ends == pytest.approx((array.mean() - half, array.mean() + half), rel=1e-9, abs=1e-9)


@settings(max_examples=50)
@given(values=VALUES)
def test_of_clusters_of_one_size_it_is_what_statsmodels_says(values: list[float]) -> None:
    import statsmodels.api as sm

    values = values[: len(values) // 3 * 3]
    clusters = np.arange(len(values)) % (len(values) // 3)
    told = mean(values, clusters.tolist())
    assume(told.error is not None)
    fitted = sm.OLS(np.array(values), np.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True
    )
    assert told.error == pytest.approx(fitted.bse[0], rel=1e-9, abs=1e-9)
    ends = told.interval.low, told.interval.high
    assert ends == pytest.approx(fitted.conf_int()[0], rel=1e-9, abs=1e-9)


@settings(max_examples=50)
@given(values=VALUES, seed=st.integers(0, 99))
def test_of_any_clusters_it_is_the_mean_without_each(values: list[float], seed: int) -> None:
    clusters = np.random.default_rng(seed).integers(0, 5, len(values))
    told, array = mean(values, clusters.tolist()), np.array(values)
    sizes = np.unique(clusters, return_counts=True)[1]
    freedom = sizes.sum() ** 2 / (sizes**2).sum() - 1
    assert told.freedom == pytest.approx(max(1, freedom))
    if told.error is None:
        means = np.array([array[clusters == each].mean() for each in {*clusters.tolist()}])
        assert sizes.max() > len(values) / 2 or means.std() < 1e-8 * np.abs(array).max() + 1e-300
        return
    moved = [array[clusters != each].mean() - array.mean() for each in {*clusters.tolist()}]
    error = ((len(moved) - 1) / len(moved) * np.square(moved).sum()) ** 0.5
    assert told.error == pytest.approx(error, rel=1e-6, abs=1e-9)
    half = scipy.t.ppf(0.975, max(1, freedom)) * told.error
    assert told.interval.high - told.difference == pytest.approx(half, rel=0.04)


@pytest.mark.parametrize(
    ("values", "clusters"),
    [
        ([1.0, 2.0, 4.0, 5.0, 9.0], "aaabc"),  # one source decides
        ([0.0] * 4, "abcd"),  # the same by each
        ([0.1] * 3, "abc"),
    ],
)
def test_no_interval_where_it_would_promise(values: list[float], clusters: str) -> None:
    told = mean(values, clusters)
    assert told.error is told.interval is None


def test_one_cluster_says_nothing_of_others() -> None:
    told = mean([1.0, 2.0, 3.0], ["a", "a", "a"])
    assert (told.difference, told.edits, told.sources) == (2.0, 3, 1)
    assert told.error is told.interval is None


@pytest.mark.parametrize(("values", "clusters"), [([], []), ([1.0], []), ([1.0, 2.0], ["a"])])
def test_values_without_clusters_are_refused(values: list[float], clusters: list[str]) -> None:
    with pytest.raises(ValueError, match="clusters: give one each"):
        mean(values, clusters)


@pytest.mark.parametrize("value", [1e-139, 1e-320])
def test_values_whose_cubes_round_to_0_are_not_skewed(value: float) -> None:
    assert not Clusters.of([0.0] * 8 + [value], range(9)).is_skewed


def test_items_that_share_any_part_are_one_cluster() -> None:
    """Directly or through others."""
    numbers = link_clusters(["12", "34", "23", "5", "5", "", ""])
    together: dict[int, list[str]] = {}
    for item, number in zip("abcdefg", numbers, strict=True):
        together.setdefault(number, []).append(item)
    assert sorted(together.values()) == [["a", "b", "c"], ["d", "e"], ["f"], ["g"]]
    assert not link_clusters([])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_an_array_of_clusters_is_numbered_as_a_list_is(names: list[int]) -> None:
    assert number_clusters(np.array(names)).tolist() == number_clusters(names).tolist()
