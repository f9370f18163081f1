"""Whether a candidate may replace its base: answers, refusals, and what is written."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from editjudge.app import gate as module
from editjudge.app.comparison import rank_models
from editjudge.app.view import RunView
from editjudge.base.verdict import Score
from editjudge.cli import root

from ...doc_samples import ROOT
from ...small_data import NO_FILE, PSNR, make_spec, save_picture, stored_run, write_items

SSIM = "core.ssim.source.whole"
SOURCES = 80


def make_run(
    folder: Path, values: Any, models: tuple[str, ...] = ("old", "new"), name: str = "run", **signed: str
) -> Path:
    """A stored run with a source per item; `values(model, number)` is SSIM, and a tenth of PSNR.

    The outputs of an item have equal bytes exactly where their values are equal.
    """
    write_items(folder, [{"source": f"{n}.png"} for n in range(SOURCES)])
    spec = make_spec(folder, models, (PSNR, SSIM))
    for number in range(SOURCES):
        save_picture(folder / f"{number}.png", np.full((8, 8, 3), number, np.uint8))
        for model in models:
            if (value := values(model, number)) is not None:
                pixel = hash(value) % 250
                picture = np.full((8, 8, 3), pixel, np.uint8)
                picture[0, 0] = np.frombuffer(np.float32(value).tobytes(), np.uint8)[:3]
                save_picture(folder / model / f"{number}.png", picture)
    with stored_run(folder / name, spec, **signed) as keep:
        for number in range(SOURCES):
            for model in models:
                value = values(model, number)
                verdicts = value is not None and {PSNR: Score(value=10 * value), SSIM: Score(value=value)}
                keep(str(number), model, verdicts or NO_FILE)
    return folder / name


def noisy(loss: float, noise: float = 0.01) -> Any:
    def value(model: str, number: int) -> float:
        drawn = float(np.random.default_rng([number, len(model) + ord(model[0])]).normal(0, noise))
        return 0.9 + drawn - loss * (model == "new")

    return value


class Ran(NamedTuple):
    """What a command printed, its error with it, and its exit code."""

    code: int
    told: str


def ask(*words: str | Path) -> Ran:
    result = CliRunner().invoke(root, ["gate", *map(str, words)], standalone_mode=False)
    error = result.exception
    code = getattr(error, "exit_code", 1) if error else result.return_value
    return Ran(code, result.output + str(error or ""))


@pytest.mark.parametrize(
    ("loss", "margin", "code", "says"),
    [
        (0.0, f"{SSIM}=0.1", 0, "PASS"),
        (0.0, f"{PSNR}=0.2", 0, "a loss on up to 3.75 % of 80 sources could be unseen"),
        (0.0, f"{PSNR}=2%", 0, "PASS"),
        (0.3, f"{SSIM}=0.1", 4, "largest losses"),
        (0.3, f"{PSNR}=2%", 4, "FAIL"),
        (0.0, f"{SSIM}=0.02", 5, "it takes about"),
        (0.022, f"{SSIM}=0.02", 5, "but that may be chance"),
    ],
)
def test_there_are_three_answers(tmp_path: Path, loss: float, margin: str, code: int, says: str) -> None:
    run = make_run(tmp_path, noisy(loss))
    result = ask(f"old={run}", f"new={run}", "--margin", margin)
    assert (result.code, says in result.told) == (code, True), result.told


def test_one_dimension_fails_all_and_one_that_cannot_be_told_is_no_pass(tmp_path: Path) -> None:
    run = make_run(tmp_path, noisy(0.05))
    sides = f"old={run}", f"new={run}", "--margin", f"{SSIM}=0.2"
    assert ask(*sides).code == 0
    assert ask(*sides, "--margin", f"{PSNR}=0.1").code == 4
    assert ask(*sides, "--margin", f"{PSNR}=0.5").code == 5


def test_outputs_of_equal_bytes_are_equal_whatever_n_is(tmp_path: Path) -> None:
    run = make_run(tmp_path, lambda _, number: 0.5 + number / 1000)
    result = ask(f"old={run}", f"new={run}", "--margin", "0.0001", "--json")
    gate = json.loads(result.told)
    assert (result.code, gate["answer"]) == (0, "pass")
    assert {row["elsewhere"] for row in gate["dimensions"]} == {0.0}, "no edit is of one model alone"
    assert {row["low"] for row in gate["dimensions"]} == {0.0}


def test_few_sources_do_not_pass_what_has_no_bounds(tmp_path: Path) -> None:
    run = make_run(tmp_path, noisy(0.0))
    (tmp_path / "gate.toml").write_text(f'unseen = 0.01\n[margins]\n"{PSNR}" = 1\n')
    result = ask(f"old={run}", f"new={run}", "--rules", tmp_path / "gate.toml")
    assert result.code == 5
    assert "it takes about 300 sources like these 80 to pass" in result.told
    (tmp_path / "worse").mkdir()
    run = make_run(tmp_path / "worse", noisy(5.0))
    result = ask(f"old={run}", f"new={run}", "--rules", tmp_path / "gate.toml")
    assert result.code == 5
    assert "80 sources are too few: a dimension without bounds takes 300" in result.told


def test_one_source_tells_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path, lambda m, n: noisy(0.0)(m, n) if n == 3 else None)
    for dimension in (SSIM, PSNR):
        sides = f"old={run}", f"new={run}", "--margin", f"{dimension}=0.5"
        assert ask(*sides).code == 5
        result = ask(*sides, "--plan")
        assert (result.code, "a pilot of one source" in result.told) == (2, True)


def _half(model: str, number: int) -> float | None:
    return None if model == "new" and number < 5 else noisy(0.0)(model, number)


@pytest.mark.parametrize(
    ("values", "signed", "margin", "says"),
    [
        (_half, {}, "0.1", "6.2% of the scored edits have a score of one model alone"),
        (noisy(0.0), {}, "core.clip*=1", "no dimension matches"),
        (noisy(0.0), {}, "2 dB", "a margin is a number, or a share as 2%"),
        (noisy(0.0), {}, f"{SSIM}=2%", "may be below 0"),
        (lambda *_: 0.0, {}, f"{PSNR}=2%", "or is 0 everywhere"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, values: Any, signed: dict[str, str], margin: str, says: str
) -> None:
    run = make_run(tmp_path, values, **signed)
    result = ask(f"old={run}", f"new={run}", "--margin", margin)
    assert result.code == 2
    assert says in result.told


def test_other_signatures_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, noisy(0.0))
    pairs = module.pair_scores

    def differently(*words: Any) -> Any:
        told_pairs = pairs(*words)
        marks = told_pairs.second.marks[SSIM]
        for place in range(len(marks)):
            marks[place] += 2
        return replace(told_pairs, signatures=(*told_pairs.signatures, "judge:a", "judge:b"))

    monkeypatch.setattr(module, "pair_scores", differently)
    result = ask(f"old={run}", f"new={run}", "--margin", f"{SSIM}=0.1")
    assert result.code == 2
    assert "base and candidate were judged differently" in result.told


NOW = "2040-01-01T00:00:00+00:00"
BEFORE = "1980-01-01T00:00:00+00:00"
BASELINE = SimpleNamespace(when=BEFORE)


@pytest.mark.parametrize(
    ("check", "code", "says"),
    [
        (SimpleNamespace(state="steady", when=NOW, first=BASELINE), 0, "PASS"),
        (None, 5, "was never checked"),
        (SimpleNamespace(state="steady", when=BEFORE, first=BASELINE), 5, "is older than the runs"),
        (
            SimpleNamespace(state="steady", when=NOW, first=SimpleNamespace(when=NOW)),
            5,
            "nobody knows how it was before",
        ),
        (SimpleNamespace(state="shifted", when=NOW, first=BASELINE), 2, "judge both anew"),
    ],
    ids=["steady", "never", "older", "late", "shifted"],
)
def test_a_judge_must_have_been_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: Any, code: int, says: str
) -> None:
    run = make_run(tmp_path, noisy(0.0))
    monkeypatch.setattr(module, "read_last_checks", lambda *_, **__: [("judge", check)])
    monkeypatch.setattr(module.RunView, "calls", (10, 0.0, 1e9))
    sides = f"old={run}", f"new={run}", "--margin", f"{SSIM}=0.1"
    result = ask(*sides)
    assert (result.code, says in result.told) == (code, True), result.told
    assert ask(*sides, "--unchecked").code == (0 if code == 5 else code)


def test_the_page_begins_with_the_largest_loss_and_shows_two_models(tmp_path: Path) -> None:
    losses = {3: 0.1, 50: 0.4, 20: 0.2}
    models = "old", "new", "third"
    run = make_run(tmp_path, lambda m, n: 0.9 - losses.get(n, 0.0) * (m == "new") + (m == "third") / 20, models)
    ask(f"old={run}", f"new={run}", "--margin", f"{SSIM}=0.0001", "--out", tmp_path / "out")
    page = (tmp_path / "out" / "worst.html").read_text()
    shown = [
        json.loads(text) for text in re.findall(r"<script[^>]*application/json[^>]*>(.*?)</script>", page, re.DOTALL)
    ]
    report, edits = (next(each for each in shown if key in each) for key in ("models", "items"))
    assert [each["name"] for each in report["models"]] == ["old", "new"]
    assert [len(table["rows"]) for table in report["tables"]] == [2]
    assert [edits["items"]["id"][item] for item in edits["item"]] == ["50", "50", "20", "20", "3", "3"]
    assert report["is_part"], "its distributions are not those of the table"
    assert "6 edits are listed; tables count all" in report["warnings"]
    assert report["introduction"][0]["text"].startswith(f"{SSIM} ↑: fail; gain ")


def test_what_continuous_integration_reads(tmp_path: Path) -> None:
    run = make_run(tmp_path, lambda m, n: noisy(0.3 if n in {7, 9} else 0.0)(m, n))
    out = tmp_path / "out"
    margins = "--margin", f"{SSIM}=0.0001", "--margin", f"{PSNR}=5"
    for _ in range(2):  # it replaces its own files
        result = ask(f"old={run}", f"new={run}", *margins, "--out", out)
    assert result.code == 5
    suite = Xml.parse(out / "junit.xml").getroot()  # noqa: S314 - written above
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "0", "1")
    assert json.loads((out / "gate.json").read_text())["answer"] == "cannot tell"
    assert "| cannot tell |" in (out / "summary.md").read_text()
    worst = {e["item"] for d in json.loads((out / "gate.json").read_text())["dimensions"] for e in d["worst"]}
    page = (out / "worst.html").read_text()
    assert {"7", "9"} <= worst
    assert len(worst) < SOURCES
    assert page.count("data:image/webp") == 3 * len(worst)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("x")
    refused = ask(f"old={run}", f"new={run}", *margins, "--out", elsewhere)
    assert "holds other files" in refused.told


SEEDS = "old", "new", "new@2", "new@3"


def test_several_outputs_of_an_item_are_repeats_of_it(tmp_path: Path) -> None:
    run = make_run(tmp_path, noisy(0.0, 0.05), SEEDS)
    sides = f"old={run}", f"new={run}", "--margin", f"{SSIM}=0.1", "--json"
    (row,) = json.loads(ask(*sides).told)["dimensions"]
    means = [np.mean([noisy(0.0, 0.05)(model, n) for model in SEEDS[1:]]) for n in range(SOURCES)]
    assert (row["edits"], row["sources"]) == (SOURCES, SOURCES)
    assert row["candidate"] == pytest.approx(np.mean(means), abs=1e-6)
    (alone,) = json.loads(ask(sides[0], f"new@1={run}", *sides[2:]).told)["dimensions"]
    assert row["high"] - row["low"] < alone["high"] - alone["low"], "more outputs tell more"
    assert row["noise"][0] == {"editor": None, "judge": None}
    assert 0.04 < row["noise"][1]["editor"] < 0.06
    with RunView(run) as view:
        cells = view.results().models
        ranks = rank_models(view, [SSIM]).dimensions[0].models
    assert [*cells] == [*ranks] == ["old", "new"]
    cell = cells["new"][SSIM]
    assert cell.value == pytest.approx(row["candidate"])
    assert (cell.scored, cell.interval and cell.interval.clusters) == (3 * SOURCES, SOURCES)
    assert not cell.other_items


def test_an_output_that_one_seed_lacks_is_no_score_of_the_item(tmp_path: Path) -> None:
    def values(model: str, number: int) -> float | None:
        return None if (model, number) in {("new@2", 3), ("new@3", 3)} else noisy(0.0)(model, number)

    run = make_run(tmp_path, values, SEEDS)
    sides = f"old={run}", f"new={run}", "--margin", f"{SSIM}=0.1"
    (row,) = json.loads(ask(*sides, "--json").told)["dimensions"]
    assert (row["edits"], row["elsewhere"] != 0) == (SOURCES - 1, True)
    run = make_run(tmp_path / "half", lambda m, n: None if m == "new@3" and n % 2 else noisy(0.0)(m, n), SEEDS)
    result = ask(f"old={run}", f"new={run}", "--margin", f"{SSIM}=0.1")
    assert (result.code, "50.0% of the scored edits have a score of one model alone" in result.told) == (2, True)


def test_outputs_of_equal_bytes_are_equal_seed_by_seed(tmp_path: Path) -> None:
    run = make_run(tmp_path, lambda m, n: 0.5 + n / 1000 + m.endswith("@2") / 10, ("old", "old@2", "new", "new@2"))
    assert ask(f"old={run}", f"new={run}", "--margin", "0.0001").code == 0
    assert ask(f"old={run}", f"new@1={run}", "--margin", "0.0001").code == 4


def test_a_plan_from_a_pilot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, noisy(0.0))
    monkeypatch.setattr(module.RunView, "calls", (320, 8.0, 0.0))
    result = ask(f"old={run}", f"new={run}", "--margin", f"{SSIM}=0.05", "--plan", "--json")
    by_count = {row["sources"]: row for row in json.loads(result.told)}
    assert (by_count[100]["calls"], by_count[100]["cost"]) == (400, 10.0), "two calls an edit"
    assert by_count[50]["power"] < 0.1 < 0.9 < by_count[1000]["power"]
    (needed,) = by_count.keys() - {50, 100, 200, 500, 1000}
    assert 0.8 <= by_count[needed]["power"] < 0.9


def test_looks_and_names_of_sides(tmp_path: Path) -> None:
    run = make_run(tmp_path, noisy(0.0))
    sides = f"old={run}", f"new={run}", "--margin", f"{SSIM}=0.1"
    assert ask(*sides, "--look", "1/4").code == 5
    assert ask(*sides, "--look", "4/4").code == 0
    assert "is not a look" in ask(*sides, "--look", "5/4").told
    assert "has several models: old, new" in ask(run, f"new={run}", "--margin", "1").told
    assert "no margin is given" in ask(*sides[:2]).told


def test_the_samples_for_pipelines_are_what_they_seem() -> None:
    """They parse, their steps are there, and every command of ours takes these words."""
    page = (ROOT / "docs" / "howto" / "gate.md").read_text(encoding="utf-8")
    github, buildkite = map(yaml.safe_load, _fences(page, "yaml"))
    steps = github["jobs"]["gate"]["steps"]
    assert {("run" in step) != ("uses" in step) for step in steps} == {True}
    (step,) = buildkite["steps"]
    assert step["soft_fail"] == [{"exit_status": 5}]
    lines = [[each["run"] for each in steps if "run" in each], step["commands"]]
    for of in lines:
        words = [shlex.split(line)[1:] for line in of if line.startswith("editjudge ")]
        assert [each[0] for each in words] == ["run", "canary", "gate"]
        for command, *options in words:
            root.commands[command].make_context(command, options)


def _fences(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
