"""The columns give the paper's printed figures from the figures they rest on."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from editjudge.base.images import load_image
from editjudge.base.item import Item
from editjudge.base.verdict import MissingOutput, NoScore, Outcome, Score
from editjudge.benchmarks.cell import Cell
from editjudge.benchmarks.column import Row
from editjudge.benchmarks.gie import BENCHMARK
from editjudge.benchmarks.gie.columns import COLUMNS, columns
from editjudge.benchmarks.gie.switches import GieSwitches
from editjudge.benchmarks.gie.taxonomy import CONTENTS, EDIT_TYPES, TITLES
from editjudge.benchmarks.tabulation import tabulate
from editjudge.pixels.metrics import psnr_from_mse

HERE = Path(__file__)
TABLE_2 = list(csv.DictReader(HERE.with_name("table2.csv").read_text().splitlines()))
TABLE_3 = list(csv.DictReader(HERE.with_name("table3.csv").read_text().splitlines()))
EACH = 120
"""Edits of each type (section 3.4)."""
# GPT-Image-1 refused some edits: the counts with which its percentages are whole numbers of edits.
GIVEN = dict(zip(TITLES, (114, 111, 113, 103, 112, 113, 110, 111, 120), strict=True))
KEPT = {
    "masked_ssim": "ssim",
    "masked_clip": "clip",
    "unmasked_clip": "clip_whole",
    "masked_psnr": "psnr",
    "masked_mse": "mse",
}
ITEM = Item("0", "x", (load_image(np.zeros((1, 1, 3), np.uint8)),))


def row(name: str, index: int, task: str, **outcomes: Outcome) -> Row:
    usual: dict[str, Outcome] = {d.id: NoScore(kind="degenerate", reason="not looked at") for d in BENCHMARK.dimensions}
    given = {f"gie.{key}": value for key, value in outcomes.items()}
    return Row(replace(ITEM, id=f"{task}{index}", task=task), name, usual | given)


def test_the_types_are_the_tables_columns() -> None:
    assert list(TITLES) == list(TABLE_2[0])[1:-1]
    assert set(EDIT_TYPES.values()) == set(TITLES)
    assert len(EDIT_TYPES) == 10


@pytest.mark.parametrize("printed", TABLE_2, ids=lambda one: one["model"])
def test_table_2(printed: Mapping[str, str]) -> None:
    """The overall accuracy is that of all edits there are, not the mean of the types."""
    gpt = printed["model"].startswith("GPT-Image-1")
    rows = []
    for name in TITLES:
        there = GIVEN[name] if gpt else EACH
        right = round(float(printed[name]) * there / 100)
        for index in range(EACH):
            outcome: Outcome = Score(value=float(index < right)) if index < there else MissingOutput(reason="refused")
            rows.append(row("m", index, name, functional_correctness=outcome))
    cells = tabulate(COLUMNS, rows)["m"]
    for name in TITLES:
        assert cells[f"gie.{name}"].value == pytest.approx(float(printed[name]), abs=0.00501)
        assert cells[f"gie.{name}"].asked == EACH
    overall = cells["gie.overall"]
    assert overall.value == pytest.approx(float(printed["overall"]), abs=0.00501)
    assert overall.asked == 1080
    assert overall.scored == (sum(GIVEN.values()) if gpt else 1080)
    of_types = math.fsum(float(printed[name]) for name in TITLES) / len(TITLES)
    assert (of_types == pytest.approx(float(printed["overall"]), abs=0.01)) is not gpt


def table_3() -> dict[str, dict[str, Cell]]:
    rows = [
        row(one["model"], 0, "add_object", **{name: Score(value=float(one[key])) for key, name in KEPT.items()})
        for one in TABLE_3
    ]
    return dict(tabulate(columns(GieSwitches()), rows))


def test_table_3_is_raw_means() -> None:
    cells = table_3()
    for printed in TABLE_3:
        for key, name in KEPT.items():
            assert cells[printed["model"]][f"gie.mean.{name}"].value == float(printed[key])
        # Of means over the same edits this holds, since the logarithm is convex.
        assert float(printed["masked_psnr"]) > psnr_from_mse(float(printed["masked_mse"])).value


def test_figure_4_inverts_table_3() -> None:
    cells = table_3()
    scores = {model: one["gie.preservation"].value for model, one in cells.items()}
    by_error = sorted(TABLE_3, key=lambda one: float(one["masked_mse"]))
    assert sorted(scores, key=lambda m: -(scores[m] or 0)) == [one["model"] for one in by_error]
    assert scores["OneDiffusion"] == 1
    assert scores["HQ-Edit"] == 0
    low, high = 521.57, 8035.06
    assert scores["MGIE"] == pytest.approx((high - 2917.03) / (high - low))
    signature = str(cells["MGIE"]["gie.preservation"].signature)
    assert all(model in signature for model in scores), "it names its pool"
    (column,) = (c for c in BENCHMARK.rules().columns if c.id == "gie.preservation")
    assert "over this run's models" in column.title


def test_every_content_of_the_paper_is_of_one_kind() -> None:
    """The 20 categories of section 3.1 in six kinds; another one counts in the overall alone."""
    labels = [label for kind in CONTENTS.values() for label in kind["labels"]]
    assert len(CONTENTS) == 6
    assert len(set(labels)) == len(labels) == 20
    shown = ["Human Face", "human_face", "sign", "desert", None]
    rows = [
        replace(one, item=replace(one.item, extra={"content_type": content}))
        for number, content in enumerate(shown)
        for one in [row("m", number, "", functional_correctness=Score(value=float(number != 1)))]
    ]
    cells = tabulate(columns(GieSwitches()), rows)["m"]
    assert cells["gie.content.people_clothing"].value == 50
    assert cells["gie.content.text_symbols"].value == 100
    assert cells["gie.content.vehicles"].asked == 0
    assert cells["gie.overall"].asked == 5
