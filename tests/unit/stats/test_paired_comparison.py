"""Two models on the same items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats as scipy

from editjudge.stats import paired_comparison as module
from editjudge.stats.paired_comparison import compare, holm, rank_ranges

SUMS = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=9)


def sign_flip_p(sums: Sequence[float]) -> float:
    return float(module.sign_flip_p(np.array([sums], dtype=np.float64))[0])


@given(sums=SUMS)
@example(sums=[0.0, 0.0])
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
    assert sign_flip_p([1.0] * 60) == 1 / (1 + module._FLIPS), "the signs as they are count too"


def test_the_figures_of_a_small_case() -> None:
    result = compare([1.0, 2.0, 3.0, 4.0], [2.0, 2.0 + 1e-12, 5.0, 3.0], "aabc")
    assert result.first == 2.5
    assert result.difference == pytest.approx(0.5)
    assert (result.wins, result.ties, result.losses) == (2, 1, 1)
    assert (result.edits, result.sources) == (4, 3)
    # 1, 2 and -1 by source: as far as 2 or farther in six of eight ways. Both others are surer.
    assert result.p == pytest.approx(6 / 8)
    assert result.unseen == 1.0


def detectable(values: list[float], clusters: Sequence[int], tests: int = 1) -> Any:
    return compare([0.0] * len(values), values, clusters).detectable(tests)


def test_what_could_be_found_is_found_four_times_of_five() -> None:
    from statsmodels.stats.power import TTestPower

    rng = np.random.default_rng(5)
    values = rng.normal(size=30)
    found = detectable(values.tolist(), range(30))
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


def series(differences: list[float], size: int) -> Any:
    clusters = [n // size for n in range(len(differences))]
    return compare([0.0] * len(differences), differences, clusters)


@settings(max_examples=100, deadline=None)
@given(differences=DIFFERENCES, size=st.integers(1, 3))
def test_a_small_p_excludes_0_from_both_intervals(differences: list[float], size: int) -> None:
    result = series(differences, size)
    if result.interval is None:
        return
    low, high = result.bootstrap.low, result.bootstrap.high
    if result.p < 0.05:
        assert result.interval.low > 0 or result.interval.high < 0
        assert (low is not None and low > 0) or (high is not None and high < 0)


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
        shares.append(result.p / scipy.ttest_1samp(gains, 0).pvalue)
    assert min(shares) == pytest.approx(1)


@settings(max_examples=25)
@given(ps=st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_that_of_statsmodels(ps: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    assert holm(ps) == pytest.approx(list(multipletests(ps, method="holm")[1]), abs=1e-12)
    assert holm([]) == []


def test_places() -> None:
    better = {"a": frozenset[str](), "b": frozenset[str](), "c": frozenset({"a"})}
    assert rank_ranges(better) == {"a": (1, 2), "b": (1, 3), "c": (2, 3)}
