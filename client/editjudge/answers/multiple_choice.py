"""A multiple-choice question that a judge writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from .contract import OutputContract, Unparsable, shown
from .json_object import fields, plain
from .lenient import Value
from .questions import LONGEST
from .spoken import Spoken

LONGEST_OPTION = 150
_ENDS = ("?", "\uff1f", "؟")
_AROUND = " .\"'`“”\u2018\u2019"


class ChoiceQuestion(NamedTuple):
    """A question about the edited image, with what may be answered.

    Attributes:
        options: The right answer, the wrong ones, and last that it cannot be told.
        answer: The right one.
        compares: Whether the source must be shown with it, where that was decided.
    """

    question: str
    options: tuple[str, ...]
    answer: str
    compares: bool | None = None


@dataclass(frozen=True)
class MultipleChoiceQuestion(OutputContract[ChoiceQuestion]):
    """One question with its right answer and wrong ones.

    The judge writes the right answer and the wrong ones apart, so that the right one is always
    among the options. That it cannot be told is an option of our own and is added here, in the
    same words everywhere. Options that differ in nothing but case, spaces, quotes and a full
    stop make the reply unparsable: an answer could not be told from another.

    Source: GIE-Bench, section 3.2 (two to five answers with plausible distractors); its released
    data have 3 to 5, with one that says that it cannot be told.

    Attributes:
        low: The fewest options, that one included.
        high: The most.
        cannot_tell: That option.
    """

    name: ClassVar[str] = "multiple_choice"

    low: int = 3
    high: int = 5
    cannot_tell: str = "It cannot be told from the image"

    def __post_init__(self) -> None:
        if not 3 <= self.low <= self.high or not self.cannot_tell.strip(_AROUND):
            raise ValueError(f"from {self.low} to {self.high} is no count of options")

    @property
    def instruction(self) -> str:
        """The keys, the count and what makes an option."""
        return (
            "Reply with one JSON object and nothing around it. Its keys, in this order: "
            f'"question": one question that ends with a question mark, at most {LONGEST} '
            'characters; "answer": the right answer to it; "wrong": a list of '
            f"{self.low - 2} to {self.high - 2} wrong answers. All answers are texts of at most "
            f"{LONGEST_OPTION} characters, alike in form and length, and no two of them mean the "
            f'same. Do not write one that says that it cannot be told: "{self.cannot_tell}" is '
            "added to yours."
        )

    @property
    def schema(self) -> Mapping[str, Any]:
        """An object of texts; that they differ is checked on reading."""
        text = {"type": "string"}
        wrong = {
            "type": "array",
            "items": text,
            "minItems": self.low - 2,
            "maxItems": self.high - 2,
        }
        return {
            "type": "object",
            "properties": {"question": text, "answer": text, "wrong": wrong},
            "required": ["question", "answer", "wrong"],
            "additionalProperties": False,
        }

    def parse(self, reply: str, *, cut: bool = False) -> ChoiceQuestion:
        """Read the question; see `OutputContract.parse`."""
        spoken = Spoken(reply, cut=cut)
        values = fields(spoken, ("question", "answer", "wrong"))
        question = _text(values["question"], "question", LONGEST)
        if not question.endswith(_ENDS):
            raise Unparsable(f"{shown(question)} is not a question")
        wrong = values["wrong"]
        if not isinstance(wrong, list):
            raise Unparsable('"wrong" is not a list')
        if not self.low - 2 <= len(wrong) <= self.high - 2:
            raise Unparsable(
                f"{len(wrong)} wrong answers where {self.low - 2} to {self.high - 2} are due"
            )
        answer = _text(values["answer"], "answer", LONGEST_OPTION)
        options = (
            answer,
            *(_text(text, "wrong", LONGEST_OPTION) for text in wrong),
            self.cannot_tell,
        )
        if len({_comparable(option) for option in options}) < len(options):
            raise Unparsable("two of the answers are the same")
        return spoken.alone(ChoiceQuestion(question, options, answer))


def _text(value: Value, key: str, longest: int) -> str:
    text = " ".join(value.split()) if isinstance(value, str) else ""
    if not text.strip(_AROUND):
        raise Unparsable(f'"{key}" holds {shown(value)}, which is no text')
    if len(text) > longest:
        raise Unparsable(f'"{key}" has {len(text)} characters, more than {longest}')
    return text


def _comparable(option: str) -> str:
    return plain(option.strip(_AROUND))
