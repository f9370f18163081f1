"""Two models on the same items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy
from statsmodels.stats.power import TTestPower

from editjudge.stats.paired_comparison import Comparison, compare
from editjudge.stats.paired_comparison import sign_flip_p as sign_flip_ps

SUMS = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=9)


def sign_flip_p(sums: Sequence[float]) -> float:
    return float(sign_flip_ps(np.array([sums], dtype=np.float64))[0])


@given(sums=SUMS)
def test_all_signs_of_few_clusters(sums: list[float]) -> None:
    reached = abs(math.fsum(sums))
    tried = [abs(sum(s * d for s, d in zip(signs, sums, strict=True))) for signs in _signs(sums)]
    assert sign_flip_p(sums) == pytest.approx(sum(each >= reached for each in tried) / len(tried))


def _signs(sums: list[float]) -> product[tuple[int, ...]]:
    return product((1, -1), repeat=len(sums))


def test_drawn_signs_say_what_scipy_says() -> None:
    sums = np.random.default_rng(3).normal(0.3, 1, 60)
    expected = scipy.permutation_test(
        (sums, np.zeros(60)),
        lambda x, y: float(np.sum(x - y)),
        permutation_type="samples",
        n_resamples=9_999,
        rng=np.random.default_rng(1),
    )
    assert sign_flip_p(sums) == pytest.approx(expected.pvalue, abs=0.01)


def test_p_is_as_rare_as_it_says() -> None:
    rng = np.random.default_rng(4)
    ps = [sign_flip_p(rng.normal(size=20)) for _ in range(300)]
    assert 0.02 <= sum(p < 0.05 for p in ps) / len(ps) <= 0.09
    assert sign_flip_p([0.0, 0.0]) == 1.0


def test_the_figures_of_a_small_case() -> None:
    result = compare([1.0, 2.0, 3.0, 4.0], [2.0, 2.0 + 1e-12, 5.0, 3.0], "aabc")
    assert result.first == 2.5
    assert result.difference == pytest.approx(0.5)
    assert (result.wins, result.ties, result.losses) == (2, 1, 1)
    assert (result.edits, result.sources) == (4, 3)
    # 1, 2 and -1 by source: as far as 2 or farther in six of eight ways. Both others are surer.
    assert result.p == pytest.approx(6 / 8)
    assert result.unseen == 1.0


def detectable(values: list[float], clusters: Sequence[int], tests: int = 1) -> float | None:
    return compare([0.0] * len(values), values, clusters).detectable(tests)


def test_what_could_be_found_is_found_four_times_of_five() -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(size=30)
    found = detectable(values.tolist(), range(30))
    assert found is not None
    power = TTestPower().power(found / values.std(ddof=1), 30, 0.05)
    assert power == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(("sources", "tests"), [(8, 1), (10, 1), (14, 6)])
def test_what_could_be_found_is_found_by_the_test_that_is_used(sources: int, tests: int) -> None:
    rng = np.random.default_rng(6)
    tried = 400
    hits = 0
    for _ in range(tried):
        noise = rng.normal(size=sources)
        found = detectable(noise.tolist(), range(sources), tests)
        assert found is not None
        hits += sign_flip_p((noise + found).tolist()) * tests < 0.05
    assert 0.68 <= hits / tried <= 0.92


@pytest.mark.parametrize(("sources", "tests"), [(4, 1), (6, 1), (7, 2), (9, 6)])
def test_where_nothing_can_be_found_no_size_is_promised(sources: int, tests: int) -> None:
    values = np.random.default_rng(7).normal(size=sources).tolist()
    assert detectable(values, range(sources), tests) is None
    assert detectable(values, [0] * sources) is None


@pytest.mark.parametrize("clusters", [["a", "a", "a"], ["a", "b", "c"]])
def test_models_that_are_equal_are_not_told_apart(clusters: list[str]) -> None:
    result = compare([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], clusters)
    assert (result.wins, result.ties, result.losses) == (0, 3, 0)
    assert result.p in {None, 1.0}


def test_as_many_of_each() -> None:
    with pytest.raises(ValueError, match="values of one model"):
        compare([1.0], [1.0, 2.0], ["a", "b"])


DIFFERENCES = st.one_of(
    st.lists(st.floats(-5, 5), min_size=2, max_size=60),
    st.lists(st.sampled_from([-1.0, 0.0, 0.0, 1.0]), min_size=2, max_size=60),
    # A little gained everywhere, and much lost on a few.
    st.lists(st.sampled_from([0.9, 1.0, 1.0, 1.1, -8.0]), min_size=2, max_size=60),
)


def series(differences: list[float], size: int) -> Comparison:
    clusters = [n // size for n in range(len(differences))]
    return compare([0.0] * len(differences), differences, clusters)


@settings(max_examples=100, deadline=None)
@given(differences=DIFFERENCES, size=st.integers(1, 3))
def test_a_small_p_excludes_0_from_both_intervals(differences: list[float], size: int) -> None:
    result = series(differences, size)
    if result.interval is None:
        return
    assert result.bootstrap is not None
    assert result.p is not None
    low, high = result.bootstrap.low, result.bootstrap.high
    if result.p < 0.05:
        assert result.interval.low > 0 or result.interval.high < 0
        assert (low is not None and low > 0) or (high is not None and high < 0)


def test_a_gain_with_rare_catastrophes_is_no_win() -> None:
    rng = np.random.default_rng(12)
    claims = old_claims = 0
    for _ in range(300):
        gains = np.where(rng.random(60) < 0.08, -11.5, 1.0) + rng.normal(0, 0.2, 60)
        result = series(gains.tolist(), 1)
        assert result.p is not None
        claims += result.p < 0.05
        old_claims += sign_flip_p(gains) < 0.05
    assert claims / 300 < 0.08
    assert old_claims > 1.5 * claims


def test_the_same_difference_by_every_source_is_decided_by_the_exchange() -> None:
    result = series([0.5] * 12, 1)
    assert (result.interval, result.bootstrap) == (None, None)
    assert "the same" in result.reason
    assert result.p == pytest.approx(2 / 2**12)
    assert result.unseen == 0.25


def test_a_heavy_source_decides_nothing() -> None:
    clusters = [0] * 30 + [*range(1, 11)]
    result = compare([0.0] * 40, [1.0] * 30 + [0.9] * 10, clusters)
    assert (result.interval, result.bootstrap, result.p) == (None, None, None)
    assert result.reason


def test_what_differs_by_rounding_alone_is_a_tie() -> None:
    result = compare([0.3, 0.1 + 0.2, 0.3], [0.1 + 0.2, 0.3, 0.4], range(3))
    assert (result.wins, result.ties, result.losses) == (1, 2, 0)


def test_p_is_never_below_that_of_students_test() -> None:
    """And is that where the others are smaller."""
    rng = np.random.default_rng(6)
    shares = []
    for _ in range(30):
        gains = rng.normal(0.5, 1, 10)
        result = compare([0.0] * 10, gains.tolist(), range(10))
        assert result.p is not None
        shares.append(result.p / scipy.ttest_1samp(gains, 0).pvalue)
    assert min(shares) == pytest.approx(1)
