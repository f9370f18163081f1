"""Agreement of judges: against scipy, by hand, and by what must hold of any values."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from editjudge.app import agreement as module
from editjudge.app.agreement import Statistic, agreement, kappa, spearman, standard_deviation

SCALE = st.integers(1, 5).map(float)
REAL = st.floats(-1e3, 1e3, allow_nan=False).map(lambda x: round(x, 6))
PAIRS = st.lists(st.tuples(SCALE, SCALE), min_size=1, max_size=40)
REAL_PAIRS = st.lists(st.tuples(REAL, REAL), min_size=2, max_size=40)
BINARY = st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 1.0])), min_size=1)


@settings(deadline=None)  # the first example imports scipy
@given(PAIRS | REAL_PAIRS)
def test_spearman_is_scipys(pairs: list[tuple[float, float]]) -> None:
    one, other = zip(*pairs, strict=True)
    got = spearman(pairs)
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert got.value is None
        assert got.reason
    else:
        assert got.value == pytest.approx(stats.spearmanr(one, other).statistic, abs=1e-12)


@given(BINARY | PAIRS)
def test_kappa_is_the_formula_of_a_table_of_counts(pairs: list[tuple[float, float]]) -> None:
    """As scikit-learn's `cohen_kappa_score`: 1 - sum(w * observed) / sum(w * expected)."""
    labels = sorted({value for pair in pairs for value in pair})
    observed = np.zeros((len(labels), len(labels)))
    for a, b in pairs:
        observed[labels.index(a), labels.index(b)] += 1
    expected = np.outer(observed.sum(1), observed.sum(0)) / observed.sum()
    off = 1 - np.eye(len(labels))
    got = kappa(pairs)
    if (off * expected).sum() == 0:
        assert got == Statistic(None, "both judges give every edit the same value")
    else:
        due = 1 - (off * observed).sum() / (off * expected).sum()
        assert got.value == pytest.approx(due, abs=1e-12)


@pytest.mark.parametrize(
    ("table", "due"),
    [
        # (both yes, first only, second only, both no), and kappa worked out by hand.
        ((20, 5, 10, 15), 0.4),  # p_o 0.7, p_e 0.5
        ((45, 15, 25, 15), (0.6 - 0.54) / 0.46),
        ((25, 35, 5, 35), (0.6 - 0.46) / 0.54),
        ((5, 0, 0, 5), 1.0),
        ((0, 5, 5, 0), -1.0),
        ((10, 10, 0, 0), 0.0),  # one of them says yes always
    ],
)
def test_kappa_by_hand(table: tuple[int, ...], due: float) -> None:
    cells = [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]
    pairs = [pair for pair, count in zip(cells, table, strict=True) for _ in range(count)]
    assert kappa(pairs).value == pytest.approx(due)
    assert agreement(pairs).value == pytest.approx((table[0] + table[3]) / sum(table))


@given(PAIRS)
def test_figures_do_not_depend_on_order_and_have_bounds(pairs: list[tuple[float, float]]) -> None:
    def close(one: Statistic, other: Statistic) -> bool:
        if one.value is None or other.value is None:
            return one == other
        return math.isclose(one.value, other.value, abs_tol=1e-12)

    swapped = [(b, a) for a, b in reversed(pairs)]
    for two_valued in (True, False):
        got = module.inter_judge_agreement(pairs, two_valued=two_valued)
        for name, figure in module.inter_judge_agreement(swapped, two_valued=two_valued).items():
            assert close(figure, got[name])
    for figure, low in ((agreement(pairs), 0), (kappa(pairs), -1), (spearman(pairs), -1)):
        assert figure.value is None or low <= figure.value <= 1
    assert 0 <= (module.mean_absolute_difference(pairs).value or 0.0) <= 4


@given(st.lists(SCALE, min_size=1))
def test_a_judge_agrees_with_its_double(values: list[float]) -> None:
    pairs = [(value, value) for value in values]
    assert agreement(pairs).value == 1
    assert module.mean_absolute_difference(pairs).value == 0
    constant = len(set(values)) == 1
    assert kappa(pairs).value == (None if constant else 1)
    assert spearman(pairs).value == (None if constant else pytest.approx(1))


@given(st.lists(REAL, min_size=2, max_size=30))
def test_the_standard_deviation_is_the_samples(values: list[float]) -> None:
    due = statistics.stdev(values)
    assert standard_deviation(values) == pytest.approx(due, rel=1e-9, abs=1e-12)
    assert standard_deviation([3.0]) is standard_deviation([]) is None


@pytest.mark.parametrize(
    ("values", "due"),
    [
        ((0.1 + 0.2, 0.3), 0.0),
        ((0.8, 0.8000000000000002, 0.8), 0.0),
        ((70.00000000000001, 70.0), 0.0),
        ((-1e-9, -1e-9, -1.0000000000000002e-9), 0.0),
        ((0.0, 0.0), 0.0),
        ((0.8, 0.80000000001), math.sqrt(0.5) * 1e-11),
        ((1e-9, 2e-9), math.sqrt(0.5) * 1e-9),
    ],
)
def test_what_rounding_leaves_is_no_spread(values: tuple[float, ...], due: float) -> None:
    assert standard_deviation(values) == pytest.approx(due, rel=1e-5, abs=0)


def test_rounds_by_hand() -> None:
    got = module.intra_judge_agreement([(1, 1, 1), (1, 2, 3), (0.1 + 0.2, 0.3, 0.3), (4, 4, 5)])
    assert got["equal"] == Statistic(0.5)
    assert got["standard_deviation"].value == pytest.approx((1 + math.sqrt(1 / 3)) / 4)


@pytest.mark.parametrize("two_valued", [True, False])
def test_without_edits_there_is_a_reason_and_no_number(two_valued: bool) -> None:
    figures = module.inter_judge_agreement(
        [], two_valued=two_valued
    ) | module.intra_judge_agreement([])
    assert len(figures) == 4
    for figure in figures.values():
        assert figure == Statistic(None, "no edit has all the values")
    assert spearman([(1, 2)]) == Statistic(None, "fewer than two values")
