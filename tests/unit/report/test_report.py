"""What people see: tables, the page, and strict JSON."""

from __future__ import annotations

from typing import Any

import pytest

from editjudge.base.identity import ModelIdentity, ServiceName, untrained_services
from editjudge.base.verdict import Failure, NoScore, NotServed, Score
from editjudge.benchmarks.cell import Cell
from editjudge.benchmarks.dimension import Dimension, Reading
from editjudge.engine.judge import Judgement, judge
from editjudge.report.numbers import (
    describe_outcome,
    find_best,
    format_cell,
    untrained_warning,
)

from ...fakes.scorers import FakePanel, Scripted, edit


async def judged(model: str = "m", **replies: Any) -> Judgement:
    dimension = Dimension(
        id="core.d",
        asks="?",
        range=(0, 1),
        higher_is_better=True,
        source="here",
        how=Reading(Scripted(key="k"), "f"),
    )
    of = edit(model=model, **replies)
    return await judge(of, [dimension], {}, FakePanel())  # type: ignore[arg-type]


NOTES = [
    (Score(value=1, evidence={"capped": True}), "capped"),
    (Score(value=1, evidence={"read": "SALE"}), "read 'SALE'"),
    (NoScore(kind="degenerate", reason="flat"), "unscored (degenerate): flat"),
    (Failure(error="gone"), "failed: gone"),
    (NotServed(reason="no ocr"), "no ocr"),
]


@pytest.mark.parametrize(("outcome", "text"), NOTES)
def test_notes(outcome: Any, text: str) -> None:
    assert text in describe_outcome(outcome)


def test_random_weights_are_told() -> None:
    reader = {ServiceName("ocr", "ppocr"): ModelIdentity("untrained=yes/1")}
    network = {ServiceName("lpips", "vgg"): ModelIdentity("lpips_vgg/1", {"untrained": "yes"})}
    assert (
        untrained_warning(untrained_services(network | reader))
        == "UNTRAINED weights, not a result: lpips.vgg"
    )
    assert untrained_warning(untrained_services(reader)) == "", "a name is not a fact"


def test_cells_show_their_coverage() -> None:
    assert str(format_cell(Cell(0.5, {"scored": 3, "failed": 1}))) == "0.5 (3/4)"
    assert (
        str(format_cell(Cell(None, {"failed": 1}, reason="nothing scored"))) == "- (nothing scored)"
    )


def test_the_best_is_told_by_what_is_printed() -> None:
    texts, values = ["0.5", "0.7", "0.5", "-", "0.1"], [0.501, 0.7, 0.499, None, 0.1]
    assert find_best(texts, values, higher_is_better=True) == [1]
    assert find_best(texts, values, higher_is_better=False) == [4]
    assert find_best(texts[:1] + texts[2:], values[:1] + values[2:], higher_is_better=True) == [
        0,
        1,
    ]
    assert find_best(["1"], [1.0], higher_is_better=True) == [], "nobody is beaten"
    assert find_best(["1", "-"], [1.0, None], higher_is_better=True) == []
    assert find_best(["1", "1"], [1.01, 1.02], higher_is_better=True) == [], "all are alike"
