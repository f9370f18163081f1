"""Statistics of agreement, against scipy and statsmodels and by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from editjudge.stats import agreement, preferences
from editjudge.stats.agreement import VALUES, NotDefined, estimate
from editjudge.stats.preferences import TIE, TIE_RULES, VOTES, A, B, vote_by

RNG = np.random.default_rng(7)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("pearson", lambda x, y: stats.pearsonr(x, y).statistic),
        ("spearman", lambda x, y: stats.spearmanr(x, y).statistic),
        ("kendall", lambda x, y: stats.kendalltau(x, y).statistic),
        ("mae", lambda x, y: np.abs(x - y).mean()),
        ("rmse", lambda x, y: math.sqrt(((x - y) ** 2).mean())),
    ],
)
def test_statistics_of_values_are_those_of_scipy(name: str, reference: Any) -> None:
    x = RNG.integers(0, 6, 80).astype(float)
    y = x + RNG.integers(-2, 3, 80)
    assert VALUES[name].function(x, y) == pytest.approx(float(reference(x, y)), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=40))
def test_kappa_is_that_of_statsmodels(pairs: list[tuple[int, int]]) -> None:
    from statsmodels.stats.inter_rater import cohens_kappa

    x, y = (np.array(side) for side in zip(*pairs, strict=True))
    table = np.zeros((4, 4))
    np.add.at(table, (x, y), 1)
    if len({*x, *y}) == 1:
        with pytest.raises(NotDefined):
            agreement.cohen_kappa(x, y)
        return
    expected = cohens_kappa(table, return_results=False)
    assert agreement.cohen_kappa(x, y) == pytest.approx(expected, abs=1e-9)


# Krippendorff (2011), section C: four observers, twelve units, missing values.
RELIABILITY = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""


@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_is_that_of_the_published_example(level: Any, alpha: float) -> None:
    rows = [line.split() for line in RELIABILITY.strip().splitlines()]
    found = [(float(v), unit) for row in rows for unit, v in enumerate(row) if v != "."]
    values, units = (np.array(side) for side in zip(*found, strict=True))
    assert agreement.krippendorff_alpha(values, units, level) == pytest.approx(alpha, abs=6e-4)


def test_the_logistic_mapping_finds_a_logistic() -> None:
    x = np.linspace(-3, 3, 60)
    y = 2 + 5 / (1 + np.exp(-(x - 0.4) / 0.6))
    assert agreement.map_logistic(x, y) == pytest.approx(y, abs=1e-3)
    assert agreement.map_logistic(-x, y) == pytest.approx(y, abs=1e-3)
    assert VALUES["rmse_mapped"].function(x, y) < 1e-3 < VALUES["rmse"].function(x, y)


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


def test_no_interval_goes_beyond_what_a_statistic_can_be() -> None:
    """One edit of four is far off, so that the error is large beside its mean."""
    x, y = np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 3, 9])
    for name in ("mae", "rmse"):
        of = estimate(VALUES[name], (x, y), range(4))
        free = estimate(VALUES[name]._replace(ends=(-math.inf, math.inf)), (x, y), range(4))
        assert (of.value, of.low, of.high) == (free.value, 0.0, free.high)
        assert (free.low or 0) < 0


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


def test_four_models_say_little() -> None:
    """Fisher's interval of r = .95 with n = 4."""
    x = np.array([0.0, 1.0, 2.0, 3.0])
    noise = np.array([1.0, -1.0, -1.0, 1.0])
    centred = x - x.mean()
    y = 0.95 * centred / np.linalg.norm(centred) + math.sqrt(1 - 0.95**2) * noise / 2
    of = agreement.correlation_of_few(VALUES["pearson"], x, y)
    assert of.value == pytest.approx(0.95)
    assert (of.low, of.high) == pytest.approx((-0.13, 0.999), abs=0.005)
    # Of two models all that can be said is whether both sides order them alike.
    few = {name: agreement.correlation_of_few(each, x[:2], -x[:2]) for name, each in agreement.CORRELATIONS.items()}
    assert {name: (of.value, of.reason) for name, of in few.items()} == {
        "pearson": (None, "fewer than three models"),
        "spearman": (None, "fewer than three models"),
        "kendall": (-1.0, "fewer than four models"),
    }


