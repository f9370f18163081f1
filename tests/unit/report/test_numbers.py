"""What stands in cells, in notes and below tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from editjudge.base.identity import ModelIdentity, ServiceName, untrained_services
from editjudge.base.signature import Signature
from editjudge.base.verdict import Failure, NoScore, NotServed, Score
from editjudge.benchmarks.cell import Cell, Interval
from editjudge.benchmarks.column import Column, Mean
from editjudge.report import numbers
from editjudge.report.numbers import find_best, format_cell
from editjudge.report.summary import drop_empty_columns, list_interval_reasons

SURE = Interval(1.0, 3.0, 0.5, 9, "clustered")
UNSURE = Interval(None, None, None, 1, "clustered", "all edits share a source picture")


def column(name: str) -> Column:
    return Column(name, name.upper(), Mean(name), True)


def cell(value: float | None = 2.0, **further: object) -> Cell:
    return Cell(value, {"scored": 3}, 0, "", Signature(()), frozenset(), **further)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shown", "decimals", "text"),
    [
        (cell(), None, "2 (3/3)"),
        (cell(interval=SURE), None, "2 ±1.0 (3/3)"),
        (cell(interval=SURE, rounds=(1.823, 2.177)), 2, "2.00 ±1.00 sd 0.25 (3/3)"),
        (cell(interval=UNSURE), 2, "2.00 (3/3)"),
        (cell(interval=SURE, capped=2, other_items=True), 1, "2.0 ±1.0 ^2 ~ (3/3)"),
        (Cell(0.5, {"scored": 3, "failed": 1}), None, "0.5 (3/4)"),
        (Cell(None, {"failed": 1}, reason="nothing scored"), None, "- (nothing scored)"),
    ],
)
def test_a_cell(shown: Cell, decimals: int | None, text: str) -> None:
    assert str(format_cell(shown, decimals)) == text


@pytest.mark.parametrize(
    ("half", "decimals", "text"),
    [
        (108.28, None, "108"),
        (8.24, None, "8.2"),
        (0.0044, None, "0.0044"),
        (0.0044, 2, "0.004"),
        (0.2, 2, "0.20"),
        (3e-9, 2, "3.0e-09"),
    ],
)
def test_half_an_interval_is_not_printed_as_0(half: float, decimals: int | None, text: str) -> None:
    assert numbers.format_half_width(half, decimals) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (22.683, 22.722, "22.683 – 22.722"),
        (1.1e-5, 1.4e-5, "0.0000110 – 0.0000140"),
        (1.1e-9, 1.4e-9, "1.10e-09 – 1.40e-09"),
        (0.4091, 0.4109, "0.40910 – 0.41090"),
        (0.30, 0.52, "0.30 – 0.52"),
        (-0.001, 12.0, "0.0 – 12.0"),
        (12_326.4, 12_366.4, "12326 – 12366"),
    ],
)
def test_ends_of_an_interval_are_never_printed_alike(low: float, high: float, text: str) -> None:
    assert numbers.format_interval(replace(SURE, low=low, high=high)) == text


def test_signs_are_explained_where_they_are() -> None:
    assert list(numbers.explain_signs([cell(), cell(None, interval=SURE)])) == []
    signs = [line[0] for line in numbers.explain_signs([cell(interval=SURE, capped=1, other_items=True)])]
    assert signs == ["±", "^", "~"]


def test_what_has_no_interval_is_told_by_reason() -> None:
    columns = [column(name) for name in "abcdefgh"]
    row = {one.id: cell(interval=UNSURE) for one in columns} | {"a": cell(interval=SURE)}
    assert list(list_interval_reasons(columns, {"m": row})) == [
        "- without interval: all edits share a source picture: B, C, D, E, F, G and 1 more"
    ]


def test_what_nobody_serves_or_asks_is_a_line() -> None:
    row = {
        "told": cell(),
        "nothing": Cell(None, {"unscored": 2}, 0, "nothing scored"),
        "waits": Cell(None, {"not_served": 2, "missing_output": 1}),
        "made": Cell(None, {"scored": 1, "not_served": 1}, open_statuses=frozenset({"not_served"})),
        "unasked": Cell(None, {}),
    }
    told, lines = drop_empty_columns([column(name) for name in row], {"m": row}, Path("my run"))
    assert [one.id for one in told] == ["told", "nothing"]
    assert lines == [
        "2 numbers need models that are not served: editjudge summary 'my run' --unserved",
        "1 number applies to no item",
    ]


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Score(value=1, evidence={"capped": True}), "capped"),
        (Score(value=1, evidence={"read": "SALE"}), "read 'SALE'"),
        (NoScore(kind="degenerate", reason="flat"), "unscored (degenerate): flat"),
        (Failure(error="gone"), "failed: gone"),
        (NotServed(reason="no ocr"), "no ocr"),
    ],
)
def test_notes(outcome: Any, text: str) -> None:
    assert text in numbers.describe_outcome(outcome)


def test_random_weights_are_told() -> None:
    reader = {ServiceName("ocr", "ppocr"): ModelIdentity("untrained=yes/1")}
    network = {ServiceName("lpips", "vgg"): ModelIdentity("lpips_vgg/1", {"untrained": "yes"})}
    warning = "UNTRAINED weights, not a result: lpips.vgg"
    for services, told in ((network | reader, warning), (reader, "")):  # a name is not a fact
        assert numbers.untrained_warning(untrained_services(services)) == told


TEXTS, VALUES = ["0.5", "0.7", "0.5", "-", "0.1"], [0.501, 0.7, 0.499, None, 0.1]


@pytest.mark.parametrize(
    ("texts", "values", "higher", "best"),
    [
        (TEXTS, VALUES, True, [1]),
        (TEXTS, VALUES, False, [4]),
        (TEXTS[:1] + TEXTS[2:], VALUES[:1] + VALUES[2:], True, [0, 1]),
        # Nobody is beaten, or all are alike.
        (["1"], [1.0], True, []),
        (["1", "-"], [1.0, None], True, []),
        (["1", "1"], [1.01, 1.02], True, []),
    ],
)
def test_the_best_is_told_by_what_is_printed(
    texts: list[str], values: list[float | None], higher: bool, best: list[int]
) -> None:
    assert find_best(texts, values, higher_is_better=higher) == best
