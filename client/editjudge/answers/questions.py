"""Questions that a judge writes, with and without their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from .contract import OutputContract, abbreviate, list_schema, object_schema
from .json_object import AROUND, match_keys, normalise_key, read_list, read_object, read_text
from .lenient_json import Value
from .reply import ReplyText, Unparsable

LONGEST = 300
LONGEST_OPTION = 150
_ENDS = ("?", "\uff1f", "؟")
# No quotes and backslashes: constrained decoders write a pattern into the JSON as it is.
_PATTERN = rf'^[^"\\\x00-\x1f]{{2,{LONGEST - 1}}}[{"".join(_ENDS)}]$'


def _read_question(value: Value) -> str | None:
    """A question without the space around it; None where it is not a usable one."""
    text = value.strip() if isinstance(value, str) else ""
    return text if 1 < len(text) <= LONGEST and text.endswith(_ENDS) else None


def _normalise(question: str) -> str:
    return " ".join(question.casefold().split())


def _check_counts(low: int, high: int) -> None:
    if not 1 <= low <= high:
        raise ValueError(f"from {low} to {high} is no count of questions")


@dataclass(frozen=True)
class Questions(OutputContract[tuple[str, ...]]):
    """Questions that yes or no answers.

    Entries that are no question (no text, no question mark at the end, more than 300
    characters) and repeated ones (case and spaces apart) are left out; `low` must remain.
    Whether yes or no can answer a question is not checked: that takes a model, not a rule. A list
    by itself is read too.

    Source: I2I-Bench, eq. 3 and appendix F: 5 to 7 questions, whose share of yes is the score.

    Attributes:
        low: The fewest.
        high: The most; a reply that lists more is refused as a whole.
        key: Of the list.
    """

    name: ClassVar[str] = "questions"
    parser: ClassVar[int] = 4
    longest: ClassVar[int] = LONGEST

    low: int = 5
    high: int = 7
    key: str = "questions"

    def __post_init__(self) -> None:
        _check_counts(self.low, self.high)

    @property
    def schema(self) -> Mapping[str, Any]:
        """A list of texts that end with a question mark; that they differ is checked on reading."""
        item = {"type": "string", "pattern": _PATTERN}
        return object_schema({self.key: list_schema(item, self.low, self.high)})

    def _read(self, reply: ReplyText) -> tuple[str, ...]:
        entries = read_list(reply, self.key, self.high)
        questions: dict[str, str] = {}
        for value in entries:
            if not isinstance(value, str):
                raise Unparsable(f'"{self.key}" holds {abbreviate(value)}, which is not text')
            question = _read_question(value)
            if question is not None:
                questions.setdefault(_normalise(question), question)
        if len(questions) < self.low:
            raise Unparsable(
                f"{len(questions)} different questions among {len(entries)} entries,"
                f" {self.low} are due"
            )
        return tuple(questions.values())


class QuestionAnswer(NamedTuple):
    """A question about the edited image, and the answer that a right edit gives."""

    question: str
    answer: str


@dataclass(frozen=True)
class QuestionAnswers(OutputContract[tuple[QuestionAnswer, ...]]):
    """Questions with the answers expected of a right edit.

    Every pair counts (one wrong answer makes the edit wrong), so none is left out: one bad or
    repeated pair makes the whole reply unparsable.

    Source: Omni IIE Bench, section 5.1, step 1: 1 to 3 pairs for an instruction.

    Attributes:
        count_low: The fewest.
        count_high: The most.
    """

    name: ClassVar[str] = "question_answers"
    parser: ClassVar[int] = 4
    longest: ClassVar[int] = LONGEST
    key: ClassVar[str] = "pairs"

    count_low: int = 1
    count_high: int = 3

    def __post_init__(self) -> None:
        _check_counts(self.count_low, self.count_high)

    @property
    def schema(self) -> Mapping[str, Any]:
        """A list of pairs; what makes a text a question is only checked on reading."""
        pair = object_schema({"question": {"type": "string"}, "answer": {"type": "string"}})
        return object_schema({self.key: list_schema(pair, self.count_low, self.count_high)})

    def _read(self, reply: ReplyText) -> tuple[QuestionAnswer, ...]:
        entries = read_list(reply, self.key, self.count_high)
        if len(entries) < self.count_low:
            raise Unparsable(f"{len(entries)} pairs where {self.count_low} are due")
        pairs = tuple(_read_pair(value) for value in entries)
        if len({_normalise(pair.question) for pair in pairs}) < len(pairs):
            raise Unparsable("a question is given twice")
        return pairs


def _read_pair(value: Value) -> QuestionAnswer:
    if not isinstance(value, tuple):
        raise Unparsable("a pair is not an object")
    pair = match_keys(value, ("question", "answer"))
    question, answer = _read_question(pair["question"]), pair["answer"]
    if question is None:
        raise Unparsable(f"{abbreviate(pair['question'])} is not a question")
    if not isinstance(answer, str) or not 0 < len(answer.strip()) <= LONGEST:
        raise Unparsable(f"{abbreviate(answer)} is not an answer")
    return QuestionAnswer(question, answer.strip())


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
    longest: ClassVar[int] = LONGEST
    longest_option: ClassVar[int] = LONGEST_OPTION

    low: int = 3
    high: int = 5
    cannot_tell: str = "It cannot be told from the image"

    def __post_init__(self) -> None:
        if not 3 <= self.low <= self.high or not self.cannot_tell.strip(AROUND):
            raise ValueError(f"from {self.low} to {self.high} is no count of options")

    @property
    def wrong(self) -> tuple[int, int]:
        """The fewest wrong answers, and the most."""
        return self.low - 2, self.high - 2

    @property
    def schema(self) -> Mapping[str, Any]:
        """An object of texts; that they differ is checked on reading."""
        text = {"type": "string"}
        wrong = list_schema(text, *self.wrong)
        return object_schema({"question": text, "answer": text, "wrong": wrong})

    def _read(self, reply: ReplyText) -> ChoiceQuestion:
        values = read_object(reply, ("question", "answer", "wrong"))
        question = read_text(values, "question", LONGEST)
        if not question.endswith(_ENDS):
            raise Unparsable(f"{abbreviate(question)} is not a question")
        wrong = values["wrong"]
        if not isinstance(wrong, list):
            raise Unparsable('"wrong" is not a list')
        low, high = self.wrong
        if not low <= len(wrong) <= high:
            raise Unparsable(f"{len(wrong)} wrong answers where {low} to {high} are due")
        answer = read_text(values, "answer", LONGEST_OPTION)
        others = (read_text({"wrong": text}, "wrong", LONGEST_OPTION) for text in wrong)
        options = (answer, *others, self.cannot_tell)
        if len({normalise_key(option.strip(AROUND)) for option in options}) < len(options):
            raise Unparsable("two of the answers are the same")
        return ChoiceQuestion(question, options, answer)
