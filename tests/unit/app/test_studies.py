"""The papers' own studies, on made ratings whose answers can be worked out by hand."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from editjudge.app.agreement import Agreement
from editjudge.app.ratings import read_ratings
from editjudge.app.studies import STUDIES, measure_study
from editjudge.app.view import RunView
from editjudge.base.errors import ConfigError
from editjudge.benchmarks.registry import load_benchmark
from editjudge.cli import root

from ...small_data import MSE, PSNR
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
