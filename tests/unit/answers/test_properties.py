"""What holds for any reply."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from editjudge.answers.contract import OutputContract
from editjudge.answers.questions import Questions
from editjudge.answers.reply import Unparsable
from editjudge.answers.scores import ScoreField, Scores, ScoresAnswer
from editjudge.answers.segmentation import LONGEST, Commands
from editjudge.answers.texts import Option
from editjudge.answers.words import is_denial

from .forms import CONTRACTS as FORMS

TWO = Scores((ScoreField("instruction_score", 1, 5), ScoreField("share", 0, 1, integer=False)))
FOUR, PAIRS, INDEXED = (FORMS[name] for name in ("co_edit", "pairs", "indexed_commands"))
QUESTIONS = Questions(1, 3)
OF_CARS = Option(("A car", "A bus.", "a BUS"))
NAMES = ("yes_or_no", "yes_no", "steps", "commands", "choice", "targets")
CONTRACTS: list[OutputContract[Any]] = [
    TWO, FOUR, QUESTIONS, PAIRS, OF_CARS, INDEXED, *(FORMS[name] for name in NAMES)
]  # fmt: skip
texts = st.text(max_size=30) | st.sampled_from(
    ["it's", "“a” 'b' \"c\"", '{"score": 3}', "</think>", "```", "\\frac{1}{2}", "a\nb", "\\", ","]
)
prose = st.sampled_from(
    ["", "Sure!", "{a, b} and \\frac{1}{2}:", "```json\n", "\n```", "{}", "1. It moved. Score 3/5."]
) | st.text(st.characters(exclude_characters="{<", exclude_categories=["Cs"]), max_size=20).filter(
    lambda words: not is_denial(words)
)
fences = st.sampled_from(["", "\n", "\n```", "```\n\n", "</answer>", "<|im_end|>"])


@st.composite
def strings(draw: st.DrawFn, text: str) -> str:
    quote = draw(st.sampled_from("\"'"))
    escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    if draw(st.booleans()):
        escaped = escaped.replace("\n", "\\n").replace("é", "\\u00e9")
    return quote + escaped + quote


@st.composite
def spell_key(draw: st.DrawFn, key: str) -> str:
    separator = draw(st.sampled_from(["_", " ", "", "-", "\\_"]))
    key = key.replace("_", separator)
    return draw(st.sampled_from([key, key.upper(), key.title()]))


@st.composite
def write_json(draw: st.DrawFn, value: object) -> str:
    """JSON as a model may write it."""
    space = draw(st.sampled_from(["", " ", "\n  ", "\t"]))
    comma = draw(st.sampled_from(["", ",", " , "]))
    if isinstance(value, str):
        return draw(strings(value))
    if isinstance(value, dict):
        members = [draw(strings(draw(spell_key(k)))) + space + ":" + draw(write_json(v)) for k, v in value.items()]
        return "{" + space + f",{space}".join(members) + (comma if members else "") + space + "}"
    if isinstance(value, list):
        parts = [draw(write_json(v)) for v in value]
        return "[" + space + f"{space},".join(parts) + (comma if parts else "") + "]"
    number = json.dumps(value)
    forms = [number, f'"{number}"', *([f"{number}.0"] if isinstance(value, int) else [])]
    return draw(st.sampled_from(forms))


@st.composite
def around(draw: st.DrawFn, text: str) -> str:
    thought = draw(st.sampled_from(["", "<think>{</think>", "\ufeff", " <think>\n</think>\n"]))
    return thought + draw(prose) + text + draw(fences)


shares = st.floats(0, 1)
grades = st.integers(1, 5)
tens = st.lists(st.integers(0, 10), min_size=4, max_size=4)


@given(st.data(), texts, grades, shares)
def test_scores_come_back(data: st.DataObject, why: str, grade: int, share: float) -> None:
    said = {"instruction_score": grade, "share": share}
    reply = data.draw(around(data.draw(write_json({"reasoning": why} | said))))
    assert TWO.parse(reply) == ScoresAnswer(said, why)


@given(st.data(), texts, tens)
def test_lists_come_back(data: st.DataObject, why: str, scores: list[int]) -> None:
    reply = data.draw(around(data.draw(write_json({"score": scores, "reasoning": why}))))
    answer = FOUR.parse(reply)
    assert list(answer.scores.values()) == scores
    assert answer.reasoning == why


@given(st.data(), st.lists(texts, min_size=1, max_size=3))
def test_questions_come_back(data: st.DataObject, words: list[str]) -> None:
    asked = [f"{i} {text}?" for i, text in enumerate(words)]
    reply = data.draw(around(data.draw(write_json({"questions": asked}))))
    assert QUESTIONS.parse(reply) == tuple(asked)
    pairs = [{"question": q, "answer": f"<{q}>"} for q in asked]
    reply = data.draw(around(data.draw(write_json({"pairs": pairs}))))
    assert PAIRS.parse(reply) == tuple((q, f"<{q}>") for q in asked)


@given(st.data(), texts, grades, shares)
def test_no_part_of_a_reply_is_a_reply(data: st.DataObject, why: str, grade: int, share: float) -> None:
    """Wherever the token limit cuts, nothing is made of what is there."""
    given_ = {"reasoning": why, "instruction_score": grade, "share": share}
    whole = data.draw(write_json(given_))
    end = data.draw(st.integers(0, len(whole) - 1))
    for cut in (True, False):
        with pytest.raises(Unparsable) as caught:
            TWO.parse(whole[:end], cut=cut)
        assert not cut or "cut" in caught.value.reason


junk = st.text(st.sampled_from("{}[]\"'“”\u2018\u2019\\,:.-0459eE \n\ufeffaté<>/?\ud800"), max_size=40)


def ordering(phrase: object) -> str:
    return json.dumps({"commands": [phrase]})


def check_contract(contract: OutputContract[Any], reply: str) -> None:
    """Only `Unparsable` is raised, and what is accepted keeps the contract."""
    for cut in (False, True):
        try:
            answer = contract.parse(reply, cut=cut)
        except Unparsable:
            continue
        if isinstance(contract, Scores):
            assert list(answer.scores) == [field.name for field in contract.fields]
            for field in contract.fields:
                score = answer.scores[field.name]
                assert field.low <= score <= field.high
                assert not field.integer or score == int(score)
            answer.reasoning.encode("utf-8")
        if isinstance(contract, Commands):
            assert contract.low <= len(answer) <= contract.high
            assert all(0 < len(one.phrase) <= LONGEST for one in answer)
            assert {one.source_index for one in answer} <= {0, 1}


@settings(max_examples=120)
@given(st.text() | junk | st.builds(ordering, st.text(max_size=150) | st.integers()))
@example('{"reasoning": "\\ud800", "instruction_score": 1, "share": 0}')
@example('"')
@example("<think>")
def test_nothing_else_is_raised(reply: str) -> None:
    for contract in CONTRACTS:
        check_contract(contract, reply)


@settings(max_examples=120)
@given(st.data(), texts, grades, shares, tens, st.lists(junk, min_size=1, max_size=3))
def test_nothing_else_is_raised_by_damaged_replies(
    data: st.DataObject, why: str, grade: int, share: float, scores: list[int], bits: list[str]
) -> None:
    valid = {"reasoning": why, "instruction_score": grade, "share": share}
    for contract, value in ((TWO, valid), (FOUR, {"score": scores, "reasoning": why})):
        reply = data.draw(write_json(value))
        for bit in bits:
            start = data.draw(st.integers(0, len(reply)))
            stop = data.draw(st.integers(start, min(len(reply), start + 8)))
            reply = reply[:start] + bit + reply[stop:]
        check_contract(contract, reply)


# Numbers in strings are left out here: they are taken although the schema has none.
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 11)
    | st.sampled_from([0.5, 4.0, 4.5, 1e300, 10**400, -0.0])
    | st.sampled_from(["", "why", "Is it?"]),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["question", "answer", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = ["reasoning", "instruction_score", "share", "score", "x"]


def accepts(contract: OutputContract[Any], text: str) -> bool:
    try:
        contract.parse(text)
    except Unparsable:
        return False
    return True


@settings(max_examples=120)
@given(
    st.dictionaries(st.sampled_from(KEYS), values | grades, max_size=4)
    | st.fixed_dictionaries({"reasoning": st.just("why") | values, "instruction_score": values, "share": values})
    | st.fixed_dictionaries({"reasoning": st.just("why"), "score": st.lists(st.integers(-1, 11) | values, max_size=5)})
)
def test_schema_and_parser_agree_on_scores(document: dict[str, object]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    text = json.dumps(document)
    for contract in (TWO, FOUR):
        if document:  # an empty object is prose to the parser
            # Reasons are asked for as text, and taken as they come.
            as_text = {k: "why" if k in contract.texts else v for k, v in document.items()}
            valid = jsonschema.Draft202012Validator(contract.schema).is_valid(as_text)
            assert accepts(contract, text) == valid


@settings(max_examples=120)
@given(st.sampled_from(["questions", "pairs", "x"]), values)
def test_what_is_read_as_questions_follows_the_schema(key: str, value: object) -> None:
    """The schema asks for texts; the parser also asks what makes a text a question.

    Of a list of questions it leaves out what is none, and takes the rest.
    """
    jsonschema = pytest.importorskip("jsonschema")
    for contract in (QUESTIONS, PAIRS):
        if accepts(contract, json.dumps({key: value})):
            asked = value
            if isinstance(contract, Questions) and isinstance(value, list):
                asked = [each for each in value if str(each).strip().endswith("?")]
            validator = jsonschema.Draft202012Validator(contract.schema)
            assert validator.is_valid({key: asked})


WORDS = st.text(string.ascii_letters + string.digits + " .,\"'-äé中", min_size=1, max_size=20)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3))
@example("1..", ["2"])
@example("'1.'.'", ["2"])
def test_what_is_written_can_always_be_won(answer: str, wrong: list[str]) -> None:
    """Whatever is taken, a judge that repeats an option is read as having chosen that one."""
    reply = json.dumps({"question": "Which?", "answer": answer, "wrong": wrong})
    try:
        read = FORMS["choice"].parse(reply)
    except Unparsable:
        return
    assert read.answer in read.options
    option = Option(read.options)
    for one in read.options:
        assert option.parse(one) == option.parse(f" {one.upper()}.") == one
