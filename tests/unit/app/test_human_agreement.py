"""Judges against people, on made runs with known answers; ratings and votes of every form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editjudge.app.agreement import Agreement
from editjudge.app.export import export
from editjudge.app.human_agreement import measure_agreement
from editjudge.app.ratings import read_ratings
from editjudge.app.view import RunView
from editjudge.base.errors import ConfigError, InputError
from editjudge.base.verdict import Score

from ...small_data import PSNR, make_spec, save_picture, stored_run, write_items

MODELS = ("ours", "theirs", "third")
ITEMS = 12
RATINGS = "item,model,dimension,rater,value"


def make_run(folder: Path, out: str, values: Any) -> Path:
    """Store a run whose PSNR is a function of item and model; each edit has a picture."""
    if not (folder / "s0.png").exists():
        rng = np.random.default_rng(0)
        for item in range(ITEMS):
            save_picture(folder / f"s{item}.png", rng.integers(0, 256, (16, 16, 3), np.uint8))
            for model in MODELS:
                picture = rng.integers(0, 256, (16, 16, 3), np.uint8)
                save_picture(folder / model / f"{item}.png", picture)
        write_items(folder, [{"source": f"s{item}.png"} for item in range(ITEMS)])
    spec = make_spec(folder, MODELS)
    with stored_run(folder / out, spec) as keep:
        for item in range(ITEMS):
            for model in MODELS:
                keep(str(item), model, {PSNR: Score(value=values(item, MODELS.index(model)))})
    return folder / out


def write_lines(file: Path, lines: Iterable[str]) -> Path:
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


def compare(runs: Iterable[Path], *files: Path, **options: Any) -> Agreement:
    with ExitStack() as stack:
        views = [stack.enter_context(RunView(run)) for run in runs]
        return measure_agreement(views, read_ratings(files), **options)


def quality(item: int, model: int) -> float:
    return 20.0 + model * 3 + item % 5


def figures(result: Agreement, unit: str, who: str) -> dict[str, Any]:
    (table,) = (each for each in result.tables if each.unit == unit)
    (row,) = (each for each in table.rows if each.who == who)
    return {name: of.value for name, of in row.figures.items()}


def test_a_judge_that_is_right_and_one_that_is_not(tmp_path: Path) -> None:
    right = make_run(tmp_path, "right", quality)
    wrong = make_run(tmp_path, "wrong", lambda item, model: 20.0 + (item * 7 + model * 5) % 11)
    ratings = write_lines(
        tmp_path / "ratings.csv",
        [RATINGS]
        + [
            f"{item},{name},{PSNR},{rater},{quality(item, model) + rater / 2}"
            for item in range(ITEMS)
            for model, name in enumerate(MODELS)
            for rater in (0, 1)
        ],
    )
    result = compare([right, wrong], ratings)
    exact = figures(result, "edit", "right")
    for name in ("pearson", "spearman", "kendall"):
        assert exact[name] == pytest.approx(1.0)
    assert exact["mae"] == pytest.approx(0.25)
    people = figures(result, "edit", "a rater against the others")
    assert people["pearson"] > figures(result, "edit", "wrong")["pearson"]
    assert people["mae"] == pytest.approx(0.5)
    assert figures(result, "edit", "people's ratings, shuffled")["mae"] > 1
    assert figures(result, "edit", "the best constant")["pearson"] is None
    assert abs(figures(result, "edit", "SSIM with the source")["spearman"]) < 0.6
    assert figures(result, "pair", "right")["decided"] == 1.0
    assert figures(result, "pair", "always tie")["tie_as_half"] == 0.5
    assert figures(result, "model", "right")["pearson"] == pytest.approx(1.0)
    sentences = [each.sentence for each in result.differences if each.unit == "pair"]
    assert sentences
    assert all(text.startswith("right agrees with people better than wrong") for text in sentences)
    (raters,) = result.raters
    assert (raters.raters, raters.answers) == (2, 72)
    assert raters.alpha["interval"].value > 0.9


def test_a_judge_that_is_as_good_as_a_rater_has_a_raters_figures(tmp_path: Path) -> None:
    # Four true values, and each combination of errors of two raters and of the judge.
    edits = {(n % ITEMS, n // ITEMS): (25.0 + 2 * (n // 8), n & 1, n >> 1 & 1, n >> 2 & 1) for n in range(32)}
    run = make_run(tmp_path, "run", lambda *edit: edits[edit][0] + 3 * edits[edit][3] if edit in edits else 20.0)
    lines = [
        f"{item},{MODELS[model]},{PSNR},{rater},{of[0] + 3 * of[rater]}"
        for (item, model), of in edits.items()
        for rater in (1, 2)
    ]
    result = compare([run], write_lines(tmp_path / "ratings.csv", [RATINGS, *lines]))
    rater, judge = (figures(result, "edit", who) for who in ("a rater against the others", "run in a rater's place"))
    assert rater == pytest.approx(judge)
    assert figures(result, "edit", "run")["pearson"] > judge["pearson"] + 0.05  # the mean of both is surer


def test_votes_with_ties(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", quality)
    lines = ["item,model_a,model_b,dimension,rater,vote"]
    lines += [f"{item},theirs,ours,psnr.source.whole,ann,A" for item in range(ITEMS)]
    lines += [f"{item},ours,third,psnr.source.whole,ann,both_bad" for item in range(ITEMS)]
    result = compare([run], write_lines(tmp_path / "votes.csv", lines), ties="four_classes")
    found = figures(result, "pair", "run")
    assert (found["decided"], found["tie_as_half"]) == (1.0, 1.0)
    assert found["four_classes"] == 0.5
    # The tie is six, a decided difference three: a threshold cannot have both right.
    assert figures(result, "pair", "always both_bad")["four_classes"] == 0.5
    assert figures(result, "pair", "random")["four_classes"] == 0.25


def test_stored_judges_need_no_run(tmp_path: Path) -> None:
    records = [
        ("[[A>B]]", "[[A>B]]", "leftvote"),
        ("The answer is [[ A > B ]].", None, "leftvote"),
        ("[[A>B]] or [[B>A]]", None, "rightvote"),
        ("I cannot say.", None, "bothbad_vote"),
    ]
    file = tmp_path / "some-judge" / "pairwise.json"
    file.parent.mkdir()
    file.write_text(
        json.dumps(
            [
                {"idx": n, "response": text, "model_vote": vote, "human_vote": human}
                for n, (text, vote, human) in enumerate(records)
            ]
        )
    )
    result = compare([], file)
    (table,) = result.tables
    rows = {row.who: row for row in table.rows}
    assert rows["some-judge"].records == 2
    assert rows["some-judge"].figures["four_classes"].value == 1.0
    assert rows["some-judge (as released)"].coverage == 0.25
    assert rows["always both_bad"].figures["four_classes"].value == 0.25


LOG = {"file_name": "3-Pair", "sample_index": 7, "ground_truth": "C>A>B"}


@pytest.mark.parametrize(
    ("name", "records", "votes", "judged"),
    [
        (
            "rows.jsonl",
            [{"id": "x_1", "ranking": "C>A", "comparison_type": "AvsC", "model_1": "p", "model_2": "q"}],
            {"x_1": ("x", "p", "q", "B")},
            {},
        ),
        (
            "gpt.json",
            {
                "accuracy": 1,
                "results": [
                    {
                        "id": "x_2",
                        "human_vote": "A>B",
                        "comparison_type": "AvsB",
                        "model_vote": "B>A",
                        "model_response": "[[A>B]]",
                    }
                ],
            },
            {"x_2": ("x", "", "", "A")},
            {"gpt": {"x_2": "A"}, "gpt (as released)": {"x_2": "B"}},
        ),
        (
            "log.json",
            [LOG | {"model_outputs": [{"score": 1.0}, {"score": 3.0}, {"score": 3.0}]}],
            {
                f"3-Pair 7 {pair}": ("3-Pair 7", "", "", vote)
                for pair, vote in {"1:2": "A", "1:3": "B", "2:3": "B"}.items()
            },
            {"log": {"3-Pair 7 1:2": "B", "3-Pair 7 1:3": "B", "3-Pair 7 2:3": "tie"}},
        ),
        (
            "bench_2pair.json",
            [{"prompt": "p", "path_src": "s", "paths_generated": ["a", "b"], "human_vote": {"ranking": "A=B=Bad"}}],
            {"bench_2pair s p": ("bench_2pair s p", "", "", "both_bad")},
            {},
        ),
        (
            "visual.jsonl",
            [{"key": "k", "source_image_path": "s", "edited_image_paths": [], "winner": "Image B"}],
            {"k": ("s", "", "", "B")},
            {},
        ),
    ],
)
def test_public_sets(tmp_path: Path, name: str, records: Any, votes: Any, judged: Any) -> None:
    lines = [json.dumps(each) for each in records] if name.endswith("l") else [json.dumps(records)]
    found = read_ratings([write_lines(tmp_path / name, lines)])
    assert {r.item: (r.source, r.model_a, r.model_b, r.vote) for r in found.votes} == votes
    assert {who: {v.item: v.vote for v in said} for who, said in found.judges.items()} == judged
    assert not found.problems


def test_sets_that_show_the_winner_first_are_shuffled(tmp_path: Path) -> None:
    """A judge that is always right stays so, and "the first" is right by half."""
    for task in ("add", "remove"):
        file = tmp_path / "editor" / task / "overall.jsonl"
        file.parent.mkdir(parents=True)
        rows = [{"key": [f"{n}a", f"{n}b"], "idx": f"{task}{n}", "score": [2, 1]} for n in range(60)]
        write_lines(file, map(json.dumps, [*rows, {"key": [], "idx": "x", "score": [1, 1]}]))
    result = compare([], *tmp_path.glob("*/*/*.jsonl"))
    own = figures(result, "pair", "editor")
    assert (own["both_decided"], own["decided"]) == (1.0, pytest.approx(120 / 122))
    assert 0.35 < figures(result, "pair", "always A")["decided"] < 0.65
    (table,) = result.tables
    shares = {task: of.value for task, of in table.categories["editor"].items()}
    assert shares == dict.fromkeys(("add", "remove"), pytest.approx(60.5 / 61))
    pairs = [{"model1": "p", "model2": "q", "model1_dim1_score": 4, "model2_dim1_score": 2} for _ in range(20)]
    votes = read_ratings([write_lines(tmp_path / "valid.json", [json.dumps(pairs)])]).votes
    assert {(r.model_a, r.vote) for r in votes} == {("p", "A"), ("q", "B")}


def test_both_orders(tmp_path: Path) -> None:
    pairs = [
        {
            "id": f"p{n}",
            "response_a": {"model_name": "y"},
            "response_b": {"model_name": "x"},
            "human_annotations": [5, 4, 3] if n else [1, 2, 5],
        }
        for n in range(4)
    ]
    people = tmp_path / "pairs.json"
    people.write_text(json.dumps({"pairs": pairs}))
    judged = tmp_path / "judged.json"
    first = {"judgement": "A", "evaluator": "first"}
    judged.write_text(json.dumps({f"p{n}": {"forward": [first], "reverse": [first]} for n in range(4)}))
    result = compare([], people, judged)
    found = figures(result, "pair", "first")
    assert (found["first"], found["same_when_swapped"], found["decided"]) == (1.0, 0.0, 0.5)
    assert figures(result, "pair", "always A")["decided"] == 0.75
    # In one order only, "A" is what the file shows first, whatever the models are called.
    judged.write_text(json.dumps({f"p{n}": {"forward": [first]} for n in range(4)}))
    assert figures(compare([], people, judged), "pair", "first")["decided"] == 0.75


def test_an_export_of_label_studio(tmp_path: Path) -> None:
    run = make_run(tmp_path, "run", quality)
    control = f"score_{PSNR.replace('.', '_')}"
    tasks = [
        {
            "data": {"item": str(item), "model": name, "instruction": "x"},
            "annotations": [
                {
                    "completed_by": {"id": 3, "email": "ann@example.org"},
                    "result": [{"from_name": control, "value": {"number": quality(item, model)}}],
                },
                {"was_cancelled": True, "result": [{"from_name": control, "value": {"number": 0}}]},
            ],
        }
        for item in range(ITEMS)
        for model, name in enumerate(MODELS)
    ]
    file = tmp_path / "export.json"
    file.write_text(json.dumps(tasks))
    assert figures(compare([run], file), "edit", "run")["mae"] == 0.0


def test_pairs_go_to_label_studio_and_back(tmp_path: Path) -> None:
    """Tasks name no model that is shown, sides are drawn once and for all, and answers come back as votes."""
    run, file = make_run(tmp_path, "run", quality), tmp_path / "tasks.json"
    with RunView(run) as view:
        assert export(view, file, "label-studio", pairs=True) == 3 * ITEMS
        with pytest.raises(ConfigError, match="give --format label-studio"):
            export(view, tmp_path / "x.csv", "csv", pairs=True)
    tasks = json.loads(file.read_text())
    shown = {name for task in tasks for name in task["data"]}
    assert shown == {"item", "model_a", "model_b", "instruction", "source", "left", "right"}
    configuration = file.with_suffix(".xml").read_text()
    assert "$model" not in configuration
    control, *_ = re.findall(r'<Choices name="(\w+)" toName="left"', configuration)
    for task in tasks:
        first, second = (MODELS.index(task["data"][side]) for side in ("model_a", "model_b"))
        assert MODELS[first] in task["data"]["left"]
        vote = "A" if first > second else "B"
        task["annotations"] = [{"completed_by": 1, "result": [{"from_name": control, "value": {"choices": [vote]}}]}]
    file.write_text(json.dumps(tasks))
    result = compare([run], file)
    assert figures(result, "pair", "run")["decided"] == 1.0
    assert 0.2 < figures(result, "pair", "always A")["decided"] < 0.8


def test_odd_records_cost_themselves(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "odd.csv", [RATINGS, "0,ours,d,r,3", "1,ours,d,r,nan", "2,,d,r,3", "3,ours,d,r,x"])
    records = read_ratings([file])
    assert [rating.item for rating in records.ratings] == ["0"]
    assert [text.partition(": ")[0] for text in records.problems] == [f"{file}, line {number}" for number in (3, 4, 5)]


def test_a_broken_line_costs_itself_wherever_it_stands(tmp_path: Path) -> None:
    vote = {"key": "k", "source_image_path": "s", "edited_image_paths": [], "winner": "Image B"}
    file = write_lines(tmp_path / "visual.jsonl", ["<<<<<<< ours", json.dumps(vote), '{"key": "l", "winner"'])
    records = read_ratings([file])
    assert [(each.item, each.vote) for each in records.votes] == [("k", "B")]
    assert records.problems == [f"{file}, line {number}: it is no JSON object" for number in (1, 3)]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.csv", "", "no records"),
        ("a.csv", "item,model,value\n", "no records"),
        ("a.csv", "item,value\n1,2\n", "model"),
        ("a.jsonl", "[1]\nnull\n{\n", "line 1: it is no JSON object"),
        ("a.json", "{", "no JSON"),
        ("a.json", "[" * 100_000, "no JSON"),
        ("a.json", "{}", "no records"),
        ("a.json", '[{"vote": "A"}]', "form is not known"),
        ("a.json", '[{"annotations": 3}]', "no records"),
        ("a.json", '[{"human_vote": [], "idx": {}}]', "no record can be used"),
        ("a.json", '{"pairs": [{"id": 1, "human_annotations": ["x"]}, 7]}', "no record can be used"),
        ("a.json", '{"x": {"forward": 3}}', "no records"),
        ("a.parquet", "PAR1", "no Parquet"),
        ("none.csv", None, "cannot be read"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, text: str | None, problem: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=problem):
        read_ratings([tmp_path / name])


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("0,ours,beauty,r,3", "'beauty' is not one of the run's"),
        (f"0,nobody,{PSNR},r,3", "no edit that people answered"),
    ],
)
def test_ratings_of_something_else(tmp_path: Path, line: str, problem: str) -> None:
    run = make_run(tmp_path, "run", quality)
    with pytest.raises(ConfigError, match=problem):
        compare([run], write_lines(tmp_path / "r.csv", [RATINGS, line]))
