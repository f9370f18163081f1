"""Intervals of a table: as the libraries say, as often right as they claim, never 0 wide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy

from editjudge.app.intervals import with_intervals
from editjudge.base.item import Item
from editjudge.base.verdict import MissingOutput, NoScore, NotServed, Outcome, Score
from editjudge.benchmarks.cell import Cell
from editjudge.benchmarks.column import (
    Aggregation,
    Column,
    Composite,
    Mean,
    PairedDifference,
    PooledMean,
    Row,
    WeightedMean,
)
from editjudge.benchmarks.fusion import min_max
from editjudge.benchmarks.tabulation import Tabulation
from editjudge.stats.bootstrap import INTERVAL_RESAMPLES, bootstrap_t

from ...fakes.scorers import edit

X, Y = Column("x", "X", Mean("x"), True), Column("y", "Y", Mean("y"), True)
Values = Mapping[str, Sequence[float | None]]
ITEMS = [replace(edit().item, id=str(number)) for number in range(2000)]
NONE = NoScore(kind="degenerate", reason="?")


def row(number: int, model: str, values: Mapping[str, float | None]) -> Row:
    outcomes: dict[str, Outcome] = {
        name: NONE if value is None else Score(value=value) for name, value in values.items()
    }
    return Row(ITEMS[number], model, outcomes, {}, number)


def cells(
    columns: Sequence[Column],
    models: Mapping[str, Values],
    clusters: Sequence[int],
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, dict[str, Cell]]:
    """A table of these values by model, dimension and item."""
    tabulation = Tabulation(columns)
    for number in range(len(clusters)):
        for model, values in models.items():
            of = {name: each[number] for name, each in values.items()}
            tabulation.add(row(number, model, of))
    return with_intervals(columns, tabulation, clusters, {"x": 100.0}, ranges or {})[0]


def row_of(columns: Sequence[Column], clusters: Sequence[int], ranges: Any = None, **of: Any) -> Any:
    """The cells of one model by column, from its values by dimension."""
    values = {name: [*each] for name, each in of.items()}
    return cells(columns, {"m": values}, clusters, ranges)["m"]


def ends(cell: Cell) -> tuple[Any, Any, Any]:
    told: Any = cell.interval
    assert told.reason == ""
    return told.low, told.high, told.error


def copy_column(name: str) -> Column:
    """The value of another column, by a function of it."""
    return Column("again", "", Composite(lambda v: v["x"], {"x": name}), True)


AGAIN = copy_column("x")


VALUES = st.lists(st.floats(-1e3, 1e3), min_size=8, max_size=40)


@settings(max_examples=30, deadline=None)
@given(values=VALUES, seed=st.integers(0, 99))
def test_means_are_those_of_statsmodels_without_each_source(values: list[float], seed: int) -> None:
    import statsmodels.api as sm

    rng = np.random.default_rng(seed)
    clusters, weights = np.arange(len(values)) % 4, rng.uniform(0.1, 2, len(values))
    weighted = Column("w", "W", Mean("x", weighted_by="y"), True)
    scaled = Column("s", "S", Mean("x", affine=(-20.0, 3.0)), True)
    of = row_of([X, weighted, scaled], clusters.tolist(), x=values, y=weights.tolist())
    array, one = np.array(values), np.ones(len(values))
    for name, w in (("x", one), ("w", weights)):
        heavy = np.bincount(clusters, weights=w) / w.sum()
        whole, *without = (
            sm.WLS(array[kept], one[kept], weights=w[kept]).fit().params[0]
            for kept in (clusters >= 0, *(clusters != each for each in range(4)))
        )
        error = (3 / 4 * np.square(np.array(without) - whole).sum()) ** 0.5
        interval = of[name].interval
        assert interval.clusters == 4
        if interval.reason:
            assert heavy.max() > 0.5 or error == pytest.approx(0, abs=1e-9)
            continue
        low, high, told = ends(of[name])
        assert told == pytest.approx(error, rel=1e-6, abs=1e-9)
        half = scipy.t.ppf(0.975, max(1, 1 / (heavy**2).sum() - 1)) * error
        assert (high - low) / 2 == pytest.approx(half, rel=0.04, abs=1e-9)
    if not of["s"].interval.reason:
        low, high, error = ends(of["x"])
        wanted = (3 - 20 * high, 3 - 20 * low, 20 * error)
        assert ends(of["s"]) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_a_function_of_means_has_the_error_of_the_same_function_by_hand() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(3, 1, 12), rng.normal(5, 1, 12)
    clusters = np.repeat(np.arange(6), 2)
    ratio = Column("r", "R", Composite(lambda v: v["a"] / v["b"], {"a": "x", "b": "y"}), True)
    of = row_of([X, Y, ratio], clusters.tolist(), x=x, y=y)["r"]
    without = np.array([x[clusters != k].mean() / y[clusters != k].mean() for k in range(6)])
    error = (5 / 6 * ((without - without.mean()) ** 2).sum()) ** 0.5
    _, high, own = ends(of)
    assert own == pytest.approx(error, rel=1e-9)
    assert of.interval.method == "jackknife"
    assert high - of.value == pytest.approx(2.5705818366147395 * error, rel=1e-9)


def test_the_jackknife_of_a_mean_is_the_clustered_interval() -> None:
    """Of clusters of one size, whichever way the mean is put together."""
    x = np.random.default_rng(2).normal(size=40).tolist()
    halves = [
        Column(f"h{half}", "", Mean("x", lambda item, h=half: int(item.id) % 2 == h), True)  # type: ignore[misc]
        for half in (0, 1)
    ]
    pooled = Column("pooled", "", WeightedMean(("h0", "h1")), True)
    asked = Column("asked", "", WeightedMean(("h0", "h1"), count="asked"), True)
    columns = [X, AGAIN, *halves, pooled, asked]
    of = row_of(columns, [n // 4 for n in range(40)], x=x)
    for name in ("again", "pooled", "asked"):
        assert ends(of[name]) == pytest.approx(ends(of["x"]), rel=1e-9)


@pytest.mark.parametrize("count", ["scored", "asked"])
def test_parts_without_a_source_weigh_as_columns_say(count: Literal["scored", "asked"]) -> None:
    """As many edits as another column has: without a source, as many as are left of it."""
    x = np.random.default_rng(4).normal(2, 1, 24)
    y: list[float | None] = [1.0 if n % 2 or n < 8 else None for n in range(24)]
    numbers = np.arange(24)
    clusters = numbers // 4
    odd = numbers % 2 == 1
    # One task has two sources fewer, and so fewer degrees of freedom.
    sides, weighing = (~odd, odd & (numbers >= 8)), (~odd, odd & (numbers < 16))
    columns = [
        Column(f"{of}{n}", "", Mean(of, lambda item, p=places: bool(p[int(item.id)])), True)  # type: ignore[misc]
        for of, both in (("x", sides), ("y", weighing))
        for n, places in enumerate(both)
    ]
    counts = np.array([value is not None or count == "asked" for value in y])
    fixed = [int((places & counts).sum()) for places in weighing]
    assert fixed == ([4, 8] if count == "scored" else [12, 8])
    columns += [
        Column("t", "", WeightedMean(("x0", "x1"), by=("y0", "y1"), count=count), True),
        Column("f", "", Composite(lambda v: _weigh(v.values(), fixed), {"a": "x0", "b": "x1"}), True),
    ]
    of = row_of(columns, clusters.tolist(), x=x, y=y)

    def value(kept: np.ndarray) -> float:
        left = kept if count == "scored" else np.full(24, True)
        weights = [float((places & counts & left).sum()) for places in weighing]
        return _weigh([x[kept & side].mean() for side in sides], weights)

    assert of["t"].value == pytest.approx(value(np.full(24, True)))
    without = np.array([value(clusters != k) for k in range(6)])
    error = (5 / 6 * ((without - without.mean()) ** 2).sum()) ** 0.5
    (low, high, own), (fixed_low, fixed_high, fixed_error) = ends(of["t"]), ends(of["f"])
    assert own == pytest.approx(error, rel=1e-9)
    # Its degrees of freedom are those with the weights as they are.
    assert (high - low) / own == pytest.approx((fixed_high - fixed_low) / fixed_error, rel=1e-6)


def _weigh(values: Iterable[float], weights: Sequence[float]) -> float:
    return float(np.average(list(values), weights=weights))


def test_many_clusters_are_left_out_in_a_hundred_parts() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=2000).tolist()
    of = row_of([X, AGAIN], range(2000), x=x)
    assert of["again"].interval.clusters == 2000
    assert ends(of["again"])[2] == pytest.approx(ends(of["x"])[2], rel=0.2)


def pair_up(item: Item) -> tuple[str, Literal["+", "-"]]:
    return str(int(item.id) // 2), "+" if int(item.id) % 2 else "-"


def test_both_sides_of_a_pair_belong_to_one_cluster() -> None:
    column = Column("p", "P", PairedDifference("x", pair_up), True)
    x = [1.0, 2.0, 1.0, 4.0, 2.0, 7.0, 0.0, 1.0]
    alone = row_of([column], [0, 0, 1, 1, 2, 2, 3, 3], x=x)["p"]
    differences = np.array([1.0, 3.0, 5.0, 1.0])
    assert ends(alone)[2] == pytest.approx(differences.std(ddof=1) / 2, rel=1e-9)
    # The sides are of other pictures, which tie the first two pairs together.
    tied = row_of([column], [0, 1, 1, 2, 3, 4, 5, 6], x=x)["p"]
    assert tied.interval.clusters == 3


def test_a_fitted_transformation_is_taken_as_it_is() -> None:
    column = Column("z", "Z", PooledMean(partial(min_max, invert=False), "x"), True)
    models = {"a": {"x": [0.0, 1.0, 2.0, 5.0]}, "b": {"x": [1.0, 10.0, 3.0, 4.0]}}
    of = cells([X, column], models, range(4))
    assert ends(of["a"]["z"])[2] == pytest.approx(ends(of["a"]["x"])[2] / 10, rel=1e-9)


SHARED = "all edits share a source picture"
SAME = "every source picture gives the same value"
A_PART = "a part of it rests on too few source pictures"
HEAVY = "one source picture has more than half of the weight"
FEW = "too few source pictures differ from the others"
WEIGHTED = Column("w", "W", Mean("x", weighted_by="y"), True)
BOTH = Column("both", "", Composite(lambda v: (v["x"] + v["y"]) / 2, {"x": "x", "y": "y"}), True)
INVERSE = Column("i", "I", Composite(lambda v: 1 / v["x"], {"x": "x"}), True)


@pytest.mark.parametrize(
    ("columns", "x", "y", "clusters", "reason"),
    [
        ((X, AGAIN), [1.0, 2.0, 3.0], [], [0, 0, 0], SHARED),
        ((X, AGAIN), [1.0, None, None], [], [0, 1, 2], SHARED),
        ((X, AGAIN), [1.0, 1.0, 1.0], [], [0, 1, 2], SAME),
        ((X, AGAIN), [0.0, 0.0, 0.0], [], [0, 1, 2], SAME),
        ((X, AGAIN), [0.1, 0.1, 0.1], [], [0, 1, 2], SAME),
        ((X,), [1.0] * 30 + [9.0], [], range(31), FEW),
        ((WEIGHTED, copy_column("w")), [1.0, 2.0, 4.0, 5.0], [10.0, 1.0, 1.0, 1.0], range(4), HEAVY),
        # A part of one source, and a function that fails without a source.
        ((X, Y, BOTH), [1.0, 2, 4], [1.0, None, None], [0, 1, 2], A_PART),
        ((X, INVERSE), [1.0, 0.0, 0.0, 0.0], [], range(4), A_PART),
    ],
)
def test_no_interval_where_it_would_promise(
    columns: Sequence[Column], x: list[Any], y: list[Any], clusters: Sequence[int], reason: str
) -> None:
    of = row_of(columns, clusters, x=x, y=y or [None] * len(x))
    for column in columns[-1:] if reason == A_PART else columns:
        cell = of[column.id]
        assert cell.value is not None
        assert (cell.interval.half_width, cell.interval.reason) == (None, reason)


def test_no_number_no_interval() -> None:
    both = Column("both", "", Composite(lambda v: v["x"], {"x": "x"}), True)
    of = row_of([X, both], [0, 1], x=[None, None])
    assert of["x"].interval is of["both"].interval is None
    # Of one value no transformation can be fitted.
    fitted = Column("z", "Z", PooledMean(min_max, "x"), True)
    made_of = Column("both", "", Composite(lambda v: v["z"], {"z": "z"}), True)
    of = row_of([fitted, made_of], [0, 1], x=[1.0, 1.0])
    assert [of[name].interval for name in ("z", "both")] == [None, None]


PLAIN = {"x": [1.0, 100.0, 3.0, 7.0, 100.0, 5.0, None], "y": [2.0, 3.0, None, 1.0, 2.0, 2.0, None]}
"""Of `x` one at its cap has a partner, and one has one that a rule put in."""
TWO = {"a": "x", "b": "y"}


MARKS: list[tuple[Aggregation, int, int, str]] = [
    (Mean("x"), 1, 2, "a"),
    (Mean("x", weighted_by="y"), 1, 2, "a"),
    (Mean("x", missing_output=100.0), 2, 3, "a"),
    (Mean("x", where=lambda item: item.id in {"0", "2"}), 0, 0, ""),
    # A pair with a value that a rule put in has no difference.
    (PairedDifference("x", pair_up), 0, 1, "a"),
    (PooledMean(partial(min_max, invert=False), "x"), 1, 2, "a"),
    # `y` has an imputed value of its own, and no cap.
    (Composite(lambda v: v["a"] - v["b"], TWO), 2, 2, "a"),
    (Composite(lambda v: v["b"], {"b": "y"}), 1, 0, ""),
    (WeightedMean(("x", "y")), 2, 2, "a"),
    (WeightedMean(("x", "y"), count="asked"), 2, 2, "a"),
    # What weighs a column is a part of the number too.
    (WeightedMean(("y",), by=("x",)), 1, 0, "a"),
]


def test_every_aggregation_is_tried() -> None:
    assert {type(how) for how, *_ in MARKS} == {*get_args(Aggregation)}


@pytest.mark.parametrize(("how", "imputed", "capped", "marked"), MARKS)
def test_marks_survive_aggregation(how: Any, imputed: int, capped: int, marked: str) -> None:
    """Imputed, capped and other items: in every aggregation, and in what is made of it."""
    column = Column("c", "C", how, True)
    above = Column("above", "A", Composite(lambda v: v["c"], {"c": "c"}), True)
    columns = [X, Y, column, above]
    tabulation = Tabulation(columns)
    for number in range(7):
        of = row(number, "a", {name: each[number] for name, each in PLAIN.items()})
        outcomes = dict(of.outcomes)
        if number == 5:
            outcomes = {"x": Score(value=5.0, imputed=True), "y": Score(value=2.0, imputed=True)}
        elif number == 6:
            outcomes["x"] = MissingOutput(reason="?")
        tabulation.add(replace(of, outcomes=dict(outcomes)))
        # The other model has no `x` on an item, and no pair with it.
        if number < 5:
            outcomes["x"] = NONE if number == 3 else Score(value=9.0 - number)
        tabulation.add(replace(of, model="b", outcomes=outcomes))
    table = with_intervals(columns, tabulation, range(7), {"x": 100.0}, {})[0]
    for name in ("c", "above"):
        cell = table["a"][name]
        assert cell.value is not None
        assert (cell.imputed, cell.capped) == (imputed, capped), name
        assert "".join(m for m in "ab" if table[m][name].other_items) == marked, name
    assert table["b"]["c"].capped == (how.missing_output == 100 if isinstance(how, Mean) else 0)


def test_what_is_not_served_has_no_part() -> None:
    tabulation = Tabulation([X])
    tabulation.add(row(0, "m", {"x": 1.0}))
    tabulation.add(row(1, "m", {"x": 3.0}))
    tabulation.add(Row(ITEMS[2], "m", {"x": NotServed(reason="?")}, {}, 2))
    cell = with_intervals([X], tabulation, [0, 1, 2], {}, {})[0]["m"]["x"]
    assert cell.interval.clusters == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("case", ["few", "source", "areas"])
def test_intervals_cover_what_they_claim_where_few_sources_decide(case: str) -> None:
    """A part of two sources among 60; a source with 45 % of the edits; areas as weights.

    With a degree of freedom less than there are sources, and the residual of a heavy source as it
    is, they covered 80, 79 and 89 %.
    """
    rng = np.random.default_rng(5)
    runs, covered = 300, 0
    for _ in range(runs):
        x, clusters = rng.normal(size=21), list(range(21))
        values: dict[str, list[float | None]] = {"x": x.tolist()}
        columns, name = [X], "x"
        if case == "few":
            x = rng.normal(0, 0.1, 60)
            clusters = list(range(62))
            values = {"x": [*x, None, None], "y": [None] * 60 + rng.normal(size=2).tolist()}
            columns, name = [X, Y, BOTH], "both"
        elif case == "source":
            values["x"] = x.tolist() + (x[20] + rng.normal(0, 0.3, 16)).tolist()
            clusters += [20] * 16
        else:
            values["y"] = np.clip(rng.lognormal(-2.5, 1, 21), 0.001, 1).tolist()
            columns, name = [WEIGHTED], "w"
        interval: Any = cells(columns, {"m": values}, clusters)["m"][name].interval
        if interval.low is None or interval.high is None:
            assert interval.reason == HEAVY
            covered += 1
        else:
            covered += interval.low <= 0 <= interval.high
    assert 0.92 <= covered / runs <= 0.99, covered / runs


BINARY = {"x": (0.0, 1.0)}


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("affine", [(1.0, 0.0), (-100.0, 100.0)])
def test_a_share_of_none_or_all_has_an_interval(value: float, affine: tuple[float, float]) -> None:
    column = Column("x", "X", Mean("x", affine=affine), True)
    cell = row_of([column], range(20), BINARY, x=[value] * 20)["x"]
    end = affine[0] * value + affine[1]
    low, high = cell.interval.low, cell.interval.high
    assert cell.value == end
    assert end in {low, high}
    # The rule of three, a little wider: 1 - .025 ** (1 / 20).
    assert abs(high - low) == pytest.approx(abs(affine[0]) * 0.1684, rel=1e-3)


def test_values_inside_the_scale_are_no_share() -> None:
    for middle, method in ((0.5, "clustered"), (1.0, "korn-graubard")):
        of = row_of([X], range(4), BINARY, x=[0.0, middle, 1.0, 1.0])["x"]
        assert of.interval.method == method


def test_a_share_on_another_scale_has_the_same_interval() -> None:
    x = [1.0] * 30 + [0.0] * 6
    scaled = Column("scaled", "", Mean("x", affine=(-100.0, 100.0)), False)
    of = row_of([X, scaled], [n // 2 for n in range(36)], BINARY, x=x)
    low, high, error = ends(of["x"])
    assert (low, high) != pytest.approx((0.0, 1.0), abs=0.05)
    assert ends(of["scaled"]) == pytest.approx((100 - 100 * high, 100 - 100 * low, 100 * error))


@pytest.mark.parametrize("composite", [False, True])
def test_skewed_values_have_the_outer_of_two_intervals(composite: bool) -> None:
    rng = np.random.default_rng(21)
    x = np.exp(rng.normal(size=30))
    of = row_of([X, AGAIN], range(30), x=x)["again" if composite else "x"]
    assert of.interval.method == "bootstrap-t"
    low, high, error = ends(of)
    drawn = bootstrap_t(x[None], np.ones(30), INTERVAL_RESAMPLES)
    half = scipy.t.ppf(0.975, 29) * error
    assert low == pytest.approx(min(float(drawn.low[0]), x.mean() - half))
    assert high == pytest.approx(max(float(drawn.high[0]), x.mean() + half))
    assert high - x.mean() > 1.2 * (x.mean() - low)


def test_an_interval_of_few_sources_does_not_leave_the_scale_for_one_that_differs() -> None:
    x = [0.9951, 0.9950, 0.9952, 0.9949, 0.9951, 0.9950, 0.9952, 0.93]
    bare, on_scale = (row_of([X], range(8), ranges, x=x)["x"] for ranges in ({}, BINARY))
    assert ends(bare)[0] < 0
    low, high, _ = ends(on_scale)
    assert 0.5 < low < 0.9
    assert high == 1.0 < ends(bare)[1]
    # Where hardly any differ there is no end but that of the scale.
    few = row_of([X], range(31), BINARY, x=[0.5] * 30 + [0.9])["x"]
    assert 0 < ends(few)[0] < 0.5 < ends(few)[1] < 0.75


def test_no_interval_leaves_its_scale_and_a_distance_has_no_far_end() -> None:
    ranges = {"x": (0.0, 65025.0)}
    far = row_of([X], range(5), ranges, x=[1.0, 2.0, 900.0, 3.0, 1.0])["x"]
    assert ends(far)[0] == 0.0
    alike = row_of([X], range(20), ranges, x=[0.0] * 20)["x"]
    assert alike.interval.low is None


def test_a_scale_without_a_highest_value_decides_no_interval() -> None:
    """Nearly all of a distance may be 0: its highest value that can be written says nothing."""
    few = [0.0] * 29 + [0.04]
    interval = row_of([X], range(30), {"x": (0.0, np.inf)}, x=few)["x"].interval
    assert interval.high is None or 0 <= interval.low < interval.high < 0.2
    assert row_of([X], range(30), {"x": (0.0, 1e5)}, x=few)["x"].interval.high > 1000
