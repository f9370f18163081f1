"""Looks at the canaries, and the rule by which a judge has shifted from one to another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict

LOW, HIGH = 1.0, 5.0
"""The scale of a canary's score."""
MAX_STANDARD_ERRORS, MAX_VARIANCE_RATIO = 4.0, 10.0
"""Beyond how many standard errors the mean has shifted, and beyond how many times the variance to
be expected the differences lie. With three repeats in the first look, noise is taken for a shift in
less than 1 of 500 looks where it is normal or of sampled words, and in 1 of 60 where nearly all of
it is in two of the ten canaries."""
LEAST_TAU = 0.3
"""Agreement with the known order below which a judge cannot order the canaries: one that tells the
right edit from the others and nothing more has 0.44, a blind one 0 give or take 0.31."""
_PROBABILITY = 0.03 * (HIGH - LOW)
State: TypeAlias = Literal["steady", "shifted", "disordered", "unchecked"]


class Measurement(BaseModel):
    """What a judge said of the canaries at one time.

    Attributes:
        when: ISO 8601, UTC, when it began.
        scores: By canary, from 1 to 5, one for each time it was asked and could be read.
        failures: By canary, why it was not each time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    when: str
    scores: Mapping[str, tuple[float, ...]]
    failures: Mapping[str, str] = {}


class Drift(NamedTuple):
    """One look, compared with the first.

    Attributes:
        shift: Mean difference to the first look, in levels; None where it was not checked.
        allowed: How large it may be by the judge's own noise.
        changed: How many canaries have another score than before.
        tau: Agreement with the known order, from -1 to 1; None where no pair has two scores.
        why: In one line.
    """

    state: State
    why: str
    shift: float | None = None
    allowed: float | None = None
    changed: int = 0
    tau: float | None = None


def noise_unit(method: str, temperature: float, samples: int) -> float:
    """By how much a score changes where one reply does, from 0 to 4.

    Probabilities differ with what else a server computes beside, by some hundredths: 0.03 of the
    scale. Sampled words change by a level, in one of the replies that are averaged. Greedy words
    have 0: any change is one of the judge.

    Args:
        method: How choices are judged; see `Judge.method`.
        samples: Replies that are averaged.
    """
    if method != "sampled":
        return _PROBABILITY
    return 1.0 / samples if temperature > 0 else 0.0


def detect_drift(
    baseline: Measurement, current: Measurement, places: Mapping[str, tuple[str, int]], unit: float
) -> Drift:
    """Whether a judge has shifted, and whether it can order the canaries.

    The rule. Let d be the difference of each of n canaries to its mean in the first look, s the
    standard deviation of the first look's repeats, pooled over canaries. The variance that d is to
    have is v = s**2 (1/k + 1/r), with k repeats now and r then. It has shifted where the mean of d
    is beyond 4 sqrt(v / n) (all scores move one way), or the mean of d**2 beyond 10 v (they move
    both ways).

    s is taken as no less than `unit` / sqrt(n): few repeats may miss that one reply changes now and
    then. Of greedy words the unit is 0: where none has varied, any change is a shift.

    Args:
        first: The look to compare with. A canary that was read only once in it tells no noise.
        places: By canary its scene and its place in it, from 1.
        unit: By how much a score changes where one reply does; see `unit_of`.
    """
    tau = agreement(current, places)
    common = [name for name in baseline.scores if name in current.scores]
    if 2 * len(common) < len(places):
        name, why = next(iter({**baseline.failures, **current.failures}.items()), ("", "no reply"))
        return Drift("unchecked", f"not checked: {name}: {why}", tau=tau)
    then = [np.array(baseline.scores[name]) for name in common]
    today = [np.array(current.scores[name]) for name in common]
    pairs = list(zip(today, then, strict=True))
    differences = np.array([after.mean() - before.mean() for after, before in pairs])
    deviation = _estimate_noise(then, unit)
    replies = [1 / after.size + 1 / before.size for after, before in pairs]
    variance = deviation * deviation * float(np.mean(replies))
    shift, n = float(differences.mean()), len(common)
    limit = MAX_STANDARD_ERRORS * math.sqrt(variance / n)
    tiny = 1e-9
    has_moved = abs(shift) > limit + tiny
    has_spread = float(np.mean(differences**2)) > MAX_VARIANCE_RATIO * variance + tiny
    changes = int((np.abs(differences) > tiny).sum())
    drift = Drift("steady", "", shift, limit, changes, tau)
    lacking = f"; {len(places) - n} gave no number" if n < len(places) else ""
    if has_moved or has_spread:
        how = f"shifted by {shift:+.2f}" if has_moved else "shifted both ways"
        why = f"{how} (of {LOW:g} to {HIGH:g}; {limit:.2f} is noise), {changes} of {n} canaries"
        return drift._replace(state="shifted", why=f"{why} since {baseline.when}{lacking}")
    if tau is not None and tau < LEAST_TAU:
        why = (
            f"cannot order the canaries (tau {tau:.2f}, at least {LEAST_TAU} is asked for){lacking}"
        )
        return drift._replace(state="disordered", why=why)
    return drift._replace(
        why=f"steady: {shift:+.2f} since {baseline.when}, {limit:.2f} is noise{lacking}"
    )


def agreement(current: Measurement, places: Mapping[str, tuple[str, int]]) -> float | None:
    """Kendall's tau-a with the known order, within scenes; a tie counts as neither.

    Args:
        places: See `compared`.
    """
    means = {name: sum(each) / len(each) for name, each in current.scores.items() if name in places}
    signs = [
        (means[worse] < means[better]) - (means[worse] > means[better])
        for better in means
        for worse in means
        if places[better][0] == places[worse][0] and places[better][1] < places[worse][1]
    ]
    return sum(signs) / len(signs) if signs else None


def _estimate_noise(then: list[np.ndarray[tuple[int], np.dtype[np.float64]]], unit: float) -> float:
    """The standard deviation of a judge's repeats, no less than what they can tell."""
    free = sum(len(scores) - 1 for scores in then)
    squares = sum(float(((scores - scores.mean()) ** 2).sum()) for scores in then)
    return max(math.sqrt(squares / free), unit / math.sqrt(len(then)))
