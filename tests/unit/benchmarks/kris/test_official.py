"""The protocol `official`: what each of its switches changes, and that it changes nothing else."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base.images import load_image
from editjudge.base.item import Edit, Item
from editjudge.base.verdict import MissingOutput, NoScore, NotApplicable, Outcome, Pending, Score
from editjudge.benchmarks.column import Row
from editjudge.benchmarks.kris.dimensions import SEVERAL
from editjudge.benchmarks.kris.taxonomy import KNOWLEDGE_TASKS, TEMPORAL_TASKS
from editjudge.benchmarks.tabulation import tabulate
from editjudge.panel.prompt import Picture
from editjudge.scorers.rubric import Rubric

from ....fakes.transport import OneJudge, read_prompt
from .. import edit_outcomes
from .stand_ins import TEXTS
from .test_protocol import IDS, KRIS, MODELS, OUTPUT, PRINTED, all_items, column, judge_item, reply, row_of, values

VC, VQ, IF, KP = IDS


def fill_template(file: str, *parts: str) -> str:
    """A stand-in as a judge gets it, with what follows it."""
    text = TEXTS[f"{file}.txt"]
    told = text if file == "prompt_quality" else text.format(instruct="{i}", explanation="{e}")
    return told + "".join(parts)


PAIR = ("This is the original image:[1.jpg]", "This is the edited image:[output]")
FRAMES = (
    "Frame 1 (Generated):[output]",
    "Frame 2 (Reference):[1-2.jpg]",
    "Frame 3 (Reference):[1-3.jpg]",
    "Frame 4 (Reference):[1-4.jpg]",
)
ELEMENTS = ("Reference Image 1:[1-1.png]", "Reference Image 2:[1-2.JPG]", "Predicted Image:[output]")
ALONE = "This is the image to evaluate:[output]"
SHOWN: Mapping[str, tuple[str, str, str]] = {
    "count_change": (
        fill_template("prompt_consist", *PAIR),
        fill_template("prompt_quality", PAIR[1]),
        fill_template("prompt_instruction_following", *PAIR),
    ),
    "anomaly_correction": (
        fill_template("prompt_consist", *PAIR),
        fill_template("prompt_quality", PAIR[1]),
        fill_template("prompt_abnormal_instruction_following", *PAIR),
    ),
    "biology": (
        fill_template("prompt_consist", *PAIR),
        fill_template("prompt_quality", PAIR[1]),
        fill_template("prompt_dual_evaluation", *PAIR),
    ),
    "rule-based_reasoning": (
        fill_template("prompt_consist", *PAIR),
        fill_template("prompt_quality", PAIR[1]),
        fill_template("prompt_dual_evaluation", *PAIR),
    ),
    "viewpoint_change": (
        fill_template("prompt_consist", *PAIR),
        fill_template("prompt_quality", PAIR[1]),
        fill_template("prompt_view_instruction_following", *PAIR, "This is the ground truth image:[1_gt.jpg]"),
    ),
    "temporal_prediction": (
        fill_template("prompt_consist_temporal", *FRAMES),
        fill_template("prompt_quality", ALONE),
        fill_template("prompt_instruction_temporal", *FRAMES),
    ),
    "multi-element_composition": (
        fill_template("prompt_consist_multi", *ELEMENTS),
        fill_template("prompt_quality", ALONE),
        fill_template("prompt_instruction_multi", *ELEMENTS),
    ),
}


def in_short(text: str) -> str:
    """Images by their file's name alone."""
    return "".join(p.rpartition("/")[2] if "/" in p else p for p in _split(text))


def _split(text: str) -> list[str]:
    return text.replace("[", "\0[\0").split("\0")


@pytest.mark.usefixtures("authors")
@pytest.mark.parametrize("folder", SHOWN)
@pytest.mark.parametrize("told", [True, False])
async def test_their_prompts_as_they_ask_them(items: Mapping[str, Item], folder: str, told: bool) -> None:
    on = ["original_prompts", *([] if told else ["empty_instruction"])]
    _, transport = await judge_item(items[folder], '{"consistency_score": 3}', on=on)
    item = items[folder]
    texts = {in_short(read_prompt(p)) for p in transport.asked}
    due = {
        text.replace("{i}", item.instruction if told else "").replace("{e}", (item.hint or "") if told else "")
        for text in SHOWN[folder]
    }
    assert due <= texts
    assert {p.system for p in transport.asked} == {""}


