"""How often anchored intervals hold the true mean, and how wide they are beside people's alone.

About 2,000 edits of 500 source pictures are simulated, with 1 to 7 edits a source and a correlation
of .3 within a source. People rate from 1 to 5. Judges: `good`, `biased` (too high by a constant),
`compressed` (nearly all scores at the top of the scale), `random`; `difference` compares two models
by a good judge. Every line has the coverage, the width in shares of that of ratings alone, and how
many times as many ratings would be as good.

    python perf/anchor.py [repetitions] [judge ...]

`lowest scores rated` is what is refused: people rate the edits with the lowest scores of a judge
that sees half of what they see, and the mean is taken as if chance had drawn them.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from editjudge.stats.anchor import AnchoredMean, anchor_mean, draw_items

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SOURCES = 500
WITHIN = 0.3
JUDGES = ("good", "biased", "compressed", "random", "difference")
COUNTS = (30, 60, 100, 300)
CENTRE = 3.4


class Edits(NamedTuple):
    """Simulated edits: the source, people's rating and the judge's score of each."""

    sources: Ints
    ratings: Floats
    scores: Floats


def make_edits(rng: np.random.Generator, judge: str) -> Edits:
    """Make the edits of one repetition."""
    sources = np.repeat(np.arange(SOURCES), rng.integers(1, 8, SOURCES))
    count = len(sources)

    def normal() -> Floats:
        common = rng.normal(size=SOURCES)[sources]
        return np.asarray(np.sqrt(WITHIN) * common + np.sqrt(1 - WITHIN) * rng.normal(size=count))

    def rate(quality: Floats) -> Floats:
        return np.clip(np.round(CENTRE + 0.9 * quality + 0.5 * rng.normal(size=count)), 1, 5)

    quality, noise = normal(), normal()
    visible_quality = quality + 0.5 * noise
    if judge == "difference":
        other = 0.7 * quality + 0.7 * normal()
        return Edits(sources, rate(other) - rate(quality), other + 0.5 * normal() - visible_quality)
    scores = {
        "good": visible_quality,
        "biased": visible_quality + 2,
        "compressed": 8 + np.tanh(1.5 * visible_quality + 1.5),
        "random": noise,
    }
    return Edits(sources, rate(quality), scores[judge])


def find_truth(judge: str) -> float:
    """The mean rating of very many edits."""
    if judge == "difference":
        return 0.0
    rng = np.random.default_rng(1)
    values = np.clip(np.round(CENTRE + rng.normal(0, np.hypot(0.9, 0.5), 4_000_000)), 1, 5)
    return float(values.mean())


def anchor(edits: Edits, items: Ints) -> AnchoredMean:
    """Anchor the scores to the ratings of these edits, as if all had the same chance."""
    ratings = np.full(len(edits.ratings), np.nan)
    ratings[items] = edits.ratings[items]
    chance = np.full(len(ratings), len(items) / len(ratings))
    return anchor_mean(edits.scores, ratings, chance, edits.sources)


def measure(judge: str, count: int, repetitions: int, *, lowest: bool = False) -> tuple[float, float, float, float]:
    """Return coverage, that of people alone, relative width, and the median worth."""
    truth, hits, alone, widths, worths = find_truth(judge), 0, 0, [], []
    for number in range(repetitions):
        rng = np.random.default_rng((number, count))
        edits = make_edits(rng, judge)
        if lowest:
            vague = edits.scores + 1.5 * rng.normal(size=len(edits.scores))
            edits = edits._replace(scores=vague)
            items = np.argsort(vague)[:count]
        else:
            items = draw_items(edits.sources, count, rng)
        result = anchor(edits, items)
        ends = [end for of in (result.estimate, result.people) for end in (of.low, of.high) if end is not None]
        if len(ends) < 4 or result.worth is None:
            continue
        hits += ends[0] <= truth <= ends[1]
        alone += ends[2] <= truth <= ends[3]
        widths.append((ends[1] - ends[0]) / (ends[3] - ends[2]))
        worths.append(result.worth)
    return hits / repetitions, alone / repetitions, float(np.mean(widths)), float(np.median(worths))


def main(repetitions: int = 1000, judges: tuple[str, ...] = JUDGES) -> None:
    """Print a line for each judge and number of ratings."""
    print(f"{'judge':<12}{'ratings':>8}{'covers':>8}{'people':>8}{'width':>8}{'worth':>8}")
    for judge in judges:
        for count in COUNTS:
            hits, alone, width, worth = measure(judge, count, repetitions)
            print(f"{judge:<12}{count:>8}{hits:>8.3f}{alone:>8.3f}{width:>8.3f}{worth:>8.2f}", flush=True)
    hits, *_ = measure("good", 100, repetitions, lowest=True)
    print(f"lowest scores rated, 100 ratings: covers {hits:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, tuple(sys.argv[2:]) or JUDGES)
