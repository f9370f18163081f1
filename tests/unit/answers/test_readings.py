"""Replies as judges write them: one meaning is read, and no valid answer is never a number."""

from __future__ import annotations

import pytest

from editjudge.answers.reply import Unparsable

from .forms import CONTRACTS, Row, as_data, load_rows

READABLE, UNREADABLE = [*load_rows("tolerated.toml")], [*load_rows("unreadable.toml")]


def name(row: Row) -> str:
    return f"{row.asks}: {row.reply[:60]}"


@pytest.mark.parametrize("row", READABLE, ids=name)
def test_one_meaning_is_read(row: Row) -> None:
    contract = CONTRACTS[row.asks]
    answer = contract.parse(row.reply, cut=row.cut)
    assert as_data(answer) == row.due
    if row.asks in {"kris", "co_edit"}:
        assert list(as_data(answer)) == list(row.due)
        assert contract.parse(row.reply, cut=True) == answer


@pytest.mark.parametrize("row", UNREADABLE, ids=name)
def test_no_answer_is_refused_with_its_reason(row: Row) -> None:
    for reply in (row.reply, *([f"```json\n{row.reply}\n```"] if row.is_within else [])):
        with pytest.raises(Unparsable) as caught:
            CONTRACTS[row.asks].parse(reply, cut=row.cut)
        assert row.due in caught.value.reason
        assert str(caught.value) == caught.value.reason
        assert len(caught.value.reason) < 200
        assert "\n" not in caught.value.reason


def test_half_a_pair_of_characters_is_replaced_and_nought_has_no_sign() -> None:
    reply = '{"reasoning": "half a pair \ud83d", "consistency_score": 4}'
    assert CONTRACTS["kris"].parse(reply).reasoning == "half a pair \ufffd"
    answer = CONTRACTS["co_edit"].parse('{"reasoning": "x", "score": [8, 7, -0.0, 10]}')
    assert str(answer.scores["OE"]) == "0.0"


def test_an_index_is_a_whole_number() -> None:
    reply = '{"commands": [{"source_index": 1.0, "phrase": "the cat"}]}'
    (command,) = CONTRACTS["indexed_commands"].parse(reply)
    assert isinstance(command.source_index, int)


def test_only_what_lacks_is_named() -> None:
    one = '{"instruction_reasoning": "a", "instruction_score": 2, "knowledge_reasoning": "b"}'
    with pytest.raises(Unparsable) as caught:
        CONTRACTS["joint"].parse(one)
    assert 'missing "reasoning"' not in caught.value.reason
