"""What may be read from a reply at all: written apart from what reads it, and simple."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from editjudge.answers.contract import OutputContract
from editjudge.answers.first_digit import FirstDigit
from editjudge.answers.questions import ChoiceQuestion, MultipleChoiceQuestion, QuestionAnswers, Questions
from editjudge.answers.scores import ScoreField, Scores, ScoresAnswer
from editjudge.answers.segmentation import Commands, TargetPhrases
from editjudge.answers.texts import FirstWord, OneText, Option, Verbatim

from .trials import Violation

_LITERAL = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
# Blanks, fences, and what closes a list of that object alone.
_AFTER = re.compile(r"(?:[\s`\]]|`{3,}\w*)*")


def check(contract: OutputContract[Any], text: str, value: Any) -> str:
    """Check what a contract read from a reply; its kind, to be counted.

    Raises:
        Broken: the reply does not say that.
    """
    if isinstance(contract, Scores):
        check_scores(contract.fields, text, value.scores)
        _storable([value.reasoning])
        return "scores"
    if isinstance(contract, FirstDigit):
        return _official(contract, text, value)
    if isinstance(contract, Option):
        return _option(contract, text, value)
    _storable(_texts(value))
    return _within(contract, value)


def check_scores(fields: Iterable[ScoreField], text: str, scores: Mapping[str, float]) -> None:
    """Each number stands in the reply, to the last digit, on its scale, and nothing follows it."""
    literals = [Decimal(each) for each in _LITERAL.findall(text)]
    for field in fields:
        value = scores[field.name]
        if not any(_is(literal, value, field) for literal in literals):
            raise Violation(f"{field.name} is {value!r}, which the reply does not say")
    rest = text[text.rindex("}") + 1 :] if "}" in text else text
    if not _AFTER.fullmatch(rest):
        raise Violation(f"scores, and behind them {rest[:60]!r}")


def _is(literal: Decimal, value: float, field: ScoreField) -> bool:
    on_scale = Decimal(str(field.low)) <= literal <= Decimal(str(field.high))
    whole = not field.integer or literal == literal.to_integral_value()
    return on_scale and whole and float(literal) == value


def _official(contract: FirstDigit, text: str, found: ScoresAnswer) -> str:
    for key, value in found.scores.items():
        if not contract.low <= value <= contract.high or value != int(value):
            raise Violation(f"{key} is {value!r}")
    if found.scores.keys() | found.without.keys() != set(contract.keys):
        raise Violation(f"neither a score nor a reason: {found}")
    for reason in found.without.values():
        _line(reason)
    return "official scores" if found.scores else "no official score"


def _option(contract: Option, text: str, value: str) -> str:
    if value not in contract.options:
        raise Violation(f"{value!r} is no option")
    letters = "".join(c for c in text.casefold() if c.isalnum())
    word = "".join(c for c in value.casefold() if c.isalnum())
    if word not in letters:
        raise Violation(f"{value!r} is not in the reply")
    if isinstance(contract, FirstWord) and not re.search(rf"(?<!\w){value}(?!\w)", text, re.IGNORECASE):
        raise Violation(f"{value!r} is no word of the reply")
    return "option"


def _within(contract: OutputContract[Any], value: Any) -> str:
    """Counts and lengths, as the contract has them."""
    if isinstance(contract, Questions):
        _count(value, contract.low, contract.high, 300)
    elif isinstance(contract, QuestionAnswers):
        _count([each.question for each in value], contract.count_low, contract.count_high, 300)
    elif isinstance(contract, Commands):
        _count([each.phrase for each in value], contract.low, contract.high, 120)
        if any(type(each.source_index) is not int or each.source_index < 0 for each in value):
            raise Violation(f"an index that is none: {value}")
    elif isinstance(contract, OneText):
        _count([value], 1, 1, contract.longest)
    elif isinstance(contract, MultipleChoiceQuestion):
        question: ChoiceQuestion = value
        _count(question.options, contract.low, contract.high, 150)
        if len(set(question.options)) < len(question.options):
            raise Violation("two options are the same")
    elif isinstance(value, TargetPhrases):
        _count(value.phrases, 0, 4, 80)
    elif not isinstance(contract, Verbatim):
        raise Violation(f"nothing is known of {contract.name}")
    return "texts"


def _count(texts: Iterable[str], low: int, high: int, longest: int) -> None:
    texts = list(texts)
    if not low <= len(texts) <= high or any(not 0 < len(text) <= longest for text in texts):
        raise Violation(f"{len(texts)} texts, the longest of {max(map(len, texts), default=0)}")


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for each in value for text in _texts(each)] if isinstance(value, tuple) else []


def _storable(texts: Iterable[str]) -> None:
    for text in texts:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Violation(f"half a character is read: {error.reason}") from None


def check_reason(reason: str) -> None:
    """A reason is one short line."""
    _line(reason)


def _line(text: str) -> None:
    if not text.strip() or len(text) > 400 or "\n" in text or "\r" in text:
        raise Violation(f"not one short line: {text[:100]!r}")
