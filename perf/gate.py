"""How often a gate answers falsely: simulated candidates whose true loss is just the margin.

Scores of 0 to 1 of a base and a candidate on n sources, drawn anew in each trial. Kinds: discrete
scores of five levels; skewed losses; skewed decibels without bounds; rare catastrophes, in 1 and in
5 % of sources; sources of one to eight edits; and for false fails a rare stroke of luck.
Five ways answer on the same numbers: `gate`; a bound by betting, which is proven (Waudby-Smith and
Ramdas, 2023); a t interval; `compare`, if what it does not call worse passes; and a
threshold on the candidate's mean, the base's mean of another set of n sources less the margin, as
pipelines have it.

    python perf/gate.py [trials]

The tables have the share of false passes and of false fails at the margin, where at most 5 % is
meant to be, and of candidates as good as the base that pass.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import stdtrit

from editjudge.stats.noninferiority import ALPHA, Gains
from editjudge.stats.paired_comparison import compare

Rng = np.random.Generator
Draw = Callable[[Rng, int], tuple[Any, Any, Any]]
"""Base, candidate and source of each item, of so many sources."""
SOURCES = (40, 100, 300)
COMPARISONS = 40
"""The most trials of `compare`, which takes half a second."""


def of_each(base: Any, gains: Any) -> tuple[Any, Any, Any]:
    """One item to a source."""
    return base, base + gains, np.arange(len(base))


def discrete(mean: float) -> Draw:
    """Five levels; most candidates get the same, some a level more or less."""

    def draw(rng: Rng, n: int) -> tuple[Any, Any, Any]:
        base = rng.choice([0.25, 0.5, 0.75], n)
        up, down = 0.2 + 2 * mean, 0.2 - 2 * mean
        return of_each(base, rng.choice([-0.25, 0, 0.25], n, p=[down, 0.6, up]))

    return draw


def draw_skewed(mean: float) -> Draw:
    """Most lose nothing, a few much."""

    def draw(rng: Rng, n: int) -> tuple[Any, Any, Any]:
        return of_each(np.full(n, 0.9), mean + 0.3 / 3.3 - rng.beta(0.3, 3, n))

    return draw


def decibels(mean: float) -> Draw:
    """Lognormal losses, without bounds."""

    def draw(rng: Rng, n: int) -> tuple[Any, Any, Any]:
        return of_each(np.full(n, 30.0), mean + np.exp(0.5) - rng.lognormal(0, 1, n))

    return draw


def rare(share: float, size: float, mean: float) -> Draw:
    """Equal but for a few catastrophes, or strokes of luck, and a constant that makes the mean."""

    def draw(rng: Rng, n: int) -> tuple[Any, Any, Any]:
        events = size * (rng.random(n) < share) + mean - share * size
        return of_each(np.full(n, 0.9 if size < 0 else 0.1), events)

    return draw


def draw_clustered(mean: float) -> Draw:
    """Sources of one to eight edits that share most of their noise."""

    def draw(rng: Rng, n: int) -> tuple[Any, Any, Any]:
        sources = np.repeat(np.arange(n), rng.integers(1, 9, n))
        gains = mean + rng.normal(0, 0.1, n)[sources] + rng.normal(0, 0.05, len(sources))
        base = np.full(len(sources), 0.5)
        return base, base + gains, sources

    return draw


KINDS: dict[str, tuple[Callable[[float], Draw], float, tuple[float, float] | None]] = {
    "discrete": (discrete, 0.05, (0.0, 1.0)),
    "skewed": (draw_skewed, 0.3 / 3.3, (0.0, 1.0)),
    "decibels, skewed": (decibels, 1.0, None),
    "catastrophes in 1 %": (lambda mean: rare(0.01, -0.9, mean), 0.009, (0.0, 1.0)),
    "catastrophes in 5 %": (lambda mean: rare(0.05, -0.9, mean), 0.045, (0.0, 1.0)),
    "luck in 5 %": (lambda mean: rare(0.05, 0.9, mean), 0.045, (0.0, 1.0)),
    "1 to 8 edits a source": (draw_clustered, 0.05, (0.0, 1.0)),
}
WAYS = ("gate", "betting", "t", "compare", "threshold")


def bet(sums: Any, units: Any, worst: float, margin: float) -> bool:
    """Whether betting against a loss of the margin wins 20 to 1; bets rest on earlier sources."""
    z = (sums + margin * units) / units.mean()
    most = 0.95 / max(-(margin + worst), 1e-9)
    counts = np.arange(1, len(z) + 1)
    before = np.concatenate([[0.25], (0.25 + np.cumsum((z - z.mean()) ** 2)[:-1]) / (counts[:-1] + 1)])
    bets = np.minimum(most, np.sqrt(2 * np.log(1 / ALPHA) / (len(z) * before)))
    return bool(np.prod(1 + bets * z) >= 1 / ALPHA)


def answers(draw: Draw, rng: Rng, n: int, margin: float, bounds: Any, *, slow: bool) -> Any:
    """Of each way, whether it passes, and whether it fails; none where it does not answer."""
    base, candidate, sources = draw(rng, n)
    gains = Gains.of(base, candidate, sources, bounds)
    can_tell = bounds is not None or n >= 60
    results = {"gate": (can_tell and gains.p(margin) <= ALPHA, can_tell and gains.p(margin, "high") <= ALPHA)}
    if bounds is not None:
        results["betting"] = bet(gains.sums, gains.units, -1.0, margin), False
    sums = gains.sums + margin * gains.units
    t = sums.mean() / max(sums.std(ddof=1) / np.sqrt(n), 1e-12)
    results["t"] = bool(t > stdtrit(n - 1, 1 - ALPHA)), bool(t < stdtrit(n - 1, ALPHA))
    if slow:
        figures = compare(base, candidate, sources)
        is_worse = figures.p is not None and figures.p < ALPHA and figures.difference < 0
        results["compare"] = not is_worse, is_worse
    other, _, _ = draw(rng, n)
    passes = candidate.mean() >= other.mean() - margin
    results["threshold"] = bool(passes), not passes
    return results


def main(trials: int = 400) -> None:
    """Print three tables."""
    screen, began = Console(width=120), time.process_time()
    for title, of, place in (
        ("false passes at the margin, %", -1.0, 0),
        ("false fails at the margin, %", -1.0, 1),
        ("passes of a candidate as good as the base, %", 0.0, 0),
    ):
        table = Table("kind", "sources", *WAYS, title=title)
        for kind, (make, margin, bounds) in KINDS.items():
            for n in SOURCES:
                rng = np.random.default_rng([n, len(kind)])
                results = [
                    answers(make(of * margin), rng, n, margin, bounds, slow=trial < COMPARISONS)
                    for trial in range(trials)
                ]
                shares = []
                for way in WAYS:
                    each = [one[way][place] for one in results if way in one]
                    shares.append(f"{100 * np.mean(each):.1f}" if each else "-")
                table.add_row(kind, str(n), *shares)
        screen.print(table)
    screen.print(f"{trials} trials, {COMPARISONS} of compare; {time.process_time() - began:.0f} s of processor")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
