"""Commands to a segmenter: what is read, and what is no answer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editjudge.answers.reply import Unparsable
from editjudge.answers.segmentation import LONGEST, Command, Commands

ONE = Commands(low=1, high=1)
SEVERAL = Commands(low=1, high=3)
INDEXED = Commands(low=0, high=4, indexed=True, sources=2)


def said(*entries: Any, key: str = "commands") -> str:
    return json.dumps({key: list(entries)})


def at(index: Any, phrase: Any = "the dog") -> dict[str, Any]:
    return {"source_index": index, "phrase": phrase}


@pytest.mark.parametrize(
    ("reply", "phrases"),
    [
        (said("the red hat"), ["the red hat"]),
        (said(" Please segment the  sky. "), ["the sky"]),
        (said("segment mountains", "Please Segment lake"), ["mountains", "lake"]),
        (said("a line segment on the board"), ["a line segment on the board"]),
        (said("The dog", "the  dog", "a cat"), ["The dog", "a cat"]),
        (said("la tête de l'enfant", "犬"), ["la tête de l'enfant", "犬"]),
        (f"Sure!\n```json\n{said('x')}\n```", ["x"]),
        (f"<think>one or two {{?}}</think>{said('x')}", ["x"]),
        ("{'Commands': ['the dog\\'s tail',]}", ["the dog's tail"]),
    ],
)
def test_phrases(reply: str, phrases: list[str]) -> None:
    assert SEVERAL.parse(reply) == tuple(Command(phrase, 0) for phrase in phrases)


def test_commands_of_several_sources() -> None:
    got = INDEXED.parse(said(at(0), at(1), at(1.0, "the cat"), at(1, "THE CAT")))
    assert got == (Command("the dog", 0), Command("the dog", 1), Command("the cat", 1))
    assert isinstance(got[2].source_index, int)
    assert INDEXED.parse(said()) == ()


BAD: list[tuple[Commands, str, str]] = [
    (SEVERAL, "The dog, please", "no JSON object"),
    (SEVERAL, "", "the reply is empty"),
    (SEVERAL, said(), "0 different commands, 1 are due"),
    (SEVERAL, said("a", "b", "c", "d"), "4 entries, more than 3"),
    (ONE, said("a", "b"), "2 entries, more than 1"),
    (SEVERAL, said("a", ""), "'' does not name a thing"),
    (SEVERAL, said("Please segment ."), "does not name a thing"),
    (SEVERAL, said("a" * (LONGEST + 1)), "does not name a thing"),
    (SEVERAL, said(3), "a command is not text"),
    (SEVERAL, said(None), "a command is not text"),
    (SEVERAL, said(at(0)), "a command is not text"),
    (SEVERAL, '{"commands": "the dog"}', '"commands" is not a list'),
    (SEVERAL, '{"command": ["the dog"]}', 'missing "commands"'),
    (SEVERAL, said("a") + said("b"), "more than one JSON object"),
    (SEVERAL, '{"commands": ["the d', "not complete"),
    (INDEXED, said("the dog"), "a command is not an object"),
    (INDEXED, said({"phrase": "the dog"}), 'missing "source_index"'),
    (INDEXED, said(at(2)), '"source_index" is 2, there is 0 to 1'),
    (INDEXED, said(at(-1)), '"source_index" is -1, there is 0 to 1'),
    (INDEXED, said(at(0.5)), "not a whole number"),
    (INDEXED, said(at(True)), "not a whole number"),
    (INDEXED, said(at("0")), "not a whole number"),
    (INDEXED, said(at(0, None)), "a command is not text"),
    (INDEXED, said(at(0) | {"why": "x"}), "unexpected 'why'"),
]


@pytest.mark.parametrize(("contract", "reply", "reason"), BAD)
def test_no_answer(contract: Commands, reply: str, reason: str) -> None:
    with pytest.raises(Unparsable) as caught:
        contract.parse(reply)
    assert reason in caught.value.reason
    assert len(caught.value.reason) < 200


def test_the_token_limit_is_named() -> None:
    with pytest.raises(Unparsable, match="cut at the token limit"):
        SEVERAL.parse('{"commands": ["the d', cut=True)


@given(st.text(max_size=200) | st.builds(said, st.text(max_size=150) | st.integers()))
def test_any_reply_is_read_or_unparsable(reply: str) -> None:
    for contract in (SEVERAL, INDEXED):
        try:
            got = contract.parse(reply)
        except Unparsable:
            continue
        assert contract.low <= len(got) <= contract.high
        for phrase, index in got:
            assert 0 < len(phrase) <= LONGEST
            assert index in range(2)


def test_the_schema_asks_for_what_is_read() -> None:
    items = SEVERAL.schema["properties"]["commands"]
    assert (items["minItems"], items["maxItems"]) == (1, 3)
    assert re.search(items["items"]["pattern"], "the woman's face")
    assert not re.search(items["items"]["pattern"], "")
    entry = INDEXED.schema["properties"]["commands"]["items"]["properties"]
    assert entry["source_index"] == {"type": "integer", "minimum": 0, "maximum": 1}
    assert (
        "maximum"
        not in Commands(indexed=True).schema["properties"]["commands"]["items"]["properties"][
            "source_index"
        ]
    )


def test_the_instruction_says_what_is_due() -> None:
    assert "exactly one text" in ONE.instruction
    assert "at most 4 objects" in INDEXED.instruction
    assert '"Source image 1" is 0' in INDEXED.instruction
    assert "the list is empty" in INDEXED.instruction
    assert "the list is empty" not in SEVERAL.instruction
    # How many sources an edit has is in the schema, so that the words are one for all.
    assert INDEXED.instruction == Commands(low=0, high=4, indexed=True).instruction
    assert len({one.digest for one in (ONE, SEVERAL, INDEXED)}) == 3


@pytest.mark.parametrize("given", [{"low": -1}, {"low": 3, "high": 2}, {"low": 0, "high": 0}])
def test_counts_that_make_no_sense(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="the count of commands"):
        Commands(**given)
    with pytest.raises(ValueError, match="source image"):
        Commands(sources=0)
