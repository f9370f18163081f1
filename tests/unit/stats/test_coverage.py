"""A part of what perf/coverage.py simulates, with bounds so wide that chance does not decide."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

REPETITIONS = 200


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    path = Path(__file__).parents[3] / "perf" / "coverage.py"
    module = ModuleType("perf_coverage")
    exec(compile(path.read_text(), path, "exec"), vars(module))  # noqa: S102 - our own
    return module


@pytest.mark.parametrize(
    ("kind", "sources", "student"),
    [
        ("normal", 30, 1.0),
        ("1 to 5, 97 % are 5", 30, 0.85),
        ("share of questions, 90 % are 1", 30, 0.92),
        ("yes or no, 0.97", 30, 0.92),
        ("lognormal", 60, 0.98),
        ("fails on 10 % of sources", 60, 0.94),
    ],
)
def test_intervals_hold_the_true_mean(coverage: ModuleType, kind: str, sources: int, student: float) -> None:
    covered, claimed, _ = coverage.measure(kind, sources, REPETITIONS, 3)
    assert covered[0] >= 0.9
    assert covered[1] <= student
    assert covered[2] <= 0.92
    assert claimed[0] <= 0.1
    assert claimed[0] <= claimed[1]


def test_failures_on_some_sources_are_no_win(coverage: ModuleType) -> None:
    _, (claimed, by_flips, naive), unseen = coverage.measure("fails on 10 % of sources", 60, REPETITIONS, 4)
    assert claimed <= 0.06
    assert by_flips >= 0.07
    assert naive >= 0.2
    assert unseen <= 0.03


def test_failures_that_no_source_shows_are_claimed_by_every_test(coverage: ModuleType) -> None:
    _, claimed, unseen = coverage.measure("fails on 5 % of sources", 30, REPETITIONS, 5)
    assert unseen >= 0.1
    assert (claimed >= unseen).all()


def test_averages_of_columns_hold_too(coverage: ModuleType) -> None:
    assert coverage.measure_composite(60, REPETITIONS, 6)[0] >= 0.9
