"""Contracts for questions that a judge writes, with or without their answers."""

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
    """Return a question without the space around it; None if it is not valid."""
    text = value.strip() if isinstance(value, str) else ""
    return text if 1 < len(text) <= LONGEST and text.endswith(_ENDS) else None


def _normalise(question: str) -> str:
    return " ".join(question.casefold().split())


def _check_counts(low: int, high: int) -> None:
    if not 1 <= low <= high:
        raise ValueError(f"the count of questions cannot be {low} to {high}")


@dataclass(frozen=True)
class Questions(OutputContract[tuple[str, ...]]):
    """Questions that are answered by yes or no.

    Entries that are not questions (no text, no question mark at the end, more than 300 characters)
    and repeated entries (apart from case and spaces) are dropped; at least `low` must remain.
    Whether a question can be answered by yes or no is not checked, since only a model could. A bare
    list is accepted as well.

    Source: I2I-Bench, eq. 3 and appendix F: 5 to 7 questions, whose share of yes is the score.

    Attributes:
        low: The smallest number of questions.
        high: The largest number; a reply with more is refused as a whole.
        key: Key of the list.
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
        """JSON schema of a list of texts with a question mark at the end; `parse` drops repeats."""
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
            raise Unparsable(f"{len(questions)} different questions among {len(entries)} entries, {self.low} are due")
        return tuple(questions.values())


class QuestionAnswer(NamedTuple):
    """A question about the edited image, and the answer that a correct edit gives."""

    question: str
    answer: str


@dataclass(frozen=True)
class QuestionAnswers(OutputContract[tuple[QuestionAnswer, ...]]):
    """Questions with the answers that a correct edit gives.

    Every pair counts, because one wrong answer makes the edit wrong. So one invalid or repeated
    pair makes the whole reply unparsable.

    Source: Omni IIE Bench, section 5.1, step 1: 1 to 3 pairs for an instruction.

    Attributes:
        count_low: The smallest number of pairs.
        count_high: The largest number of pairs.
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
        """JSON schema of a list of pairs; only `parse` checks that each has a question."""
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
    """A question about the edited image, with its options.

    Attributes:
        options: The right answer, the wrong ones, and last the option that it cannot be told.
        answer: The right answer.
        compares: Whether the source must be shown with the question; None if that was not decided.
    """

    question: str
    options: tuple[str, ...]
    answer: str
    compares: bool | None = None


@dataclass(frozen=True)
class MultipleChoiceQuestion(OutputContract[ChoiceQuestion]):
    """One question with its right answer and wrong ones.

    The judge writes the right answer and the wrong ones under separate keys, so the right one is
    always among the options. The option that it cannot be told is ours; it is added here in the
    same words everywhere. Options that differ only in case, spaces, quotes or a full stop make the
    reply unparsable, because an answer could match both.

    Source: GIE-Bench, section 3.2 (two to five answers with plausible distractors); its released
    data have 3 to 5, with one that says that it cannot be told.

    Attributes:
        low: The smallest number of options, `cannot_tell` included.
        high: The largest number of options.
        cannot_tell: The option that it cannot be told.
    """

    name: ClassVar[str] = "multiple_choice"
    longest: ClassVar[int] = LONGEST
    longest_option: ClassVar[int] = LONGEST_OPTION

    low: int = 3
    high: int = 5
    cannot_tell: str = "It cannot be told from the image"

    def __post_init__(self) -> None:
        if not 3 <= self.low <= self.high or not self.cannot_tell.strip(AROUND):
            raise ValueError(f"the count of options cannot be {self.low} to {self.high}")

    @property
    def wrong(self) -> tuple[int, int]:
        """The smallest and the largest number of wrong answers."""
        return self.low - 2, self.high - 2

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of an object of texts; only `parse` checks that they differ."""
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
