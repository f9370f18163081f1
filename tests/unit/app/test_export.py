from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from editjudge.app.export import FIELDS, export
from editjudge.app.export import Format as Form
from editjudge.app.view import RunView
from editjudge.base.errors import ConfigError, MissingExtra
from editjudge.base.verdict import NoScore, Score
from editjudge.cli import root
from editjudge.engine.content_keys import JudgedEdit
from editjudge.storage.store import RunStore

from ...small_data import MSE, NO_FILE, PSNR, make_spec, save_picture, stored_run, write_items
from ..storage.small_store import HEADER, LOST, SIGNATURES, UNREAD, header, make_score, put

command = root.commands["export"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    with RunStore.open(folder, HEADER) as store:
        put(store, "one", {"core.a": make_score(0.1 + 0.2, text='röd,\n"x"'), "core.b": UNREAD})
        put(store, "two", {"core.a": LOST, "core.b": Score(value=0, imputed=True)})
        store.save_edit_now(JudgedEdit("three", "alpha", None, NO_FILE), {}, {})
    return folder


EXPECTED = [
    ("three", None, "missing_output", None, None, "no file", None, {}),
    ("one", "core.a", "scored", 0.1 + 0.2, None, None, False, {"text": 'röd,\n"x"'}),
    ("one", "core.b", "unscored", None, "unparsable", "no JSON", None, UNREAD.evidence),
    ("two", "core.a", "failed", None, None, LOST.error, None, {}),
    ("two", "core.b", "scored", 0.0, None, None, True, {}),
]
COLUMNS = ("item", "dimension", "status", "value", "kind", "reason", "imputed")


def run_export(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(each) for each in arguments], catch_exceptions=False)


def rows_of(file: Path, form: str) -> list[dict[str, Any]]:
    """The rows of a file: as JSON has them, and of CSV all as text."""
    if form == "csv":
        with file.open(encoding="utf-8", newline="") as text:
            return list(csv.DictReader(text))
    if form == "jsonl":
        return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]
    return list(parquet.read_table(file).to_pylist())


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_every_verdict_is_a_row(run: Path, tmp_path: Path, form: str) -> None:
    file = tmp_path / "new" / f"table.{form}"
    out = run_export(run, "--format", form, "--out", file)
    assert out.output.endswith(f"table.{form}: 5 rows\n")
    rows = rows_of(file, form)
    assert [tuple(row) for row in rows] == [FIELDS] * 5
    for row, (*shown, evidence) in zip(rows, EXPECTED, strict=True):
        due = ["" if one is None else str(one) for one in shown] if form == "csv" else shown
        assert [row[name] for name in COLUMNS] == due
        said = row["evidence"] or {}
        assert (json.loads(said) if isinstance(said, str) else said) == evidence
        assert row["model"] == "alpha"
        assert (row["signature"] or None) == SIGNATURES.get(row["dimension"])
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_columns_of_parquet_have_types_and_the_file_names_its_run(run: Path) -> None:
    run_export(run, "--format", "parquet")
    schema = parquet.read_table(run / "verdicts.parquet").schema
    assert [str(schema.field(n).type) for n in ("value", "imputed")] == ["double", "bool"]
    assert json.loads(schema.metadata[b"editjudge.run"])["benchmark"] == "core"


def test_a_run_by_an_older_reading_of_its_benchmark(tmp_path: Path) -> None:
    older = header(benchmark="gie", protocol="gie.paper.1", not_served={"clip.vit_b_32": "?"})
    with RunStore.open(tmp_path / "run", older) as store:
        put(store, "one", {"core.a": make_score(0.5)})
    out = run_export(tmp_path / "run", "--format", "jsonl")
    assert out.output.endswith("verdicts.jsonl: 1 row\n")


def test_it_says_that_the_data_is_gone(run: Path) -> None:
    done = run_export(run, "--format", "csv")
    assert done.stderr.startswith("the file lacks dimensions with a flaw of the data: ")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-cmd", "@SUM(A1)", "\tx"])
