"""The declarations of `design/declarations.md` run, and give the papers' numbers."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from editjudge.base.verdict import NoScore, NotApplicable, Score
from editjudge.benchmarks.column import (
    Column,
    Composite,
    Mean,
    PooledMean,
    Row,
)
from editjudge.benchmarks.dimension import Dimension, Reading, make_formula
from editjudge.benchmarks.fusion import Capped, WeightedGeometricMean, min_max, product
from editjudge.benchmarks.tabulation import tabulate
from editjudge.engine.judge import judge

from ...fakes.scorers import FakePanel, Scripted, edit

PAGE = Path(__file__).parents[3] / "design" / "declarations.md"
SERVICES = (
    "segmenter.sa2va",
    "features.dinov3",
    "lpips.vgg",
    "clip.vit_b_32",
    "features.dinov2",
    "generalist.judge",
)


def rubric(prompt: dict[str, str], scale: tuple[int, int]) -> Scripted:
    return Scripted(key="+".join(prompt.values()), needs=("generalist.judge",))


def yes_no(prompt: str) -> Scripted:
    return Scripted(key=prompt, needs=("generalist.judge",))


def region_similarity(commands: str, segmenter: str, features: str) -> Scripted:
    return Scripted(key=commands, needs=("generalist.judge", segmenter, features))


def masked_feature(service: str) -> Scripted:
    return Scripted(key=service, needs=(service,))


@pytest.fixture(scope="module")
def page() -> SimpleNamespace:
    names: dict[str, Any] = {
        "Column": Column, "Composite": Composite, "Dimension": Dimension, "Mean": Mean,
        "PooledMean": PooledMean, "Reading": Reading, "Capped": Capped,
        "make_formula": make_formula,
        "min_max": min_max, "product": product,
        "WeightedGeometricMean": WeightedGeometricMean,
        "Rubric": rubric, "YesNo": yes_no, "RegionSimilarity": region_similarity,
        "MaskedFeature": masked_feature,
    }  # fmt: skip
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    return SimpleNamespace(**names)


async def outcomes(
    dimensions: tuple[Dimension, ...], task: str = "", **replies: Any
) -> dict[str, Any]:
    known = {d.id: d for d in dimensions}
    judged = await judge(edit(task, **replies), dimensions, known, FakePanel(*SERVICES))
    return dict(judged.outcomes)


class TestKris:
    @pytest.mark.parametrize(
        ("followed", "plausible", "expected"), [(5, 4, 4), (3, 5, 5), (2, 5, 1), (1, 1, 1)]
    )
    async def test_knowledge_needs_the_instruction(
        self, page: SimpleNamespace, followed: int, plausible: int, expected: int
    ) -> None:
        got = await outcomes(
            page.KRIS, "physics", score=4, instruction=followed, plausibility=plausible
        )
        assert got["kris.knowledge_plausibility"].value == expected

    async def test_anomaly_correction_has_three_metrics(self, page: SimpleNamespace) -> None:
        got = await outcomes(page.KRIS, "anomaly_correction", score=4, instruction=3)
        scored = [name for name, one in got.items() if isinstance(one, Score)]
        assert len(scored) == 3
        assert "tests no knowledge" in got["kris.knowledge_plausibility"].reason

    async def test_one_call_feeds_both(self, page: SimpleNamespace) -> None:
        page.follow.calls.clear()
        await outcomes(page.KRIS, "physics", score=4, instruction=3, plausibility=2)
        assert page.follow.calls == [frozenset({"instruction", "plausibility"})]


class TestI2I:
    async def test_a_product(self, page: SimpleNamespace) -> None:
        got = await outcomes(page.I2I, similarity=0.8, probability=0.5)
        assert got["i2i.subject_extraction"].value == pytest.approx(0.4)

    async def test_an_empty_mask_is_no_number(self, page: SimpleNamespace) -> None:
        empty = NoScore(kind="degenerate", reason="empty mask")
        got = await outcomes(page.I2I, similarity=empty, probability=0.5)
        extraction = got["i2i.subject_extraction"]
        assert isinstance(extraction, NoScore)
        assert extraction.reason == "i2i.subject_consistency: empty mask"


class TestCoEdit:
    SCORES: ClassVar[dict[str, float]] = {
        "editing_accuracy": 8, "over_editing": 6, "editing_plausibility": 9,
        "non_edited_semantic_preservation": 9, "visual_naturalness": 7, "detail_realism": 8,
        "visual_artifact": 9, "color_lighting_fidelity": 10,
        "non_edited_detail_preservation": 10, "semantic_identity_preservation": 9,
        "visual_identity_preservation": 4,
    }  # fmt: skip

    async def test_equations(self, page: SimpleNamespace) -> None:
        got = await outcomes(page.CO_EDIT, **self.SCORES)
        complete = (8**1.0 * 6**0.2 * 9**0.4) ** (1 / 1.6)
        kept = min((9**0.4 * 10**0.6), complete)
        looks = min(7**0.3 * 8**0.3 * 9**0.2 * 10**0.2, complete)
        identity = min((9 * 4) ** 0.5, complete)
        overall = complete**0.5 * looks**0.2 * kept**0.1 * identity**0.2
        assert got["co_edit.edit_completeness"].value == pytest.approx(complete)
        assert got["co_edit.non_edited_preservation"].value > complete
        assert got["co_edit.non_edited_preservation.capped"].value == pytest.approx(kept)
        assert got["co_edit.overall"].value == pytest.approx(overall)

    async def test_eight_dimensions_from_two_calls(self, page: SimpleNamespace) -> None:
        page.editing.calls.clear()
        page.quality.calls.clear()
        await outcomes(page.CO_EDIT, **self.SCORES)
        assert [len(wanted) for wanted in page.editing.calls + page.quality.calls] == [4, 4]

    async def test_without_a_subject_the_weights_renormalise(self, page: SimpleNamespace) -> None:
        got = await outcomes(page.CO_EDIT, **self.SCORES, extra={"subject": False})
        assert isinstance(got["co_edit.identity_preservation"], NotApplicable)
        parts = {
            name: got[f"co_edit.{name}"].value
            for name in (
                "edit_completeness",
                "image_quality.capped",
                "non_edited_preservation.capped",
            )
        }
        complete, looks, kept = parts.values()
        expected = (complete**0.5 * looks**0.2 * kept**0.1) ** (1 / 0.8)
        assert got["co_edit.overall"].value == pytest.approx(expected)

    async def test_a_zero_makes_everything_zero(self, page: SimpleNamespace) -> None:
        got = await outcomes(page.CO_EDIT, **{**self.SCORES, "editing_accuracy": 0})
        assert got["co_edit.overall"].value == 0

    async def test_an_unscored_part_leaves_the_composite_unscored(
        self, page: SimpleNamespace
    ) -> None:
        refused = NoScore(kind="refused", reason="blocked")
        got = await outcomes(page.CO_EDIT, **{**self.SCORES, "detail_realism": refused})
        assert isinstance(got["co_edit.overall"], NoScore)
        assert got["co_edit.overall"].kind == "refused"
        assert isinstance(got["co_edit.edit_completeness"], Score)


# Qwen-image-edit, InstructPix2Pix and HQEdit as printed.
OMNI_NAMES = ("lpips_fg", "lpips_bg", "lpips_all", "clip_fg", "clip_bg", "clip_all", "qa", "ssim")
OMNI_ROWS = [
    ((0.245, 0.327, 0.450, 0.887, 0.891, 0.889, 0.744, 0.455), 0.687),
    ((0.284, 0.441, 0.569, 0.774, 0.775, 0.841, 0.316, 0.438), 0.530),
    ((0.327, 0.557, 0.689, 0.794, 0.691, 0.694, 0.322, 0.304), 0.457),
]


class TestColumns:
    @pytest.mark.parametrize(("values", "overall"), OMNI_ROWS)
    def test_omni_overall(
        self, page: SimpleNamespace, values: tuple[float, ...], overall: float
    ) -> None:
        printed = {
            f"omni_iie.{name}": Score(value=value)
            for name, value in zip(OMNI_NAMES, values, strict=True)
        }
        table = tabulate(page.OMNI, [Row(edit().item, "m", printed)])
        assert table["m"]["omni_iie.overall"].value == pytest.approx(overall, abs=0.0011)

    def test_omni_overall_without_an_answer(self, page: SimpleNamespace) -> None:
        printed: dict[str, Any] = {f"omni_iie.{name}": Score(value=0.5) for name in OMNI_NAMES}
        printed["omni_iie.qa"] = NoScore(kind="unparsable", reason="no answer")
        cell = tabulate(page.OMNI, [Row(edit().item, "m", printed)])["m"]["omni_iie.overall"]
        assert cell.value is None
        assert cell.reason == "no value for qa"

    def test_gie_depends_on_the_pool(self, page: SimpleNamespace) -> None:
        def row(model: str, error: float) -> Row:
            return Row(edit().item, model, {"gie.aligned_mse.outside": Score(value=error)})

        two = tabulate(page.GIE, [row("a", 100), row("b", 300)])
        three = tabulate(page.GIE, [row("a", 100), row("b", 300), row("c", 500)])
        assert two["b"]["gie.preservation"].value == 0
        assert three["b"]["gie.preservation"].value == 0.5
        signatures = {str(t["b"]["gie.preservation"].signature) for t in (two, three)}
        assert len(signatures) == 2
        assert "pool:a+b+c" in str(three["b"]["gie.preservation"].signature)

    def test_gie_alone_has_no_scale(self, page: SimpleNamespace) -> None:
        row = Row(edit().item, "a", {"gie.aligned_mse.outside": Score(value=1)})
        cell = tabulate(page.GIE, [row])["a"]["gie.preservation"]
        assert cell.value is None
        assert "pool" in cell.reason
