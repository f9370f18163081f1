"""How many calls a run would make, before it makes any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pil

from editjudge.app.estimate import (
    Estimate,
    describe_calls,
    describe_estimate,
    estimate,
    judge_notes,
)
from editjudge.base.config import GatewayEndpoint, JudgeEndpoint, Settings
from editjudge.base.identity import ServiceName
from editjudge.base.strict import to_plain
from editjudge.benchmarks.items import ItemsFile
from editjudge.benchmarks.registry import load_dimensions
from editjudge.benchmarks.rounds import JudgeRounds, make_rounds, with_rounds
from editjudge.engine.run_inputs import RunInputs
from editjudge.engine.run_plan import RunPlan, compare_with_run, inspect_items

URL = "http://127.0.0.1:9/v1"
LEVEL, QUESTIONS, PIXELS = (
    "core.editing_artifacts",
    "core.physical_plausibility",
    "core.psnr.source.whole",
)
JUDGE = "generalist.judge"
SECOND = JudgeEndpoint(url=URL)
EDITS = 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ours").mkdir()
    Pil.new("RGB", (64, 64)).save(tmp_path / "source.png")
    items = []
    for i in range(EDITS):
        Pil.new("RGB", (64, 64)).save(tmp_path / "ours" / f"{i}.png")
        items.append({"id": str(i), "instruction": "make it red", "source": "source.png"})
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, items)))
    return tmp_path


def work(folder: Path, *names: str, judge_rounds: JudgeRounds = JudgeRounds()) -> RunPlan:  # noqa: B008
    known = make_rounds(load_dimensions(), judge_rounds)
    chosen = with_rounds([known[name] for name in names], known)
    data = ItemsFile(folder / "items.jsonl")
    order = RunInputs(data, {"ours": folder / "ours"}, chosen, known, judge_rounds=judge_rounds)
    return compare_with_run(inspect_items(order), None, {})


def settings(**judge: Any) -> Settings:
    return Settings.model_validate({"judges": {"judge": {"url": URL, **judge}}})


def found(folder: Path, *names: str, **judge: Any) -> Estimate:
    return estimate(work(folder, *names), settings(**judge))


@pytest.mark.parametrize(
    ("judge", "level", "questions"),
    [
        ({}, 1, 8),
        ({"samples": 3}, 3, 1 + 3 * 7),
        ({"samples": 3, "logprobs": "never"}, 3, 1 + 3 * 7),
    ],
)
def test_averaged_replies_are_counted(
    folder: Path, judge: dict[str, Any], level: int, questions: int
) -> None:
    one, other = (found(folder, name, **judge) for name in (LEVEL, QUESTIONS))
    assert one.calls == {JUDGE: EDITS * level}
    assert other.calls == {JUDGE: EDITS * questions}
    assert one.prompt_tokens[JUDGE] == level * found(folder, LEVEL).prompt_tokens[JUDGE]


def test_questions_that_cannot_be_asked_are_not_counted(folder: Path) -> None:
    """An edit fails at them before its first call; the estimate of the others stands."""
    asked = {"question": "What?", "options": ["Red", "Blue"], "answer": "Red"}
    items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    for item, options in zip(items, (["Red", "Blue"], ["Red", "Red"], ["Red", ""]), strict=True):
        item["questions"] = [{**asked, "options": options}]
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, items)))
    assert found(folder, "core.multiple_choice").calls == {JUDGE: 1}


def test_tokens_and_cost_follow_the_calls(folder: Path) -> None:
    price = {"input": 1e6, "output": 1.0}
    once = found(folder, LEVEL, price=price)
    thrice = found(folder, LEVEL, price=price, samples=3, logprobs="never")
    assert once.cost is not None
    assert thrice.cost == pytest.approx(3 * once.cost)
    assert not any("the cost is without" in note for note in once.notes)


def test_through_a_judge_service_no_settings_of_judges_here_count(folder: Path) -> None:
    price = {"input": 1e6, "output": 1.0}
    own = settings(price=price, samples=3, logprobs="never")
    through = own.model_copy(update={"gateway": GatewayEndpoint(url="grpc://127.0.0.1:9")})
    told = estimate(work(folder, LEVEL), through)
    assert told.cost is None
    assert told.calls == {JUDGE: EDITS}
    (note,) = told.notes
    assert note.startswith("judged through the Judge service")


def test_a_cost_says_whose_calls_it_leaves_out(folder: Path) -> None:
    price = {"input": 1e6, "output": 1.0}
    todo = work(folder, LEVEL, judge_rounds=JudgeRounds(("judge", "second", "third")))
    judges = {"judge": {"url": URL, "price": price}, "second": {"url": URL}, "third": {"url": URL}}
    told = estimate(todo, Settings.model_validate({"judges": judges}))
    assert told.cost == found(folder, LEVEL, price=price).cost
    why = "the cost leaves out generalist.second, generalist.third: no price is configured"
    assert why in told.notes


def test_second_tries_are_told_beside_the_calls(folder: Path) -> None:
    one = found(folder, LEVEL, PIXELS)
    assert describe_calls(one) == [
        f"{JUDGE}: at most {EDITS} calls, and as many again if no reply can be read"
    ]
    told = to_plain(one)
    assert told["calls"] == {JUDGE: EDITS}
    specialist = Estimate()
    specialist.calls[ServiceName("quality", "piqe")] = 5
    assert describe_calls(specialist) == ["quality.piqe: at most 5 calls"]


def test_what_an_edit_takes_is_told(folder: Path) -> None:
    todo = work(folder, LEVEL, QUESTIONS)
    told = estimate(todo, settings())
    each = told.per_edit[ServiceName.parse(JUDGE)]
    assert each.calls == told.calls[JUDGE] / EDITS == 9
    assert each.prompt_tokens == told.prompt_tokens[JUDGE] / EDITS
    line = f"an edit: {JUDGE} 9 calls, {each.prompt_tokens:,.0f} prompt tokens"
    assert line in describe_estimate(told, todo)
    assert to_plain(told)["per_edit"][JUDGE]["calls"] == 9
    assert Estimate().per_edit == {}


@pytest.mark.parametrize(
    ("rounds", "temperature", "dimension", "noted"),
    [
        (2, 0.0, LEVEL, True),
        (2, 0.7, LEVEL, False),
        (1, 0.0, LEVEL, False),
        (2, 0.0, PIXELS, False),
    ],
)
def test_rounds_of_a_greedy_judge_are_noted(
    folder: Path, rounds: int, temperature: float, dimension: str, noted: bool
) -> None:
    todo = work(folder, dimension, judge_rounds=JudgeRounds(rounds=rounds))
    given = settings(temperature=temperature, logprobs="never")
    due = f"{JUDGE}: its temperature is 0, so rounds differ only by their seed"
    assert [one.startswith(due) for one in judge_notes(todo.inputs, given)] == [True] * noted
    assert any(one.startswith(due) for one in estimate(todo, given).notes) == noted


EDITING, PLAIN = "co_edit.editing_accuracy", "core.editing_artifacts"


@pytest.mark.parametrize(
    ("limit", "told"), [(1024, True), (4095, True), (4096, False), (None, False)]
)
def test_a_limit_below_what_a_prompt_asks_for_is_told(
    folder: Path, limit: int | None, told: bool
) -> None:
    todo = work(folder, EDITING, PLAIN)
    lines_told = "\n".join(describe_estimate(estimate(todo, settings(max_tokens=limit)), todo))
    assert ("below the limit of co_edit/editing" in lines_told) == told
    assert (judge_notes(todo.inputs, settings(max_tokens=limit)) != ()) == told
    assert judge_notes(work(folder, PLAIN).inputs, settings(max_tokens=16)) == ()
    if limit == 1024:
        assert judge_notes(todo.inputs, settings(max_tokens=limit)) == (
            (
                f"{JUDGE}: max_tokens is 1,024, below the limit of co_edit/editing:"
                " a truncated reply has no score; leave it out, or set it to 4,096"
            ),
        )
