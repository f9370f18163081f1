"""What judges write when questions and target phrases are asked for, and what is taken."""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from editjudge.answers.contract import OutputContract
from editjudge.answers.questions import MultipleChoiceQuestion
from editjudge.answers.reply import Unparsable
from editjudge.answers.segmentation import TargetPhrases, Targets
from editjudge.answers.texts import Option

CHOICE = MultipleChoiceQuestion()
TARGETS = Targets()
GOOD = {"question": "Which colour has the cup?", "answer": "Red", "wrong": ["Blue", "Green"]}
PHRASES = {"scope": "objects", "phrases": ["the red cup"]}


def choice(**changed: Any) -> str:
    return json.dumps(GOOD | changed)


def targets(**changed: Any) -> str:
    return json.dumps(PHRASES | changed)


def test_a_question_is_read_with_its_options() -> None:
    read = CHOICE.parse(f"Here it is:\n```json\n{choice(answer=' Red  wine ')}\n```")
    assert read.question == "Which colour has the cup?"
    assert read.answer == "Red wine"
    assert read.options == ("Red wine", "Blue", "Green", "It cannot be told from the image")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("", "empty"),
        ("Which colour has the cup? Red.", "no JSON object"),
        (choice(question="The cup is red."), "is not a question"),
        (choice(question="?" * 301), "301 characters"),
        (choice(question=7), "must hold words"),
        (choice(answer=""), "must hold words"),
        (choice(answer=" . "), "must hold words"),
        (choice(answer="r" * 151), "151 characters"),
        (choice(answer=["Red"]), "must hold words"),
        (choice(wrong="Blue"), "not a list"),
        (choice(wrong=[]), "0 wrong answers where 1 to 3 are due"),
        (choice(wrong=["a", "b", "c", "d"]), "4 wrong answers"),
        (choice(wrong=["Blue", None]), "must hold words"),
        (choice(wrong=["red.", "Blue"]), "two of the answers are the same"),
        (choice(wrong=["Blue", "“blue”"]), "two of the answers are the same"),
        (choice(wrong=["it cannot be told from the image."]), "two of the answers are the same"),
        (json.dumps({"question": "Which?", "answer": "Red"}), 'missing "wrong"'),
        (choice(options=["Red"]), "unexpected 'options'"),
        (choice() + choice(), "more than one"),
        (choice()[:-9], "not complete"),
    ],
)
def test_what_is_no_question_is_refused(reply: str, said: str) -> None:
    refused(CHOICE, reply, said)


def test_phrases_are_read_once_each() -> None:
    read = TARGETS.parse(targets(phrases=["the red cup.", " The  red cup", "its saucer"]))
    assert read == TargetPhrases("objects", ("the red cup", "its saucer"))
    assert TARGETS.parse(targets(scope="whole", phrases=[])) == TargetPhrases("whole", ())


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (targets(scope="background"), "none of objects, surroundings, whole"),
        (targets(scope=None), "none of objects"),
        (targets(scope=["objects"]), "none of objects"),
        (targets(phrases="the cup"), "not a list"),
        (targets(phrases=[]), "with 0 phrases"),
        (targets(scope="whole"), "with 1 phrases"),
        (targets(phrases=["a", "b", "c", "d", "e"]), "5 phrases, more than 4"),
        (targets(phrases=["the cup", " . "]), "is not a phrase"),
        (targets(phrases=["c" * 81]), "is not a phrase"),
        (targets(phrases=[{"name": "cup"}]), "is not a phrase"),
        ("entire image", "no JSON object"),
    ],
)
def test_what_names_nothing_is_refused(reply: str, said: str) -> None:
    refused(TARGETS, reply, said)


def refused(contract: OutputContract[Any], reply: str, said: str) -> None:
    with pytest.raises(Unparsable) as caught:
        contract.parse(reply)
    assert said in caught.value.reason
    assert len(caught.value.reason) < 200


@pytest.mark.parametrize("reply", [choice()[:30], targets()[:20]])
def test_a_cut_reply_says_so(reply: str) -> None:
    contract: OutputContract[Any] = CHOICE if "question" in reply else TARGETS
    with pytest.raises(Unparsable, match="cut at the token limit"):
        contract.parse(reply, cut=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultipleChoiceQuestion(2, 5),
        lambda: MultipleChoiceQuestion(5, 4),
        lambda: MultipleChoiceQuestion(cannot_tell=" ."),
        lambda: Targets(0),
    ],
)
def test_contracts_that_make_no_sense(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        make()


@pytest.mark.parametrize(
    ("contract", "good"), [(CHOICE, GOOD), (TARGETS, PHRASES)], ids=["choice", "targets"]
)
def test_the_schema_takes_what_is_read(contract: OutputContract[Any], good: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(contract.schema)
    jsonschema.validate(good, contract.schema)
    for key in good:
        assert f'"{key}"' in contract.instruction
    json.dumps([dict(contract.spec()), contract.schema], allow_nan=False)


WORDS = st.text(string.ascii_letters + string.digits + " .,\"'-äé中", min_size=1, max_size=20)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3))
@example("1..", ["2"])
@example("'1.'.'", ["2"])
def test_what_is_written_can_always_be_won(answer: str, wrong: list[str]) -> None:
    """Whatever is taken, a judge that repeats an option is read as having chosen that one."""
    try:
        read = CHOICE.parse(choice(answer=answer, wrong=wrong))
    except Unparsable:
        return
    assert read.answer in read.options
    option = Option(read.options)
    for one in read.options:
        assert option.parse(one) == one
        assert option.parse(f" {one.upper()}.") == one
