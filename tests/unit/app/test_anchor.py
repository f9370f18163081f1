"""Samples of edits for people, and what their ratings make of a run's means and differences."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from editjudge.app.anchor import anchor_difference, anchor_models
from editjudge.app.rating_sample import choose_dimensions, count_needed, draw_sample, write_sample
from editjudge.app.view import RunView
from editjudge.base.errors import ConfigError, InputError
from editjudge.base.verdict import NoScore, Score, Verdict

from ...small_data import PSNR, make_spec, save_picture, stored_run, write_items

ITEMS = 40
MODELS = ("ours", "theirs")
Rate = Callable[[str, str], float]


def quality(item: str, model: str) -> float:
    """What people see; the judge sees it on another scale."""
    return 3 + (int(item) % 5 - 2) / 2 + 0.5 * (model == "theirs")


def make_run(folder: Path, silent: int = 0) -> Path:
    """A run of two models, of which the first has no output for item 0; the judge is silent on the last items."""
    rng = np.random.default_rng(0)
    for item in range(ITEMS):
        save_picture(folder / f"s{item}.png", rng.integers(0, 256, (8, 8, 3), np.uint8))
        for model in MODELS[item == 0 :]:
            save_picture(folder / model / f"{item}.png", rng.integers(0, 256, (8, 8, 3), np.uint8))
    write_items(folder, [{"source": f"s{i}.png", "task": "remove" if i % 4 else "add"} for i in range(ITEMS)])
    noise = rng.normal(size=(ITEMS, 2))
    with stored_run(folder / "run", make_spec(folder, MODELS)) as keep:
        for item in range(ITEMS):
            for number, model in enumerate(MODELS):
                if (item, number) == (0, 0):
                    keep(str(item), model)
                    continue
                value = 10 * quality(str(item), model) + noise[item, number]
                scored: Verdict = Score(value=value)
                if item >= ITEMS - silent:
                    scored = NoScore(kind="degenerate", reason="nothing to see")
                keep(str(item), model, {PSNR: scored})
    return folder / "run"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path)


def draw(run: Path, file: Path, per: int = 30, seed: int = 7, *, by_task: bool = False) -> Path:
    with RunView(run) as view:
        dimensions = choose_dimensions(view, [PSNR])
        write_sample(file, view, dimensions, draw_sample(view, dimensions, per, seed, by_task=by_task), seed)
    return file


def fill_in(file: Path, rate: Rate = quality, leave_out: Callable[[int], bool] = lambda number: False) -> Path:
    """Rate the edits of a sample, as two people do."""
    lines = list(csv.DictReader(file.read_text("utf-8").splitlines()))
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, lines[0])
        writer.writeheader()
        for number, line in enumerate(lines):
            for rater in (-0.25, 0.25):
                value = "" if leave_out(number) else rate(line["item"], line["model"]) + rater
                writer.writerow(line | {"value": value, "rater": f"rater {rater}"})
    return file


def test_a_sample_comes_back_and_anchors(run: Path, tmp_path: Path) -> None:
    file = draw(run, tmp_path / "sample.csv")
    lines = list(csv.DictReader(file.read_text("utf-8").splitlines()))
    assert {line["value"] for line in lines} == {""}
    assert {line["probability"] for line in lines} == {"0.75"}
    assert [line["item"] for line in lines] != sorted(line["item"] for line in lines)
    assert draw(run, tmp_path / "same.csv").read_text() == file.read_text()
    assert draw(run, tmp_path / "other.csv", seed=8).read_text() != file.read_text()
    with RunView(run) as view:
        result = anchor_models(view, fill_in(file))
        difference = anchor_difference((view, "ours"), (view, "theirs"), file)
    assert result.notes == ()
    ours, theirs = (row.figures for row in result.rows)
    assert ours is not None
    assert theirs is not None
    assert (ours.edits, theirs.edits) == (ITEMS - 1, ITEMS)
    assert theirs.ratings == 30
    assert theirs.estimate.value == pytest.approx(3.5, abs=0.05)
    assert theirs.estimate.low is not None
    assert theirs.estimate.high is not None
    assert theirs.worth is not None
    assert theirs.estimate.low < 3.5 < theirs.estimate.high
    assert theirs.worth > 1.2
    (row,) = difference.rows
    assert row.figures is not None
    assert row.figures.people.value == pytest.approx(0.5)
    assert row.figures.estimate.value == pytest.approx(0.5, abs=0.01)
    assert row.figures.edits == ITEMS - 1


def test_what_the_judge_did_not_score_rests_on_people(tmp_path: Path) -> None:
    run = make_run(tmp_path, silent=15)
    file = fill_in(draw(run, tmp_path / "sample.csv", per=40), lambda item, model: 1.0 if int(item) >= 25 else 4.0)
    with RunView(run) as view:
        result = anchor_models(view, file)
    theirs = result.rows[1].figures
    assert theirs is not None
    assert (theirs.edits, theirs.scores) == (40, 25)
    assert theirs.estimate.value == pytest.approx(4 - 3 * 15 / 40, abs=0.1)


def test_each_task_is_drawn_from(run: Path, tmp_path: Path) -> None:
    file = draw(run, tmp_path / "sample.csv", per=8, by_task=True)
    lines = list(csv.DictReader(file.read_text("utf-8").splitlines()))
    chances = {line["stratum"]: float(line["probability"]) for line in lines}
    assert chances == {"add": 8 / 10, "remove": 8 / 30}
    with RunView(run) as view:
        result = anchor_models(view, fill_in(file))
    assert result.rows[1].figures is not None
    assert result.rows[1].figures.estimate.value == pytest.approx(3.5, abs=0.2)


def test_ratings_that_nobody_drew_anchor_nothing(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text(f"item,model,dimension,rater,value\n1,ours,{PSNR},a,3\n")
    with RunView(run) as view, pytest.raises(InputError, match="does not say how its edits were drawn"):
        anchor_models(view, file)


def test_a_sample_that_is_half_rated_anchors_nothing(run: Path, tmp_path: Path) -> None:
    file = fill_in(draw(run, tmp_path / "sample.csv"), leave_out=lambda number: number % 4 == 0)
    with RunView(run) as view:
        result = anchor_models(view, file)
    assert all(row.figures is None and row.missing_ratings for row in result.rows)


def test_two_samples_are_not_one(run: Path, tmp_path: Path) -> None:
    first, second = (fill_in(draw(run, tmp_path / f"{seed}.csv", 20, seed)) for seed in (1, 2))
    first.write_text(first.read_text() + second.read_text().partition("\n")[2])
    with RunView(run) as view, pytest.raises(InputError, match="20 were drawn"):
        anchor_models(view, first)


def test_ratings_of_another_run_are_refused(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "ratings.csv"
    file.write_text("item,model,dimension,rater,value\nelsewhere,ours,beauty,a,3\n")
    with RunView(run) as view, pytest.raises(InputError, match="rates no edit"):
        anchor_models(view, file)


def test_a_sample_is_never_overwritten(run: Path, tmp_path: Path) -> None:
    file = draw(run, tmp_path / "sample.csv")
    with pytest.raises(ConfigError, match="may hold ratings"):
        draw(run, file)
    with pytest.raises(ConfigError, match=r"ends in \.csv"):
        draw(run, tmp_path / "sample.txt")


def test_how_many_are_needed(run: Path) -> None:
    with RunView(run) as view:
        alone, some, most = count_needed(view, [PSNR], 4.0)[PSNR].values()
        narrow = count_needed(view, [PSNR], 0.1)[PSNR]
    assert alone is not None
    assert some is not None
    assert most is not None
    assert alone > some > most
    assert set(narrow.values()) == {None}
