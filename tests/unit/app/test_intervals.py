"""Intervals of a table: as the libraries say, as often right as they claim, never 0 wide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy

from editjudge.app.intervals import with_intervals
from editjudge.base.item import Item
from editjudge.base.verdict import MissingOutput, NoScore, NotServed, Outcome, Score
from editjudge.benchmarks.cell import Cell
from editjudge.benchmarks.column import (
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


def ends(cell: Cell) -> tuple[float, float, float]:
    assert cell.interval is not None
    assert cell.interval.reason == ""
    assert cell.interval.low is not None
    assert cell.interval.high is not None
    assert cell.interval.error is not None
    return cell.interval.low, cell.interval.high, cell.interval.error


VALUES = st.lists(st.floats(-1e3, 1e3), min_size=8, max_size=40)


@settings(max_examples=30, deadline=None)
@given(values=VALUES, seed=st.integers(0, 99))
def test_means_are_those_of_statsmodels_without_each_source(values: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    clusters, weights = np.arange(len(values)) % 4, rng.uniform(0.1, 2, len(values))
    weighted = Column("w", "W", Mean("x", weighted_by="y"), True)
    scaled = Column("s", "S", Mean("x", affine=(-20.0, 3.0)), True)
    of = cells(
        [X, weighted, scaled], {"m": {"x": values, "y": weights.tolist()}}, clusters.tolist()
    )
    array, one = np.array(values), np.ones(len(values))
    for name, w in (("x", one), ("w", weights)):
        heavy = np.bincount(clusters, weights=w) / w.sum()
        whole, *without = (
            sm.WLS(array[kept], one[kept], weights=w[kept]).fit().params[0]
            for kept in (clusters >= 0, *(clusters != each for each in range(4)))
        )
        error = (3 / 4 * np.square(np.array(without) - whole).sum()) ** 0.5
        interval = of["m"][name].interval
        assert interval is not None
        assert interval.clusters == 4
        if interval.reason:
            assert heavy.max() > 0.5 or error == pytest.approx(0, abs=1e-9)
            continue
        low, high, told = ends(of["m"][name])
        assert told == pytest.approx(error, rel=1e-6, abs=1e-9)
        half = scipy.t.ppf(0.975, max(1, 1 / (heavy**2).sum() - 1)) * error
        assert (high - low) / 2 == pytest.approx(half, rel=0.04, abs=1e-9)
    if not of["m"]["s"].interval.reason:  # type: ignore[union-attr]
        low, high, error = ends(of["m"]["x"])
        wanted = (3 - 20 * high, 3 - 20 * low, 20 * error)
        assert ends(of["m"]["s"]) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_a_function_of_means_has_the_error_of_the_same_function_by_hand() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(3, 1, 12), rng.normal(5, 1, 12)
    clusters = np.repeat(np.arange(6), 2)
    ratio = Column("r", "R", Composite(lambda v: v["a"] / v["b"], {"a": "x", "b": "y"}), True)
    of = cells([X, Y, ratio], {"m": {"x": x.tolist(), "y": y.tolist()}}, clusters.tolist())
    without = np.array([x[clusters != k].mean() / y[clusters != k].mean() for k in range(6)])
    error = (5 / 6 * ((without - without.mean()) ** 2).sum()) ** 0.5
    assert ends(of["m"]["r"])[2] == pytest.approx(error, rel=1e-9)
    assert of["m"]["r"].interval.method == "jackknife"  # type: ignore[union-attr]
    assert ends(of["m"]["r"])[1] - of["m"]["r"].value == pytest.approx(  # type: ignore[operator]
        2.5705818366147395 * error, rel=1e-9
    )


def test_the_jackknife_of_a_mean_is_the_clustered_interval() -> None:
    """Of clusters of one size, whichever way the mean is put together."""
    x = np.random.default_rng(2).normal(size=40).tolist()
    again = Column("again", "", Composite(lambda v: v["x"], {"x": "x"}), True)
    halves = [
        Column(f"h{half}", "", Mean("x", lambda item, h=half: int(item.id) % 2 == h), True)  # type: ignore[misc]
        for half in (0, 1)
    ]
    pooled = Column("pooled", "", WeightedMean(("h0", "h1")), True)
    asked = Column("asked", "", WeightedMean(("h0", "h1"), count="asked"), True)
    columns = [X, again, *halves, pooled, asked]
    of = cells(columns, {"m": {"x": x}}, [n // 4 for n in range(40)])["m"]
    for name in ("again", "pooled", "asked"):
        assert ends(of[name]) == pytest.approx(ends(of["x"]), rel=1e-9)


@pytest.mark.parametrize("count", ["scored", "asked"])
def test_parts_without_a_source_weigh_as_their_columns_say(
    count: Literal["scored", "asked"],
) -> None:
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
        Column(
            "f", "", Composite(lambda v: _weigh(v.values(), fixed), {"a": "x0", "b": "x1"}), True
        ),
    ]
    of = cells(columns, {"m": {"x": x.tolist(), "y": y}}, clusters.tolist())["m"]

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
    again = Column("again", "", Composite(lambda v: v["x"], {"x": "x"}), True)
    of = cells([X, again], {"m": {"x": x}}, range(2000))["m"]
    assert of["again"].interval.clusters == 2000  # type: ignore[union-attr]
    assert ends(of["again"])[2] == pytest.approx(ends(of["x"])[2], rel=0.2)


def test_both_sides_of_a_pair_belong_to_one_cluster() -> None:
    def pair(item: Item) -> tuple[str, Literal["+", "-"]]:
        return str(int(item.id) // 2), "+" if int(item.id) % 2 else "-"

    column = Column("p", "P", PairedDifference("x", pair), True)
    x = [1.0, 2.0, 1.0, 4.0, 2.0, 7.0, 0.0, 1.0]
    alone = cells([column], {"m": {"x": x}}, [0, 0, 1, 1, 2, 2, 3, 3])["m"]["p"]
    differences = np.array([1.0, 3.0, 5.0, 1.0])
    assert ends(alone)[2] == pytest.approx(differences.std(ddof=1) / 2, rel=1e-9)
    # The sides are of other pictures, which tie the first two pairs together.
    tied = cells([column], {"m": {"x": x}}, [0, 1, 1, 2, 3, 4, 5, 6])["m"]["p"]
    assert tied.interval is not None
    assert tied.interval.clusters == 3


def test_a_fitted_transformation_is_taken_as_it_is() -> None:
    column = Column("z", "Z", PooledMean(partial(min_max, invert=False), "x"), True)
    models = {"a": {"x": [0.0, 1.0, 2.0, 5.0]}, "b": {"x": [1.0, 10.0, 3.0, 4.0]}}
    of = cells([X, column], models, range(4))
    assert ends(of["a"]["z"])[2] == pytest.approx(ends(of["a"]["x"])[2] / 10, rel=1e-9)


@pytest.mark.parametrize(
    ("values", "clusters", "reason"),
    [
        ([1.0, 2.0, 3.0], [0, 0, 0], "all edits share a source picture"),
        ([1.0, None, None], [0, 1, 2], "all edits share a source picture"),
        ([1.0, 1.0, 1.0], [0, 1, 2], "it is the same by every source picture"),
        ([0.0, 0.0, 0.0], [0, 1, 2], "it is the same by every source picture"),
        ([0.1, 0.1, 0.1], [0, 1, 2], "it is the same by every source picture"),
    ],
)
def test_no_interval_is_0_wide(
    values: list[float | None], clusters: list[int], reason: str
) -> None:
    again = Column("again", "", Composite(lambda v: v["x"], {"x": "x"}), True)
    for cell in cells([X, again], {"m": {"x": values}}, clusters)["m"].values():
        assert cell.interval is not None
        assert cell.interval.half_width is None
        assert cell.interval.reason == reason


def test_a_part_of_one_source_leaves_the_whole_without_an_interval() -> None:
    both = Column("both", "", Composite(lambda v: v["x"] + v["y"], {"x": "x", "y": "y"}), True)
    of = cells([X, Y, both], {"m": {"x": [1.0, 2, 4], "y": [1.0, None, None]}}, [0, 1, 2])["m"]
    assert of["both"].value == pytest.approx(7 / 3 + 1)
    assert of["both"].interval.reason == "a part of it rests on too few source pictures"  # type: ignore[union-attr]


def test_no_number_no_interval() -> None:
    both = Column("both", "", Composite(lambda v: v["x"], {"x": "x"}), True)
    of = cells([X, both], {"m": {"x": [None, None]}}, [0, 1])["m"]
    assert of["x"].interval is of["both"].interval is None


def pair_up(item: Item) -> tuple[str, Literal["+", "-"]]:
    return str(int(item.id) // 2), "+" if int(item.id) % 2 else "-"


PLAIN = {"x": [1.0, 100.0, 3.0, 7.0, 100.0, 5.0], "y": [2.0, 3.0, None, 1.0, 2.0, 2.0]}
"""Of `x` one at its cap has a partner, and one has one that a rule put in."""
TWO = {"a": "x", "b": "y"}


@pytest.mark.parametrize(
    ("how", "imputed", "capped", "marked"),
    [
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
    ],
)
def test_marks_survive_aggregation(how: Any, imputed: int, capped: int, marked: str) -> None:
    """Imputed, capped and other items: in every aggregation, and in what is made of it."""
    column = Column("c", "C", how, True)
    above = Column("above", "A", Composite(lambda v: v["c"], {"c": "c"}), True)
    columns = [X, Y, column, above]
    tabulation = Tabulation(columns)
    for number in range(7):
        values = {name: each[number] for name, each in PLAIN.items()} if number < 6 else {}
        of = row(number, "a", values) if values else row(number, "a", {"x": None, "y": None})
        outcomes = dict(of.outcomes)
        if number == 5:
            outcomes["x"] = Score(value=5.0, imputed=True)
            outcomes["y"] = Score(value=2.0, imputed=True)
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
    assert cell.interval is not None
    assert cell.interval.clusters == 2


@pytest.mark.parametrize("sources", [12, 40])
def test_intervals_cover_what_they_claim(sources: int) -> None:
    """4.3 items a source with a correlation of .3 within: a mean, two tasks together, a ratio."""
    rng = np.random.default_rng(7)
    runs = 200
    tasks = [
        Column(f"t{task}", "", Mean("x", lambda item, t=task: int(item.id) % 3 == t), True)  # type: ignore[misc]
        for task in range(3)
    ]
    columns = [
        X,
        Y,
        *tasks,
        Column("tasks", "", WeightedMean(("t0", "t1", "t2")), True),
        Column("plain", "", Composite(_mean, {"a": "t0", "b": "t1", "c": "t2"}), True),
        Column("ratio", "", Composite(_ratio, {"a": "x", "b": "y"}), True),
    ]
    truth = {"x": 5.0, "tasks": 5.0, "plain": 5.0, "ratio": 0.625}
    covered = dict.fromkeys((*truth, "naive"), 0)
    for _ in range(runs):
        sizes = rng.poisson(3.3, sources) + 1
        clusters = np.repeat(np.arange(sources), sizes)
        count = len(clusters)
        shared = 0.3**0.5 * rng.normal(size=(2, sources))[:, clusters]
        x, y = np.array([[5.0], [8.0]]) + shared + 0.7**0.5 * rng.normal(size=(2, count))
        values = {"x": x.tolist(), "y": y.tolist()}
        table = cells(columns, {"m": values}, clusters.tolist())["m"]
        for name, true in truth.items():
            low, high, _ = ends(table[name])
            covered[name] += low <= true <= high
        covered["naive"] += abs(x.mean() - 5) <= 1.96 * x.std(ddof=1) / count**0.5
    share = {name: count / runs for name, count in covered.items()}
    assert all(0.91 <= share[name] <= 0.985 for name in truth), share
    assert share["naive"] < 0.87, share


def _both(values: Mapping[str, float]) -> float:
    return (values["x"] + values["y"]) / 2


BOTH = Column("both", "", Composite(_both, {"x": "x", "y": "y"}), True)
WEIGHTED = Column("w", "W", Mean("x", weighted_by="y"), True)


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
        interval = cells(columns, {"m": values}, clusters)["m"][name].interval
        assert interval is not None
        if interval.low is None or interval.high is None:
            assert interval.reason == "one source picture has more than half of the weight"
            covered += 1
        else:
            covered += interval.low <= 0 <= interval.high
    assert 0.92 <= covered / runs <= 0.99, covered / runs


def test_no_interval_where_one_source_has_most_of_the_weight() -> None:
    values: Values = {"x": [1.0, 2.0, 4.0, 5.0], "y": [10.0, 1.0, 1.0, 1.0]}
    again = Column("again", "", Composite(lambda v: v["w"], {"w": "w"}), True)
    of = cells([WEIGHTED, again], {"m": values}, range(4))["m"]
    for cell in of.values():
        assert cell.interval is not None
        assert cell.interval.half_width is None
        assert cell.interval.reason == "one source picture has more than half of the weight"


def test_a_function_that_fails_without_a_source_leaves_its_number_without_an_interval() -> None:
    inverse = Column("i", "I", Composite(lambda v: 1 / v["x"], {"x": "x"}), True)
    of = cells([X, inverse], {"m": {"x": [1.0, 0.0, 0.0, 0.0]}}, range(4))["m"]
    assert of["i"].value == 4.0
    assert of["i"].interval.reason == "a part of it rests on too few source pictures"  # type: ignore[union-attr]


def _mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values)


def _ratio(values: Mapping[str, float]) -> float:
    return values["a"] / values["b"]


BINARY = {"x": (0.0, 1.0)}


@pytest.mark.parametrize("share", [0.5, 0.9, 0.97])
def test_intervals_of_shares_cover_what_they_claim(share: float) -> None:
    """Student's covered 94, 90 and 60 to 90 %, and had none where all values were equal."""
    rng = np.random.default_rng(11)
    runs, covered, without = 300, 0, 0
    for _ in range(runs):
        clusters = np.repeat(np.arange(40), 1 + rng.poisson(1.5, 40))
        x = (scipy.norm.cdf(_correlated(rng, clusters)) < share).astype(float)
        interval = cells([X], {"m": {"x": x.tolist()}}, clusters.tolist(), BINARY)["m"][
            "x"
        ].interval
        assert interval is not None
        assert interval.method == "korn-graubard"
        assert interval.low is not None
        assert interval.high is not None
        assert 0 <= interval.low < interval.high <= 1
        covered += interval.low <= share <= interval.high
        student = cells([X], {"m": {"x": x.tolist()}}, clusters.tolist())["m"]["x"].interval
        without += student is None or student.low is None
    assert covered / runs >= 0.92
    assert without > 0 or share < 0.97