@pytest.mark.usefixtures("authors")
async def test_their_prompts_are_read_strictly_where_nothing_else_is_said(items: Mapping[str, Item]) -> None:
    def answer(prompt: Any) -> str:
        text = read_prompt(prompt)
        if "prompt_dual" in text:
            scores: dict[str, Any] = {"instruction_score": 4, "knowledge_score": 3}
            scores |= {"instruction_reasoning": "a", "knowledge_reasoning": "b"}
            return json.dumps(scores)
        if "prompt_quality" in text:
            return "4 of 5"
        return '{"consistency_score": 2, "reasoning": "c"}'

    done, transport = await judge_item(items["biology"], answer, on=["original_prompts"])
    assert values(done) == [2, None, 4, 3]
    assert len(transport.asked) == 4, "what cannot be read is asked for once more"


async def test_nothing_is_told(items: Mapping[str, Item]) -> None:
    item = items["biology"]
    for on, expected in (((), True), (("empty_instruction",), False)):
        _, transport = await judge_item(item, reply, on=on)
        texts = [read_prompt(p) for p in transport.asked]
        assert any(item.instruction in text for text in texts) is expected
        assert any(str(item.hint) in text for text in texts) is expected
        assert len(texts) == 3


FOUND = "1. all is kept\nquality 3/5, consistency_score: 2"


async def test_replies_are_read_by_the_released_steps(items: Mapping[str, Item]) -> None:
    done, transport = await judge_item(items["count_change"], FOUND, on=["first_digit"])
    assert values(done) == [2, 3, 3, None]
    assert done[VC].evidence["read_as"] == "prefix"  # type: ignore[union-attr]
    assert done[VQ].evidence["read_as"] == "n/5"  # type: ignore[union-attr]
    assert len(transport.asked) == 3
    assert transport.schemas == [None] * 3, "no reply is constrained"

    done, _ = await judge_item(items["temporal_prediction"], "1. kept\nscore: 3", on=["first_digit"])
    assert values(done) == [1, 1, 1, None]
    assert done[IF].evidence["read_as"] == "first digit"  # type: ignore[union-attr]


async def test_what_has_no_score_is_unscored_and_not_asked_again(items: Mapping[str, Item]) -> None:
    texts = {
        '{"instruction_score": 4, "knowledge_score": null}': [None, None, 4, None],
        '{"instruction_score": 7, "knowledge_score": 2}': [2, 2, None, None],
        "nothing": [None] * 4,
    }
    for text, expected in texts.items():
        done, transport = await judge_item(items["physics"], text, on=["first_digit"])
        got = values(done)
        assert got[2:] == expected[2:]
        assert len(transport.asked) == 3
        for name in (IF, KP):
            outcome = done[name]
            assert isinstance(outcome, Score | NoScore)
            if isinstance(outcome, NoScore):
                assert outcome.kind == "unparsable"
                assert len(outcome.calls) == 1
    ungated, _ = await judge_item(
        items["physics"], '{"instruction_score": 7, "knowledge_score": 2}', on=["first_digit", "knowledge_ungated"]
    )
    assert values(ungated)[2:] == [None, 2]
    reason = ungated[IF].reason  # type: ignore[union-attr]
    assert reason.startswith("the official reader takes 7 for instruction_score")


async def test_the_mean_of_several_replies(items: Mapping[str, Item]) -> None:
    async def mean(*script: str) -> Outcome:
        panel = OneJudge(*script, temperature=1.0, samples=2)
        edit = Edit(items["count_change"], "m", OUTPUT)
        return (await edit_outcomes.judge_edit(edit, KRIS.rules("paper", ["first_digit"]), panel, VQ))[VQ]

    both = await mean('{"quality_score": 5}', "a 2")
    assert isinstance(both, Score)
    assert both.value == 3.5
    assert both.evidence["read_as"] == ["json", "first digit"]
    assert both.evidence["values"] == [5, 2]
    assert isinstance(await mean('{"quality_score": 5}', "none"), NoScore)


