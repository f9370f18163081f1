"""Dimensions, prompts and columns of KRIS-Bench against the paper."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editjudge.base.images import load_image
from editjudge.base.item import Edit, Item
from editjudge.base.verdict import NoScore, NotApplicable, Outcome, Score
from editjudge.benchmarks.column import Row
from editjudge.benchmarks.dimension import Formula
from editjudge.benchmarks.kris.columns import BY_TASK, METRICS
from editjudge.benchmarks.kris.taxonomy import FOLDERS, REASONING_DIMENSIONS, TEMPORAL, task_of
from editjudge.benchmarks.registry import load_benchmark
from editjudge.benchmarks.tabulation import tabulate
from editjudge.engine.outcomes import derive

from ....fakes.transport import OneJudge, ScriptedTransport, read_prompt
from .. import edit_outcomes

OUTPUT = load_image(np.full((8, 10, 3), 9, np.uint8), "output")
KRIS = load_benchmark("kris")
RULES = KRIS.rules()
DIMENSIONS, COLUMNS = RULES.dimensions, RULES.columns
IDS = [f"kris.{name}" for name in METRICS]
AVERAGE = "kris.average"
KNOWLEDGE = "kris.knowledge_plausibility"


def reply(prompt: Any, **scores: int) -> str:
    """What is asked for, with 4 for every score that is not given."""
    text = read_prompt(prompt)
    asked = re.findall(r'^- "(\w+)"', text.partition("Its keys, in this order")[2], re.MULTILINE)
    return json.dumps({k: scores.get(k, 4) if k.endswith("_score") else "seen" for k in asked})


async def judge_item(
    item: Item, *script: Any, on: Iterable[str] = (), **settings: Any
) -> tuple[Mapping[str, Outcome], ScriptedTransport]:
    """By the protocol `paper` with these switches: outcomes, and what was asked."""
    panel = OneJudge(*script, **settings)
    rules = KRIS.rules("paper", tuple(on))
    return await edit_outcomes.judge_edit(Edit(item, "m", OUTPUT), rules, panel), panel.transport


def values(outcomes: Mapping[str, Outcome]) -> list[float | None]:
    return [getattr(outcomes[name], "value", None) for name in IDS]


async def test_every_task_takes_three_calls(items: Mapping[str, Item]) -> None:
    with_knowledge = set()
    for folder, item in items.items():
        outcomes, transport = await judge_item(item, reply)
        assert len(transport.asked) == 3
        got = values(outcomes)
        assert got[:3] == [4, 4, 4]
        assert getattr(outcomes[AVERAGE], "value", None) == 4
        if got[3] is not None:
            with_knowledge.add(folder)
        else:
            assert isinstance(outcomes[KNOWLEDGE], NotApplicable)
    assert with_knowledge == {
        "humanities", "practical_knowledge", "biology", "chemistry", "geography", "mathematics",
        "medicine", "physics", "abstract_reasoning", "rule-based_reasoning",
    }  # fmt: skip


@pytest.mark.parametrize(("followed", "known", "expected"), [(5, 2, 2), (3, 5, 5), (2, 5, 1), (1, 4, 1)])
async def test_what_is_not_followed_is_not_plausible(
    items: Mapping[str, Item], followed: int, known: int, expected: int
) -> None:
    said = {"instruction_score": followed, "knowledge_score": known}
    outcomes, _ = await judge_item(items["biology"], lambda prompt: reply(prompt, **said))
    assert values(outcomes) == [4, 4, followed, expected]
    assert outcomes[AVERAGE].value == (4 + 4 + followed + expected) / 4  # type: ignore[union-attr]
    parts = outcomes[KNOWLEDGE].evidence["parts"]  # type: ignore[union-attr]
    assert parts == {"kris.instruction_following": followed, "knowledge_score": known}


async def test_an_unparsable_reply_is_no_number(items: Mapping[str, Item]) -> None:
    def partly(prompt: Any) -> str:
        return "4 of 5, I think" if "knowledge_score" in read_prompt(prompt) else reply(prompt)

    outcomes, _ = await judge_item(items["physics"], partly)
    assert values(outcomes) == [4, 4, None, None]
    for name in (*IDS[2:], AVERAGE):
        assert isinstance(outcomes[name], NoScore)
    outcomes, _ = await judge_item(items["physics"], lambda prompt: reply(prompt, knowledge_score=6))
    assert values(outcomes) == [4, 4, None, None]


async def test_items_of_others_are_none_of_its_business(items: Mapping[str, Item]) -> None:
    outcomes, transport = await judge_item(replace(items["biology"], task="replace"), reply)
    assert transport.asked == []
    assert {type(one) for one in outcomes.values()} == {NotApplicable}


async def test_what_a_judge_is_shown(items: Mapping[str, Item]) -> None:
    async def read_prompts(folder: str) -> tuple[str, str, str]:
        _, transport = await judge_item(items[folder], reply)
        texts = [read_prompt(prompt) for prompt in transport.asked]
        by = {key: text for text in texts for key in ("consistency", "quality", "instruction")
              if f'"{key}_score": an integer from 1 to 5' in text}  # fmt: skip
        return by["consistency"], by["quality"], by["instruction"]

    consistency, quality, instruction = await read_prompts("viewpoint_change")
    assert "do viewpoint_change 1" in consistency
    assert "Target image" not in consistency
    assert "Target image" in instruction
    assert quality.count("[") == quality.count("[output]") == 1
    assert "do viewpoint_change" not in quality

    consistency, _, instruction = await read_prompts("temporal_prediction")
    for text in (consistency, instruction):
        places = [text.index(f"Frame {n} ({k})") for n, k in
                  enumerate(("edited", "given", "given", "given"), 1)]  # fmt: skip
        assert places == sorted(places)
        assert "Frame 1 (edited):\n[output]" in text
        assert "1-1.jpg" not in text, "the ground truth is not shown"

    consistency, _, _ = await read_prompts("multi-element_composition")
    assert "Source image 1 of 2" in consistency
    assert "Source image 2 of 2" in consistency

    _, _, instruction = await read_prompts("biology")
    assert "so that 1" in instruction
    _, _, instruction = await read_prompts("rule-based_reasoning")
    assert "Nothing was written down for this one" in instruction
    _, _, instruction = await read_prompts("anomaly_correction")
    assert "so that 1" in instruction
    without = replace(items["anomaly_correction"], hint=None)
    _, transport = await judge_item(without, reply)
    assert any("Nothing was written down for this one" in read_prompt(p) for p in transport.asked)


PRINTED = list(csv.DictReader(Path(__file__).with_name("table2.csv").read_text().splitlines()))
MODELS = [name for name in PRINTED[0] if name not in {"level", "metric"}]
SHORT = {short: name for name, short in METRICS.items()}


def column(row: Mapping[str, str]) -> str:
    metric = SHORT.get(row["metric"])
    return f"kris.{row['level']}.{metric}" if metric else f"kris.{row['level']}"


def all_items() -> list[Item]:
    """As many as the release has."""
    one = load_image(np.zeros((1, 1, 3), np.uint8))
    return [
        Item(f"{folder}/{n}", "x", (one,), task=task_of(folder, frame))
        for folder, count in FOLDERS.items()
        for n in range(count)
        for frame in [n % 4 + 1 if folder == TEMPORAL else None]
    ]


@pytest.fixture(scope="module")
def release() -> list[Item]:
    return all_items()


def row_of(item: Item, printed: Mapping[str, str]) -> Row:
    """Every edit has its reasoning dimension's printed mean, on the judge's scale."""
    outcomes: dict[str, Outcome] = {}
    for name in METRICS:
        value = printed.get(f"kris.{REASONING_DIMENSIONS[item.task]}.{name}")
        outcomes[f"kris.{name}"] = Score(value=float(value) / 25 + 1) if value else NotApplicable(reason="no")
    return Row(item, "m", outcomes | {AVERAGE: average(outcomes)})


def average(outcomes: Mapping[str, Outcome]) -> Outcome:
    """Of an edit's metrics, as the dimension has it."""
    (dimension,) = (d for d in DIMENSIONS if d.id == AVERAGE)
    assert isinstance(dimension.how, Formula)
    return derive(dimension.how, {name: outcomes[name] for name in dimension.operands})


