"""The contracts that the tables of replies name, and how their rows are read."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from editjudge.answers.contract import OutputContract
from editjudge.answers.questions import MultipleChoiceQuestion, QuestionAnswers, Questions
from editjudge.answers.scores import ScoreField, Scores, ScoresAnswer
from editjudge.answers.segmentation import Commands, Targets
from editjudge.answers.texts import FirstWord, OneText, Option, Verbatim

TEN = tuple(ScoreField(name, 0, 10) for name in ("EA", "NESP", "OE", "EP"))
REASONS = ("instruction_reasoning", "knowledge_reasoning")
CONTRACTS: dict[str, OutputContract[Any]] = {
    "kris": Scores((ScoreField("consistency_score", 1, 5),)),
    "joint": Scores((ScoreField("instruction_score", 1, 5), ScoreField("knowledge_score", 1, 5)), REASONS),
    "co_edit": Scores(TEN, as_list=True),
    "steps": Scores(TEN, "before", as_list=True),
    "real": Scores((ScoreField("score", 0, 1, integer=False),), reasoning=False),
    "questions": Questions(),
    "few_questions": Questions(low=4),
    "two_questions": Questions(low=2),
    "pairs": QuestionAnswers(),
    "choice": MultipleChoiceQuestion(),
    "targets": Targets(),
    "cars": Option(("A car", "A bus", "I can not tell from the image")),
    "letters": Option(("A", "B")),
    "cases": Option(("OPEN", "Open", "open.")),
    "spellings": Option(("OPEN", "Open", "Open.")),
    "signs": Option(('The sign reads "OPEN".', "The sign is blank.")),
    "yes_or_no": Option(("Yes", "No")),
    "true_or_false": Option(("True", "False")),
    "verbatim": Verbatim(),
    "yes_no": FirstWord(("Yes", "No")),
    "levels": FirstWord(("excellent", "good", "fair", "poor", "bad")),
    "text": OneText("instruction", 20),
    "listed": Commands(),
    "indexed_list": Commands(indexed=True, low=0, sources=3),
    "one_command": Commands(low=1, high=1),
    "commands": Commands(low=1, high=3),
    "indexed_commands": Commands(low=0, high=4, indexed=True, sources=2),
}


class Row(NamedTuple):
    """A reply, and what is due: what is read of it, or what stands in the reason."""

    asks: str
    reply: str
    due: Any
    cut: bool
    is_within: bool


def load_rows(table: str) -> Iterator[Row]:
    """The rows of a table beside this file."""
    text = Path(__file__).with_name(table).read_text("utf-8")
    for group in tomllib.loads(text)["replies"]:
        shared = group.get("reads", group.get("reason"))
        within = group.get("within", "§")
        for reply, due in group.get("rows") or [(one, shared) for one in group["texts"]]:
            whole = within.replace("§", reply)
            yield Row(group["asks"], whole, due, group.get("cut", False), "within" in group)


def as_data(answer: Any) -> Any:
    """An answer as TOML writes it."""
    if isinstance(answer, ScoresAnswer):
        return {**answer.scores, "reasoning": answer.reasoning}
    return [as_data(one) for one in answer] if isinstance(answer, tuple) else answer
