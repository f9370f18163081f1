"""How many calls a run would make, before it makes any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from editjudge.app.estimate import Estimate, describe_estimate, estimate, judge_notes
from editjudge.base.config import GatewayEndpoint, Settings
from editjudge.base.identity import ServiceName
from editjudge.base.strict import to_plain
from editjudge.benchmarks.items import ItemsFile
from editjudge.benchmarks.registry import load_dimensions
from editjudge.benchmarks.rounds import JudgeRounds, make_rounds, with_rounds
from editjudge.engine.run_inputs import RunInputs
from editjudge.engine.run_plan import RunPlan, compare_with_run, inspect_items

from ...small_data import ITEMS, save_picture, write_items

URL = "http://127.0.0.1:9/v1"
LEVEL, QUESTIONS = "core.editing_artifacts", "core.physical_plausibility"
PIXELS = "core.psnr.source.whole"
JUDGE = "generalist.judge"
EDITS = 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_picture(tmp_path / "s.png", (64, 64))
    for i in range(EDITS):
        save_picture(tmp_path / "ours" / f"{i}.png", (64, 64))
    write_items(tmp_path, [{"instruction": "make it red"}] * EDITS)
    return tmp_path


def work(folder: Path, *names: str, judge_rounds: JudgeRounds = JudgeRounds()) -> RunPlan:  # noqa: B008
    known = make_rounds(load_dimensions(), judge_rounds)
    chosen = with_rounds([known[name] for name in names], known)
    outputs = {"ours": folder / "ours"}
    order = RunInputs(ItemsFile(folder / ITEMS), outputs, chosen, known, judge_rounds=judge_rounds)
    return compare_with_run(inspect_items(order), None, {})


def settings(**judge: Any) -> Settings:
    return Settings.model_validate({"judges": {"judge": {"url": URL, **judge}}})


def estimate_work(folder: Path, *names: str, **judge: Any) -> Estimate:
    return estimate(work(folder, *names), settings(**judge))


PRICE = {"input": 1e6, "output": 1.0}


@pytest.mark.parametrize(
    ("judge", "level", "questions"),
    [({}, 1, 8), ({"samples": 3}, 3, 1 + 3 * 7), ({"samples": 3, "logprobs": "never"}, 3, 1 + 3 * 7)],
)
def test_averaged_replies_are_counted(folder: Path, judge: dict[str, Any], level: int, questions: int) -> None:
    one, other = (estimate_work(folder, name, **judge) for name in (LEVEL, QUESTIONS))
    assert one.calls == {JUDGE: EDITS * level}
    assert other.calls == {JUDGE: EDITS * questions}
    assert one.prompt_tokens[JUDGE] == level * estimate_work(folder, LEVEL).prompt_tokens[JUDGE]


def test_questions_that_cannot_be_asked_are_not_counted(folder: Path) -> None:
    """An edit fails at them before its first call; the estimate of the others stands."""
    asked = {"question": "What?", "answer": "Red"}
    each = (["Red", "Blue"], ["Red", "Red"], ["Red", ""])
    write_items(folder, ({"questions": [{**asked, "options": options}]} for options in each))
    assert estimate_work(folder, "core.multiple_choice").calls == {JUDGE: 1}


def test_tokens_and_cost_follow_the_calls(folder: Path) -> None:
    once = estimate_work(folder, LEVEL, price=PRICE)
    thrice = estimate_work(folder, LEVEL, price=PRICE, samples=3, logprobs="never")
    assert thrice.cost == pytest.approx(3 * once.cost)
    assert not any("the cost is without" in note for note in once.notes)


def test_through_a_judge_service_no_settings_of_judges_here_count(folder: Path) -> None:
    own = settings(price=PRICE, samples=3, logprobs="never")
    through = own.model_copy(update={"gateway": GatewayEndpoint(url="grpc://127.0.0.1:9")})
    told = estimate(work(folder, LEVEL), through)
    assert told.cost is None
    assert told.calls == {JUDGE: EDITS}
    (note,) = told.notes
    assert note.startswith("judged through the Judge service")


def test_a_cost_says_whose_calls_it_leaves_out(folder: Path) -> None:
    todo = work(folder, LEVEL, judge_rounds=JudgeRounds(("judge", "second", "third")))
    judges = {"judge": {"url": URL, "price": PRICE}, "second": {"url": URL}, "third": {"url": URL}}
    told = estimate(todo, Settings.model_validate({"judges": judges}))
    assert told.cost == estimate_work(folder, LEVEL, price=PRICE).cost
    why = "the cost leaves out generalist.second, generalist.third: no price is configured"
    assert why in told.notes


def test_second_tries_are_told_beside_the_calls(folder: Path) -> None:
    todo = work(folder, LEVEL, PIXELS)
    one = estimate(todo, settings())
    retries = ", and as many again if no reply can be read"
    assert f"{JUDGE}: at most {EDITS} calls{retries}" in describe_estimate(one, todo)
    assert to_plain(one)["calls"] == {JUDGE: EDITS}
    one.calls[ServiceName("quality", "piqe")] = 5
    assert "quality.piqe: at most 5 calls" in describe_estimate(one, todo)


def test_what_an_edit_takes_is_told(folder: Path) -> None:
    todo = work(folder, LEVEL, QUESTIONS)
    told = estimate(todo, settings())
    assert told.calls[JUDGE] == 9 * EDITS
    line = f"an edit: {JUDGE} 9 calls, {told.prompt_tokens[JUDGE] / EDITS:,.0f} prompt tokens"
    assert line in describe_estimate(told, todo)
    assert not [line for line in describe_estimate(Estimate(), todo) if line.startswith("an edit")]


@pytest.mark.parametrize(
    ("rounds", "temperature", "dimension", "noted"),
    [(2, 0.0, LEVEL, True), (2, 0.7, LEVEL, False), (1, 0.0, LEVEL, False), (2, 0.0, PIXELS, False)],
)
def test_rounds_of_a_greedy_judge_are_noted(
    folder: Path, rounds: int, temperature: float, dimension: str, noted: bool
) -> None:
    todo = work(folder, dimension, judge_rounds=JudgeRounds(rounds=rounds))
    given = settings(temperature=temperature, logprobs="never")
    due = f"{JUDGE}: its temperature is 0, so rounds differ only by their seed"
    assert [one.startswith(due) for one in judge_notes(todo.inputs, given)] == [True] * noted
    assert any(one.startswith(due) for one in estimate(todo, given).notes) == noted


EDITING = "co_edit.editing_accuracy"


@pytest.mark.parametrize(("limit", "told"), [(1024, True), (4095, True), (4096, False), (None, False)])
def test_a_limit_below_that_of_a_prompt_is_told(folder: Path, limit: int | None, told: bool) -> None:
    todo = work(folder, EDITING, LEVEL)
    lines_told = "\n".join(describe_estimate(estimate(todo, settings(max_tokens=limit)), todo))
    assert ("below the limit of co_edit/editing" in lines_told) == told
    note = (
        f"{JUDGE}: max_tokens is {limit or 0:,}, below the limit of co_edit/editing:"
        " a truncated reply has no score; leave it out, or set it to 4,096"
    )
    assert judge_notes(todo.inputs, settings(max_tokens=limit)) == ((note,) if told else ())
    assert judge_notes(work(folder, LEVEL).inputs, settings(max_tokens=16)) == ()
