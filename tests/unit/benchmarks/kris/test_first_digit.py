"""The released way to read scores: what each step takes, and what none of them does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editjudge.answers.first_digit import FirstDigit
from editjudge.benchmarks.kris.dimensions import readers

COMMON = dict(readers("consistency"))[""]
KNOWING = dict(readers("consistency"))["biology"]
SEVERAL = dict(readers("consistency"))["forward_prediction"]
JOINT = dict(readers("instruction"))["physics"]

# A numbered list, then JSON that is none because of its last comma: the list's number counts.
LIST = '1. The sky is kept.\n2. So is the tree.\n{"reasoning": "kept", "consistency_score": 4,}'
RAW_BREAK = 'Of 3 parts two are kept.\n{"reasoning": "a\nb", "consistency_score": 4}'
READ: list[tuple[FirstDigit, str, float | None, str]] = [
    (COMMON, '{"consistency_score": 4, "reasoning": "1 of 2"}', 4, "json"),
    (COMMON, '```json\n{"reasoning": "1/5", "consistency_score": "4"}\n```', 4, "json"),
    (COMMON, '{"consistency_score": 4.9}', 4, "json"),
    (COMMON, '{"consistency_score": true}', 1, "json"),
    (COMMON, LIST, 1, "first digit"),
    (COMMON, RAW_BREAK, 3, "first digit"),
    (COMMON, '{"consistency_score": "4.5"}', 4, "first digit"),
    (COMMON, '{"consistency_score": [4]}', 4, "first digit"),
    (COMMON, '{"consistency_score": Infinity} or 2', 2, "first digit"),
    (COMMON, '{"consistency_score": null}, 2 of 5', 2, "first digit"),
    (KNOWING, '{"consistency_score": null}, 2 of 5', None, ""),
    (COMMON, '{"a": {"consistency_score": 5}} 2/5', 5, "json"),
    (COMMON, "Consistency Score: 4 of 5, two things moved", 4, "prefix"),
    (COMMON, "1. moved\nconsistency_score\uff1a3", 3, "prefix"),
    (COMMON, "1. moved\nconsistency score 3", 3, "prefix"),
    (KNOWING, "1. moved\nconsistency score 3", 1, "first digit"),
    (SEVERAL, "1. moved\nconsistency_score: 3", 1, "first digit"),
    (COMMON, "1. moved. I give it 4 / 5.", 4, "n/5"),
    (COMMON, "1. moved. I give it 4 out  of 5.", 4, "n out of 5"),
    (COMMON, "In 2024 nothing moved, so 5", 5, "first digit"),
    (COMMON, "six, 6 and 0, 14 and 4a", None, ""),
    (COMMON, "", None, ""),
    (COMMON, '{"consistency_score": 7}', None, ""),
    (COMMON, '{"consistency_score": 0} 4/5', None, ""),
    (KNOWING, '{"consistency_score": -1}', None, ""),
]


@pytest.mark.parametrize(("reader", "reply", "score", "how"), READ)
def test_one_score(reader: FirstDigit, reply: str, score: float | None, how: str) -> None:
    found = reader.parse(reply)
    key = "consistency_score"
    assert (found.scores.get(key), found.steps.get(key, "")) == (score, how)
    assert (key in found.without) == (score is None)


JOINTLY: list[tuple[str, dict[str, float]]] = [
    ('{"instruction_score": 2, "knowledge_score": "5"}', {"instruction_score": 2, "knowledge_score": 5}),
    ('{"instruction_score": 4, "knowledge_score": null}', {"instruction_score": 4}),
    ('{"instruction_score": 4}', {"instruction_score": 4}),
    ('{"instruction_score": 4, "knowledge_score": 9}', {"instruction_score": 4}),
    ("Instruction score: 3\nKnowledge score: 1", {"instruction_score": 3, "knowledge_score": 1}),
    # One value that int() refuses sends both to the text; a key in quotes is not found there.
    ('{"instruction_score": 4, "knowledge_score": "high"}', {}),
    ("knowledge_score: 2", {"knowledge_score": 2}),
    ("I give it 4/5, and 3 for knowledge.", {}),
]


@pytest.mark.parametrize(("reply", "scores"), JOINTLY)
def test_two_scores_have_no_first_digit(reply: str, scores: dict[str, float]) -> None:
    found = JOINT.parse(reply)
    assert found.scores == scores
    assert set(found.without) == {"instruction_score", "knowledge_score"} - set(scores)


def test_a_number_off_the_scale_says_so() -> None:
    said = COMMON.parse('{"consistency_score": 7}').without["consistency_score"]
    assert said == ("the official reader takes 7 for consistency_score, which is not on the scale of 1 to 5")


@given(st.text(max_size=200), st.sampled_from([COMMON, KNOWING, SEVERAL, JOINT]))
def test_nothing_is_raised_and_nothing_leaves_the_scale(reply: str, reader: FirstDigit) -> None:
    for text in (reply, f'{{"{reader.keys[0]}": {reply}}}'):
        found = reader.parse(text, cut=True)
        assert set(found.scores) | set(found.without) == set(reader.keys)
        assert not set(found.scores) & set(found.without)
        assert all(value in {1, 2, 3, 4, 5} for value in found.scores.values())


def test_readers_differ_where_the_scripts_do() -> None:
    every: list[Any] = [COMMON, KNOWING, SEVERAL, JOINT]
    assert len({one.digest for one in every}) == len(every)
    assert all((one.schema, one.instruction) == (None, "") for one in every)