async def test_anomalies_by_the_common_prompt(items: Mapping[str, Item]) -> None:
    item = items["anomaly_correction"]
    for on, expected in (((), True), (("anomaly_by_common_prompt",), False)):
        _, transport = await judge_item(item, reply, on=on)
        assert any(str(item.hint) in read_prompt(p) for p in transport.asked) is expected
        assert all(item.instruction in read_prompt(p) for p in transport.asked[::2])
    common = KRIS.rules("paper", ["anomaly_by_common_prompt"]).dimensions[2].readings[0].scorer
    assert isinstance(common, Rubric)
    assert common.questions(item) == common.questions(items["count_change"])


@pytest.mark.parametrize(("followed", "gated", "ungated"), [(1, 1, 4), (2, 1, 4), (3, 4, 4)])
async def test_knowledge_without_its_gate(items: Mapping[str, Item], followed: int, gated: int, ungated: int) -> None:
    def answer(prompt: Any) -> str:
        return reply(prompt, instruction_score=followed, knowledge_score=4)

    for on, expected in (((), gated), (("knowledge_ungated",), ungated)):
        done, _ = await judge_item(items["biology"], answer, on=on)
        assert values(done)[2:] == [followed, expected]
        average = done["kris.average"]
        assert isinstance(average, Score)
        assert average.value == (4 + 4 + followed + expected) / 4


async def test_frames_are_encoded_anew(items: Mapping[str, Item]) -> None:
    async def collect_pictures(folder: str, *on: str) -> set[bytes]:
        _, transport = await judge_item(items[folder], reply, on=on)
        return {p.data for prompt in transport.asked for p in prompt.parts if isinstance(p, Picture)}

    def encode_jpeg(image: Any) -> bytes:
        buffer = io.BytesIO()
        Pil.fromarray(image.rgb).save(buffer, "JPEG", quality=85)
        return buffer.getvalue()

    frames = [*items["temporal_prediction"].sources, OUTPUT]
    plain = await collect_pictures("temporal_prediction")
    anew = await collect_pictures("temporal_prediction", "temporal_jpeg")
    assert anew == {encode_jpeg(one) for one in frames}
    assert not plain & anew
    assert await collect_pictures("multi-element_composition", "temporal_jpeg") == await collect_pictures(
        "multi-element_composition"
    )


async def test_a_frame_that_no_jpeg_can_hold(items: Mapping[str, Item]) -> None:
    wide = load_image(np.zeros((1, 65_536, 3), np.uint8), "wide")
    item = replace(items["temporal_prediction"], sources=(wide,) * 3)
    done, transport = await judge_item(item, reply, on=["temporal_jpeg"])
    outcome = done[VC]
    assert isinstance(outcome, NoScore)
    assert (outcome.kind, transport.asked) == ("degenerate", [])


def test_who_judges_what() -> None:
    assert len(KNOWLEDGE_TASKS) == 10
    assert set(SEVERAL) == {*TEMPORAL_TASKS, "multi-element_composition"}


# Computed from the released way to summarise over the paper's table (BAGEL's own run differs).
SUMMARISED = {"gpt-4o": 79.95, "bagel": 48.33}


@pytest.mark.parametrize("model", MODELS)
def test_pooled_values(model: str) -> None:
    """Every item counts once for each of its three or four metrics."""
    printed = {column(row): row[model] for row in PRINTED}
    rows = [row_of(item, printed) for item in all_items()]
    paper, pooled = (tabulate(KRIS.rules("paper", on).columns, rows)["m"] for on in ([], ["pooled_metrics"]))
    numbers: list[float] = [
        (outcome.value - 1) * 25
        for row in rows
        for name in (VC, VQ, IF, KP)
        if isinstance(outcome := row.outcomes[name], Score)
    ]
    assert len(numbers) == 3 * 1267 + 668
    overall = pooled["kris.overall"]
    assert overall.value == pytest.approx(sum(numbers) / len(numbers), abs=1e-9)
    assert overall.asked == len(numbers)
    if model in SUMMARISED:
        assert overall.value == pytest.approx(SUMMARISED[model], abs=0.01)
        assert overall.value != pytest.approx(paper["kris.overall"].value, abs=0.1)
    for same in ("factual_knowledge", "attribute_perception", "task.biology"):
        assert pooled[f"kris.{same}"].value == pytest.approx(paper[f"kris.{same}"].value, abs=1e-9)


