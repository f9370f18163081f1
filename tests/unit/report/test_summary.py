"""Tables for papers: what is best, what is missing, and nothing that a name could smuggle in."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import pytest

from editjudge.app.results import Results
from editjudge.base.errors import ConfigError
from editjudge.base.identity import ModelIdentity, ServiceName
from editjudge.benchmarks.cell import Cell, Interval
from editjudge.benchmarks.column import Column, Mean
from editjudge.benchmarks.registry import load_benchmark
from editjudge.benchmarks.rounds import JudgeRounds
from editjudge.report.summary import (
    build_paper_table,
    build_results_tables,
    describe_judges,
    format_results,
    narrow_results,
)
from editjudge.report.table import Number, TextFormat

UP = Column("up", "quality", Mean("x"), True, "here")
DOWN = Column("down", "error", Mean("y"), False, "here")


def cell(value: float | None, scored: int = 10, asked: int = 10, imputed: int = 0) -> Cell:
    counts = {"scored": scored, "unscored": asked - scored}
    return Cell(value, {k: n for k, n in counts.items() if n}, imputed)


def results(columns: tuple[Column, ...] = (UP, DOWN), **rows: dict[str, Cell]) -> Results:
    return Results(
        benchmark=load_benchmark("core"),
        protocol="",
        switches=frozenset(),
        items=10,
        prompts=None,
        services={},
        columns=columns,
        models=rows,
    )


def latex(*columns: Column, **rows: dict[str, Cell]) -> str:
    return format_results(results(columns or (UP,), **rows), "latex")


def up(value: float | None, *more: int) -> dict[str, Cell]:
    return {"up": cell(value, *more)}


def three() -> Results:
    return results(
        a={"up": cell(1.0), "down": cell(5.0)},
        b={"up": cell(3.0), "down": cell(1.0, 7)},
        c={"up": cell(2.0, imputed=1), "down": cell(None, 0)},
    )


def test_latex() -> None:
    text = format_results(three(), "latex")
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert rows == [
        r"model & quality $\uparrow$ & error $\downarrow$ \\",
        r"a & 1.000 & 5.000 \\",
        r"b & \textit{3.000} & \textit{1.000}\textsuperscript{a} \\",
        r"c & 2.000 *1 & -\textsuperscript{b} \\",
    ]
    below = text.splitlines()[-1]
    assert below == (
        r"{\footnotesize \textsuperscript{a}~7 of 10 edits have a number; "
        r"\textsuperscript{b}~0 of 10 edits have a number; "
        r"italic: the best number, but not shown to be significantly better than every other; "
        r"*n: imputed: a rule of the benchmark set n of these numbers, no judge did.\par}"
    )


def test_data_of_another_size_than_the_papers_is_named_in_every_form() -> None:
    part = replace(three(), benchmark=load_benchmark("kris"))
    for form in ("latex", "markdown"):
        assert "10 items here; the paper has 1,267" in format_results(part, form)
    assert "the paper has" not in format_results(replace(part, items=1267), "latex")


def test_markdown_with_chosen_columns_and_models() -> None:
    text = format_results(narrow_results(three(), ["ERR*"], ["b", "a"]), "markdown")
    assert text.splitlines()[:7] == [
        "Generic dimensions, 10 items  ",
        "no judge; run of an unknown date  ",
        "",
        "| model | error ↓ |",
        "| --- | ---: |",
        "| b | *1.000*<sup>a</sup> |",
        "| a | 5.000 |",
    ]


@pytest.mark.parametrize(
    ("models", "rounds", "created", "line"),
    [
        ({}, 3, "", "no judge; run of an unknown date"),
        ({"clip.vit_b_32": "ViT"}, 1, "2026-11-24T09:00:00+00:00", "no judge; run of 2026-11-24"),
        ({"generalist.judge": "Qwen"}, 1, "", "judged by Qwen (judge); run of an unknown date"),
        (
            {"clip.vit_b_32": "ViT", "generalist.a": "<b>Qwen", "generalist.b": "GPT"},
            2,
            "2026-11-24",
            "mean of the judges <b>Qwen (a), GPT (b), 2 rounds each; run of 2026-11-24",
        ),
    ],
)
def test_who_judged_and_when_stands_above_the_table(
    models: dict[str, str], rounds: int, created: str, line: str
) -> None:
    services = {ServiceName.parse(role): ModelIdentity(name) for role, name in models.items()}
    table = replace(three(), services=services, start_time=created, judge_rounds=JudgeRounds(rounds=rounds))
    assert describe_judges(table) == line
    assert f"\n% {line}\n" in format_results(table, "latex").split(r"\begin{tabular}")[0]
    above = build_paper_table(table).to_html().split("<thead>")[0]
    assert line.replace("<", "&lt;").replace(">", "&gt;") in above
    assert "<b>" not in above


def test_a_column_by_a_part_of_its_id() -> None:
    preserved = replace(UP, id="gie.mean.ssim", title="SSIM (mean)")
    both = results((DOWN, preserved), a={"down": cell(1.0), "gie.mean.ssim": cell(0.5)})
    text = format_results(narrow_results(both, ["SSIM"]), "csv")
    assert [row["column"] for row in csv.DictReader(io.StringIO(text))] == ["gie.mean.ssim"]


def test_csv_is_not_rounded() -> None:
    rows = list(csv.DictReader(io.StringIO(format_results(three(), "csv"))))
    assert [row["model"] for row in rows] == ["a", "a", "b", "b", "c", "c"]
    assert rows[3] | {"value": "1.0", "scored": "7", "asked": "10", "imputed": "0"} == rows[3]
    assert rows[5]["value"] == ""


def test_groups_make_columns_rows() -> None:
    grouped = tuple(replace(column, group="G & H") for column in (UP, DOWN))
    both = {"a": {"up": cell(1.0), "down": cell(5.0)}, "b": {"up": cell(2), "down": cell(6)}}
    rows = [line for line in latex(*grouped, **both).splitlines() if line.endswith(r"\\")]
    assert rows == [
        r" & metric & a & b \\",
        r"G \& H & quality $\uparrow$ & 1.000 & \textit{2.000} \\",
        r" & error $\downarrow$ & \textit{5.000} & 6.000 \\",
    ]


def test_what_is_printed_alike_shares_its_place() -> None:
    assert latex(a=up(1.00101), b=up(1.00102), c=up(0.5)).count(r"\textit{1.001}") == 2


@pytest.mark.parametrize("rows", [{"a": up(1.0)}, {"a": up(1.0), "b": up(None)}])
def test_the_only_number_of_a_column_is_not_the_best(rows: dict[str, dict[str, Cell]]) -> None:
    assert "textit" not in latex(**rows)


EVIL = "\\input{/etc/passwd}\n% $x$ <img src=x onerror=y> |a|*b*"


@pytest.mark.parametrize("form", ["latex", "markdown", "csv"])
def test_names_are_text(form: Any) -> None:
    text = format_results(results((UP,), **{EVIL: up(1.0), "=1+1": up(2.0)}), form)
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
    assert f"\n{{}}{name} & 1.000 " in latex(**{name: up(1.0)})
    assert f"\n{{}}{name} & quality " in latex(replace(UP, group=name), a=up(1.0))


GIVE = "no column nothing; give an id, a part of one, a title or a glob: quality, error"


@pytest.mark.parametrize(
    ("columns", "models", "told"), [(["nothing"], [], GIVE), ([], ["d"], "no model d; models: a, b, c")]
)
def test_what_is_not_there_is_named(columns: list[str], models: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        narrow_results(three(), columns, models)


def test_many_footnotes_have_marks_of_their_own() -> None:
    text = latex(**{f"m{n}": up(1.0, n, 100) for n in range(1, 60)})
    for mark in ("z", "aa", "bg"):
        assert rf"\textsuperscript{{{mark}}}" in text


def test_a_table_is_narrowed_by_words() -> None:
    wide = results(
        tuple(replace(column, group="Colour change") for column in (UP, DOWN)),
        a={"up": cell(1.0), "down": cell(5.0)},
        b={"up": cell(3.0), "down": cell(1.0)},
    )
    assert narrow_results(wide) is wide
    narrow = narrow_results(wide, ["colour qual"], ["b"])
    assert [column.id for column in narrow.columns] == ["up"]
    assert narrow.models == {"b": {"up": wide.models["b"]["up"]}}
    with pytest.raises(ConfigError, match="no column size"):
        narrow_results(wide, ["size"])


def test_intervals_stand_beside_numbers_and_are_explained() -> None:
    of = replace(cell(2.0), interval=Interval(1.5, 2.5, 0.2, 7, "clustered"))
    table = results((UP,), a={"up": of}, b=up(1.0))
    text = format_results(table, "latex")
    assert r"a & \textit{2.000} $\pm$0.500 \\" in text
    assert r"$\pm$: half of the 95 \% interval" in text
    assert "*2.000* ±0.500" in format_results(table, "markdown")
    first = next(csv.DictReader(io.StringIO(format_results(table, "csv"))))
    told = {name: first[name] for name in ("low", "high", "error", "clusters", "method")}
    assert [*told.values()] == ["1.5", "2.5", "0.2", "7", "clustered"]


def sure(value: float, half: float) -> Cell:
    return replace(cell(value), interval=Interval(value - half, value + half, half, 7, "clustered"))


@pytest.mark.parametrize(
    ("values", "printed"),
    [
        ([(0.9978, 0.000013), (0.996, 0.000023)], [r"\textit{0.99780}", r"b & 0.99600"]),
        ([(33.54, 8.2), (0.07879, 0.05)], [r"\textit{33.54} $\pm$8.20", r"b & 0.08 $\pm$0.05"]),
        ([(1234.5, 20.0), (1200.0, 3.0)], [r"\textit{1234} $\pm$20", r"b & 1200 $\pm$3"]),
        ([(0.5, 1e-9), (0.4, 0.1)], [r"\textit{0.5000} $\pm$1.0e-09", r"b & 0.4000 $\pm$0.1000"]),
    ],
)
def test_a_column_that_no_paper_prints_has_the_digits_that_it_carries(
    values: list[tuple[float, float]], printed: list[str]
) -> None:
    first, second = values
    text = latex(a={"up": sure(*first)}, b={"up": sure(*second)})
    assert all(each in text for each in printed), text


def test_a_published_table_has_the_digits_of_its_paper() -> None:
    table = replace(results((UP,), a={"up": cell(0.12345)}), benchmark=load_benchmark("i2i"))
    assert "a & 0.123 " in format_results(table, "latex")
    own = (replace(UP, decimals=1),)
    assert "a & 0.1 " in format_results(replace(table, columns=own), "latex")


def test_a_run_that_is_not_finished_says_so() -> None:
    half = Cell(1.0, {"scored": 4, "pending": 3})
    table = results(a={"up": half, "down": cell(1.0)}, b={"up": half, "down": half})
    forms: tuple[TextFormat, ...] = ("latex", "markdown")
    for form in forms:
        assert "the run is not finished: at least 6 edits pending" in format_results(table, form)
    assert "not finished" not in format_results(three(), "latex")


def test_notes_name_no_option_and_marks_come_in_order_of_reading() -> None:
    other = replace(cell(1.0, 7), other_items=True)
    text = latex(UP, DOWN, a={**up(1.0), "down": other}, b={**up(1.0, 8), "down": cell(2.0, 7)})
    assert "--common" not in text
    assert r"a}~7 of 10 edits have a number; \textsuperscript{b}~8 of 10" in text


def test_many_columns_become_rows() -> None:
    many = tuple(replace(UP, id=f"c{n}", title=f"c{n}") for n in range(10))
    row = {column.id: cell(1.0) for column in many}
    text = latex(*many, a=row, b=row)
    assert r"metric & a & b \\" in text
    assert r"c9 $\uparrow$ & " in text


def test_a_table_that_is_too_wide_has_its_columns_as_rows() -> None:
    cells = three().models
    wide, *_ = build_results_tables((UP, DOWN), cells, width=80)
    narrow, *_ = build_results_tables((UP, DOWN), cells, width=30)
    assert [head.title for head in wide.heads] == ["model", "quality ↑", "error ↓"]
    assert [row.cells[0] for row in wide.rows] == ["a", "b", "c"]
    assert narrow.heads[0].title == "metric"
    assert [row.cells[0] for row in narrow.rows] == ["quality ↑", "error ↓"]


@pytest.mark.parametrize(
    ("group", "paper", "texts"),
    [
        ("", {}, ["1.235", "1.235"]),
        ("", {"theirs": {"up": 1.23456, "down": 1.23456}}, ["1.23456", "1.2"]),
        ("a group", {}, ["1.23456", "1.2"]),
    ],
)
def test_decimals_are_a_columns_own_or_the_tables(group: str, paper: Any, texts: list[str]) -> None:
    """And as many as the number carries where nothing is printed as papers do."""
    up, down = replace(UP, group=group), replace(DOWN, group=group, decimals=1)
    cells = {"a": {"up": cell(1.23456), "down": cell(1.23456)}}
    (table, *_) = build_results_tables((up, down), cells, decimals=5, paper_rows=paper)
    texts_shown = [one.text for row in table.rows for one in row.cells if isinstance(one, Number)]
    assert texts_shown == texts * (1 + len(paper))


def test_every_figure_of_a_cell_stands_below_its_name() -> None:
    of = Interval(1.0, 3.0, 0.5, 9, "jackknife")
    shown = Cell(2.0, {"scored": 7, "failed": 4}, 5, interval=of, capped=6, other_items=True)
    shown = replace(shown, rounds=(1.0, 3.0))
    text = format_results(results((UP,), a={"up": shown}), "csv")
    (row,) = csv.DictReader(io.StringIO(text))
    assert row == {
        "model": "a", "column": "up", "group": "", "title": "quality", "value": "2.0",
        "deviation": str(2**0.5), "scored": "7", "asked": "11", "imputed": "5", "low": "1.0",
        "high": "3.0", "error": "0.5", "clusters": "9", "method": "jackknife", "capped": "6",
        "other_items": "1",
    }  # fmt: skip


def test_letters_that_pdflatex_lacks_are_told() -> None:
    assert "xelatex" in latex(模型=up(1.0))
    assert "xelatex" not in format_results(three(), "latex")
