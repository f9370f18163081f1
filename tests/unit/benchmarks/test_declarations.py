"""The declarations of `design/declarations.md` run, and give the papers' numbers."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from editjudge.base.verdict import NoScore, NotApplicable, Score
from editjudge.benchmarks import column, dimension, fusion
from editjudge.benchmarks.column import Row
from editjudge.benchmarks.tabulation import tabulate
from editjudge.engine.judge import judge

from ...fakes.scorers import FakePanel, ScriptedScorer, edit

PAGE = Path(__file__).parents[3] / "design" / "declarations.md"
SERVICES = ("segmenter.sa2va", "features.dinov3", "lpips.vgg", "clip.vit_b_32",
            "features.dinov2", "generalist.judge")  # fmt: skip
NO_MASK = NoScore(kind="degenerate", reason="empty mask")


def make_stand_in(*services: str, **words: Any) -> ScriptedScorer:
    """A way of judging that the page only names, called by what it is told."""
    named = {word for one in words.values() if isinstance(one, str) for word in [one]}
    key = "+".join(words["prompt"].values()) if isinstance(words.get("prompt"), dict) else ""
    return ScriptedScorer(key=key or "+".join(sorted(named)), needs=(*services, *named & {*SERVICES}))


@pytest.fixture(scope="module")
def page() -> SimpleNamespace:
    judged = partial(make_stand_in, "generalist.judge")
    names: dict[str, Any] = {**vars(column), **vars(dimension), **vars(fusion)}
    names |= dict.fromkeys(("Rubric", "RegionSimilarity"), judged)
    names |= {"YesNo": lambda prompt: judged(prompt=prompt),
              "MaskedFeature": lambda service: make_stand_in(service=service)}  # fmt: skip
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    return SimpleNamespace(**names)


CO_EDIT = {
    "editing_accuracy": 8, "over_editing": 6, "editing_plausibility": 9,
    "non_edited_semantic_preservation": 9, "visual_naturalness": 7, "detail_realism": 8,
    "visual_artifact": 9, "color_lighting_fidelity": 10, "non_edited_detail_preservation": 10,
    "semantic_identity_preservation": 9, "visual_identity_preservation": 4,
}  # fmt: skip
COMPLETE = (8 * 6**0.2 * 9**0.4) ** (1 / 1.6)
LOOKS, SAME = 7**0.3 * 8**0.3 * 9**0.2 * 10**0.2, 6
KNOWN = "kris.knowledge_plausibility"
EXTRACTED = "i2i.subject_extraction"


@pytest.mark.parametrize(
    ("declared", "task", "replies", "due"),
    [
        # What is not followed is not plausible.
        ("KRIS", "physics", {"instruction": 3, "plausibility": 5}, {KNOWN: 5}),
        ("KRIS", "physics", {"instruction": 2, "plausibility": 5}, {KNOWN: 1}),
        ("KRIS", "anomaly_correction", {"instruction": 3}, {KNOWN: NotApplicable}),
        ("I2I", "", {"similarity": 0.8, "probability": 0.5}, {EXTRACTED: 0.4}),
        ("I2I", "", {"similarity": NO_MASK, "probability": 0.5}, {EXTRACTED: NoScore}),
        ("CO_EDIT", "", CO_EDIT,
         {"co_edit.edit_completeness": COMPLETE,
          # Of what is kept, no more than the edit is complete.
          "co_edit.non_edited_preservation.capped": COMPLETE,
          "co_edit.overall": COMPLETE**0.6 * min(LOOKS, COMPLETE) ** 0.2 * SAME**0.2}),
        ("CO_EDIT", "", CO_EDIT | {"extra": {"subject": False}},
         {"co_edit.identity_preservation": NotApplicable,
          "co_edit.overall": (COMPLETE**0.6 * min(LOOKS, COMPLETE) ** 0.2) ** (1 / 0.8)}),
        ("CO_EDIT", "", CO_EDIT | {"editing_accuracy": 0}, {"co_edit.overall": 0}),
        ("CO_EDIT", "", CO_EDIT | {"detail_realism": NO_MASK},
         {"co_edit.overall": NoScore, "co_edit.edit_completeness": COMPLETE}),
    ],
)  # fmt: skip
async def test_dimensions(
    page: SimpleNamespace, declared: str, task: str, replies: dict[str, Any], due: dict[str, Any]
) -> None:
    dimensions = getattr(page, declared)
    known = {d.id: d for d in dimensions}
    subject = edit(task, **{"score": 4, **replies})
    got = (await judge(subject, dimensions, known, FakePanel(*SERVICES))).outcomes  # type: ignore[arg-type]
    for name, one in due.items():
        if isinstance(one, type):
            assert isinstance(got[name], one), name
        else:
            assert got[name].value == pytest.approx(one), name  # type: ignore[union-attr]


async def test_one_call_feeds_several(page: SimpleNamespace) -> None:
    for scorer in (page.follow, page.editing, page.quality):
        scorer.calls.clear()
    for dimensions, task, replies in (
        (page.KRIS, "physics", {"score": 4, "instruction": 3, "plausibility": 2}),
        (page.CO_EDIT, "", CO_EDIT),
    ):
        known = {d.id: d for d in dimensions}
        await judge(edit(task, **replies), dimensions, known, FakePanel(*SERVICES))  # type: ignore[arg-type]
    assert page.follow.calls == [frozenset({"instruction", "plausibility"})]
    assert [len(wanted) for wanted in page.editing.calls + page.quality.calls] == [4, 4]


def test_omni_overall(page: SimpleNamespace) -> None:
    """Qwen-image-edit as printed."""
    names = ("lpips_fg", "lpips_bg", "lpips_all", "clip_fg", "clip_bg", "clip_all", "qa", "ssim")
    printed = (0.245, 0.327, 0.450, 0.887, 0.891, 0.889, 0.744, 0.455)
    outcomes: dict[str, Any] = {
        f"omni_iie.{name}": Score(value=value) for name, value in zip(names, printed, strict=True)
    }
    for changed, due in (({}, 0.687), ({"omni_iie.qa": NO_MASK}, None)):
        row = Row(edit().item, "m", outcomes | changed)
        cell = tabulate(page.OMNI, [row])["m"]["omni_iie.overall"]
        assert cell.value == (None if due is None else pytest.approx(due, abs=0.0011))
    assert cell.reason == "no value for qa"


def test_gie_depends_on_the_pool(page: SimpleNamespace) -> None:
    errors = {"a": 100, "b": 300, "c": 500}
    for models, due in (("a", None), ("ab", 0), ("abc", 0.5)):
        rows = [Row(edit().item, m, {"gie.aligned_mse.outside": Score(value=errors[m])})
                for m in models]  # fmt: skip
        cell = tabulate(page.GIE, rows)[models[-1] if due is None else "b"]["gie.preservation"]
        assert cell.value == due
        assert due is None or f"pool:{'+'.join(models)}" in str(cell.signature)
