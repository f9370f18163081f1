"""Data of one's own, judged as GIE-Bench: `items.jsonl` with masks and multiple-choice questions.

`editjudge prepare questions` and `editjudge prepare masks` write such data.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator

from ...answers import Option
from ..items import ItemsFile, Line
from .dataset import compares
from .taxonomy import edit_type


def _can_be_asked(question: dict[str, Any]) -> dict[str, Any]:
    options, answer = question.get("options"), question.get("answer")
    texts = [question.get("question"), answer, *(options if isinstance(options, list) else [None])]
    if not all(isinstance(one, str) and one for one in texts):
        raise ValueError("a question has `question`, `options` (a list) and `answer`, all texts")
    Option(tuple(texts[2:]))
    return question


class OwnLine(Line):
    """One item: `task` is one of the nine edit types, and every question has its options.

    Without a mask nothing is said about preservation outside it, without questions nothing about
    functional correctness. An item of another task counts in the overall figures only.
    """

    questions: tuple[Annotated[dict[str, Any], AfterValidator(_can_be_asked)], ...] = ()

    @property
    def texts(self) -> dict[str, Any]:
        """With the name of the edit type, and with the questions that compare marked."""
        questions = tuple(
            {"compares": compares(one["question"], one["options"]), **one} for one in self.questions
        )
        return {**super().texts, "task": edit_type(self.task), "questions": questions}


class OwnItems(ItemsFile):
    """Data of one's own."""

    name = "gie"
    line = OwnLine
