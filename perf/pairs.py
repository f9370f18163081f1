"""Pairs against pointwise scores, on made votes with known preferences.

Five models edit 200 items. An edit has a quality that people see without error; they call it a tie
where two edits differ by less than .3 of its standard deviation. A judge sees each edit with an
error of its own (standard deviation .7, anew in every call), and all edits of an item too high or
too low. Asked for a score it says a whole number from 1 to 5, or the mean by its probabilities. Asked
which of two edits is better it says A, B or tie, or the probabilities of each. It favours the edit
shown first. `shared` is the part of its error that two edits side by side have in common: 0 is a
judge that gains nothing by seeing both.

    python perf/pairs.py [repetitions]

The columns are the calls for an item, the share of people's decided pairs on which the judge has the
same side (a tie counts half), the share of ties, the share of decided answers for the edit shown
first, and Kendall's tau of the models' ranks with the true ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, norm

from editjudge.stats.preferences import tie_as_half, vote_by

Floats = NDArray[np.float64]
MODELS, ITEMS = 5, 200
PAIRS = [*combinations(range(MODELS), 2)]
ERROR, FAVOUR, TIE = 0.7, 0.25, 0.3
SHARED_NOISE = (0.0, 0.5)
ROUNDS = 4
"""As many calls as pairs in both orders take."""
PER_ITEM = 3
"""Pairs of an item that are drawn where not all are asked about."""


def judge_all(rng: np.random.Generator, quality: Floats) -> Iterator[tuple[str, int, Floats, Floats]]:
    """Yield each way of asking, its calls for an item, the differences A - B, and those in one order.

    All are ITEMS x PAIRS; the sign of a difference is the side, 0 is a tie, and NaN is not asked about.
    """
    first, second = np.array(PAIRS).T
    item = rng.normal(0, 0.5, (ITEMS, 1))
    rounds = [np.clip(3 + quality + item + rng.normal(0, ERROR, quality.shape), 1, 5) for _ in range(ROUNDS)]
    for name, calls, values in (
        ("scores in words", MODELS, np.round(rounds[0])),
        ("scores by probabilities", MODELS, rounds[0]),
        (f"scores by probabilities, {ROUNDS} rounds", ROUNDS * MODELS, np.mean(rounds, axis=0)),
    ):
        gaps = values[:, first] - values[:, second]
        yield name, calls, gaps, np.full_like(gaps, np.nan)
    for noise in SHARED_NOISE:
        error = ERROR * np.sqrt(2 * (1 - noise))
        gap = quality[:, first] - quality[:, second]
        # In the second order B is shown first, and the favour is B's.
        one, other = (gap + favour + rng.normal(0, error, gap.shape) for favour in (FAVOUR, -FAVOUR))
        words = [np.sign(each) * (np.abs(each) > TIE) for each in (one, other)]
        chances = [2 * norm.cdf(each / 0.5) - 1 for each in (one, other)]
        about = f", {noise:.0%} of the error shared"
        yield f"pairs, one order, in words{about}", len(PAIRS), words[0], words[0]
        yield f"pairs, both orders, in words{about}", 2 * len(PAIRS), words[0] + words[1], words[0]
        yield f"pairs, both orders, by probabilities{about}", 2 * len(PAIRS), chances[0] + chances[1], chances[0]
        is_drawn = rng.permuted(np.tile(np.arange(len(PAIRS)) < PER_ITEM, (ITEMS, 1)), axis=1)
        draws = [np.where(is_drawn, each, np.nan) for each in (chances[0] + chances[1], chances[0])]
        yield f"the same, {PER_ITEM} pairs an item drawn{about}", 2 * PER_ITEM, *draws


def measure(repetitions: int, seed: int = 0) -> dict[str, tuple[int, float, float, float, float]]:
    """Return for each way of asking the mean of each column over the repetitions."""
    rows: dict[str, list[tuple[int, float, float, float, float]]] = {}
    for number in range(repetitions):
        rng = np.random.default_rng((seed, number))
        strengths = rng.normal(0, 0.4, MODELS)
        quality = strengths + rng.normal(0, 0.9, (ITEMS, MODELS))
        first, second = np.array(PAIRS).T
        people = vote_by((quality[:, first] - quality[:, second]).ravel(), TIE)
        for name, calls, gaps, in_order in judge_all(rng, quality):
            is_judged = np.isfinite(gaps.ravel())
            votes, truth = vote_by(gaps.ravel()[is_judged], 1e-9), people[is_judged]
            results = np.zeros(MODELS)
            np.add.at(results, first, np.nansum(np.sign(gaps), axis=0))
            np.add.at(results, second, -np.nansum(np.sign(gaps), axis=0))
            rank = float(kendalltau(results, strengths).statistic)
            decisions = in_order[np.nan_to_num(in_order) != 0]
            share = float((decisions > 0).mean()) if len(decisions) else np.nan
            ties = float((gaps.ravel()[is_judged] == 0).mean())
            rows.setdefault(name, []).append((calls, tie_as_half(votes, truth), ties, share, rank))
    return {name: tuple(np.mean(of, axis=0).tolist()) for name, of in rows.items()}  # type: ignore[misc]


def main(repetitions: int = 200) -> None:
    """Print a line for each way of asking."""
    print(f"{'':<60}{'calls':>6}{'right':>8}{'ties':>7}{'first':>7}{'tau':>7}")
    for name, (calls, right, ties, share, rank) in measure(repetitions).items():
        share_text = "-" if np.isnan(share) else f"{share:.3f}"
        print(f"{name:<60}{calls:>6.0f}{right:>8.3f}{ties:>7.3f}{share_text:>7}{rank:>7.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
