"""Margins: the p value on cases that are known, and false answers at the margin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import betaincinv

from editjudge.stats.clusters import Floats
from editjudge.stats.noninferiority import ALPHA, Gains, spend

Draw = Callable[[np.random.Generator, int], Floats]


def gains(differences: Floats, bounds: tuple[float, float] | None = (0.0, 1.0), **more: bool) -> Gains:
    """Gains of as many sources, of a base in the middle of the bounds."""
    base = np.full(len(differences), 0.5)
    return Gains.of(base, base + differences, np.arange(len(base)), bounds, **more)


@pytest.mark.parametrize("sources", [1, 5, 40, 300])
def test_what_no_source_shows_is_bounded_by_the_rule_of_three(sources: int) -> None:
    equal = gains(np.zeros(sources))
    assert equal.p(0.1) == pytest.approx(0.9**sources, abs=1e-4)
    assert equal.limit() == pytest.approx(-(1 - ALPHA ** (1 / sources)), abs=2e-4)
    assert equal.needed_sources(0.1) == 29


def test_of_all_or_nothing_it_is_the_limit_of_clopper_and_pearson() -> None:
    for losses in (1, 4, 10):
        values = -np.repeat([1.0, 0.0], [losses, 50 - losses])
        limit = Gains.of(np.ones(50), 1 + values, np.arange(50), (0.0, 1.0)).limit()
        assert -limit == pytest.approx(betaincinv(losses + 1, 50 - losses, 1 - ALPHA), abs=1e-3)


def test_it_is_the_chance_of_weights_that_are_drawn() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0.01, 0.1, 30)
    weights = rng.exponential(size=(100_000, 31))
    drawn = (weights[:, :30] @ (values + 0.02) + weights[:, 30] * (0.02 - 1) <= 0).mean()
    assert gains(values).p(0.02) == pytest.approx(drawn, abs=0.005)
    assert gains(values).p(0.02, "high") + gains(values).p(0.02) >= 1


def test_directions_and_shares_of_the_base() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(0.01, 0.05, 80)
    higher, lower = gains(values), gains(-values, higher_is_better=False)
    assert lower.value == pytest.approx(higher.value)
    for end in ("low", "high"):
        assert lower.limit(ALPHA, end) == pytest.approx(higher.limit(ALPHA, end), abs=1e-6)
    share = gains(values, None, is_relative=True)
    assert share.value == pytest.approx(higher.value / 0.5)
    assert share.limit() == pytest.approx(gains(values, None).limit() / 0.5, abs=1e-6)


def test_more_sources_like_these_pass_where_it_says() -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(0, 0.1, 50)
    values -= values.mean()
    few = gains(values)
    needed = few.needed_sources(0.03)
    assert needed
    copies = round(needed / 50)
    assert gains(np.tile(values, copies + 1)).p(0.03) <= ALPHA
    assert gains(np.tile(values, max(1, copies - 1))).p(0.03) > ALPHA
    assert gains(values - 0.1).needed_sources(0.03) is None, "it lies beyond the margin itself"


def test_a_plan_says_how_often_an_equal_candidate_passes() -> None:
    rng = np.random.default_rng(6)
    pilot = gains(rng.normal(0, 0.1, 300))
    sources = pilot.sources_for_power(0.05)
    assert sources
    passes = [gains(rng.normal(0, 0.1, sources)).p(0.05) <= ALPHA for _ in range(100)]
    assert np.mean(passes) == pytest.approx(0.8, abs=0.12)
    loss = pilot.plan(sources, 0.05).detectable
    fails = [gains(rng.normal(-loss, 0.1, sources)).p(0.05, "high") <= ALPHA for _ in range(100)]
    assert np.mean(fails) == pytest.approx(0.8, abs=0.12)


@pytest.mark.parametrize(
    ("draw", "margin", "bounds"),
    [
        (lambda rng, n: -0.9 * (rng.random(n) < 0.05), 0.045, (0.0, 1.0)),
        (lambda rng, n: rng.choice([-0.25, 0, 0.25], n, p=[0.3, 0.5, 0.2]), 0.025, (0.0, 1.0)),
        (lambda rng, n: -rng.beta(0.3, 3, n), 0.3 / 3.3, (0.0, 1.0)),
        (lambda rng, n: -rng.lognormal(0, 1, n), np.exp(0.5), None),
    ],
    ids=["catastrophes", "discrete", "skewed", "unbounded"],
)
@pytest.mark.parametrize("sources", [60, 200])
def test_false_passes_at_the_margin_are_rare(
    draw: Draw, margin: float, bounds: tuple[float, float] | None, sources: int
) -> None:
    """A sample of `perf/gate.py`; the true loss is the margin. Base 1, so that all may be lost."""
    rng = np.random.default_rng(sources)
    places, base = np.arange(sources), np.ones(sources)
    passes = [Gains.of(base, base + draw(rng, sources), places, bounds).p(margin) <= ALPHA for _ in range(200)]
    assert np.mean(passes) <= ALPHA + 2.5 * np.sqrt(ALPHA * (1 - ALPHA) / 200)


def test_looks_spend_the_error_rate_together() -> None:
    parts = [spend(look, 4) for look in range(1, 5)]
    assert sum(parts) == pytest.approx(ALPHA)
    assert parts == sorted(parts)
    assert spend(1, 1) == pytest.approx(ALPHA)
