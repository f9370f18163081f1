"""Questions that a judge writes, with and without the answer it expects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from .contract import OutputContract, Unparsable, shown
from .json_object import listed, match
from .lenient import Members, Value
from .spoken import Spoken

LONGEST = 300
_ENDS = ("?", "\uff1f", "؟")
# No quotes and backslashes: constrained decoders write a pattern into the JSON as it is.
_PATTERN = rf'^[^"\\\x00-\x1f]{{2,{LONGEST - 1}}}[{"".join(_ENDS)}]$'


def _question(value: Value) -> str | None:
    """A question without the space around it; None where it is not a usable one."""
    text = value.strip() if isinstance(value, str) else ""
    return text if 1 < len(text) <= LONGEST and text.endswith(_ENDS) else None


def _same(question: str) -> str:
    return " ".join(question.casefold().split())


def _listed(spoken: Spoken, key: str, high: int) -> list[Value]:
    values = listed(spoken, key)
    if len(values) > high:
        # Which of them to leave out would be our choice, and the score depends on it.
        raise Unparsable(f'"{key}" has {len(values)} entries, more than {high}')
    return values


def _check(low: int, high: int) -> None:
    if not 1 <= low <= high:
        raise ValueError(f"from {low} to {high} is no count of questions")


def _array(key: str, items: Mapping[str, Any], low: int, high: int) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": {key: {"type": "array", "items": items, "minItems": low, "maxItems": high}},
        "required": [key],
        "additionalProperties": False,
    }


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

    low: int = 5
    high: int = 7
    key: str = "questions"

    def __post_init__(self) -> None:
        _check(self.low, self.high)

    @property
    def instruction(self) -> str:
        """The key, the count and what makes a question."""
        return (
            f'Reply with one JSON object and nothing around it. Its only key is "{self.key}": a '
            f"list of {self.low} to {self.high} texts. Each is one question that can be answered "
            f"with yes or no, ends with a question mark, has at most {LONGEST} characters and "
            "asks something that no other one asks."
        )

    @property
    def schema(self) -> Mapping[str, Any]:
        """A list of texts that end with a question mark; that they differ is checked on reading."""
        item = {"type": "string", "pattern": _PATTERN}
        return _array(self.key, item, self.low, self.high)

    def parse(self, reply: str, *, cut: bool = False) -> tuple[str, ...]:
        """Read the questions, in order; see `OutputContract.parse`."""
        spoken = Spoken(reply, cut=cut)
        entries = _listed(spoken, self.key, self.high)
        kept: dict[str, str] = {}
        for value in entries:
            if not isinstance(value, str):
                raise Unparsable(f'"{self.key}" holds {shown(value)}, which is not text')
            question = _question(value)
            if question is not None:
                kept.setdefault(_same(question), question)
        if len(kept) < self.low:
            raise Unparsable(
                f"{len(kept)} different questions among {len(entries)} entries, {self.low} are due"
            )
        return spoken.alone(tuple(kept.values()))


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
    key: ClassVar[str] = "pairs"

    count_low: int = 1
    count_high: int = 3

    def __post_init__(self) -> None:
        _check(self.count_low, self.count_high)

    @property
    def instruction(self) -> str:
        """The keys, the count and what makes a pair."""
        return (
            f'Reply with one JSON object and nothing around it. Its only key is "{self.key}": a '
            f"list of {self.count_low} to {self.count_high} objects with the keys "
            '"question" and "answer", both texts. A question ends with a question mark; an '
            f"answer is short and not empty; each has at most {LONGEST} characters. No two "
            "questions are the same."
        )

    @property
    def schema(self) -> Mapping[str, Any]:
        """A list of pairs; what makes a text a question is only checked on reading."""
        pair = {
            "type": "object",
            "properties": {"question": {"type": "string"}, "answer": {"type": "string"}},
            "required": ["question", "answer"],
            "additionalProperties": False,
        }
        return _array(self.key, pair, self.count_low, self.count_high)

    def parse(self, reply: str, *, cut: bool = False) -> tuple[QuestionAnswer, ...]:
        """Read the pairs, in order; see `OutputContract.parse`."""
        spoken = Spoken(reply, cut=cut)
        entries = _listed(spoken, self.key, self.count_high)
        if len(entries) < self.count_low:
            raise Unparsable(f"{len(entries)} pairs where {self.count_low} are due")
        pairs = tuple(_pair(value) for value in entries)
        if len({_same(pair.question) for pair in pairs}) < len(pairs):
            raise Unparsable("a question is given twice")
        return spoken.alone(pairs)


def _pair(value: Value) -> QuestionAnswer:
    if not isinstance(value, Members):
        raise Unparsable("a pair is not an object")
    pair = match(value, ("question", "answer"))
    question, answer = _question(pair["question"]), pair["answer"]
    if question is None:
        raise Unparsable(f"{shown(pair['question'])} is not a question")
    if not isinstance(answer, str) or not 0 < len(answer.strip()) <= LONGEST:
        raise Unparsable(f"{shown(answer)} is not an answer")
    return QuestionAnswer(question, answer.strip())
