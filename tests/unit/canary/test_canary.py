"""Canaries: what is drawn, and the rule by which a judge has shifted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest

from editjudge.canary.comparison import Drift, Measurement, agreement, detect_drift, noise_unit
from editjudge.canary.edits import canaries, canary_digest, known_places

PLACES = known_places()
LEVELS = (5.0, 3.0, 2.0, 1.0, 1.0) * 2
"""What a good judge says of each."""


def look(rows: Iterable[Sequence[float] | float | None], when: str = "then") -> Measurement:
    """A row of repeats for each canary; None where it failed."""
    given = {name: row for name, row in zip(PLACES, rows, strict=True) if row is not None}
    scores = {name: tuple(map(float, np.atleast_1d(row))) for name, row in given.items()}
    failures = {name: "?" for name in PLACES if name not in scores}
    return Measurement(when=when, scores=scores, failures=failures)


def find_drift(
    now: Iterable[float | None],
    before: Iterable[Sequence[float] | float] = tuple((level,) * 3 for level in LEVELS),
    unit: float = 0.0,
) -> Drift:
    return detect_drift(look(before), look(now, "now"), PLACES, unit)


def test_what_is_asked_is_the_same_everywhere() -> None:
    """Another word or picture is another set: earlier first looks are not compared with it."""
    assert canary_digest().startswith("sha256:2fc1f420e6c87075")
    assert len(canaries()) == 10
    assert {place for _, place in PLACES.values()} == {1, 2, 3, 4}


def test_greedy_words_that_never_varied_may_not_change() -> None:
    assert find_drift(LEVELS).state == "steady"
    finding = find_drift((4.0, *LEVELS[1:]))
    assert (finding.state, finding.changed) == ("shifted", 1)
    assert finding.shift == pytest.approx(-0.1)
    assert finding.allowed == 0
    both = find_drift((4.0, 4.0, *LEVELS[2:]))
    assert (both.state, both.shift) == ("shifted", pytest.approx(0.0))
    assert "shifted both ways" in both.why


def test_what_varied_before_may_vary() -> None:
    before = [(level - 0.5, level, level + 0.5) for level in LEVELS]
    around = [level + 0.5 * (-1) ** i for i, level in enumerate(LEVELS)]
    assert find_drift(LEVELS, before).state == find_drift(around, before).state == "steady"
    assert find_drift([level - 1.0 for level in LEVELS], before).state == "shifted"


@pytest.mark.parametrize(
    ("method", "temperature", "samples", "unit"),
    [("logprobs", 0.0, 1, 0.12), ("top_logprobs", 0.7, 5, 0.12), ("sampled", 0.0, 1, 0.0), ("sampled", 0.7, 4, 0.25)],
)
def test_the_unit_of_a_score(method: str, temperature: float, samples: int, unit: float) -> None:
    assert noise_unit(method, samples, is_greedy=not temperature) == pytest.approx(unit)


def test_what_could_not_be_read_is_no_shift_and_no_number() -> None:
    few = find_drift([*LEVELS[:7], None, None, None])
    assert few.state == "steady"
    assert few.why.endswith("3 gave no number")
    none = find_drift([*LEVELS[:4], *[None] * 6])
    assert (none.state, none.shift, none.allowed) == ("unchecked", None, None)
    assert none.why.startswith("not checked: ")


@pytest.mark.parametrize(
    ("levels", "tau"),
    [(LEVELS, 1.0), ((5.0, 1.0, 1.0, 1.0, 1.0) * 2, 4 / 9), ((3.0,) * 10, 0.0), ((1.0, 2.0, 3.0, 4.0, 5.0) * 2, -1.0)],
)
def test_a_judge_that_cannot_order_them_is_told(levels: Sequence[float], tau: float) -> None:
    assert agreement(look(levels), PLACES) == pytest.approx(tau)
    finding = find_drift(levels, [(level,) * 3 for level in levels])
    assert finding.state == ("steady" if tau > 0.3 else "disordered")


def _normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.normal(0, 0.3, shape)


def _words(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """One reply of twenty is a level off."""
    return (rng.random(shape) < 0.05) * rng.choice([-1.0, 1.0], shape)


def _in_two(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Twenty times the noise in two canaries that is in others."""
    return rng.normal(0, 0.3, shape) * np.array([0.1, 2, 0.5, 0.2, 0.1] * 2)[:, np.newaxis]


@pytest.mark.parametrize(
    ("noise", "unit", "most", "seen"),
    [(_normal, 0.12, 0.002, 0.8), (_words, 1.0, 0.002, 0.9), (_in_two, 0.12, 0.025, 0.8)],
)
def test_noise_is_seldom_taken_for_a_shift(
    noise: Callable[[np.random.Generator, tuple[int, int]], np.ndarray], unit: float, most: float, seen: float
) -> None:
    """Two thousand baselines of three repeats and looks of one; `seen` of shifts by 0.7."""
    rng = np.random.default_rng(7)
    levels = np.array(LEVELS)[:, np.newaxis]

    def share(shift: float, count: int) -> float:
        shifted = 0
        for _ in range(count):
            now = (levels + noise(rng, (10, 1)))[:, 0] + shift
            shifted += find_drift(now, levels + noise(rng, (10, 3)), unit).state == "shifted"
        return shifted / count

    assert share(0.0, 2000) <= most
    assert share(-0.7, 200) >= seen
