"""The interval of a share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy

from editjudge.stats.clusters import Clusters, share_interval


def exact_interval(hits: float, items: int) -> tuple[float, float]:
    """The interval of Clopper and Pearson, by statsmodels."""
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(hits, items, method="beta")
    return low, high


def interval(share: float, items: int, of: Clusters) -> tuple[float, float]:
    return share_interval(share, of.error, of.freedom, items)


@settings(deadline=None)
@given(hits=st.integers(0, 40), items=st.integers(2, 40))
def test_of_independent_items_it_is_that_of_clopper_and_pearson(hits: int, items: int) -> None:
    hits = min(hits, items)
    values = [1.0] * hits + [0.0] * (items - hits)
    expected = exact_interval(hits, items)
    low, high = interval(hits / items, items, Clusters.of(values, range(items)))
    assert (low, high) == pytest.approx(expected, abs=1e-9)


def test_clusters_count_by_the_formula_of_korn_and_graubard() -> None:
    rng = np.random.default_rng(2)
    of = np.repeat(np.arange(20), rng.integers(1, 6, 20))
    values = (rng.random(len(of)) < np.repeat(rng.random(20), np.bincount(of))).astype(float)
    clusters = Clusters.of(values.tolist(), of.tolist())
    share, n = values.mean(), len(values)
    effective = n * share * (1 - share) / (n - 1) / clusters.error**2
    effective *= (scipy.t.ppf(0.975, n - 1) / scipy.t.ppf(0.975, clusters.freedom)) ** 2
    effective = min(n, effective)
    x = share * effective
    assert interval(share, n, clusters) == pytest.approx(
        (scipy.beta.ppf(0.025, x, effective - x + 1), scipy.beta.ppf(0.975, x + 1, effective - x))
    )


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_at_its_ends_the_clusters_count_and_not_the_items(share: float) -> None:
    clusters = Clusters.of([share] * 100, [number // 5 for number in range(100)])
    low, high = interval(share, 100, clusters)
    assert (low, high) == pytest.approx(exact_interval(20 * share, 20))
    assert 0 <= low < high <= 1