def test_text_in_csv_is_no_formula(tmp_path: Path, text: str) -> None:
    with RunStore.open(tmp_path / "run", HEADER) as store:
        put(store, text, {"core.a": NoScore(kind="refused", reason=text)})
        put(store, "number", {"core.b": Score(value=-1.5)})
        export(RunView.from_store(store), tmp_path / "file", "csv")
    rows = {row["dimension"]: row for row in rows_of(tmp_path / "file", "csv")}
    assert (rows["core.a"]["item"], rows["core.a"]["reason"]) == (f"'{text}", f"'{text}")
    assert rows["core.b"]["value"] == "-1.5"


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_broken_text_of_a_server_stays_readable(tmp_path: Path, form: str) -> None:
    broken = NoScore(kind="refused", reason="\ud800", evidence={"reply": "\udfff"})
    with RunStore.open(tmp_path / "run", HEADER) as store:
        put(store, "one", {"core.a": broken})
        assert [one.verdict for one in store.verdicts()] == [broken]
        assert export(RunView.from_store(store), tmp_path / "file", form) == 1  # type: ignore[arg-type]
    if form == "jsonl":
        (row,) = rows_of(tmp_path / "file", form)
        assert (row["reason"], row["evidence"]) == ("\ud800", {"reply": "\udfff"})


def test_parquet_without_pyarrow(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with RunView(run) as view:
        with pytest.raises(MissingExtra, match=r"\[report\]"):
            export(view, run / "v.parquet", "parquet")
    assert not list(run.glob("*parquet*"))


def test_a_file_that_cannot_be_written(run: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with RunView(run) as view:
        for out in (tmp_path / "folder", tmp_path / "file" / "inner"):
            with pytest.raises(ConfigError, match="give another --out"):
                export(view, out, "csv")
    assert not list(tmp_path.glob(".*partial"))


FORMS = ("csv", "jsonl", "parquet", "label-studio")


def contents(folder: Path) -> dict[Path, bytes]:
    """All files, but for what SQLite keeps beside its own while it reads."""
    files = (file for file in folder.rglob("*") if file.is_file() and "sqlite-" not in file.name)
    return {file: file.read_bytes() for file in files}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name", ["items.jsonl", "alpha/one.png", "alpha/one.json", "mine.csv", "mine.json", "run/run.sqlite"]
)
def test_nothing_but_a_former_export_is_written_over(of_data: Path, name: str, form: str) -> None:
    folder = of_data.parent
    (folder / "alpha").mkdir()
    (folder / "mine.csv").write_text("item,model,score\none,alpha,3\n")
    (folder / "mine.json").write_text('[\n{"data": {"text": "mine"}}]')
    (folder / "alpha/one.json").write_text('[{"item": "one", "model": "mine"}]')
    (folder / "alpha/one.png").write_bytes(b"a picture")
    before = contents(folder)
    arguments = [str(of_data), "--format", form, "--out", str(folder / name)]
    failed = CliRunner().invoke(command, arguments)
    assert re.search(rf"{re.escape(name)} (is a file of the run|exists and is no former export)", str(failed.exception))
    assert isinstance(failed.exception, ConfigError)
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["run.lock", "run.sqlite-wal", "run.csv"])
def test_names_of_the_runs_own_files_are_taken(run: Path, name: str) -> None:
    with RunView(run) as view, pytest.raises(ConfigError, match="a file of the run itself"):
        export(view, run / "." / name, "csv")


@pytest.mark.parametrize("earlier", FORMS)
def test_a_former_export_of_any_form_yields(of_data: Path, tmp_path: Path, earlier: Form) -> None:
    out = tmp_path / "out"
    out.touch()
    with RunView(of_data) as view:
        for form in (earlier, "jsonl"):
            export(view, out, form)
        for form in (earlier, "jsonl"):
            export(view, out, form, wide=earlier != "label-studio", pictures=True)
    assert sorted(file.name for file in tmp_path.glob("out*")) == sorted(
        ["out", *["out.xml"] * (earlier == "label-studio")]
    )


