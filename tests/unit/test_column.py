"""Aggregation counts what it leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from editjudge.column import Cell, Column, Composite, InstanceWeighted, Mean, Row, tabulate
from editjudge.signature import Signature
from editjudge.verdict import (
    Failed,
    MissingOutput,
    NotApplicable,
    NotServed,
    Outcome,
    Scored,
    Unscored,
)

from .scripted import edit

ALL: list[Outcome] = [
    Scored(value=1),
    Scored(value=4, imputed=True),
    Unscored(kind="unparsable", reason="?"),
    Failed(error="?"),
    MissingOutput(reason="?"),
    NotServed(reason="?"),
    NotApplicable(reason="?"),
]


def rows(outcomes: list[Outcome], task: str = "", dimension: str = "d") -> list[Row]:
    signature = {dimension: Signature.of({"dimension": dimension})}
    return [
        Row(edit(task, item_id=str(i)).item, "m", {dimension: one}, signature)
        for i, one in enumerate(outcomes)
    ]


def cell(*columns: Column, of: list[Row]) -> Cell:
    return tabulate(columns, of)["m"][columns[-1].id]


MEAN = Column("c", "C", Mean("d"), True)


def test_a_mean_rests_on_scored_values_and_counts_the_rest() -> None:
    got = cell(MEAN, of=rows(ALL))
    assert got.value == 2.5
    assert (got.scored, got.asked, got.imputed) == (2, 6, 1)
    assert got.coverage == pytest.approx(2 / 6)
    assert "not_applicable" not in got.counts


def test_a_missing_output_can_count_as_a_value_by_the_benchmarks_rule() -> None:
    got = cell(Column("c", "C", Mean("d", missing_output=0.0), True), of=rows(ALL))
    assert got.value == pytest.approx(5 / 3)
    assert got.imputed == 2


@pytest.mark.parametrize(
    ("outcomes", "reason"),
    [
        ([Failed(error="?")], "nothing scored"),
        ([NotApplicable(reason="?")], "not applicable to any item"),
        ([], "not applicable to any item"),
    ],
)
def test_no_number_has_a_reason(outcomes: list[Outcome], reason: str) -> None:
    some = rows(outcomes) or [replace(rows(ALL)[0], model="other")]
    table = tabulate([MEAN], [*some, *rows([NotApplicable(reason="?")])])
    assert table["m"]["c"].value is None
    assert table["m"]["c"].reason == reason


def test_weights_and_subsets() -> None:
    of = rows([Scored(value=1), Scored(value=5)])
    heavy = Column("c", "C", Mean("d", weight=lambda i: 3.0 if i.id == "1" else 1.0), True)
    assert cell(heavy, of=of).value == 4
    first = Column("c", "C", Mean("d", where=lambda i: i.id == "0"), True)
    assert cell(first, of=of).value == 1


def test_instance_weighted_columns() -> None:
    of = rows([Scored(value=1)] * 3, "a") + rows([Scored(value=5)], "b")
    columns = [
        Column(task, task, Mean("d", where=lambda i, task=task: i.task == task), True)  # type: ignore[misc]
        for task in ("a", "b", "never")
    ]
    total = Column("t", "T", InstanceWeighted(("a", "b", "never")), True)
    assert cell(*columns, total, of=of).value == 2


def test_weights_may_be_those_of_other_columns() -> None:
    of = rows([Scored(value=1)] * 3, "a") + rows([Scored(value=5)], "b")
    columns = [
        Column(task, task, Mean("d", where=lambda i, task=task: i.task == task), True)  # type: ignore[misc]
        for task in ("a", "b", "never")
    ]
    total = Column("t", "T", InstanceWeighted(("a", "b", "never"), by=("b", "b", "never")), True)
    assert cell(*columns, total, of=of).value == 3


def test_values_on_the_papers_scale() -> None:
    of = rows([Scored(value=1), Scored(value=2)])
    percent = Column("c", "C", Mean("d", affine=(25.0, -25.0)), True)
    got = cell(percent, of=of)
    assert got.value == 12.5
    assert "25*mean(d)-25" in str(got.signature)


def test_a_composite_without_a_part_has_no_number() -> None:
    of = rows([Failed(error="?")])
    composite = Column("x", "X", Composite(lambda v: v["d"], {"d": "c"}), True)
    got = cell(MEAN, composite, of=of)
    assert (got.value, got.reason) == (None, "no value for d")
    assert got.counts == {"failed": 1}


def test_the_signature_follows_the_values_signatures() -> None:
    of = rows([Scored(value=1)])
    other = [replace(of[0], signatures={"d": Signature.of({"dimension": "d", "judge": "new"})})]
    assert cell(MEAN, of=of).signature != cell(MEAN, of=other).signature
    assert cell(MEAN, of=of).signature == cell(MEAN, of=rows([Scored(value=2)])).signature
