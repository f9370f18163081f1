"""What fell outside the choices, read from the replies behind current verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from editjudge.app.results import _read_outside
from editjudge.base.verdict import Score
from editjudge.benchmarks.registry import load_dimensions
from editjudge.benchmarks.rounds import JudgeRounds, make_rounds
from editjudge.panel.calls import CallRecord
from editjudge.storage.edit_rows import StoredVerdict

LEVELS, LIST = "core.editing_artifacts", "core.physical_plausibility"


def chosen(outside: float | None, method: str = "logprobs") -> dict[str, Any]:
    return {"probabilities": {"Yes": 1.0, "No": 0.0}, "outside": outside, "method": method}


def record(dimension: str, *replies: Any) -> StoredVerdict:
    calls = (
        CallRecord(
            call=f"{n}",
            judge="judge",
            model="judge",
            prompt=None,
            reply=reply,
            prompt_tokens=1,
            cached_tokens=0,
            completion_tokens=1,
            cost=None,
        )
        for n, reply in enumerate(replies)
    )
    return StoredVerdict("1", "ours", dimension, Score(value=1), "", "", tuple(calls))


@pytest.mark.parametrize(
    ("replies", "outside"),
    [
        ([chosen(0.25)], {LEVELS: 0.25}),
        ([chosen(0.0)], {LEVELS: 0.0}),
        # A list of questions is written in words, then each is answered by a choice.
        ([{"text": "[]", "finish": "stop"}, chosen(0.1), chosen(0.3)], {LEVELS: 0.2}),
        ([], {}),
        ([chosen(None, "sampled")], {}),
        ([{"text": "good", "finish": "stop"}], {}),
        ([{"SCORE": [0.5]}], {}),
        (["a reply in words"], {}),
    ],
)
def test_what_replies_tell(replies: list[Any], outside: Mapping[str, float]) -> None:
    """Where they tell nothing there is no entry: that would be read as 0."""
    got = _read_outside([record(LEVELS, *replies)], load_dimensions())
    assert got == pytest.approx(outside)


def test_rounds_of_judges_are_one_number() -> None:
    """A judge that only samples tells nothing, and counts as nothing."""
    rounds = JudgeRounds(("judge", "other", "third"))
    by_id = make_rounds(load_dimensions(), rounds)
    ids = [one.dimension_id(LEVELS) for one in rounds.each_round]
    records = [
        # However many calls a round took, it counts once.
        record(ids[0], chosen(0.0), chosen(0.1), chosen(0.2)),
        record(ids[1], chosen(0.5)),
        record(ids[2], chosen(None, "sampled")),
        record(LIST, chosen(0.7)),
    ]
    assert _read_outside(records, by_id) == pytest.approx({LEVELS: 0.3, LIST: 0.7})
