"""Measurements of a judge on the canaries, and the rule that detects a shift between two."""

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ..base.strict import Strict
from ..panel.choices import IN_WORDS

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


class Measurement(Strict):
    """The scores of a judge on the canaries at one time.

    Attributes:
        when: Start of the measurement; ISO 8601, UTC.
        scores: By canary, from 1 to 5, one for each reply that could be read.
        failures: By canary, the reason why a reply could not be read.
    """

    when: str
    scores: Mapping[str, tuple[float, ...]]
    failures: Mapping[str, str] = {}


class Drift(NamedTuple):
    """A measurement, compared with the baseline.

    Attributes:
        shift: Mean difference from the baseline, in levels; None if it was not checked.
        allowed: The largest shift that the judge's own noise explains.
        changed: Number of canaries whose score differs from the baseline.
        tau: Agreement with the known order, from -1 to 1; None if no pair has two scores.
        why: The result in one line.
    """

    state: State
    why: str
    shift: float | None = None
    allowed: float | None = None
    changed: int = 0
    tau: float | None = None


def noise_unit(method: str, samples: int, *, is_greedy: bool) -> float:
    """How much a score changes if one reply changes, from 0 to 4.

    Probabilities vary by some hundredths with the other requests in a server's batch: 0.03 of the
    scale. Sampled words change by a level, in one of the replies that are averaged. Greedy words
    have 0: any change is one of the judge.

    Args:
        method: How choices are scored; see `Judge.method`.
        samples: Number of replies that are averaged.
        is_greedy: Whether words are not sampled.
    """
    if method not in IN_WORDS:
        return _PROBABILITY
    return 0.0 if is_greedy else 1.0 / samples


def detect_drift(
    baseline: Measurement, current: Measurement, places: Mapping[str, tuple[str, int]], unit: float
) -> Drift:
    """Detect whether a judge has shifted, and whether it can order the canaries.

    Let d be the difference of each of n canaries from its mean in the baseline, and s the standard
    deviation of the baseline's repeats, pooled over canaries. The expected variance of d is
    v = s**2 (1/k + 1/r), with k repeats now and r in the baseline. The judge has shifted if the
    mean of d exceeds 4 sqrt(v / n) (all scores move one way), or the mean of d**2 exceeds 10 v
    (they move both ways).

    s is at least `unit` / sqrt(n), since few repeats may miss a reply that changes now and then.
    The unit is 0 for greedy words: if none has varied in the baseline, any change is a shift.

    Args:
        baseline: The measurement to compare with; each canary in it needs at least two scores.
        current: The measurement to examine.
        places: For each canary its scene and its place in the scene, from 1.
        unit: How much a score changes if one reply changes; see `noise_unit`.
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
        why = f"cannot order the canaries (tau {tau:.2f}, below {LEAST_TAU}){lacking}"
        return drift._replace(state="disordered", why=why)
    return drift._replace(why=f"steady: {shift:+.2f} since {baseline.when}, {limit:.2f} is noise{lacking}")


def agreement(current: Measurement, places: Mapping[str, tuple[str, int]]) -> float | None:
    """Compute Kendall's tau-a with the known order, within scenes; a tie counts as 0.

    Args:
        places: See `detect_drift`.
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
    """The pooled standard deviation of a judge's repeats, but at least `unit` / sqrt(n)."""
    free = sum(len(scores) - 1 for scores in then)
    squares = sum(float(((scores - scores.mean()) ** 2).sum()) for scores in then)
    return max(math.sqrt(squares / free), unit / math.sqrt(len(then)))