def test_the_labelling_configuration_takes_nobodys_place(of_data: Path, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<mine/>")
    with RunView(of_data) as view:
        for name, line in (("a.json", "a.xml exists"), ("b.XML", "ends in .json")):
            with pytest.raises(ConfigError, match=line):
                export(view, tmp_path / name, "label-studio")
    assert (tmp_path / "a.xml").read_text() == "<mine/>"
    assert not (tmp_path / "a.json").exists()


def test_export_while_the_run_goes_on(run: Path) -> None:
    with RunStore.open(run) as store:
        put(store, "four", {"core.a": make_score(4)})
        assert run_export(run, "--format", "csv").output.endswith("6 rows\n")


@pytest.fixture
def of_data(tmp_path: Path) -> Path:
    """Three edits of data that is there: scored, missing, and judged by another signature."""
    save_picture(tmp_path / "s.png")
    write_items(tmp_path, ({"id": name} for name in ("one", "two", "=3")))
    spec = make_spec(tmp_path, ["alpha"], (PSNR, MSE))
    with stored_run(tmp_path / "run", spec) as keep:
        keep("one", "alpha", {PSNR: make_score(0.1 + 0.2), MSE: UNREAD})
        keep("two", "alpha")
    with stored_run(tmp_path / "run", spec, **{MSE: "by:older"}) as keep:
        keep("=3", "alpha", {PSNR: make_score(5), MSE: make_score(7)})
    return tmp_path / "run"


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_row_for_each_edit(of_data: Path, form: str) -> None:
    out = run_export(of_data, "--format", form, "--wide")
    assert out.output.endswith(f"edits.{form}: 3 rows\n")
    file = of_data / f"edits.{form}"
    rows = rows_of(file, form)
    values = [[float(row[n]) if row[n] else None for n in (PSNR, MSE)] for row in rows]
    assert values == [[0.1 + 0.2, None], [None, None], [5.0, None]]
    assert [row["item"] for row in rows] == ["one", "two", "'=3" if form == "csv" else "=3"]
    assert [bool(row["missing"]) for row in rows] == [False, True, False]


def test_only_edits_of_which_the_conditions_hold(of_data: Path, tmp_path: Path) -> None:
    every = rows_of(exported_to(of_data, tmp_path / "all.jsonl", "--wide"), "jsonl")
    values = sorted(row[PSNR] for row in every if row[PSNR] is not None)
    middle = values[len(values) // 2]
    for condition, holds in {
        f"{PSNR} < {middle}": lambda value: value < middle,
        f"{PSNR}>={middle}": lambda value: value >= middle,
    }.items():
        wide = rows_of(exported_to(of_data, tmp_path / "wide.jsonl", "--wide", "--where", condition), "jsonl")
        expected = [row for row in every if row[PSNR] is not None and holds(row[PSNR])]
        assert wide == expected != []
        long = rows_of(exported_to(of_data, tmp_path / "long.jsonl", "--where", condition), "jsonl")
        assert {(row["item"], row["model"]) for row in long} == {(row["item"], row["model"]) for row in expected}
    none = ("--where", f"{PSNR} >= {middle}", "--where", f"{PSNR} < {middle}")
    assert rows_of(exported_to(of_data, tmp_path / "none.jsonl", *none), "jsonl") == []


@pytest.mark.parametrize(
    ("condition", "says"),
    [("core.psnr", "is no condition"), ("< 1", "is no condition"), ("*<1", "several dimensions"), ("nope<1", "nope")],
)
def test_a_condition_that_cannot_be_used(of_data: Path, tmp_path: Path, condition: str, says: str) -> None:
    file = tmp_path / "x.jsonl"
    with pytest.raises(ConfigError, match=says), RunView(of_data) as view:
        export(view, file, "jsonl", where=(condition,))
    assert not file.exists()


def exported_to(run: Path, file: Path, *options: str) -> Path:
    run_export(run, "--format", "jsonl", "--out", file, *options)
    return file
