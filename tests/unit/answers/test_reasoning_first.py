"""Scores after an examination in plain text."""

from __future__ import annotations

import json

import pytest

from editjudge.answers.reply import Unparsable
from editjudge.answers.scores import ScoreField, Scores

FOUR = Scores(
    tuple(ScoreField(name, 0, 10) for name in ("EA", "NESP", "OE", "EP")),
    reasoning="before",
    as_list=True,
)
STEPS = "1. The hat is to be red.\n2. Source: {man, hat}; edited: {'hat': red, 'man'}.\n"
SCORES = {"EA": 9, "NESP": 8, "OE": 10, "EP": 7}


@pytest.mark.parametrize(
    "end",
    [
        '{"score": [9, 8, 10, 7]}',
        '```json\n{"score": [9, 8, 10, 7]}\n```',
        '{"reasoning": "summed up", "score": [9, 8, 10, 7],}\n',
        "{'score': [9, 8, 10, 7], 'reasoning': 'the paper has it this way'}",
    ],
)
def test_text_goes_before_the_object(end: str) -> None:
    said = FOUR.parse(f'{STEPS}{{"hat": "red"}} is new.\n{end}')
    assert said.scores == SCORES
    assert said.reasoning.startswith("1. The hat")
    assert said.reasoning.endswith("is new.")


def test_the_object_alone_is_read() -> None:
    assert FOUR.parse('{"score": [9, 8, 10, 7]}').scores == SCORES


@pytest.mark.parametrize(
    ("reply", "cut", "reason"),
    [
        (STEPS, False, "no JSON object"),
        (STEPS, True, "cut at the token limit before the JSON object"),
        (STEPS + '{"score": [9, 8,', True, "cut at the token limit before the JSON object was"),
        (STEPS + '{"score": [9, 8,', False, "not complete"),
        (STEPS + '{"reasoning": "all "good"", "score": [9, 8, 10, 7]}', False, "malformed"),
        (STEPS + '{"score": [9, 8, 10]}', False, "3 values, not 4"),
        (STEPS + '{"score": [9, 8, 10, 7]} or {"score": [1, 8, 10, 7]}', False, "more than one"),
        (STEPS + '{"score": [9, 8, 10, 7]} Once more,', True, "may be a draft"),
        (STEPS + '{"score": [9, 8, 10, 7]} Once more,', False, "text follows the answer"),
        (STEPS + '{"score": [9, 8, 10, 7]}</think>', False, "no JSON object"),
        ("<think>" + STEPS, True, "cut at the token limit while thinking"),
    ],
)
def test_what_is_no_answer(reply: str, cut: bool, reason: str) -> None:
    with pytest.raises(Unparsable, match=reason):
        FOUR.parse(reply, cut=cut)


def test_no_decoder_is_held_to_json_from_its_first_token() -> None:
    assert FOUR.schema is None
    assert "nothing around it" not in FOUR.instruction
    assert "First write down in plain text" in FOUR.instruction
    json.dumps(FOUR.spec())