def test_intervals_of_skewed_values_cover_what_they_claim() -> None:
    rng = np.random.default_rng(13)
    runs, covered, methods = 300, 0, set()
    for _ in range(runs):
        x = np.exp(rng.normal(size=40))
        interval = cells([X], {"m": {"x": x.tolist()}}, range(40))["m"]["x"].interval
        assert interval is not None
        assert interval.low is not None
        assert interval.high is not None
        methods.add(interval.method)
        covered += interval.low <= np.exp(0.5) <= interval.high
    assert covered / runs >= 0.91
    assert methods <= {"bootstrap-t", "clustered"}
    assert "bootstrap-t" in methods


def _correlated(rng: np.random.Generator, clusters: np.ndarray) -> np.ndarray:
    count = int(clusters.max()) + 1
    return 0.3**0.5 * rng.normal(size=count)[clusters] + 0.7**0.5 * rng.normal(size=len(clusters))


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("affine", [(1.0, 0.0), (-100.0, 100.0)])
def test_a_share_of_none_or_all_has_an_interval(value: float, affine: tuple[float, float]) -> None:
    column = Column("x", "X", Mean("x", affine=affine), True)
    cell = cells([column], {"m": {"x": [value] * 20}}, range(20), BINARY)["m"]["x"]
    assert cell.interval is not None
    end = affine[0] * value + affine[1]
    assert cell.value == end
    ends_of = (cell.interval.low, cell.interval.high)
    assert end in ends_of
    # The rule of three, a little wider: 1 - .025 ** (1 / 20).
    assert abs(ends_of[1] - ends_of[0]) == pytest.approx(abs(affine[0]) * 0.1684, rel=1e-3)  # type: ignore[operator]