def test_rules_for_ties() -> None:
    people = np.array([VOTES.index(v) for v in ("A", "A", "B", "tie", "both_bad", "both_bad")])
    judge = np.array([VOTES.index(v) for v in ("A", "tie", "A", "tie", "tie", "both_bad")])
    found = {name: rule.function(judge, people) for name, rule in TIE_RULES.items()}
    assert found == {
        "four_classes": 3 / 6,
        "merged": 4 / 6,
        "tie_as_half": 1.5 / 3,
        "decided": 1 / 3,
        "both_decided": 1 / 2,
    }


def test_a_source_is_right_where_all_its_pairs_are() -> None:
    people, judge = np.array([A, B, A, TIE, B, TIE]), np.array([A, B, A, A, A, A])
    found = estimate(preferences.VOTE_STATISTICS["all_right"], (judge, people), ["x", "x", "y", "y", "y", "z"])
    assert found.value == 0.5


def test_equal_differences_move_together() -> None:
    """Labels tie and A with equal differences: no threshold has both right."""
    gaps = np.array([1.0, 1.0])
    for people in ([TIE, A], [A, TIE]):
        votes = vote_by(gaps, preferences.best_threshold(gaps, np.array(people)))
        assert preferences.merge_bad(votes, np.array(people)) == 0.5


@given(st.lists(st.tuples(st.integers(-4, 4), st.sampled_from([A, B, TIE])), min_size=1, max_size=30))
def test_the_best_threshold_is_the_best_of_all(records: list[tuple[int, int]]) -> None:
    gaps = np.array([gap for gap, _ in records], dtype=float)
    people = np.array([vote for _, vote in records])
    best = max(preferences.merge_bad(vote_by(gaps, at), people) for at in range(5))
    at = preferences.best_threshold(gaps, people)
    assert preferences.merge_bad(vote_by(gaps, at), people) == best


def test_a_threshold_for_a_source_rests_on_the_others() -> None:
    rng = np.random.default_rng(3)
    gaps, clusters = rng.normal(size=200), np.arange(200) // 4
    people = rng.integers(0, 3, 200)
    at = preferences.cross_validated_thresholds(gaps, people, clusters.tolist())
    other = people.copy()
    other[clusters == 5] = TIE
    changed = preferences.cross_validated_thresholds(gaps, other, clusters.tolist())
    assert (at[clusters == 5] == changed[clusters == 5]).all()


def test_strengths_are_found_again() -> None:
    rng = np.random.default_rng(1)
    strengths = np.array([1.2, 0.4, -0.4, -1.2])
    first = rng.integers(0, 4, 6000)
    second = (first + rng.integers(1, 4, 6000)) % 4
    a, b = np.exp(strengths[first]), np.exp(strengths[second])
    draw = rng.random(6000) * (a + b + 0.5 * np.sqrt(a * b))
    votes = np.where(draw < a, A, np.where(draw < a + b, B, TIE))
    elo = preferences.bradley_terry(first, second, votes, 4)
    assert elo == pytest.approx(strengths * 400 / math.log(10), abs=20)
    decided = votes < TIE
    reference = evalica_strengths(first[decided], second[decided], votes[decided])
    own = preferences.bradley_terry(first[decided], second[decided], votes[decided], 4)
    assert own == pytest.approx(reference, abs=0.5)


def evalica_strengths(first: Any, second: Any, votes: Any) -> Any:
    """The other opinion on pairs without ties."""
    import evalica

    winners = [evalica.Winner.X if vote == A else evalica.Winner.Y for vote in votes]
    scores = evalica.bradley_terry(first.tolist(), second.tolist(), winners, tolerance=1e-9).scores
    logs = np.log([scores[model] for model in range(4)])
    return (logs - logs.mean()) * 400 / math.log(10)


def test_a_model_that_always_wins_has_no_strength() -> None:
    with pytest.raises(NotDefined, match="all their pairs"):
        preferences.bradley_terry(np.array([0, 0]), np.array([1, 2]), np.array([A, A]), 3)


def test_win_ratios() -> None:
    votes = np.array([A, TIE, B])
    assert preferences.win_ratios(["x", "x", "y"], ["y", "z", "z"], votes) == {"x": 0.75, "y": 0.0, "z": 0.75}
