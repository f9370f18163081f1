"""What a reward follows beside its purpose, and what became of rewards that were kept."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import fmean

import numpy as np

from ..base.item import Edit
from ..base.strict import Strict
from ..stats.agreement import NotDefined, spearman

_FEWEST = 3
_EQUAL = 1e-6
_MOST_SHOWN = 5
Numbers = Sequence[float | None]


class Movement(Strict):
    """How rewards differ from those that were kept.

    Attributes:
        edits: How many have a number now and had one.
        other_numbers: How many of these have another number.
        new_numbers: How many have a number and had none.
        lost_numbers: How many have no number and had one.
        mean_change: The mean of now minus then; None without edits.
        agreement: Rank correlation, -1 to 1; None where it is not defined.
        furthest: The ids of those that moved most, with their change.
    """

    edits: int
    other_numbers: int
    new_numbers: int
    lost_numbers: int
    mean_change: float | None
    agreement: float | None
    furthest: dict[str, float]


def measure_edit(edit: Edit) -> dict[str, float]:
    """Measure what a trained editor may change to please a judge.

    Returns:
        `length` in characters of the instruction; of the output `sharpness`, the mean step between
        neighbours, 0 to 510, `saturation`, 0 to 1, and `brightness`, 0 to 255; and `change`, the
        mean distance from the source, 0 to 255, if there is one source of equal size.
    """
    facts = {"length": float(len(edit.item.instruction))}
    if edit.image is None:
        return facts
    pixels = edit.image.rgb.astype(np.float32)
    grey, highest = pixels.mean(axis=2), pixels.max(axis=2)
    facts["sharpness"] = sum(float(np.abs(np.diff(grey, axis=axis)).mean()) for axis in (0, 1) if grey.shape[axis] > 1)
    facts["saturation"] = float((1 - pixels.min(axis=2) / np.maximum(highest, 1)).mean())
    facts["brightness"] = float(grey.mean())
    source = edit.item.source
    if source is not None and source.size == edit.image.size:
        facts["change"] = float(np.abs(pixels - source.rgb).mean())
    return facts


def find_correlates(facts: Sequence[Mapping[str, float]], rewards: Numbers) -> dict[str, float]:
    """Return the rank correlation of rewards with each fact of `measure_edit`, -1 to 1.

    A fact is absent where fewer than three edits have it and a reward, or where one is constant.
    """
    correlates = {}
    for name in dict.fromkeys(key for each in facts for key in each):
        pairs = [(each[name], r) for each, r in zip(facts, rewards, strict=True) if r is not None and name in each]
        if (value := _correlate(pairs)) is not None:
            correlates[name] = value
    return correlates


def compare_rewards(ids: Sequence[str], before: Numbers, now: Numbers) -> Movement:
    """Compare rewards with those that were kept, edit by edit."""
    both = [(i, a, b) for i, a, b in zip(ids, before, now, strict=True) if a is not None and b is not None]
    changes = {i: b - a for i, a, b in both if abs(b - a) > _EQUAL}
    furthest = sorted(changes, key=lambda i: -abs(changes[i]))[:_MOST_SHOWN]
    gaps = [(a is None, b is None) for a, b in zip(before, now, strict=True)]
    return Movement(
        edits=len(both),
        other_numbers=len(changes),
        new_numbers=gaps.count((True, False)),
        lost_numbers=gaps.count((False, True)),
        mean_change=fmean(b - a for _, a, b in both) if both else None,
        agreement=_correlate([(a, b) for _, a, b in both]),
        furthest={i: changes[i] for i in furthest},
    )


def _correlate(pairs: Sequence[tuple[float, float]]) -> float | None:
    with suppress(NotDefined):
        if len(pairs) >= _FEWEST:
            return spearman(*np.array(pairs, np.float64).T)
    return None
