"""What is claimed: a win that every interval shows, and bold where each pair of models has one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from editjudge.app import comparison as module
from editjudge.app.column_values import ColumnValues
from editjudge.app.comparison import ModelComparison
from editjudge.app.intervals import with_intervals
from editjudge.benchmarks.column import Column, Composite, Mean, WeightedMean
from editjudge.benchmarks.tabulation import Tabulation
from editjudge.cli.compare import describe_comparison
from editjudge.stats.clusters import Floats
from editjudge.stats.paired_comparison import compare as compare_values
from editjudge.stats.paired_comparison import holm

from .test_comparison import compare_on
from .test_intervals import X, Y, row

CLAIM = re.compile(
    r"(\w) beats (\w) by (\S+) dB(?: \[(\S+), (\S+)\]| by every source)"
    r" on core\.psnr\.source\.whole;"
    r" a loss on up to (\S+) % of sources could be unseen \((\d+) sources?\)"
)
GAIN = st.sampled_from([0.0, 0.1, 0.5, 1.0, -0.5, -30.0, 60.0]) | st.floats(-2, 5)
"""A little everywhere, and now and then a lot."""
ONE_LUCKY = [0.5] * 11 + [60.0]
"""A gain on every source, nearly all of it on one."""


def told(gains: Sequence[float], clusters: Sequence[int]) -> tuple[Any, list[str]]:
    """What is found on PSNR where B is better than A by these gains, and what `compare` says."""
    first = {str(n): (20.0, "", False) for n, _ in enumerate(gains)}
    second = {str(n): (20 + gain, "", False) for n, gain in enumerate(gains)}
    found = compare_on(first, second, {str(n): cluster for n, cluster in enumerate(clusters)})
    (row,) = module._adjust_for_all([found])
    counts = {"items": len(gains), "other_items": 0, "pending": 0}
    result = ModelComparison(
        first="A", second="B", dimensions=(row,), untrained=(), checks="", **counts
    )
    return row, list(describe_comparison(result))


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[float], list[int]]:
    gains = draw(st.lists(GAIN, min_size=1, max_size=30))
    clusters = draw(st.lists(st.integers(0, 25), min_size=len(gains), max_size=len(gains)))
    return gains, clusters


@settings(max_examples=60, deadline=None)
@given(cases())
@example((ONE_LUCKY, list(range(12))))
@example(([1.0] * 8, list(range(8))))
@example(([0.5] * 38 + [-30.0, 60.0], list(range(40))))
def test_no_interval_of_a_claim_holds_zero(case: tuple[list[float], list[int]]) -> None:
    found, lines = told(*case)
    claims = [line for line in lines if " beats " in line]
    assert bool(claims) is bool(found.better)
    for line in claims:
        words = CLAIM.fullmatch(line)
        assert words, line
        winner, _, by, low, high, share, sources = words.groups()
        assert found.p_holm < 0.05
        assert (winner == "B") is (found.figures.difference > 0)
        assert float(share) == pytest.approx(min(100.0, 300 / int(sources)), rel=0.01)
        if low is None:
            assert found.figures.reason == "it is the same by every source picture"
            continue
        assert 0 < float(low) <= float(by) <= float(high)
        ends = found.figures.bootstrap
        assert ends.low > 0 if winner == "B" else ends.high < 0


def test_a_gain_that_rests_on_one_source_is_no_win() -> None:
    """Every source is better, so exchanging the models alone would call it a win (p = .0005)."""
    found, lines = told(ONE_LUCKY, range(12))
    assert found.figures.interval.low < 0 < found.figures.difference
    assert found.better == ""
    assert lines[0].startswith("no significant difference")


def test_why_nothing_is_claimed_is_said() -> None:
    _, lines = told([1.0, 2.0, 1.5], [0, 0, 0])
    assert "no claim on core.psnr.source.whole: all edits share a source picture" in lines
    _, lines = told([0.0] * 28 + [1.0, 3.0], range(30))
    assert (
        "no claim on core.psnr.source.whole: too few source pictures differ from the others"
        in lines
    )
    _, lines = told([1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.1, 1.0, 0.9], range(9))
    assert not any(line.startswith("no claim") for line in lines)


AREA = Column("area", "Area", Mean("x", weighted_by="y"), True)
SUM = Column("sum", "Sum", Composite(lambda of: of["a"] + of["b"], {"a": "x", "b": "y"}), True)
POOLED = Column("pooled", "Pooled", WeightedMean(("x", "y")), True)
COLUMNS = (X, Y, AREA, SUM, POOLED)


def values_of(
    models: dict[str, list[float | None]], clusters: Sequence[int]
) -> dict[str, ColumnValues]:
    """The values of columns of which `y` is the same as `x` but for a constant."""
    tabulation = Tabulation(COLUMNS)
    for number in range(len(clusters)):
        for model, each in models.items():
            value = each[number]
            other = None if value is None else value + 1 + number % 3
            tabulation.add(row(number, model, {"x": value, "y": other}))
    return with_intervals(COLUMNS, tabulation, clusters, {}, {})[1]


def is_sure(values: ColumnValues, best: str, *others: str, higher: bool = True) -> bool:
    return values.is_surely_best(best, others, higher_is_better=higher)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    sources=st.integers(2, 25),
    gains=st.lists(st.floats(-1, 1), min_size=1, max_size=4),
    luck=st.sampled_from([0.0, 20.0]),
)
def test_a_mean_is_bold_where_every_pair_is_a_win(
    seed: int, sources: int, gains: list[float], luck: float
) -> None:
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, sources, 2 * sources).tolist()
    noise = rng.normal(size=(len(gains) + 1, len(clusters)))
    noise[0] += luck * (rng.random(len(clusters)) < 0.1)
    rows: list[Floats] = [noise[0], *(noise[1:] - np.array(gains)[:, None])]
    models = {str(n): each.tolist() for n, each in enumerate(rows)}
    ps = []
    for each in rows[1:]:
        pair = compare_values(each.tolist(), rows[0].tolist(), clusters)
        ps.append(1.0 if pair.p is None or pair.difference <= 0 else pair.p)
    expected = max(holm(ps)) < 0.05
    assert is_sure(values_of(models, clusters)["x"], *models) is expected


def test_numbers_that_are_no_plain_mean_are_compared_by_their_jackknife() -> None:
    rng = np.random.default_rng(3)
    clusters = [number // 2 for number in range(60)]
    base = rng.normal(5, 1, 60)
    gain = rng.normal(0.5, 0.3, 60)
    rows = {"a": base + gain, "b": base, "c": base + rng.normal(0, 0.2, 60)}
    models: dict[str, Any] = {name: each.tolist() for name, each in rows.items()}
    values = values_of(models, clusters)
    for column in COLUMNS:
        assert is_sure(values[column.id], "a", "b", "c"), column.id
        assert not is_sure(values[column.id], "a", "b", higher=False)
        assert not is_sure(values[column.id], "c", "b"), column.id
    # One of the three that is not beaten is enough.
    near = {**models, "d": (base + gain + rng.normal(0, 0.3, 60)).tolist()}
    assert not any(is_sure(of, "a", "b", "c", "d") for of in values_of(near, clusters).values())


def three_better(count: int) -> dict[str, list[float | None]]:
    """`a` is better than `b` by 3 on every item."""
    base = np.random.default_rng(3).normal(5, 1, count)
    return {"a": (base + 3).tolist(), "b": base.tolist()}


def test_nothing_is_sure_on_other_items() -> None:
    models = three_better(40)
    values = values_of(models, range(40))
    assert all(is_sure(of, "a", "b") for of in values.values())
    assert not is_sure(values["x"], "a", "nobody")
    models["b"][7] = None
    assert not any(is_sure(of, "a", "b") for of in values_of(models, range(40)).values())


@pytest.mark.parametrize("sources", [1, 2, 4])
def test_few_sources_make_nothing_sure(sources: int) -> None:
    values = values_of(three_better(20), [number % sources for number in range(20)])
    assert not any(is_sure(of, "a", "b") for of in values.values())
