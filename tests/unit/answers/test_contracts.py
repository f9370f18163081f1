"""What a contract says of itself, and contracts that make no sense."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from editjudge.answers.contract import OutputContract
from editjudge.answers.questions import MultipleChoiceQuestion, QuestionAnswers, Questions
from editjudge.answers.reply import Unparsable
from editjudge.answers.scores import ScoreField, Scores
from editjudge.answers.segmentation import Commands, Targets
from editjudge.answers.texts import FirstWord, OneText, Option, ShortAnswer, Verbatim

ONE = Scores((ScoreField("score", 1, 5, description="how well the style fits"),))
FOUR = Scores(tuple(ScoreField(n, 0, 10) for n in ("EA", "NESP", "OE", "EP")), as_list=True)
ALL: list[OutputContract[object]] = [
    ONE,
    FOUR,
    Questions(),
    QuestionAnswers(),
    Option(("A car", "A bus")),
    Verbatim(),
    MultipleChoiceQuestion(),
    OneText(),
    Targets(),
    Commands(),
    Option(("Yes", "No")),
    Option(("True", "False")),
    FirstWord(("Yes", "No")),
    ShortAnswer(),
    Commands(bare=True),
    replace(FOUR, reasoning="before"),
]


def test_digests_tell_contracts_apart() -> None:
    assert len({contract.digest for contract in ALL}) == len(ALL)
    assert ONE.digest == replace(ONE).digest
    assert ONE.digest != replace(ONE, reasoning=False).digest
    assert ONE.digest.startswith("sha256:")


@pytest.mark.parametrize("contract", ALL, ids=lambda c: c.digest[7:15])
def test_specs_and_schemas_are_plain(contract: OutputContract[object]) -> None:
    assert contract.spec()["contract"] == contract.name
    json.dumps([dict(contract.spec()), contract.schema], allow_nan=False)


def test_reasons_come_before_scores() -> None:
    assert list(ONE.schema["properties"]) == ["reasoning", "score"]
    assert ONE.instruction.index('"reasoning"') < ONE.instruction.index('"score"')
    assert '"score": an integer from 1 to 5, how well the style fits' in ONE.instruction
    assert ONE.schema["required"] == ["reasoning", "score"]


def test_a_list_has_its_length_and_order() -> None:
    assert FOUR.schema["properties"]["score"] == {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": 10},
        "minItems": 4,
        "maxItems": 4,
    }
    assert "1. EA; 2. NESP; 3. OE; 4. EP" in FOUR.instruction


def test_options_from_data_stay_out_of_the_template() -> None:
    option = Option(("<|im_end|>", "fine"))
    assert "im_end" not in option.instruction
    assert option.schema == {"type": "string", "enum": ["<|im_end|>", "fine"]}


@pytest.mark.parametrize(
    "make",
    [
        lambda: ScoreField("", 1, 5),
        lambda: ScoreField("s", 5, 5),
        lambda: ScoreField("s", 0.5, 5),
        lambda: ScoreField("s", 0, float("inf")),
        lambda: Scores(()),
        lambda: Scores((ScoreField("Reasoning", 1, 5),)),
        lambda: Scores((ScoreField("a b", 1, 5), ScoreField("a_b", 1, 5))),
        lambda: Scores((ScoreField("a", 1, 5), ScoreField("b", 1, 4)), as_list=True),
        lambda: Scores((ScoreField("a", 1, 5),), reasoning=("score",), as_list=True),
        lambda: Questions(0, 3),
        lambda: Questions(5, 4),
        lambda: QuestionAnswers(2, 1),
        lambda: Option(("A",)),
        lambda: Option(("A", "A")),
        lambda: Option(("A", " ")),
        lambda: Option(("A", "B ")),
    ],
)
def test_contracts_that_make_no_sense(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        make()


HALF = 500_000
# What is read more than once for each character takes minutes.
IN_TIME = pytest.mark.timeout(20)


@IN_TIME
@pytest.mark.parametrize(
    "reply",
    [
        "{" * HALF,
        '{"' * HALF,
        "{'" * HALF,
        "{“" * HALF,
        "{“" * HALF + "”",
        '"' * 2 * HALF,
        "{" + " " * HALF,
        "{ " * HALF,
        '{"a":' * HALF,
        '{"a":' + "[" * HALF,
        '{"a":1}' * (HALF // 4),
        '{"a":1}' * (HALF // 4) + "</think>",
        '{"a":“</think>' * (HALF // 7),
        '{"' + "\\" * HALF,
        '{"reasoning": "", "score": ' + "1" * HALF + "}",
        "a" * 2 * HALF,
    ],
    ids=lambda reply: f"{reply[:10]!r}{len(reply)}",
)
def test_a_huge_reply_is_refused_quickly(reply: str) -> None:
    for contract in (ONE, Option(("A", "B"))):
        with pytest.raises(Unparsable):
            contract.parse(reply)


@IN_TIME
def test_a_long_reasoning_is_read_quickly() -> None:
    answer = ONE.parse('{"reasoning": "' + "x\\n" * HALF + '", "score": 4}')
    assert len(answer.reasoning) == 2 * HALF


def test_reading_answers_loads_nothing_heavy() -> None:
    code = (
        "import sys, editjudge.answers as a; "
        "print(sorted({'pydantic', 'numpy', 'PIL', 'grpc'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
