"""Whether a candidate is worse than its base by more than a margin: p values, limits and plans.

The mean difference of clustered items is bounded by exponential weights. Each source has a weight
of the exponential distribution, and one more source enters with the worst difference that is
possible. The p value is the chance that the weighted sum lies beyond the margin (Gaffke, 2005;
Learned-Miller and Thomas, 2020). Where sources differ by all or nothing, the limit is that of
Clopper and Pearson; where none of n differs, it is the rule of three. For other bounded values no
proof is known, and no case in which it fails; `perf/gate.py` tries many. A bound by betting is
proven, passes less often and depends on the order of the sources.

Values without bounds have no worst difference. One and a half times the worst that was seen takes
its place, which kept false passes of lognormal losses below 5 %. So a limit says nothing about a
larger loss that no source shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .clusters import POWER, Floats, number_clusters

End: TypeAlias = Literal["low", "high"]
ALPHA = 0.05
"""The share of false passes, and of false fails, at the margin."""
_POINTS = 200
_FIRST, _LAST = math.log(1e-6), math.log(1e4)
_MOST_SOURCES = 10_000_000


@dataclass(frozen=True)
class Gains:
    """How much better the candidate is than the base, summed by source.

    Attributes:
        sums: Sum of the gains of each of G sources (float64, G); positive where the candidate is
            better.
        units: How much of the margin each source has (float64, G): its number of items, or the sum
            of the base's values for a margin that is a share of the base.
        worst: The least gain of a source with an average number of items, and its units; None for
            values without bounds.
        best: The largest gain likewise, from the worst value that the base has on one of these
            sources. So a candidate may fail on few sources, as long as the base fails on no others.
        copies: How many sources stand for each one; see `needed_sources`.
    """

    sums: Floats
    units: Floats
    worst: tuple[float, float] | None = None
    best: tuple[float, float] | None = None
    copies: float = 1.0

    @classmethod
    def of(
        cls,
        base: Floats,
        candidate: Floats,
        clusters: NDArray[np.int64],
        bounds: tuple[float, float] | None,
        *,
        higher_is_better: bool = True,
        is_relative: bool = False,
    ) -> Gains:
        """Sum up the gains of N items by source.

        Args:
            base: The base's value of each item (float64, N); finite.
            candidate: The candidate's values.
            clusters: The source of each item (int64, N).
            bounds: Lowest and highest possible value; None where one end is missing.
            is_relative: Whether the margin is a share of the base's mean.
        """
        sign = 1.0 if higher_is_better else -1.0
        places = number_clusters(clusters)
        sums, units = (
            np.asarray(np.bincount(places, weights=of), dtype=np.float64)
            for of in (sign * (candidate - base), base if is_relative else np.ones(len(base)))
        )
        if bounds is None:
            return cls(sums, units)
        (low, high), usual = bounds, len(base) / len(sums)
        means = np.bincount(places, weights=base) / np.bincount(places)
        # The largest loss of any source, and the largest gain on sources with these base values.
        least, most = float(means.min()), float(means.max())
        at_worst, at_best = (high, least) if higher_is_better else (low, most)
        gain = high - least if higher_is_better else most - low
        units_at = (at_worst, at_best) if is_relative else (1.0, 1.0)
        worst = usual * (low - high), usual * units_at[0]
        return cls(sums, units, worst, (usual * gain, usual * units_at[1]))

    @property
    def value(self) -> float:
        """The mean gain, or its share of the base's mean."""
        return math.fsum(self.sums) / math.fsum(self.units)

    @property
    def sources(self) -> int:
        """The number of sources."""
        return len(self.sums)

    def p(self, margin: float, end: End = "low") -> float:
        """The chance to see such gains where the true one is just the margin below 0, in [0, 1].

        Args:
            margin: On the scale of `value`; negative for a gain that is to be passed.
            end: `low` tests whether the true gain is below it, `high` whether it is above.
        """
        sign, extreme = (1.0, self.worst) if end == "low" else (-1.0, self.best)
        values = sign * (self.sums + margin * self.units)
        more = sign * (extreme[0] + margin * extreme[1]) if extreme else 1.5 * float(values.min())
        return _chance_below_zero(values, min(0.0, more), self.copies)

    def limit(self, alpha: float = ALPHA, end: End = "low") -> float:
        """The limit of the gain on one side: the true gain is beyond it with a chance of alpha."""
        from scipy.optimize import brentq

        ends = [abs(extreme[0]) for extreme in (self.worst, self.best) if extreme]
        largest = max([*np.abs(self.sums).tolist(), *ends, 1e-9])
        reach = 2 * largest * self.sources / abs(float(self.units.sum()))
        # At one end of the reach nothing is beyond the limit, at the other everything.
        root = brentq(lambda gain: self.p(-gain, end) - alpha, -reach, reach, rtol=1e-6)
        return float(root)

    def needed_sources(self, margin: float, alpha: float = ALPHA) -> int | None:
        """About how many sources like these it takes to pass.

        Returns:
            None where the mean gain itself lies beyond the margin, or ten million are too few.
        """
        if self.value <= -margin:
            return None
        return _find_least(lambda n: self._scale(n).p(margin) <= alpha)

    def sources_for_power(self, margin: float, least: int = 1) -> int | None:
        """How many sources give a power of 80 %, at least `least`; None above ten million."""
        return _find_least(lambda n: n >= least and self.plan(n, margin).power >= POWER)

    def plan(self, sources: int, margin: float) -> Plan:
        """Tell what so many sources, as noisy as these, would show."""
        from scipy.special import ndtr, ndtri

        rests = self.sums - self.value * self.units
        equal = replace(self, sums=rests)._scale(sources)
        error = float(np.sqrt((rests**2).sum() / max(1, self.sources - 1) / sources))
        error /= abs(float(self.units.mean()))
        room = margin + equal.limit()
        power = float(ndtr(room / error)) if error else float(room > 0)
        return Plan(power, margin + equal.limit(end="high") + float(ndtri(POWER)) * error)

    def _scale(self, sources: int) -> Gains:
        return replace(self, copies=sources / self.sources)


