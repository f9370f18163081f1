"""Many comparisons at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust the p values of tests that are made together, so that each is as sure as if alone.

    The k-th smallest of m counts as m - k + 1 times itself, never less than one before it and at
    most 1 (Holm, 1979): the chance that any of them is falsely found stays below the level.
    """
    order = sorted(range(len(ps)), key=ps.__getitem__)
    adjusted = [1.0] * len(ps)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = largest
    return adjusted


def rank_ranges(better: Mapping[str, frozenset[str]]) -> dict[str, tuple[int, int]]:
    """The places that each model may have, from 1; those of equal ones overlap.

    The first is one more than how many models are surely better, the last is how many are not
    surely worse.

    Args:
        better: By model, those that are surely better.
    """
    worse = {name: sum(name in above for above in better.values()) for name in better}
    return {name: (1 + len(above), len(better) - worse[name]) for name, above in better.items()}
