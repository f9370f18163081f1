"""The bootstrap-t over clusters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from editjudge.stats.bootstrap import INTERVAL_RESAMPLES, TEST_RESAMPLES, bootstrap_t, draw_clusters
from editjudge.stats.paired_comparison import measure_differences, smallest_p

VALUES = st.lists(st.integers(-6, 6).map(float), min_size=2, max_size=40)


def test_it_equals_a_slow_computation() -> None:
    rng = np.random.default_rng(3)
    sums, counts = rng.lognormal(size=(2, 12)), rng.integers(1, 5, 12).astype(float)
    result = bootstrap_t(sums, counts, tests_zero=False)
    draws = np.concatenate([draws for _, draws in draw_clusters(12, TEST_RESAMPLES)])
    assert draws.shape == (TEST_RESAMPLES, 12)
    assert (draws.sum(axis=1) == 12).all()
    for k, own in enumerate(sums):
        mean, error = _measure(own, counts)
        ts = []
        for draw in draws:
            places = np.repeat(np.arange(12), draw)
            drawn, its_error = _measure(own[places], counts[places])
            ts.append((drawn - mean) / its_error)
        ts.sort()
        assert result.low[k] == pytest.approx(mean - ts[-499] * error)
        assert result.high[k] == pytest.approx(mean - ts[498] * error)
        beyond = min(sum(t >= mean / error for t in ts), sum(t <= mean / error for t in ts))
        assert result.p[k] == pytest.approx(2 * (1 + beyond) / (TEST_RESAMPLES + 1))


def _measure(sums: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    mean, n = sums.sum() / counts.sum(), len(sums)
    error = np.sqrt(n / (n - 1) * ((sums - mean * counts) ** 2).sum()) / counts.sum()
    return float(mean), float(error)


@settings(max_examples=60, deadline=None)
@given(values=VALUES)
def test_p_is_below_its_level_where_the_interval_excludes_0(values: list[float]) -> None:
    result = bootstrap_t(np.array([values]), np.ones(len(values)))
    excludes = bool(result.low[0] > 0 or result.high[0] < 0)
    if len(set(values)) > 1:
        assert bool(result.p[0] < 0.05) is excludes


@settings(max_examples=30, deadline=None)
@given(values=VALUES, scale=st.floats(0.01, 100), shift=st.integers(-5, 5))
@example(values=[1.0, 1.0, 1.0], scale=17.186352436968242, shift=5)  # equal but for rounding
def test_the_interval_moves_with_the_values(values: list[float], scale: float, shift: int) -> None:
    plain = bootstrap_t(np.array([values]), np.ones(len(values)), tests_zero=False)
    moved = bootstrap_t(scale * np.array([values]) + shift, np.ones(len(values)), tests_zero=False)
    assert moved.low == pytest.approx(scale * plain.low + shift, abs=1e-6 * scale)
    assert moved.high == pytest.approx(scale * plain.high + shift, abs=1e-6 * scale)


def test_rare_catastrophes_have_a_long_side() -> None:
    values = np.array([[1.0] * 38 + [-20.0, -15.0]])
    result = bootstrap_t(values, np.ones(40))
    mean = values.mean()
    assert mean - result.low[0] > 2 * (result.high[0] - mean)


def test_where_hardly_any_differ_there_is_no_end() -> None:
    result = bootstrap_t(np.array([[1.0] * 39 + [-5.0]]), np.ones(40), tests_zero=False)
    assert result.low[0] == -np.inf
    assert result.p[0] > 0.05


def test_many_clusters_are_drawn_in_parts() -> None:
    rng = np.random.default_rng(8)
    sums = rng.normal(0.5, 1, (1, 30_000))
    result = bootstrap_t(sums, np.ones(30_000), INTERVAL_RESAMPLES)
    half = 1.96 * sums.std() / 30_000**0.5
    assert float(sums.mean() - result.low[0]) == pytest.approx(half, rel=0.15)
    assert float(result.high[0] - sums.mean()) == pytest.approx(half, rel=0.15)


def test_the_least_p_is_that_of_the_sign_flips() -> None:
    result = bootstrap_t(np.linspace(1, 2, 40)[None], np.ones(40))
    assert result.p[0] == smallest_p(40)


def test_pairs_that_are_tested_together_have_what_each_has_alone() -> None:
    rng = np.random.default_rng(9)
    differences, clusters = rng.lognormal(size=(5, 60)) - 1.5, (np.arange(60) // 2).tolist()
    together = [test.p for test in measure_differences(differences, clusters)]
    alone = [next(measure_differences(row[None], clusters)).p for row in differences]
    assert together == pytest.approx(alone)


@pytest.mark.parametrize("rest", [0.0, -1.0, 0.75])
def test_a_gain_by_nearly_every_cluster_alike_is_sure(rest: float) -> None:
    result = bootstrap_t(np.array([[1.0] * 29 + [rest]]), np.ones(30))
    assert result.p[0] < 0.01
    assert 0.2 < result.low[0] < result.high[0] < np.inf


def test_a_gain_with_a_catastrophe_is_not() -> None:
    result = bootstrap_t(np.array([[1.0] * 29 + [-15.0]]), np.ones(30))
    assert result.low[0] < -5
    assert result.p[0] > 0.3
