"""Anchored means: against ppi-python, by their properties, and by how often they hold."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from editjudge.stats.anchor import AnchoredMean, anchor_mean, draw_items
from editjudge.stats.clusters import t_quantile

HERE = Path(__file__).parent
REFERENCE = json.loads((HERE / "ppi_python.json").read_text())


def rate_some(
    rng: np.random.Generator, count: int = 400, rated: int = 100
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores, ratings of a drawn part, their probabilities, and clusters of four."""
    clusters = np.arange(count) // 4
    scores = rng.normal(size=count)
    ratings = np.full(count, np.nan)
    places = draw_items(clusters, rated, rng)
    ratings[places] = 3 + scores[places] + 0.5 * rng.normal(size=rated)
    return scores, ratings, np.full(count, rated / count), clusters


def width(of: AnchoredMean) -> float:
    assert of.estimate.low is not None
    assert of.estimate.high is not None
    return of.estimate.high - of.estimate.low


@pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda case: case["name"])
def test_equals_ppi_python(case: dict[str, Any]) -> None:
    """Their interval is normal, and their variances divide by n; their weight is not cross-fitted."""
    rated, others = REFERENCE["data"][case["data"]]["rated"], REFERENCE["data"][case["data"]]["others"]
    scores = np.array([score for score, _ in rated] + others)
    ratings = np.array([rating for _, rating in rated] + [np.nan] * len(others))
    # Their weight multiplies the mean of the other edits, ours that of all.
    tuning = None if case["tuned"] else case["weight"] * len(scores) / len(others)
    chances = np.full(len(scores), len(rated) / len(scores))
    ours = anchor_mean(scores, ratings, chances, np.arange(len(scores)), tuning=tuning)
    count = len(rated)
    student = t_quantile(0.975, count - 1) / t_quantile(0.975, 1e9) * (count / (count - 1)) ** 0.5
    their_width = (case["high"] - case["low"]) * student
    assert ours.estimate.value == pytest.approx(case["value"], abs=0.1 * their_width if case["tuned"] else 1e-9)
    assert width(ours) == pytest.approx(their_width, rel=0.06 if case["tuned"] else 0.005)
    assert ours.tuning * len(others) / len(scores) == pytest.approx(case["weight"], abs=0.2)


def test_a_scale_of_the_judge_changes_nothing() -> None:
    scores, *rest = rate_some(np.random.default_rng(1))
    plain, other = anchor_mean(scores, *rest), anchor_mean(-70 * scores + 12, *rest)
    assert other.estimate.value == pytest.approx(plain.estimate.value)
    assert width(other) == pytest.approx(width(plain))
    assert other.tuning == pytest.approx(-plain.tuning / 70)
    assert plain.worth is not None
    assert plain.worth > 2


def test_ratings_of_all_edits_leave_nothing_to_a_judge() -> None:
    rng = np.random.default_rng(2)
    scores, clusters = rng.normal(size=80), np.arange(80) // 2
    ratings = scores + rng.normal(size=80)
    of = anchor_mean(scores, ratings, np.ones(80), clusters)
    assert of.estimate.value == pytest.approx(ratings.mean(), abs=0.05)
    assert of.worth == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("scores", [np.full(400, np.nan), np.full(400, 7.0)], ids=["none", "all equal"])
def test_a_silent_judge_leaves_people_alone(scores: np.ndarray) -> None:
    _, *rest = rate_some(np.random.default_rng(3))
    of = anchor_mean(scores, *rest)
    assert of.estimate.value == pytest.approx(of.people.value)
    assert of.estimate == of.people
    assert of.worth == 1


def test_edits_without_a_score_count_by_their_ratings() -> None:
    """A judge that is silent on the worst half would be far too high without them."""
    scores, ratings, chances, clusters = rate_some(np.random.default_rng(4), 2000, 400)
    seen = np.where(scores < 0, np.nan, scores)
    of = anchor_mean(seen, ratings, chances, clusters)
    assert of.scores == int((scores >= 0).sum())
    assert of.estimate.low is not None
    assert of.estimate.high is not None
    assert of.estimate.low < 3 < of.estimate.high
    assert of.worth is not None
    assert of.worth > 1.1


def test_edits_drawn_with_other_chances_are_weighted() -> None:
    rng = np.random.default_rng(5)
    values = np.repeat([5.0, 1.0], [900, 100]) + rng.normal(0, 0.3, 1000)
    places = np.concatenate([rng.choice(900, 50, replace=False), 900 + rng.choice(100, 50, replace=False)])
    ratings = np.full(1000, np.nan)
    ratings[places] = values[places]
    chances = np.repeat([50 / 900, 50 / 100], [900, 100])
    of = anchor_mean(rng.normal(size=1000), ratings, chances, np.arange(1000))
    assert of.estimate.value == pytest.approx(4.6, abs=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_few_sources_have_no_interval(seed: int) -> None:
    scores, ratings, chances, clusters = rate_some(np.random.default_rng(seed), 400, 9)
    of = anchor_mean(scores, ratings, chances, clusters)
    assert of.estimate.low is None
    assert "are the least" in of.estimate.reason


def test_a_wrong_probability_is_refused() -> None:
    scores, ratings, _, clusters = rate_some(np.random.default_rng(6))
    with pytest.raises(ValueError, match="probabilities"):
        anchor_mean(scores, ratings, np.zeros(400), clusters)


def test_draws_are_spread_and_equally_likely() -> None:
    clusters = np.repeat(np.arange(10), [1, 1, 1, 1, 2, 2, 4, 4, 12, 12])
    counts = np.zeros(40)
    for seed in range(4000):
        places = draw_items(clusters, 10, np.random.default_rng(seed))
        assert len(set(places.tolist())) == 10
        assert np.bincount(clusters[places], minlength=10).max() <= 4
        counts[places] += 1
    assert np.abs(counts / 4000 - 0.25).max() < 0.04
    assert draw_items(clusters, 40, np.random.default_rng(0)).tolist() == list(range(40))


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    path = HERE.parents[2] / "perf" / "anchor.py"
    module = ModuleType("perf_anchor")
    exec(compile(path.read_text(), path, "exec"), vars(module))  # noqa: S102 - our own
    return module


@pytest.mark.parametrize(
    ("judge", "count", "widest"),
    [("good", 30, 0.8), ("biased", 100, 0.8), ("compressed", 60, 0.9), ("random", 100, 1.05), ("difference", 30, 0.9)],
)
def test_intervals_hold_the_true_mean(simulation: ModuleType, judge: str, count: int, widest: float) -> None:
    """A part of what perf/anchor.py simulates, with bounds so wide that chance does not decide."""
    covered, alone, relative, _ = simulation.measure(judge, count, 100)
    assert min(covered, alone) >= 0.88
    assert relative <= widest


def test_rating_the_lowest_scores_does_not_hold(simulation: ModuleType) -> None:
    """So ratings that were not drawn at random anchor nothing."""
    covered, *_ = simulation.measure("good", 100, 100, lowest=True)
    assert covered < 0.7
