"""The papers' own studies, on made ratings whose answers can be worked out by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from editjudge.app.agreement import Agreement
from editjudge.app.judge_values import reweigh_judge
from editjudge.app.judgement_import import import_judgements
from editjudge.app.ratings import read_ratings
from editjudge.app.studies import STUDIES, measure_study
from editjudge.app.view import RunView
from editjudge.base.errors import ConfigError
from editjudge.base.verdict import Score
from editjudge.benchmarks.co_edit.taxonomy import TABLES
from editjudge.benchmarks.registry import load_benchmark
from editjudge.cli import root

from ...doc_samples import ROOT
from ...small_data import MSE, PSNR, make_spec, stored_run
from ..benchmarks.co_edit.items import line, picture, write_data
from .test_human_agreement import ITEMS, MODELS, RATINGS, make_run, quality, write_lines

VOTES = "item,model_a,model_b,dimension,rater,vote"


def study(name: str, run: Path, lines: list[str], **matches: list[str]) -> Agreement:
    paper = STUDIES[name]
    people = read_ratings([write_lines(run.parent / "people.csv", lines)], paper.words)
    with ExitStack() as stack:
        return measure_study([stack.enter_context(RunView(run))], people, paper, matches, trivial=False)


def values(result: Agreement, who: str = "run", table: int = 0) -> dict[str, Any]:
    (row,) = (each for each in result.tables[table].rows if each.who == who)
    return {name: of.value for name, of in row.figures.items()}


def test_kris_words_are_numbers(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", lambda item, model: [5, 3, 2][model])
    words = ["good", "fair", "poor"]
    lines = [RATINGS] + [f"{i},{m},q,ann,{words[n]}" for i in range(ITEMS) for n, m in enumerate(MODELS)]
    result = study("kris", run, [*lines, "0,ours,q,ben,7"], q=[PSNR])
    assert values(result) == {
        "pearson": pytest.approx(stats.pearsonr([5, 3, 2], [5, 3, 1]).statistic),
        "mae": pytest.approx(1 / 3),
    }
    assert result.problems == ("item 0, rater ben: 7 is not from 1 to 5",)


def test_evaluators_order_two_models_as_people_do(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", quality)  # it puts the third model before the first
    for ours, third, due, people in (
        (8, 7, -1.0, "8.0000 > 7.0000: another"),
        (7, 8, 1.0, "7.0000 < 8.0000: the same"),
    ):
        rows = [f"{i},{m},IP,ann,{value}" for i in range(ITEMS) for m, value in (("ours", ours), ("third", third))]
        result = study("co_edit_evaluators", run, [RATINGS, *rows], IP=[PSNR])
        assert values(result) == {"kendall": due}
        assert f"{PSNR}, ours and third: run 21.7500 < 27.7500, people {people} order" in result.sentences


def test_gie_ranks_models_per_item_and_rater(tmp_path: Path) -> None:
    """One rater is harsh: the mean of ratings puts another model first than the mean rank."""
    run = make_run(tmp_path, "run", quality)
    said = {"ann": [0, 1, 3], "ben": [1, 2, 3], "cid": [3, 0, 1]}
    rows = [f"{i},{m},q,{who},{of[n]}" for i in range(4) for who, of in said.items() for n, m in enumerate(MODELS)]
    result = study("gie", run, [RATINGS, *rows], q=[PSNR, MSE][:1])
    ranks = [(3 + 3 + 1) / 3, (2 + 2 + 3) / 3, (1 + 1 + 2) / 3]
    assert values(result)["spearman"] == pytest.approx(-stats.spearmanr([20, 23, 26], ranks).statistic)
    assert [table.unit for table in result.tables] == ["model"]


def test_omni_keeps_turn_modes_apart(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", quality)
    rows = [
        f"{item},{name},q,ann,{model + 1 if item % 2 else 3 - model},{'single' if item % 2 else 'multi'}"
        for item in range(ITEMS)
        for model, name in enumerate(MODELS)
    ]
    result = study("omni_iie", run, [f"{RATINGS},category", *rows], q=[PSNR])
    assert [table.dimension for table in result.tables] == [f"{PSNR}, multi", f"{PSNR}, single"]
    assert [values(result, table=n)["spearman"] for n in (0, 1)] == [pytest.approx(-1), pytest.approx(1)]


def test_i2i_has_win_ratios_a_mean_over_dimensions_and_checked_labels(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", quality)
    pairs = [("ours", "theirs", "B"), ("ours", "third", "B"), ("theirs", "third", "tie")]
    rows = [f"{i},{a},{b},q,ann,{vote}" for i in range(ITEMS) for a, b, vote in pairs]
    checks = [f"{i},ours,theirs,q,author,{'A' if i < 2 else 'B'}" for i in range(10)]
    result = study("i2i", run, [VOTES, *rows, *checks], q=[PSNR])
    expected = stats.pearsonr([20, 23, 26], [0, 0.75, 0.75]).statistic
    assert values(result)["pearson"] == pytest.approx(expected)
    assert f"run: pearson {expected:.4f}, the mean over 1 of 1 dimensions" in result.sentences
    assert "q, ann: 20.0% of 10 checked labels (28% of all) differ: label all of them again" in result.sentences


def test_co_edit_shows_both_mappings(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", quality)
    rows = [f"{i},{m},overall,ann,{(i * 7 + n) % 11}" for i in range(ITEMS) for n, m in enumerate(MODELS)]
    result = study("co_edit", run, [RATINGS, *rows], overall=[PSNR])
    assert {*STUDIES["co_edit"].statistics} == {*values(result)}


GROUPS: dict[str, Any] = TABLES["groups"]
METRICS = {n: float(9 - k % 8) for k, n in enumerate(name for of in GROUPS.values() for name in of["metrics"])}


def fuse(weigh: Any, factor: float) -> float:
    """Equations 1 to 3, of metrics that are all `factor` times as high."""

    def mean(values: Iterable[float], of: Any) -> float:
        logs = np.log([*values])
        return float(np.exp(np.average(logs, weights=[weigh(name, row) for name, row in of.items()])))

    own = {g: mean((METRICS[n] * factor for n in of["metrics"]), of["metrics"]) for g, of in GROUPS.items()}
    return mean((min(value, own["edit_completeness"]) for value in own.values()), GROUPS)


FACTORS = (0.5, 0.7, 1.0)


def judge_portraits(folder: Path, out: Path) -> None:
    """Store a run of one portrait by three models, whose metrics differ by a factor."""
    data = write_data(folder, [line("portrait_editing")])
    with stored_run(out, make_spec(folder, MODELS, None, data=data, benchmark="co_edit")) as keep:
        for model, factor in zip(MODELS, FACTORS, strict=True):
            picture(folder / model / "1.png")
            keep("1", model, {f"co_edit.{name}": Score(value=value * factor) for name, value in METRICS.items()})


def weigh_as_the_paper(_: str, row: Any) -> float:
    return float(row["weight"] * 9)


@pytest.mark.parametrize("weigh", [weigh_as_the_paper, lambda *_: 5, lambda name, _: len(name)])
def test_people_say_what_weighs_how_much(tmp_path: Path, weigh: Any) -> None:
    judge_portraits(tmp_path, tmp_path / "run")
    rows = [(n, weigh(n, of)) for g, each in GROUPS.items() for n, of in (*each["metrics"].items(), (g, each))]
    answers = [f"{name},{who},{value + who - 1}" for name, value in rows for who in (0, 2)]
    survey = write_lines(tmp_path / "survey.csv", ["dimension,rater,value", *answers])
    people = write_lines(tmp_path / "people.csv", [RATINGS, *(f"1,{m},overall,ann,{n}" for n, m in enumerate(MODELS))])
    with RunView(tmp_path / "run") as view:
        importance = read_ratings([survey], defaults={"item": "survey", "model": "survey"})
        judge = reweigh_judge(view, importance.ratings)
        due = [fuse(weigh, factor) for factor in FACTORS]
        assert [*judge.read("co_edit.overall").values()] == pytest.approx(due)
        own = [row.outcomes["co_edit.overall"].value for row in view.rows()]
        assert (own == pytest.approx(due)) is (weigh is weigh_as_the_paper)
        result = measure_study([view], read_ratings([people]), STUDIES["co_edit"], trivial=False, survey=importance)
        for wrong in (importance.ratings[2:], [r.model_copy(update={"value": 0.0}) for r in importance.ratings]):
            with pytest.raises(ConfigError, match="--weights gives no importance to editing_accuracy"):
                reweigh_judge(view, wrong)
    assert values(result, "run, by people's weights")["rmse"] == pytest.approx(
        np.sqrt(np.mean((due - np.arange(3)) ** 2))
    )
    assert f"importance of editing_accuracy: {rows[0][1]:.3f} by 2 answers" in result.sentences


SAID: dict[str, dict[str, list[Any]]] = {
    "i2i": {"image_quality": ["A", "B", "tie"]},
    "omni_iie": {"instruction_compliance": [1, 3, 2], "similarity": [3, 2, 1]},
    "co_edit": {"overall": [2, 5, 9]},
    "gie": {"adherence": [0, 3, 1], "preservation": [3, 2, 0]},
    "kris": {"visual_consistency": ["good", "fair", "poor"]},
}
"""What people say of three models, or of each two of them, by the dimensions that each paper asks about."""


@pytest.mark.parametrize("page", SAID)
def test_each_command_of_a_page_runs_on_made_answers(
    tmp_path: Path, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs/howto/benchmarks" / f"{page}.md").read_text()
    commands = re.findall(r"^editjudge (agreement runs/\S+ .*)$", text, re.MULTILINE)
    run = tmp_path / commands[0].split()[1]
    run.parent.mkdir()
    if page == "co_edit":
        judge_portraits(tmp_path, run)
    else:
        names = [n for of in STUDIES[page].matches.values() for n in of] or [*SAID[page]]
        judged = [
            {"item": str(i), "model": m, "dimension": name, "score": (i * 3 + n * n) % 5 + 1}
            for i in range(ITEMS) for n, m in enumerate(MODELS) for name in names
        ]  # fmt: skip
        file = write_lines(tmp_path / "judge.jsonl", map(json.dumps, judged))
        import_judgements([file], run, scale=(1, 5))
    said = SAID[page].items()
    if page == "i2i":
        head, places = VOTES, [f"{a},{b}" for a, b in combinations(MODELS, 2)]
    else:
        head, places = f"{RATINGS},category", [*MODELS]
    rows = [
        f"{i},{place},{name},{who},{of[n]},{'single' if i % 2 else 'multi'}"
        for i in range(ITEMS) for name, of in said for who in ("ann", "author") for n, place in enumerate(places)
    ]  # fmt: skip
    write_lines(tmp_path / "people.csv", [head, *(row.rpartition(",")[0] if page == "i2i" else row for row in rows)])
    two = [f"1,{m},{name},ann,{n * 4 + 2}" for name in ("IP", "NEP") for n, m in enumerate(MODELS[:2])]
    write_lines(tmp_path / "two_models.csv", [RATINGS, *two])
    write_lines(tmp_path / "survey.csv", ["dimension,rater,value", *(f"{n},ann,{len(n)}" for n in [*METRICS, *GROUPS])])
    monkeypatch.chdir(tmp_path)
    assert len(commands) == (3 if page == "co_edit" else 1)
    for command in commands:
        words = command.split()
        done = CliRunner().invoke(root, [*words, "--json"])
        assert not done.exception, done.output
        result = Agreement.model_validate_json(done.stdout)
        paper = STUDIES[words[words.index("--study") + 1]]
        assert {each.unit for each in result.tables} == {paper.unit}
        assert {n for each in result.tables for row in each.rows for n in row.figures} == {*paper.statistics}
        assert paper.unsaid in result.sentences
        assert ("--weights" in words) is any("by people's weights" in r.who for e in result.tables for r in e.rows)


@pytest.mark.parametrize("name", STUDIES)
def test_the_dimensions_of_a_study_exist(name: str) -> None:
    names = {each for of in STUDIES[name].matches.values() for each in of}
    benchmarks = {each.partition(".")[0] for each in names}
    assert names <= {dimension.id for each in benchmarks for dimension in load_benchmark(each).dimensions}


@pytest.mark.parametrize(("name", "line"), [("gie", "99,ours,q,ann,2"), ("omni_iie", "0,ours,q,ann,9")])
def test_a_study_of_nothing_says_so(tmp_path: Path, name: str, line: str) -> None:
    run = make_run(tmp_path, "run", quality)
    with pytest.raises(ConfigError, match="no edit that people answered"):
        study(name, run, [RATINGS, line], q=[PSNR])
    with pytest.raises(ConfigError, match="name their answers: --human FILE"):
        root.main(["agreement", str(run), "--study", name], standalone_mode=False)
