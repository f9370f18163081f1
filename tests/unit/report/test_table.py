"""A table in every form."""

from __future__ import annotations

import csv
import io

import pytest

from editjudge.base import console
from editjudge.cli.output import print_tables
from editjudge.report.table import Head, Number, Row, Table

TABLE = Table(
    (Head("group"), Head("name"), Head("size", right=True), Head("done"), Head("of")),
    [
        Row(("a", "one", 1234, True, ("x", "y"))),
        Row(("a", "two", 0.123456, False, ())),
        Row(("b", "=3", None, None, ["z"]), "dim"),
        Row(("b", "four", Number("2", "sure", " ±1", "3/4", "3 of 4"), True, ())),
    ],
    has_groups=True,
    notes=("a note",),
)


def test_csv_has_every_cell_as_it_is() -> None:
    read = list(csv.DictReader(io.StringIO(TABLE.to_text("csv"))))
    assert read[0] == {"group": "a", "name": "one", "size": "1234", "done": "True", "of": "x, y"}
    assert read[2]["name"] == "'=3", "a spreadsheet computes nothing"


def test_people_read_a_group_once() -> None:
    rows = [line for line in TABLE.to_text("markdown").splitlines() if line.startswith("|")]
    assert rows == [
        "| group | name | size | done | of |",
        "| --- | --- | ---: | --- | --- |",
        "| a | one | 1,234 | yes | x, y |",
        "|  | two | 0.1235 | no |  |",
        "| b | =3 |  |  | z |",
        "|  | four | **2** ±1<sup>a</sup> | yes |  |",
    ]
    assert TABLE.to_text("latex").count(r"\addlinespace") == 1


@pytest.mark.parametrize("width", [200, 129, 100, 80, 60, 30])
def test_no_number_is_cut_on_a_narrow_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = ("A", "B", "B - A [95 %]", "p (Holm)", "B wins/ties/loses", "detects ≥", "edits")
    numbers = (Head(one, right=True) for one in figures)
    heads = (Head("dimension", fold=True), *numbers, Head("better"))
    cells = ("0.8123", "0.7512", "-0.06105 [-0.08114, -0.04096]", "1.2e-05", "12/300/88", "0.013")
    rows = [Row((f"core.aligned_psnr.source.whole.{i}", *cells, "400/400", "A")) for i in range(3)]
    monkeypatch.setattr(console, "WIDTH", width)
    print_tables([Table(heads, rows, title="the title", notes=["a note"])])
    text = capsys.readouterr().out
    assert "…" not in text
    assert all(text.count(cell) == 3 for cell in (*cells, "400/400")), text
    assert all(figure in text for figure in figures)
    assert (text.count("the title"), text.count("a note")) == (1, 1)
    assert max(map(len, text.splitlines())) <= max(width, 65)


def test_a_terminal_shows_coverage_in_the_cell() -> None:
    column = TABLE.to_terminal().columns[2]
    assert [str(cell) for cell in column.cells] == ["1,234", "0.1235", "", "2 ±1 (3/4)"]
