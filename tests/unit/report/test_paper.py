"""Tables for papers: what is best, what is missing, and nothing that a name could smuggle in."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import pytest

from editjudge.app.results import Results
from editjudge.app.spread import JudgeSpread
from editjudge.base.errors import ConfigError
from editjudge.benchmarks.cell import Cell, Interval
from editjudge.benchmarks.column import Column, Mean
from editjudge.benchmarks.registry import benchmark
from editjudge.engine.items import ItemChanges
from editjudge.report.paper import narrowed, typeset

UP = Column("up", "quality", Mean("x"), True, "here")
DOWN = Column("down", "error", Mean("y"), False, "here")


def cell(value: float | None, scored: int = 10, asked: int = 10, imputed: int = 0) -> Cell:
    counts = {"scored": scored, "unscored": asked - scored}
    return Cell(value, {k: n for k, n in counts.items() if n}, imputed)


def results(columns: tuple[Column, ...] = (UP, DOWN), **rows: dict[str, Cell]) -> Results:
    return Results(
        benchmark("core"),
        "",
        frozenset(),
        10,
        None,
        {},
        columns,
        rows,
        JudgeSpread(),
        ItemChanges(),
    )


def three() -> Results:
    return results(
        a={"up": cell(1.0), "down": cell(5.0)},
        b={"up": cell(3.0), "down": cell(1.0, 7)},
        c={"up": cell(2.0, imputed=1), "down": cell(None, 0)},
    )


def test_latex() -> None:
    text = typeset(three(), "latex")
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert rows == [
        r" & quality $\uparrow$ & error $\downarrow$ \\",
        r"a & 1.00 & \underline{5.00} \\",
        r"b & \textbf{3.00} & \textbf{1.00}\textsuperscript{a} \\",
        r"c & \underline{2.00} *1 & -\textsuperscript{b} \\",
    ]
    below = text.splitlines()[-1]
    assert below == (
        r"{\footnotesize \textsuperscript{a}~7 of 10 edits have a number; "
        r"\textsuperscript{b}~0 of 10 edits have a number; "
        r"*n: imputed: a rule put n of these numbers in, no judge did.\par}"
    )


def test_markdown_with_chosen_columns_and_models() -> None:
    text = typeset(three(), "markdown", ["ERR*"], ["b", "a"])
    assert text.splitlines()[:4] == [
        "|  | error ↓ |",
        "| --- | ---: |",
        "| b | **1.00**<sup>a</sup> |",
        "| a | <u>5.00</u> |",
    ]


def test_a_column_by_a_part_of_its_id() -> None:
    preserved = replace(UP, id="gie.mean.ssim", title="SSIM (mean)")
    text = typeset(
        results((DOWN, preserved), a={"down": cell(1.0), "gie.mean.ssim": cell(0.5)}),
        "csv",
        ["SSIM"],
    )
    assert [row["column"] for row in csv.DictReader(io.StringIO(text))] == ["gie.mean.ssim"]


def test_csv_is_not_rounded() -> None:
    rows = list(csv.DictReader(io.StringIO(typeset(three(), "csv"))))
    assert [row["model"] for row in rows] == ["a", "a", "b", "b", "c", "c"]
    assert rows[3] | {"value": "1.0", "scored": "7", "asked": "10", "imputed": "0"} == rows[3]
    assert rows[5]["value"] == ""


def test_groups_make_columns_rows() -> None:
    grouped = tuple(replace(column, group="G & H") for column in (UP, DOWN))
    text = typeset(
        results(
            grouped, a={"up": cell(1.0), "down": cell(5.0)}, b={"up": cell(2), "down": cell(6)}
        ),
        "latex",
    )
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert rows[0] == r" &  & a & b \\"
    assert rows[1] == r"G \& H & quality $\uparrow$ & \underline{1.00} & \textbf{2.00} \\"
    assert rows[2] == r" & error $\downarrow$ & \textbf{5.00} & \underline{6.00} \\"


def test_what_is_printed_alike_shares_its_place() -> None:
    table = results((UP,), a={"up": cell(1.001)}, b={"up": cell(1.002)}, c={"up": cell(0.5)})
    assert typeset(table, "latex").count(r"\textbf{1.00}") == 2
    alone = results((UP,), a={"up": cell(1.0)})
    assert "textbf" not in typeset(alone, "latex")


EVIL = "\\input{/etc/passwd}\n% $x$ <img src=x onerror=y> |a|*b*"


@pytest.mark.parametrize("form", ["latex", "markdown", "csv"])
def test_names_are_text(form: Any) -> None:
    text = typeset(results((UP,), **{EVIL: {"up": cell(1.0)}, "=1+1": {"up": cell(2.0)}}), form)
    if form == "latex":
        assert r"\input" not in text
        assert r"\textbackslash{}input\{/etc/passwd\} \% \$x\$" in text
    elif form == "markdown":
        assert "<img" not in text
        assert r"\|a\|\*b\*" in text
        assert len([line for line in text.splitlines() if line.startswith("|")]) == 4
    else:
        assert [row[0] for row in csv.reader(io.StringIO(text))][1:] == [EVIL, "'=1+1"]


@pytest.mark.parametrize("name", ["[1]", "*star"])
def test_a_row_of_latex_is_no_argument_of_the_one_above(name: str) -> None:
    models = results((UP,), **{name: {"up": cell(1.0)}})
    assert f"\n{{}}{name} & 1.00 " in typeset(models, "latex")
    groups = results((replace(UP, group=name),), a={"up": cell(1.0)})
    assert f"\n{{}}{name} & quality " in typeset(groups, "latex")


@pytest.mark.parametrize(
    ("columns", "models", "told"),
    [
        (
            ["nothing"],
            [],
            "no column nothing; give an id, a part of one, a title or a glob: quality, error",
        ),
        ([], ["d"], "no model d; models: a, b, c"),
    ],
)
def test_what_is_not_there_is_named(columns: list[str], models: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        typeset(three(), "csv", columns, models)


def test_many_footnotes_have_marks_of_their_own() -> None:
    rows = {f"m{n}": {"up": cell(1.0, n, 100)} for n in range(1, 60)}
    text = typeset(results((UP,), **rows), "latex")
    assert r"\textsuperscript{z}" in text
    assert r"\textsuperscript{aa}" in text
    assert r"\textsuperscript{bg}" in text


def test_a_table_is_narrowed_by_words() -> None:
    wide = results(
        tuple(replace(column, group="Colour change") for column in (UP, DOWN)),
        a={"up": cell(1.0), "down": cell(5.0)},
        b={"up": cell(3.0), "down": cell(1.0)},
    )
    assert narrowed(wide) is wide
    narrow = narrowed(wide, ["colour qual"], ["b"])
    assert [column.id for column in narrow.columns] == ["up"]
    assert narrow.cells == {"b": {"up": wide.cells["b"]["up"]}}
    with pytest.raises(ConfigError, match="no column size"):
        narrowed(wide, ["size"])


def test_intervals_stand_beside_numbers_and_are_explained() -> None:
    sure = replace(cell(2.0), interval=Interval(1.5, 2.5, 0.2, 7, "clustered"))
    table = results((UP,), a={"up": sure}, b={"up": cell(1.0)})
    latex = typeset(table, "latex")
    assert r"a & \textbf{2.00} $\pm$0.50 \\" in latex
    assert r"$\pm$: half of the 95 \% interval" in latex
    assert "**2.00** ±0.50" in typeset(table, "markdown")
    first = next(csv.DictReader(io.StringIO(typeset(table, "csv"))))
    told = {name: first[name] for name in ("low", "high", "error", "clusters", "method")}
    assert [*told.values()] == ["1.5", "2.5", "0.2", "7", "clustered"]
