"""Replies as judges without token probabilities write them, in several languages, read one by one.

No refusal, no echo of the question, no second answer and no object that is denied may be scored;
plain verdicts are read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from editjudge.answers.contract import OutputContract
from editjudge.answers.first_digit import FirstDigit
from editjudge.answers.reply import Refusal, Unparsable
from editjudge.answers.scores import ScoreField, Scores, ScoresAnswer
from editjudge.answers.texts import FirstWord, Option, Verbatim

from .forms import CONTRACTS as FORMS

TABLES = Path(__file__).with_name("replies")
SCORE = (ScoreField("score", 1, 5),)
CONTRACTS: dict[str, OutputContract[Any]] = {
    "yes_no": FORMS["yes_no"],
    "true_false": FirstWord(("True", "False")),
    "levels": FORMS["levels"],
    "scores": Scores(SCORE),
    "steps": Scores(SCORE, reasoning="before"),
    "option": Option(("A red car", "A blue car", "We cannot assist you today")),
}


class Row(NamedTuple):
    """One reply.

    Attributes:
        asks: Name of the contract.
        text: The reply.
        reads: What may be read from it; None if it holds no answer.
        kind: Why it holds none; empty if it holds one.
    """

    asks: str
    text: str
    reads: str | int | None
    kind: str


def load_rows() -> Iterator[Row]:
    """The rows of the tables."""
    for table in sorted(TABLES.iterdir()):
        for group in tomllib.loads(table.read_text("utf-8"))["replies"]:
            for text in group["texts"]:
                yield Row(group["asks"], text, group.get("reads"), group.get("kind", ""))


ROWS = tuple(load_rows())
VERDICTS = [row for row in ROWS if not row.kind]


def read(row: Row) -> str | float | None:
    """What is read from a reply; None if nothing is."""
    try:
        answer = CONTRACTS[row.asks].parse(row.text)
    except Unparsable:
        return None
    return answer.scores["score"] if isinstance(answer, ScoresAnswer) else answer


def refuse(row: Row) -> Unparsable:
    """The error of a reply that holds no answer."""
    with pytest.raises(Unparsable) as caught:
        CONTRACTS[row.asks].parse(row.text)
    return caught.value


@pytest.mark.parametrize("row", [row for row in ROWS if row.kind], ids=lambda row: row.text[:40])
def test_what_holds_no_answer_is_not_scored(row: Row) -> None:
    error = refuse(row)
    assert len(error.reason) < 200
    assert row.kind == "refusal" or not isinstance(error, Refusal), error.reason


def test_most_refusals_are_named_as_such() -> None:
    named = [isinstance(refuse(row), Refusal) for row in ROWS if row.kind == "refusal"]
    assert sum(named) >= 0.6 * len(named)


def test_plain_verdicts_are_read() -> None:
    assert [row for row in VERDICTS if read(row) not in (row.reads, None)] == []
    lost = [row.text for row in VERDICTS if read(row) is None]
    assert len(lost) <= 0.01 * len(VERDICTS), lost


@pytest.mark.parametrize("text", [row.text for row in ROWS if row.kind])
def test_official_readers_know_no_words(text: str) -> None:
    assert Verbatim().parse(text) == text.strip()
    digit = FirstDigit(("quality_score",), colon="optional", anywhere=False)
    assert digit.parse(f"Quality score: 3. {text}").scores == {"quality_score": 3}


def test_only_what_reads_words_names_their_version() -> None:
    assert not Verbatim.reads_words
    assert not FirstDigit.reads_words
    assert all(contract.reads_words for contract in CONTRACTS.values())


def test_the_table_is_large_enough_to_show_one_in_a_hundred() -> None:
    assert len(ROWS) >= 300
    assert len(VERDICTS) >= 150
    assert len({(row.asks, row.text) for row in ROWS}) == len(ROWS)