class Plan(NamedTuple):
    """What a number of sources would show.

    Attributes:
        power: The chance that a candidate that is as good as the base passes.
        detectable: The loss of which four of five such candidates fail.
    """

    power: float
    detectable: float


def _find_least(is_enough: Callable[[int], bool]) -> int | None:
    """Find about the least number that is enough, to 1 %."""
    many = 1
    while not is_enough(many):
        many *= 2
        if many > _MOST_SOURCES:
            return None
    few = many // 2
    while many - few > max(1, many // 100):
        middle = (few + many) // 2
        few, many = (few, middle) if is_enough(middle) else (middle, many)
    return many


def spend(look: int, looks: int, alpha: float = ALPHA) -> float:
    """The share of false answers that one of several looks at growing data may spend.

    It is what the function of Lan and DeMets (1983) with bounds like those of O'Brien and Fleming
    adds at this look. All looks together so spend `alpha`, however their results depend on each
    other.
    """
    from scipy.special import ndtr, ndtri

    def total(share: float) -> float:
        return float(2 * ndtr(ndtri(alpha / 2) / math.sqrt(share))) if share else 0.0

    return total(look / looks) - total((look - 1) / looks)


def _chance_below_zero(values: Floats, more: float, copies: float) -> float:
    """The chance that the values and `more` have a sum of at most 0, by exponential weights.

    It is the integral of Gil-Pelaez (1951), over 200 points of a logarithmic scale; its error is
    below 0.0001. With `copies`, each weight is of a gamma distribution of this shape.
    """
    scale = math.sqrt(copies * float(values @ values) + more * more)
    if scale == 0.0:
        return 1.0
    each, counts = np.unique(values / scale, return_counts=True)
    grid = np.linspace(_FIRST, _LAST, _POINTS)
    points = np.exp(grid)
    logs = np.zeros(_POINTS, dtype=np.complex128)
    for begin in range(0, len(each), 4096):
        part = slice(begin, begin + 4096)
        logs += np.log1p(-1j * np.outer(points, each[part])) @ counts[part]
    logs = copies * logs + np.log1p(-1j * points * more / scale)
    total = float(np.exp(-logs).imag.sum()) * float(grid[1] - grid[0]) / math.pi
    return min(1.0, max(0.0, 0.5 - total))