@pytest.mark.parametrize("model", MODELS)
def test_table_2_follows_from_its_metrics(model: str, release: list[Item]) -> None:
    printed = {column(row): row[model] for row in PRINTED}
    cells = tabulate(COLUMNS, [row_of(item, printed) for item in release])["m"]
    assert {c.id for c in COLUMNS} - {c.id for c in BY_TASK} == set(printed)
    wrong = {
        name: value for name, value in printed.items() if cells[name].value != pytest.approx(float(value), abs=0.02)
    }
    # Its parts give 45.83, and its averages over knowledge and all follow from that.
    assert wrong == ({"kris.spatial_perception": "48.83"} if model == "emu2" else {})
    if model == "emu2":
        assert cells["kris.spatial_perception"].value == pytest.approx(45.83, abs=0.01)
    assert cells["kris.natural_science.knowledge_plausibility"].asked == 393
    assert cells["kris.natural_science"].asked == 4 * 393
    assert cells["kris.overall"].scored == cells["kris.overall"].asked > 0
    # All edits of a reasoning dimension have its means here, so its tasks have its average.
    for task, dimension in REASONING_DIMENSIONS.items():
        of_task = cells[f"kris.task.{task}"]
        assert of_task.value == pytest.approx(cells[f"kris.{dimension}"].value, abs=1e-9)
        assert of_task.asked == sum(item.task == task for item in release)
        for metric in METRICS:
            name = f"kris.{dimension}.{metric}"
            assert (f"kris.task.{task}.{metric}" in cells) == (name in cells)
            if name in cells:
                of_metric = cells[f"kris.task.{task}.{metric}"]
                assert of_metric.value == pytest.approx(cells[name].value, abs=1e-9)
                assert of_metric.asked == of_task.asked
    assert len(BY_TASK) == 22 + 12 * 3 + 10 * 4