@pytest.mark.parametrize("pooled", [True, False])
def test_what_is_missing_is_skipped(pooled: bool) -> None:
    """Half of biology has an output, two of three metrics of physics, none of temporal."""
    rows = []
    for item in all_items():
        if item.task not in {"biology", "physics", "forward_prediction"}:
            continue
        score: Outcome = Score(value=5 if item.task == "biology" else 2)
        if item.task.startswith("forward") or (item.task == "biology" and item.id[-1] in "02468"):
            score = MissingOutput(reason="?")
        outcomes = dict.fromkeys((VC, VQ, IF, KP, "kris.average"), score)
        if item.task == "physics":
            outcomes[KP] = NoScore(kind="unparsable", reason="?")
        if item.task.startswith("forward"):
            outcomes[KP] = NotApplicable(reason="no")
        rows.append(Row(item, "m", outcomes))
    on = ["missing_skipped", *(["pooled_metrics"] if pooled else [])]
    skipped = tabulate(KRIS.rules("paper", on).columns, rows)["m"]
    counted = tabulate(KRIS.rules("paper", on[1:]).columns, rows)["m"]
    assert counted["kris.overall"].value is None, "temporal prediction has no number"
    # 34 of biology's 68 with four fives each, physics' 75 with three twos each.
    values = [100.0] * (4 * 34) + [25.0] * (3 * 75)
    by_metric = [(34 * 100 + 75 * 25) / 109] * 3 + [100]
    natural = sum(values) / len(values) if pooled else sum(by_metric) / 4
    for name in ("natural_science", "conceptual_knowledge", "overall"):
        assert skipped[f"kris.{name}"].value == pytest.approx(natural, abs=1e-9)
    for name in ("temporal_prediction", "factual_knowledge"):
        assert skipped[f"kris.{name}"].value is None
    # What is skipped still stands in the coverage.
    frames = sum(row.item.task.startswith("forward") for row in rows)
    assert skipped["kris.overall"].counts == {
        "scored": len(values),
        "unscored": 75,
        "missing_output": 4 * 34 + 3 * frames,
    }
    assert skipped["kris.overall"].counts == counted["kris.overall"].counts
    # What is not judged yet is not skipped: averages above it would move with the next run.
    waiting = [
        replace(row, outcomes=dict.fromkeys(row.outcomes, Pending())) if row.item.task.startswith("forward") else row
        for row in rows
    ]
    half = tabulate(KRIS.rules("paper", on).columns, waiting)["m"]
    assert half["kris.overall"].value is None
    assert half["kris.overall"].reason.startswith("no value yet for kris.temporal_prediction")
    assert half["kris.natural_science"].value == pytest.approx(natural, abs=1e-9)


def test_the_procedural_average_that_bagel_published() -> None:
    """49.02 from 48.12 in logical reasoning and 50.22 in instruction decomposition."""
    parts = {"logical_reasoning": 48.12, "instruction_decomposition": 50.22}
    printed = {
        f"kris.{name}.{metric}": str(value)
        for name, value in parts.items()
        for metric in ("visual_consistency", "visual_quality", "instruction_following")
    } | {"kris.logical_reasoning.knowledge_plausibility": "48.12"}
    rows = [row_of(i, printed) for i in all_items() if "reasoning" in i.task or "multi-" in i.task]
    assert len(rows) == 300
    pooled = tabulate(KRIS.rules("paper", ["pooled_metrics"]).columns, rows)["m"]
    assert pooled["kris.procedural_knowledge"].value == pytest.approx(49.02, abs=0.005)
