"""Statistics of agreement, against scipy and statsmodels and by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.inter_rater import cohens_kappa

from editjudge.stats import agreement
from editjudge.stats.agreement import VALUES, NotDefined, estimate

RNG = np.random.default_rng(7)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("pearson", lambda x, y: stats.pearsonr(x, y).statistic),
        ("spearman", lambda x, y: stats.spearmanr(x, y).statistic),
        ("kendall", lambda x, y: stats.kendalltau(x, y).statistic),
        ("mae", lambda x, y: np.abs(x - y).mean()),
    ],
)
def test_statistics_of_values_are_those_of_scipy(name: str, reference: Any) -> None:
    x = RNG.integers(0, 6, 80).astype(float)
    y = x + RNG.integers(-2, 3, 80)
    assert VALUES[name].function(x, y) == pytest.approx(float(reference(x, y)), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=40))
def test_kappa_is_that_of_statsmodels(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(side) for side in zip(*pairs, strict=True))
    table = np.zeros((4, 4))
    np.add.at(table, (x, y), 1)
    if len({*x, *y}) == 1:
        with pytest.raises(NotDefined):
            agreement.cohen_kappa(x, y)
        return
    expected = cohens_kappa(table, return_results=False)
    assert agreement.cohen_kappa(x, y) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_intervals_count_sources_and_not_edits(name: str) -> None:
    x = RNG.normal(size=60)
    y = x + RNG.normal(size=60)
    alone = estimate(VALUES[name], (x, y), range(60))
    tripled = estimate(VALUES[name], (np.tile(x, 3), np.tile(y, 3)), [*range(60)] * 3)
    assert alone.value == pytest.approx(tripled.value, abs=1e-4)
    assert (alone.low, alone.high) == pytest.approx((tripled.low, tripled.high), abs=0.02)


def test_an_interval_covers_what_it_says() -> None:
    """A correlation of .6 with four edits of each of forty sources that share a part."""
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        shared = rng.normal(size=(40, 1, 2))
        own = rng.normal(size=(40, 4, 2))
        mixed = (shared + own) / math.sqrt(2)
        x, y = mixed[..., 0].ravel(), (0.6 * mixed[..., 0] + 0.8 * mixed[..., 1]).ravel()
        of = estimate(VALUES["pearson"], (x, y), np.repeat(np.arange(40), 4).tolist())
        assert of.low is not None
        assert of.high is not None
        hits += of.low <= 0.6 <= of.high
    assert 0.91 <= hits / 200 <= 0.99


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([1.0, 1, 1], [1.0, 2, 3], "one side gives every edit the same value"),
        ([0.1 + 0.2, 0.3, 0.3], [1.0, 2, 3], "one side gives every edit the same value"),
        ([1.0], [2.0], "fewer than two values"),
        ([], [], "there are no records with both sides"),
    ],
)
def test_a_statistic_that_is_not_defined_has_a_reason(x: list[float], y: list[float], reason: str) -> None:
    of = estimate(VALUES["spearman"], (np.array(x), np.array(y)), range(len(x)))
    assert (of.value, of.low, of.reason) == (None, None, reason)
