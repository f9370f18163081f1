"""Official prompts in the protocol `official`: found, asked as released, and missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from editjudge.base.item import Item
from editjudge.base.verdict import NoScore, Outcome
from editjudge.panel.prompt import Prompt, Text
from editjudge.prompts.official_prompts import load_official_prompts

from ....fakes.transport import read_prompt
from .release import pixels
from .stand_ins import TEXTS
from .test_protocol import ANSWER, Panel, judge_output, value

pytestmark = pytest.mark.usefixtures("authors")
COMPARING = 1
BY_OURS = load_official_prompts("editjudge.benchmarks.gie")
PROMPTS = tuple(BY_OURS.values())


async def ask_question(item: Item, protocol: str, reply: str = "The new one", **rules: Any) -> tuple[Outcome, Prompt]:
    panel = Panel(reply)
    outcomes = await judge_output(item, pixels(50), protocol, panel, **rules)
    return outcomes[ANSWER], panel.transport.asked[0]


def quote_prompt(item: Item, prompt: Prompt) -> str:
    """What is asked, with the source's file under one name."""
    return read_prompt(prompt).replace(item.sources[0].name, "source")


SOURCE, EDITED = "Original image:[source]", "Edited image:[image array]"


def fill_template(item: Item, joined: str = ", ") -> str:
    """The stand-in as a judge gets it."""
    (question,) = item.questions
    options = joined.join(question["options"])
    return f"Asked: {question['question']}\n{{so}} of: {options}\nPick."


async def test_asked_as_released(items: Sequence[Item]) -> None:
    for item in (items[0], items[COMPARING], items[2]):
        _, prompt = await ask_question(item, "official")
        assert prompt.system == TEXTS["system_prompt.txt"]
        assert quote_prompt(item, prompt) == SOURCE + EDITED + fill_template(item)
        data = [part.text for part in prompt.parts if isinstance(part, Text) and part.is_data]
        (question,) = item.questions
        assert data == [question["question"], ", ".join(question["options"])]


async def test_each_switch_keeps_to_itself(items: Sequence[Item]) -> None:
    """The prompt alone: the source where the question compares, options by lines, replies read."""
    for index, images in ((0, EDITED), (COMPARING, SOURCE + EDITED)):
        outcome, prompt = await ask_question(items[index], "paper", "the new one.", with_=["original_prompts"])
        assert quote_prompt(items[index], prompt) == images + fill_template(items[index], "\n")
        assert getattr(outcome, "value", None) == 1
    outcome, _ = await ask_question(items[0], "official", "the new one.")
    assert getattr(outcome, "value", None) == 0


def test_all_that_shapes_the_question_is_in_its_digest() -> None:
    one = PROMPTS[1]
    other = [
        one,
        PROMPTS[0],
        replace(one, images_first=False),
        replace(one, system=""),
        replace(one, labels=replace(one.labels, source="Before:")),
    ]
    assert len({each.template.digest for each in other}) == len(other)


async def test_an_empty_reply_is_no_answer(items: Sequence[Item]) -> None:
    outcome, _ = await ask_question(items[0], "official", " ")
    assert isinstance(outcome, NoScore)
    assert outcome.kind == "unparsable"
    outcomes = await judge_output(items[0], pixels(50), "official", Panel("The new one\n"))
    assert value(outcomes, "functional_correctness") == 1
