"""Data of one's own, judged as GIE-Bench: `items.jsonl` with masks and multiple-choice questions.

`editjudge prepare questions` and `editjudge prepare masks` write such data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...base.item import Item
from ..comparing import compares
from ..dataset import ItemRef
from ..frame import FrameMask
from ..items import ItemsFile, Line, question_flaw
from .dataset import question_notes, right_option
from .taxonomy import edit_type

_OPTIONAL: Mapping[str, tuple[type, str]] = {
    "compares": (bool, "true or false"),
    "expected": (str, "a text"),
}


def _as_asked(question: dict[str, Any]) -> dict[str, Any]:
    """A question as `MultipleChoice` asks it; what it says itself is kept."""
    answer = question["answer"]
    return {
        "compares": compares(question["question"], question["options"]),
        "expected": answer,
        **question,
        "answer": right_option(answer, question["options"]) or answer,
    }


class OwnLine(Line):
    """One item: `task` is one of the nine edit types, and every question has its options.

    Without a mask nothing is said about preservation outside it, without questions nothing about
    functional correctness. An item of another task counts in the overall figures only.
    """

    @staticmethod
    def why_not_asked(question: Mapping[str, Any]) -> str:
        """Every question has an answer and options."""
        if absent := [n for n in ("question", "options", "answer") if n not in question]:
            return f"a question has no `{absent[0]}`"
        for name, (kind, told) in _OPTIONAL.items():
            if name in question and not isinstance(question[name], kind):
                return f"`{name}` of a question is {told}"
        return question_flaw(question)

    @property
    def texts(self) -> dict[str, Any]:
        """With the name of the edit type, and with the questions as they are asked."""
        texts = super().texts
        questions = tuple(map(_as_asked, texts["questions"]))
        return {**texts, "task": edit_type(self.task), "questions": questions}


class OwnItems(ItemsFile):
    """Data of one's own."""

    name = "gie"
    line = OwnLine

    def notes(self) -> tuple[str, ...]:
        """What is odd in the questions; lines that cannot be used are left out."""
        asked = ((ref.id, one) for ref in self._usable() for one in ref.data.texts["questions"])
        return tuple(question_notes(asked))

    def load(self, ref: ItemRef, left_encoded: int = 0) -> Item:
        """The item with its images; its mask, once it fits the source, fits outputs too."""
        item = super().load(ref, left_encoded)
        return item if item.mask is None else replace(item, mask=FrameMask.of(item.mask))
