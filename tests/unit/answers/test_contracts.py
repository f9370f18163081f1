"""What a contract says of itself, and contracts that make no sense."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from editjudge.answers.contract import OutputContract
from editjudge.answers.first_digit import FirstDigit
from editjudge.answers.questions import MultipleChoiceQuestion, QuestionAnswers, Questions
from editjudge.answers.reply import Unparsable
from editjudge.answers.scores import ScoreField, Scores
from editjudge.answers.segmentation import Commands, Targets
from editjudge.answers.texts import Option
from editjudge.answers.words import LONGEST_REASON

from .forms import CONTRACTS

ONE = Scores((ScoreField("score", 1, 5, description="how well the style fits"),))
FOUR, STEPS = CONTRACTS["co_edit"], CONTRACTS["steps"]
SINGLE, SEVERAL, INDEXED = (CONTRACTS[name] for name in ("one_command", "commands", "indexed_commands"))
BARE = Commands(bare=True)
WORD = CONTRACTS["yes_no"]
ALL = [*CONTRACTS.values(), ONE, BARE]


def test_digests_tell_contracts_apart() -> None:
    assert len({contract.digest for contract in ALL}) == len(ALL)
    assert ONE.digest == replace(ONE).digest
    assert ONE.digest != replace(ONE, reasoning=False).digest
    assert ONE.digest.startswith("sha256:")


@pytest.mark.parametrize("contract", ALL, ids=lambda c: c.digest[7:15])
def test_specs_and_schemas_are_plain(contract: OutputContract[object]) -> None:
    assert contract.spec()["contract"] == contract.name
    json.dumps([dict(contract.spec()), contract.schema], allow_nan=False)


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("choice", {"question": "Which colour?", "answer": "Red", "wrong": ["Blue", "Green"]}),
        ("targets", {"scope": "objects", "phrases": ["the red cup"]}),
    ],
)
def test_the_schema_takes_what_is_read(name: str, good: dict[str, Any]) -> None:
    schema = CONTRACTS[name].schema
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(good, schema)
    CONTRACTS[name].parse(json.dumps(good))
    assert [key for key in good if f'"{key}"' not in CONTRACTS[name].instruction] == []


PAIR = {"question": "Red?", "answer": "Yes"}
CHOSEN = {"question": "Which?", "answer": "Red"}


@pytest.mark.parametrize(
    ("name", "key", "entry", "beside", "low", "high"),
    [
        ("questions", "questions", "Is it red?", {}, 5, 7),
        ("few_questions", "questions", "Is it red?", {}, 4, 7),
        ("pairs", "pairs", PAIR, {}, 1, 3),
        ("choice", "wrong", "Blue", CHOSEN, 1, 3),
        ("targets", "phrases", "the cup", {"scope": "objects"}, 0, 4),
        ("commands", "commands", "the cup", {}, 1, 3),
        ("indexed_commands", "commands", {"source_index": 1, "phrase": "a cup"}, {}, 0, 4),
    ],
)
def test_the_schema_takes_as_many_as_are_read(
    name: str, key: str, entry: Any, beside: dict[str, Any], low: int, high: int
) -> None:
    valid = jsonschema.Draft202012Validator(CONTRACTS[name].schema).is_valid
    taken = [count for count in range(high + 3) if valid(beside | {key: [entry] * count})]
    assert taken == [*range(low, high + 1)]
    assert not valid(beside | {key: [3] * high})


def test_a_question_is_read_with_its_options() -> None:
    reply = '{"question": "Which?", "answer": " Red  wine ", "wrong": ["Blue", "Green"]}'
    read = CONTRACTS["choice"].parse(f"Here it is:\n```json\n{reply}\n```")
    assert (read.question, read.answer) == ("Which?", "Red wine")
    assert read.options == ("Red wine", "Blue", "Green", "It cannot be told from the image")


def test_reasons_come_before_scores() -> None:
    assert list(ONE.schema["properties"]) == ["reasoning", "score"]
    assert ONE.instruction.index('"reasoning"') < ONE.instruction.index('"score"')
    assert '"score": an integer from 1 to 5, how well the style fits' in ONE.instruction
    assert ONE.schema["required"] == ["reasoning", "score"]


def test_a_list_has_its_length_and_order() -> None:
    items = {"type": "integer", "minimum": 0, "maximum": 10}
    array = {"type": "array", "items": items, "minItems": 4, "maxItems": 4}
    assert FOUR.schema["properties"]["score"] == array
    assert "1. EA; 2. NESP; 3. OE; 4. EP" in FOUR.instruction


def test_no_decoder_is_held_to_json_where_text_comes_first_or_a_list_is_bare() -> None:
    assert STEPS.schema is BARE.schema is None
    assert "nothing around it" not in STEPS.instruction
    assert "First write down in plain text" in STEPS.instruction
    assert BARE.instruction.startswith("Reply with one JSON list and nothing around it: at most 6")


def test_options_from_data_stay_out_of_the_template() -> None:
    option = Option(("<|im_end|>", "fine"))
    assert "im_end" not in option.instruction
    assert option.schema == {"type": "string", "enum": ["<|im_end|>", "fine"]}


def test_the_schema_of_commands_asks_for_what_is_read() -> None:
    items = SEVERAL.schema["properties"]["commands"]
    assert (items["minItems"], items["maxItems"]) == (1, 3)
    assert re.search(items["items"]["pattern"], "the woman's face")
    assert not re.search(items["items"]["pattern"], "")
    of_two, of_any = (
        one.schema["properties"]["commands"]["items"]["properties"]["source_index"]
        for one in (INDEXED, Commands(indexed=True))
    )
    assert of_two == {"type": "integer", "minimum": 0, "maximum": 1}
    assert "maximum" not in of_any


def test_the_instruction_of_commands_says_what_is_due() -> None:
    assert "exactly one text" in SINGLE.instruction
    for part in ("at most 4 objects", '"Source image 1" is 0', "the list is empty"):
        assert part in INDEXED.instruction
    assert "the list is empty" not in SEVERAL.instruction
    # How many sources an edit has is in the schema, so that the words are one for all.
    assert INDEXED.instruction == Commands(low=0, high=4, indexed=True).instruction


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
        lambda: MultipleChoiceQuestion(2, 5),
        lambda: MultipleChoiceQuestion(5, 4),
        lambda: MultipleChoiceQuestion(cannot_tell=" ."),
        lambda: Targets(0),
        lambda: Commands(low=-1),
        lambda: Commands(low=3, high=2),
        lambda: Commands(low=0, high=0),
        lambda: Commands(sources=0),
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
@pytest.mark.parametrize(
    ("contract", "reply"),
    [
        (WORD, "No. " + ":" * HALF),
        (WORD, "No. " + "a/" * HALF),
        (WORD, "No, " + "the vase is gone " * (LONGEST_REASON // 17 + 1)),
        (Option(("A", "B")), '".' * HALF + "x" + '".' * HALF),
    ],
    ids=["a run of marks", "marks", "a long reason", "marks around an option"],
)
def test_what_surrounds_a_choice_is_read_quickly(contract: OutputContract[str], reply: str) -> None:
    with pytest.raises(Unparsable):
        contract.parse(reply)


@IN_TIME
@pytest.mark.parametrize("blanks", [" ", "\n", ":", "\n ", " :"])
def test_a_run_of_blanks_in_a_reason_is_read_once(blanks: str) -> None:
    most = blanks * (8000 // len(blanks))
    assert WORD.parse(f"No, the vase is gone.{most}It is blue.") == "No"
    assert WORD.parse(f"Yes, the vase is gone.{most}It is blue.") == "Yes"
    with pytest.raises(Unparsable):
        WORD.parse(f"No, the vase is gone{most}:{most}yes, it is")


@IN_TIME
@pytest.mark.parametrize("colon", [None, "optional", "required"])
@pytest.mark.parametrize("part", ["score", "{score", " ", "score ", "score: "])
def test_the_official_reader_reads_a_huge_reply_quickly(colon: Any, part: str) -> None:
    reader = FirstDigit(("the_score",), colon=colon)
    assert not reader.parse("{the_score" + part * HALF + "x").scores
    assert reader.parse("{the_score" + part * HALF + '} {"the_score": 4}').scores == {"the_score": 4}


@IN_TIME
def test_a_long_reasoning_is_read_quickly() -> None:
    answer = ONE.parse('{"reasoning": "' + "x\\n" * HALF + '", "score": 4}')
    assert len(answer.reasoning) == 2 * HALF
