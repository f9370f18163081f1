"""Lists that a reply is by itself."""

from __future__ import annotations

import pytest

from editjudge.answers.questions import Questions
from editjudge.answers.reply import Unparsable
from editjudge.answers.segmentation import Command, Commands

PLAIN = Commands()
INDEXED = Commands(indexed=True, low=0, sources=3)


@pytest.mark.parametrize(
    "reply",
    [
        '["Please segment the sky", "Please segment the hills"]',
        "```json\n['Please segment the sky', 'please segment the hills',]\n```",
        '<think>[1]</think>["the sky", "the hills"]',
        'so two of them.</think>\n["the sky", "the hills"]',
        '{"commands": ["Please segment the sky", "the hills"]}',
    ],
)
def test_a_list_by_itself(reply: str) -> None:
    assert PLAIN.parse(reply) == (Command("the sky", 0), Command("the hills", 0))


@pytest.mark.parametrize("before", ["[", "[] ", "[1] and [2]: "])
def test_brackets_in_prose_are_no_list(before: str) -> None:
    assert PLAIN.parse(before + '{"commands": ["the sky"]}') == (Command("the sky", 0),)


def test_nothing_to_name() -> None:
    assert INDEXED.parse("[]") == ()


@pytest.mark.parametrize(
    ("contract", "reply", "cut", "reason"),
    [
        (PLAIN, '["the sky"] or ["the hills"]', False, "more than one JSON list"),
        (PLAIN, '["the sky", "the h', True, "cut at the token limit before the JSON list was"),
        (PLAIN, '["the sky", "the h', False, "the JSON list is not complete"),
        (PLAIN, "Please segment the hat.", False, "no JSON object"),
        (PLAIN, "[the sky]", False, "malformed"),
        (INDEXED, '["source_index": 1, "phrase": "cat"]', False, "malformed"),
        (INDEXED, '[{"source_index": 1, "segmentation_prompt": "cat"}]', False, 'missing "phrase"'),
    ],
)
def test_what_is_no_list(contract: Commands, reply: str, cut: bool, reason: str) -> None:
    with pytest.raises(Unparsable, match=reason):
        contract.parse(reply, cut=cut)


def test_questions_by_themselves() -> None:
    assert Questions(low=2).parse('["Is it red?", "Is it round?"]') == (
        "Is it red?",
        "Is it round?",
    )


def test_a_bare_list_is_held_to_no_schema() -> None:
    bare = Commands(bare=True)
    assert bare.schema is None
    assert bare.instruction.startswith("Reply with one JSON list and nothing around it: at most 6")
    assert Commands().schema is not None