def test_values_inside_the_scale_are_no_share() -> None:
    of = cells([X], {"m": {"x": [0.0, 0.5, 1.0, 1.0]}}, range(4), BINARY)["m"]["x"]
    assert of.interval is not None
    assert of.interval.method == "clustered"


def test_where_one_source_differs_there_is_no_end() -> None:
    of = cells([X], {"m": {"x": [1.0] * 30 + [9.0]}}, range(31))["m"]["x"]
    assert of.interval is not None
    assert of.interval.low is None
    assert of.interval.reason == "too few source pictures differ from the others"


def test_a_share_on_another_scale_has_the_same_interval() -> None:
    x = [1.0] * 30 + [0.0] * 6
    scaled = Column("scaled", "", Mean("x", affine=(-100.0, 100.0)), False)
    of = cells([X, scaled], {"m": {"x": x}}, [n // 2 for n in range(36)], BINARY)["m"]
    low, high, error = ends(of["x"])
    assert (low, high) != pytest.approx((0.0, 1.0), abs=0.05)
    assert ends(of["scaled"]) == pytest.approx((100 - 100 * high, 100 - 100 * low, 100 * error))


@pytest.mark.parametrize("composite", [False, True])
def test_skewed_values_have_the_outer_of_two_intervals(composite: bool) -> None:
    rng = np.random.default_rng(21)
    x = np.exp(rng.normal(size=30))
    again = Column("again", "", Composite(lambda v: v["x"], {"x": "x"}), True)
    of = cells([X, again], {"m": {"x": x.tolist()}}, range(30))["m"]["again" if composite else "x"]
    assert of.interval is not None
    assert of.interval.method == "bootstrap-t"
    low, high, error = ends(of)
    drawn = bootstrap_t(x[None], np.ones(30), INTERVAL_RESAMPLES)
    half = scipy.t.ppf(0.975, 29) * error
    assert low == pytest.approx(min(float(drawn.low[0]), x.mean() - half))
    assert high == pytest.approx(max(float(drawn.high[0]), x.mean() + half))
    assert high - x.mean() > 1.2 * (x.mean() - low)


def test_an_interval_of_few_sources_does_not_leave_the_scale_for_one_that_differs() -> None:
    x = [0.9951, 0.9950, 0.9952, 0.9949, 0.9951, 0.9950, 0.9952, 0.93]
    bare = cells([X], {"m": {"x": x}}, range(8))["m"]["x"]
    on_scale = cells([X], {"m": {"x": x}}, range(8), BINARY)["m"]["x"]
    assert ends(bare)[0] < 0
    low, high, _ = ends(on_scale)
    assert 0.5 < low < 0.9
    assert high == 1.0 < ends(bare)[1]
    # Where hardly any differ there is no end but that of the scale.
    few = cells([X], {"m": {"x": [0.5] * 30 + [0.9]}}, range(31), BINARY)["m"]["x"]
    assert 0 < ends(few)[0] < 0.5 < ends(few)[1] < 0.75


def test_no_interval_leaves_its_scale_and_a_distance_has_no_far_end() -> None:
    ranges = {"x": (0.0, 65025.0)}
    far = cells([X], {"m": {"x": [1.0, 2.0, 900.0, 3.0, 1.0]}}, range(5), ranges)["m"]["x"]
    assert ends(far)[0] == 0.0
    alike = cells([X], {"m": {"x": [0.0] * 20}}, range(20), ranges)["m"]["x"]
    assert alike.interval is not None
    assert alike.interval.low is None
