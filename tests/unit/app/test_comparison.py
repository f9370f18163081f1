"""Whether one model is better than another, from stored runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image as Pil

from editjudge.app import comparison as module
from editjudge.app.comparison import compare_models, rank_models
from editjudge.app.spec import ResolvedSpec, RunSpec
from editjudge.app.view import RunView
from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError
from editjudge.base.file_states import FileState
from editjudge.base.item import Missing
from editjudge.base.verdict import NoScore, Score
from editjudge.cli import root
from editjudge.cli.compare import _describe_signatures, _has_failed, describe_comparison
from editjudge.engine.content_keys import ItemContent, ItemContents, JudgedEdit
from editjudge.storage.store import RunStore

PSNR, MSE = "core.psnr.source.whole", "core.mse.source.whole"
MODELS = ("plain", "good", "alike")


class Data:
    """Items with a source for every so many, and runs about them."""

    def __init__(self, folder: Path, sources: int, each: int = 2) -> None:
        self.folder = folder
        self.items = [f"{s}-{number}" for s in range(sources) for number in range(each)]
        for s in range(sources):
            pixels = np.full((8, 8, 3), s, np.uint8)
            Pil.fromarray(pixels).save(folder / f"{s}.png")
            Pil.fromarray(pixels).save(folder / f"again {s}.png")
        lines = [
            {"id": item, "instruction": "x", "source": f"{source(item)}.png"}
            # The same picture by another name is the same source.
            | ({"source": f"again {source(item)}.png"} if item.endswith("-1") else {})
            for item in self.items
        ]
        (folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))

    def run(self, name: str, values: Any, **signed: str) -> Path:
        """A stored run: `values(model, item)` is PSNR, MSE is 100 less it."""
        resolved = ResolvedSpec(
            RunSpec(
                benchmark="core",
                data=self.folder / "items.jsonl",
                outputs={model: self.folder / model for model in MODELS},
                dimensions=(PSNR, MSE),
            )
        )
        signatures = resolved.signatures({})
        signatures |= {d: f"{signatures[d]}|{extra}:1" for d, extra in signed.items()}
        path = self.folder / name
        with RunStore.open(path, resolved.header(Settings())) as store:
            contents = ItemContents(resolved.dataset)
            held = {ref.id: contents.read(ref) for ref in resolved.dataset.items()}
            for item in self.items:
                for model in MODELS:
                    self.put(store, item, model, values(model, item), signatures, held[item])
        return path

    @staticmethod
    def put(
        store: RunStore,
        item: str,
        model: str,
        value: float | str,
        signatures: dict[str, str],
        content: ItemContent | None = None,
    ) -> None:
        if value == "missing":
            missing = Missing("absent", "no file")
            store.save_edit_now(JudgedEdit(item, model, None, missing, content))
            return
        seen = FileState(bytes(8), f"sha256:{'0' * 64}")
        edit = JudgedEdit(item, model, seen, None, content)
        if value == "pending":
            store.save_edit_now(edit)
            return
        if isinstance(value, str):
            verdict = NoScore(kind="degenerate", reason=value)
            store.save_edit_now(edit, {PSNR: verdict, MSE: verdict}, signatures)
        else:
            scored = {PSNR: Score(value=value), MSE: Score(value=100 - value)}
            store.save_edit_now(edit, scored, signatures)


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
def opened() -> Iterator[Any]:
    with ExitStack() as stack:
        yield lambda path: stack.enter_context(RunView(path))


def test_a_better_model_is_found_and_an_equal_one_is_not(data: Data, opened: Any) -> None:
    view = opened(data.run("run", better_by(1.0)))
    told = compare_models((view, "plain"), (view, "good"))
    psnr, mse = told.dimensions
    assert (psnr.dimension, psnr.better, mse.better) == (PSNR, "second", "second")
    assert psnr.figures is not None
    assert psnr.figures.difference == pytest.approx(1.0, abs=0.1)
    assert psnr.detectable == psnr.figures.detectable(2), "two dimensions are tested"
    assert mse.figures is not None
    assert mse.figures.difference == pytest.approx(-1.0, abs=0.1)
    assert (told.items, psnr.figures.sources) == (24, 12)
    assert next(describe_comparison(told)).startswith("good beats plain by 0.975 dB [0.921, 1.03]")
    alike = compare_models((view, "plain"), (view, "alike"))
    assert {each.better for each in alike.dimensions} == {""}
    assert next(describe_comparison(alike)).startswith("no significant difference")
    for each in told.dimensions:  # of which less is better too
        assert each.figures is not None
        assert (each.figures.wins, each.figures.losses) == (24, 0)


def test_the_sign_of_a_dimension_decides_who_is_better(data: Data, opened: Any) -> None:
    view = opened(data.run("run", better_by(-1.0)))
    told = compare_models((view, "plain"), (view, "good"), ["*mse*"])
    assert [each.better for each in told.dimensions] == ["first"]
    text = next(describe_comparison(told))
    assert text.startswith("plain beats good by ")
    assert "[0." in text  # both ends are in favour of the one that is better


def test_only_edits_that_both_have_count(data: Data, opened: Any) -> None:
    plain = better_by(0.0)

    def some_missing(model: str, item: str) -> float | str:
        if (model, item) == ("good", "0-0"):
            return "missing"
        if (model, item) == ("plain", "1-0"):
            return "broken"
        return plain(model, item)

    view = opened(data.run("run", some_missing))
    told = compare_models((view, "plain"), (view, "good"), [PSNR])
    (psnr,) = told.dimensions
    assert psnr.figures is not None
    assert psnr.figures.edits == 22
    assert (psnr.only_first, psnr.only_second) == (1, 1)
    left_out = [line for line in describe_comparison(told) if line.startswith("edits left out")]
    assert left_out == [f"edits left out: 1 scored for A only, 1 scored for B only ({PSNR})"]


def test_counts_and_causes_belong_to_their_model() -> None:
    """Each count is another number, so that none stands in the place of another."""
    sizes = {"both": 5, "first": 4, "second": 2, "neither": 3, "signed": 1}
    items = [f"{kind}{n}" for kind, count in sizes.items() for n in range(count)]
    first, second = (
        module._ModelNumbers(
            {
                PSNR: {
                    item: module._Score(
                        float(place if other else 7 - place),
                        f"by:{other if item == 'signed0' else 0}",
                        is_imputed=item in (("both0",) if other else ("both1", "both2", "first0")),
                    )
                    for place, item in enumerate(items)
                    if not item.startswith(("neither", "first" if other else "second"))
                }
            }
        )
        for other in (0, 1)
    )
    dimension = ResolvedSpec(RunSpec(benchmark="core", data=Path(), outputs={})).dimensions_by_id[
        PSNR
    ]
    # An item that the runs do not share is no part of the comparison.
    second.scores[PSNR]["elsewhere"] = second.scores[PSNR]["both0"]
    told = module._compare_on(dimension, first, second, dict.fromkeys(items, 1))
    assert (told.only_first, told.only_second, told.neither, told.signed_otherwise) == (4, 2, 3, 1)
    assert (told.imputed_first, told.imputed_second) == (2, 1)
    assert told.figures is not None
    assert (told.figures.wins, told.figures.ties, told.figures.losses) == (1, 0, 4)
    # 7 - 2n more, whichever model is better.
    assert [pair.item for pair in told.furthest] == [f"both{n}" for n in (0, 1, 2, 3, 4)]


def test_numbers_that_were_judged_otherwise_are_not_compared(data: Data, opened: Any) -> None:
    first = opened(data.run("first", better_by(0.0)))
    second = opened(data.run("second", better_by(5.0), **{PSNR: "other"}))
    told = compare_models((first, "good"), (second, "good"))
    psnr, mse = told.dimensions
    # Verdicts by another signature than today's are none of the run any more.
    assert psnr.figures is None
    assert mse.figures is not None
    assert mse.better == "second"


def test_items_that_are_others_are_left_out(data: Data, opened: Any) -> None:
    first = opened(data.run("first", better_by(0.0)))
    other = data.folder / "other"
    other.mkdir()
    changed = Data(other, sources=12)
    lines_ = (other / "items.jsonl").read_text().splitlines()
    record = json.loads(lines_[0]) | {"instruction": "y"}
    (other / "items.jsonl").write_text("\n".join([json.dumps(record), *lines_[1:]]))
    second = opened(changed.run("second", better_by(1.0)))
    told = compare_models((first, "good"), (second, "good"))
    assert (told.items, told.other_items) == (23, 1)


def test_few_sources_are_said_to_be_few(tmp_path: Path, opened: Any) -> None:
    view = opened(Data(tmp_path, sources=3, each=5).run("run", better_by(3.0)))
    told = compare_models((view, "plain"), (view, "good"))
    assert {each.better for each in told.dimensions} == {""}
    assert any("too few source pictures" in line for line in describe_comparison(told))


def test_judged_values_are_tied_only_where_they_are_equal(data: Data, opened: Any) -> None:
    view = opened(data.run("run", lambda model, item: float(model == "good")))
    told = compare_models((view, "plain"), (view, "good"), ["psnr"])
    assert [each.figures.wins for each in told.dimensions if each.figures] == [24]


def test_items_that_share_one_of_several_sources_are_one(tmp_path: Path, opened: Any) -> None:
    data = Data(tmp_path, sources=6, each=1)
    lines_ = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    for record in lines_:
        record["sources"] = [record.pop("source"), "0.png"]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, lines_)))
    view = opened(data.run("run", better_by(1.0)))
    (psnr, *_) = compare_models((view, "plain"), (view, "good")).dimensions
    assert psnr.figures is not None
    assert psnr.figures.sources == 1
    assert psnr.figures.p is None


def test_a_check_is_not_passed_by_not_judging(data: Data, opened: Any) -> None:
    view = opened(data.run("run", lambda model, item: "missing" if model == "good" else 1.0))
    told = compare_models((view, "plain"), (view, "good"))
    for what in ("worse", "better", "different"):
        with pytest.raises(ConfigError, match="too few edits to compare on core.psnr"):
            _has_failed(told.dimensions, what)


def test_half_a_run_is_told_and_passes_no_check(data: Data, opened: Any) -> None:
    def half(model: str, item: str) -> float | str:
        return "pending" if item in {"0-0", "1-0"} else 30.0 + source(item)

    run = data.run("run", half)
    view = opened(run)
    told = compare_models((view, "plain"), (view, "good"))
    assert next(describe_comparison(told)) == "the run is not finished: at least 4 edits pending"
    (psnr, _) = told.dimensions
    assert psnr.figures is not None
    assert psnr.figures.interval is psnr.detectable is None  # as every edit is alike
    done = CliRunner().invoke(
        root.commands["compare"], [str(run), "plain", "good", "--fail-if", "worse"]
    )
    assert isinstance(done.exception, ConfigError)
    assert "not finished: at least 4 edits pending" in str(done.exception)


def test_ranking(data: Data, opened: Any) -> None:
    view = opened(data.run("run", better_by(1.0)))
    ranked = {each.dimension: each for each in rank_models(view).dimensions}
    for each in (ranked[PSNR], ranked[MSE]):
        places = {name: (one.first_place, one.last_place) for name, one in each.models.items()}
        assert places == {"plain": (2, 3), "good": (1, 1), "alike": (2, 3)}
    assert ranked[PSNR].edits == 24


@pytest.mark.parametrize(
    ("gain", "places"),
    [
        # Of three pairs p is 0.022, 0.22 and 0.48: none is significant among three.
        (0.09, {"plain": (1, 3), "good": (1, 3), "alike": (1, 3)}),
        # Of two of them the second is not.
        (0.13, {"plain": (2, 3), "good": (1, 2), "alike": (1, 3)}),
    ],
)
def test_places_are_adjusted_for_all_pairs(
    data: Data, opened: Any, gain: float, places: dict[str, tuple[int, int]]
) -> None:
    view = opened(data.run("run", better_by(gain)))
    for each in rank_models(view).dimensions:
        found = {name: (one.first_place, one.last_place) for name, one in each.models.items()}
        assert found == places
        for other, single_p in (("alike", 0.05), ("plain", 0.025)):
            (one,) = compare_models((view, other), (view, "good"), [each.dimension]).dimensions
            assert one.figures is not None
            assert one.figures.p is not None
            assert (one.figures.p < single_p) is (other == "plain" or gain > 0.1), "alone it is"


def test_what_says_nothing_of_a_model_is_not_compared() -> None:
    of_run = ResolvedSpec(RunSpec(benchmark="core", data=Path(), outputs={}))
    usual = of_run.dimensions_by_id[PSNR]
    known = [usual, replace(usual, id="data", of_data=True), replace(usual, id="r", round_of=PSNR)]
    view: Any = SimpleNamespace(
        folder="run", resolved_spec=SimpleNamespace(dimensions=known, rules=of_run.rules)
    )
    assert module._shared_dimensions(view, view, ()) == (usual,)


@pytest.mark.parametrize(
    ("models", "patterns", "told"),
    [
        (("plain", "nobody"), (), "no model nobody; its models: plain, good, alike"),
        (("plain", "good"), ("*lpips*",), r"no dimension matches '\*lpips\*'"),
        (("plain", "good"), ("nothing",), "no dimension matches 'nothing'"),
    ],
)
def test_what_is_not_there_is_named(
    data: Data, opened: Any, models: tuple[str, str], patterns: tuple[str, ...], told: str
) -> None:
    view = opened(data.run("run", better_by(1.0)))
    with pytest.raises(ConfigError, match=told):
        compare_models((view, models[0]), (view, models[1]), patterns)


def test_the_reason_for_leaving_out_is_named() -> None:
    by = "dimension:core.a|by:mse.1|generalist.judge:qwen(seed=0,temperature={})"
    first, second = (
        module._ModelNumbers(
            {
                PSNR: {
                    "a": module._Score(1.0, by.format(warm), is_imputed=False),
                    "b": module._Score(2.0, by.format(0), is_imputed=bool(warm)),
                }
            }
        )
        for warm in (0, 1)
    )
    dimension = ResolvedSpec(RunSpec(benchmark="core", data=Path(), outputs={})).dimensions_by_id[
        PSNR
    ]
    told = module._compare_on(dimension, first, second, {"a": 1, "b": 2})
    assert (told.signed_otherwise, told.imputed_first, told.imputed_second) == (1, 0, 1)
    assert [str(each) for each in told.causes] == ["generalist.judge: temperature (0 → 1)"]
    (note,) = _describe_signatures(told)
    assert note.endswith(
        "1 edit left out, since A and B were judged differently: " + str(told.causes[0])
    )
