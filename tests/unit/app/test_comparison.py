"""Whether one model is better than another, from stored runs."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from editjudge.app import comparison as module
from editjudge.app.comparison import DimensionComparison, ModelComparison, compare_models, rank_models
from editjudge.app.intervals import ColumnValues, is_surely_best, with_intervals
from editjudge.app.model_scores import ModelScores, ScoreReader
from editjudge.app.spec import ResolvedSpec, RunSpec
from editjudge.app.view import RunView
from editjudge.base.errors import ConfigError
from editjudge.base.item import Missing
from editjudge.base.verdict import NoScore, Score
from editjudge.benchmarks.column import Column, Composite, Mean, WeightedMean
from editjudge.benchmarks.rounds import JudgeRounds
from editjudge.benchmarks.tabulation import Tabulation
from editjudge.cli.compare import _describe_signatures, describe_comparison
from editjudge.engine.content_keys import ItemContents
from editjudge.stats.clusters import Floats
from editjudge.stats.paired_comparison import compare as compare_values
from editjudge.stats.paired_comparison import holm

from ...small_data import MSE, NO_FILE, PSNR, make_spec, read_items, save_picture, stored_run, write_items
from .test_intervals import X, Y, row

MODELS = ("plain", "good", "alike")
OF_CORE = ResolvedSpec(RunSpec(benchmark="core", data=Path(), outputs={}))
BROKEN = dict.fromkeys((PSNR, MSE), NoScore(kind="degenerate", reason="broken"))
PENDING: Mapping[str, Any] = {}


class Data:
    """Items with a source for every so many, and runs about them."""

    def __init__(self, folder: Path, sources: int, each: int = 2) -> None:
        self.folder = folder
        self.items = [f"{s}-{number}" for s in range(sources) for number in range(each)]
        lines = []
        for item in self.items:
            # The same picture by another name is the same source.
            name = f"{'again ' * item.endswith('-1')}{source(item)}.png"
            save_picture(folder / name, np.full((8, 8, 3), source(item), np.uint8))
            lines.append({"id": item, "source": name})
        write_items(folder, lines)

    def change(self, change: Any) -> None:
        write_items(self.folder, map(change, read_items(self.folder)))

    def run(self, name: str, values: Any, **signed: str) -> Path:
        """A stored run: `values(model, item)` is PSNR, MSE is 100 less it; or other verdicts."""
        spec = make_spec(self.folder, MODELS, (PSNR, MSE))
        dataset = ResolvedSpec(spec).dataset
        contents = ItemContents(dataset)
        held = {ref.id: contents.read(ref) for ref in dataset.items()}
        with stored_run(self.folder / name, spec, **signed) as keep:
            for item in self.items:
                for model in MODELS:
                    value = values(model, item)
                    if not isinstance(value, Mapping | Missing):
                        value = {PSNR: Score(value=value), MSE: Score(value=100 - value)}
                    keep(item, model, value, held[item])
        return self.folder / name


def source(item: str) -> int:
    return int(item.split("-")[0])


def better_by(gain: float) -> Any:
    """`good` is better than `plain` by about so much, `alike` by nothing."""

    def value(model: str, item: str) -> float:
        noise = np.random.default_rng([*map(ord, item + model)]).normal(0, 0.1)
        return 30.0 + source(item) + gain * (model == "good") + float(noise)

    return value


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return Data(tmp_path, sources=12)


@pytest.fixture
def open_run() -> Iterator[Any]:
    with ExitStack() as stack:
        yield lambda path: stack.enter_context(RunView(path))


def compare(view: RunView, first: str = "plain", second: str = "good", *patterns: str) -> Any:
    """The comparison, and each of its dimensions."""
    told = compare_models((view, first), (view, second), patterns)
    return told, *told.dimensions


def compare_on(
    first: Mapping[str, tuple[float, str, bool]],
    second: Mapping[str, tuple[float, str, bool]],
    clusters: Mapping[str, int],
) -> DimensionComparison:
    """Two models on PSNR, from their values, signatures and marks by item."""
    scores = ScoreReader([PSNR])
    ids, none = [*clusters], (math.nan, "", False)
    models = []
    for of in (first, second):
        values, signatures, imputed = zip(*(of.get(item, none) for item in ids), strict=True)
        numbers = [scores.signatures.setdefault(s, len(scores.signatures)) for s in signatures]
        marks = [2 * number + put_in for number, put_in in zip(numbers, imputed, strict=True)]
        model = ModelScores(ids, {PSNR: array("d", values)}, {PSNR: array("I", marks)})
        models.append((model, np.arange(len(ids))))
    pairs = module.PairedScores(
        (OF_CORE.dimensions_by_id[PSNR],),
        *(model for model, _ in models),
        (models[0][1], models[1][1]),
        np.array([*clusters.values()]),
        (*scores.signatures,),
    )
    return module._compare_on(pairs.on(*pairs.dimensions))


def test_a_better_model_is_found_and_an_equal_one_is_not(data: Data, open_run: Any) -> None:
    view = open_run(data.run("run", better_by(1.0)))
    told, psnr, mse = compare(view)
    assert (psnr.dimension, psnr.better, mse.better) == (PSNR, "second", "second")
    assert psnr.figures.difference == pytest.approx(1.0, abs=0.1)
    assert mse.figures.difference == pytest.approx(-1.0, abs=0.1)
    assert psnr.detectable == psnr.figures.detectable(2), "two dimensions are tested"
    assert (told.items, psnr.figures.sources) == (24, 12)
    assert next(describe_comparison(told)).startswith("good beats plain by 0.975 dB [0.921, 1.03]")
    for each in (psnr, mse):  # of which less is better
        assert (each.figures.wins, each.figures.losses) == (24, 0)
    alike, *dimensions = compare(view, "plain", "alike")
    assert {each.better for each in dimensions} == {""}
    assert next(describe_comparison(alike)).startswith("no significant difference")


def test_the_sign_of_a_dimension_decides_who_is_better(data: Data, open_run: Any) -> None:
    told, mse = compare(open_run(data.run("run", better_by(-1.0))), "plain", "good", "*mse*")
    assert mse.better == "first"
    text = next(describe_comparison(told))
    assert text.startswith("plain beats good by ")
    assert "[0." in text  # both ends are in favour of the one that is better


def test_only_edits_that_both_have_count(data: Data, open_run: Any) -> None:
    odd = {("good", "0-0"): NO_FILE, ("plain", "1-0"): BROKEN}
    plain = better_by(0.0)
    view = open_run(data.run("run", lambda *edit: odd.get(edit) or plain(*edit)))
    told, psnr = compare(view, "plain", "good", PSNR)
    assert (psnr.figures.edits, psnr.only_first, psnr.only_second) == (22, 1, 1)
    left_out = [line for line in describe_comparison(told) if line.startswith("edits left out")]
    assert left_out == [f"edits left out: 1 scored for A only, 1 scored for B only ({PSNR})"]


def test_counts_and_causes_belong_to_their_model() -> None:
    """Each count is another number, so that none stands in the place of another."""
    sizes = {"both": 5, "first": 4, "second": 2, "neither": 3, "signed": 1}
    items = [f"{kind}{n}" for kind, count in sizes.items() for n in range(count)]
    first, second = (
        {
            item: (float(place if other else 7 - place), signature, item in imputed)
            for place, item in enumerate(items)
            for signature in [f"by:{other if item == 'signed0' else 0}"]
            if not item.startswith(("neither", "first" if other else "second"))
        }
        for other, imputed in enumerate((("both1", "both2", "first0"), ("both0",)))
    )
    # An item that the runs do not share is no part of the comparison.
    second["elsewhere"] = second["both0"]
    told = compare_on(first, second, dict.fromkeys(items, 1))
    assert (told.only_first, told.only_second, told.neither, told.signed_otherwise) == (4, 2, 3, 1)
    assert (told.imputed_first, told.imputed_second) == (2, 1)
    assert (told.figures.wins, told.figures.ties, told.figures.losses) == (1, 0, 4)
    # 7 - 2n more, whichever model is better.
    assert [pair.item for pair in told.furthest] == [f"both{n}" for n in (0, 1, 2, 3, 4)]


def test_numbers_that_were_judged_otherwise_are_not_compared(data: Data, open_run: Any) -> None:
    first = open_run(data.run("first", better_by(0.0)))
    second = open_run(data.run("second", better_by(5.0), **{PSNR: "another"}))
    psnr, mse = compare_models((first, "good"), (second, "good")).dimensions
    # Verdicts by another signature than today's are none of the run any more.
    assert psnr.figures is None
    assert mse.better == "second"


def test_items_that_are_others_are_left_out(data: Data, open_run: Any) -> None:
    first = open_run(data.run("first", better_by(0.0)))
    changed = Data(data.folder / "other", sources=12)
    changed.change(lambda line: line | ({"instruction": "y"} if line["id"] == "0-0" else {}))
    second = open_run(changed.run("second", better_by(1.0)))
    told = compare_models((first, "good"), (second, "good"))
    assert (told.items, told.other_items) == (23, 1)


def test_few_sources_are_said_to_be_few(tmp_path: Path, open_run: Any) -> None:
    told, *each = compare(open_run(Data(tmp_path, sources=3, each=5).run("run", better_by(3.0))))
    assert {one.better for one in each} == {""}
    assert any("too few source pictures" in line for line in describe_comparison(told))


def test_judged_values_are_tied_only_where_they_are_equal(data: Data, open_run: Any) -> None:
    _, psnr = compare(open_run(data.run("run", lambda model, _: float(model == "good"))), "plain", "good", "psnr")
    assert psnr.figures.wins == 24


def test_items_that_share_one_of_several_sources_are_one(tmp_path: Path, open_run: Any) -> None:
    data = Data(tmp_path, sources=6, each=1)
    data.change(lambda line: line | {"sources": [line.pop("source"), "0.png"]})
    _, psnr, _ = compare(open_run(data.run("run", better_by(1.0))))
    assert (psnr.figures.sources, psnr.figures.p) == (1, None)


def test_half_a_run_is_told(data: Data, open_run: Any) -> None:
    run = data.run("run", lambda _, item: PENDING if item in {"0-0", "1-0"} else 30.0 + source(item))
    told, psnr, _ = compare(open_run(run))
    assert next(describe_comparison(told)) == "the run is not finished: at least 4 edits pending"
    assert psnr.figures.interval is psnr.detectable is None  # as every edit is alike


@pytest.mark.parametrize(
    ("gain", "places"),
    [
        (1.0, {"plain": (2, 3), "good": (1, 1), "alike": (2, 3)}),
        # Of three pairs p is 0.022, 0.22 and 0.48: none is significant among three.
        (0.09, {"plain": (1, 3), "good": (1, 3), "alike": (1, 3)}),
        # Of two of them the second is not.
        (0.13, {"plain": (2, 3), "good": (1, 2), "alike": (1, 3)}),
    ],
)
def test_places_are_adjusted_for_all_pairs(
    data: Data, open_run: Any, gain: float, places: dict[str, tuple[int, int]]
) -> None:
    view = open_run(data.run("run", better_by(gain)))
    for each in rank_models(view).dimensions:
        found = {name: (one.first_place, one.last_place) for name, one in each.models.items()}
        assert (found, each.edits) == (places, 24)
        for other, single_p in (("alike", 0.05), ("plain", 0.025)):
            _, one = compare(view, other, "good", each.dimension)
            assert (one.figures.p < single_p) is (other == "plain" or gain > 0.1), "alone it is"


def test_one_model_has_no_place_and_two_have(data: Data, open_run: Any) -> None:
    for models in (MODELS[:1], MODELS[:2]):
        with stored_run(data.folder / str(len(models)), make_spec(data.folder, models)) as keep:
            for model in models:
                keep("0-0", model, {PSNR: Score(value=1.0)})
    with pytest.raises(ConfigError, match="holds only one model, plain"):
        rank_models(open_run(data.folder / "1"))
    (ranking,) = rank_models(open_run(data.folder / "2")).dimensions
    assert list(ranking.models) == ["plain", "good"]


def test_what_says_nothing_of_a_model_is_not_compared() -> None:
    usual = OF_CORE.dimensions_by_id[PSNR]
    known = [usual, replace(usual, id="data", of_data=True), replace(usual, id="r", round_of=PSNR)]
    of_run = SimpleNamespace(dimensions=known, rules=OF_CORE.rules)
    view: Any = SimpleNamespace(folder="run", resolved_spec=of_run)
    assert module._shared_dimensions(view, view, ()) == (usual,)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("plain", "nobody"), "no model nobody; its models: plain, good, alike"),
        (("plain", "good", "*lpips*"), r"no dimension matches '\*lpips\*'"),
        (("plain", "good", "nothing"), "no dimension matches 'nothing'"),
    ],
)
def test_what_is_not_there_is_named(data: Data, open_run: Any, asked: tuple[str, ...], told: str) -> None:
    view = open_run(data.run("run", better_by(1.0)))
    with pytest.raises(ConfigError, match=told):
        compare(view, *asked)


def test_the_reason_for_leaving_out_is_named() -> None:
    by = "dimension:core.a|by:mse.1|generalist.judge:qwen(seed=0,temperature={})"
    first, second = ({"a": (1.0, by.format(warm), False), "b": (2.0, by.format(0), bool(warm))} for warm in (0, 1))
    told = compare_on(first, second, {"a": 1, "b": 2})
    assert (told.signed_otherwise, told.imputed_first, told.imputed_second) == (1, 0, 1)
    (cause,) = map(str, told.causes)
    assert cause == "generalist.judge: temperature (0 → 1)"
    (note,) = _describe_signatures(told)
    assert note.endswith(f"1 edit left out, since A and B were judged differently: {cause}")


CLAIM = re.compile(
    r"(\w) beats (\w) by (\S+) dB(?: \[(\S+), (\S+)\]| by every source)"
    r" on core\.psnr\.source\.whole;"
    r" a loss on up to (\S+) % of sources could be unseen \((\d+) sources?\)"
)
GAIN = st.sampled_from([0.0, 0.1, 0.5, 1.0, -0.5, -30.0, 60.0]) | st.floats(-2, 5)
"""A little everywhere, and now and then a lot."""
ONE_LUCKY = [0.5] * 11 + [60.0]
"""A gain on every source, nearly all of it on one."""


def compare_gains(gains: Sequence[float], clusters: Sequence[int]) -> tuple[Any, list[str]]:
    """What is found on PSNR where B is better than A by these gains, and what `compare` says."""
    first = {str(n): (20.0, "", False) for n, _ in enumerate(gains)}
    second = {str(n): (20 + gain, "", False) for n, gain in enumerate(gains)}
    found = compare_on(first, second, {str(n): cluster for n, cluster in enumerate(clusters)})
    (row,) = module._adjust_for_all([found])
    counts = {"items": len(gains), "other_items": 0, "pending": 0}
    result = ModelComparison(first="A", second="B", dimensions=(row,), untrained=(), checks="", **counts)
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
    found, lines = compare_gains(*case)
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
            assert found.figures.reason == "every source picture gives the same value"
            continue
        assert 0 < float(low) <= float(by) <= float(high)
        ends = found.figures.bootstrap
        assert ends.low > 0 if winner == "B" else ends.high < 0


def test_a_gain_that_rests_on_one_source_is_no_win() -> None:
    """Every source is better, so exchanging the models alone would call it a win (p = .0005)."""
    found, lines = compare_gains(ONE_LUCKY, range(12))
    assert found.figures.interval.low < 0 < found.figures.difference
    assert found.better == ""
    assert lines[0].startswith("no significant difference")


def test_why_nothing_is_claimed_is_said() -> None:
    _, lines = compare_gains([1.0, 2.0, 1.5], [0, 0, 0])
    assert "no claim on core.psnr.source.whole: all edits share a source picture" in lines
    _, lines = compare_gains([0.0] * 28 + [1.0, 3.0], range(30))
    assert "no claim on core.psnr.source.whole: too few source pictures differ from the others" in lines
    _, lines = compare_gains([1.0, 1.1, 0.9, 1.0, 1.2, 0.8, 1.1, 1.0, 0.9], range(9))
    assert not any(line.startswith("no claim") for line in lines)


AREA = Column("area", "Area", Mean("x", weighted_by="y"), True)
SUM = Column("sum", "Sum", Composite(lambda of: of["a"] + of["b"], {"a": "x", "b": "y"}), True)
POOLED = Column("pooled", "Pooled", WeightedMean(("x", "y")), True)
COLUMNS = (X, Y, AREA, SUM, POOLED)


def values_of(models: dict[str, list[float | None]], clusters: Sequence[int]) -> Mapping[str, ColumnValues]:
    """The values of columns of which `y` is the same as `x` but for a constant."""
    tabulation = Tabulation(COLUMNS)
    for number in range(len(clusters)):
        for model, each in models.items():
            value = each[number]
            other = None if value is None else value + 1 + number % 3
            tabulation.add(row(number, model, {"x": value, "y": other}))
    return with_intervals(COLUMNS, tabulation, clusters, {}, {})[1]


def is_sure(values: ColumnValues, best: str, *others: str, higher: bool = True) -> bool:
    return is_surely_best(values, best, others, higher_is_better=higher)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    sources=st.integers(2, 25),
    gains=st.lists(st.floats(-1, 1), min_size=1, max_size=4),
    luck=st.sampled_from([0.0, 20.0]),
)
@example(211, 20, [0.6, 0.6], 0.0)  # each of both pairs is a win alone, and neither by Holm
@example(10908, 2, [0.0], 0.0)  # a column of which no source has weight
def test_a_mean_is_bold_where_every_pair_is_a_win(seed: int, sources: int, gains: list[float], luck: float) -> None:
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


@pytest.mark.parametrize(("judges", "rounds"), [(1, 1), (1, 4), (2, 3)])
def test_the_noise_of_the_editor_and_of_the_judge_are_told_apart(judges: int, rounds: int) -> None:
    """Outputs of an item lie .3 apart, and ratings of an output .2; a score is the mean of its ratings."""
    rng, items, each = np.random.default_rng(5), 4000, JudgeRounds(("a", "b")[:judges], rounds)
    scores, outputs = ScoreReader(["d"], each), []
    easy = rng.normal(0, 5, items)
    for _ in range(3):
        ratings = rng.normal(0, 0.2, (judges * rounds, items)) + easy + rng.normal(0, 0.3, items)
        columns = {one.dimension_id("d"): of for one, of in zip(each.each_round, ratings, strict=True)}
        columns["d"] = ratings.mean(axis=0)
        columns["d"][:7] = math.nan
        numbers = {name: array("d", of.tobytes()) for name, of in columns.items()}
        outputs.append(ModelScores([], numbers, {}))
    noise = scores._find_noise(outputs, "d")
    alone = rounds == 1
    assert noise.editor == pytest.approx(math.hypot(0.3, 0.2) if alone else 0.3, rel=0.03)
    assert noise.judge == (None if alone else pytest.approx(0.2, rel=0.03))
    assert scores._find_noise(outputs[:1], "d").editor is None
