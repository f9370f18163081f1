"""What a composite that was asked for says of its parts, which were not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from editjudge.app.results import _extract_part_scores as of_parts
from editjudge.base.signature import Signature
from editjudge.base.verdict import NoScore, Score
from editjudge.benchmarks.registry import load_benchmark
from editjudge.engine.judge import Signatures
from editjudge.storage.store import StoredVerdict

WHOLE = "co_edit.edit_completeness"
PARTS = {
    "co_edit.editing_accuracy": 8.0,
    "co_edit.over_editing": 7.0,
    "co_edit.editing_plausibility": 6.0,
}
KNOWN = {d.id: d for d in load_benchmark("co_edit").dimensions}
TODAY = Signatures(KNOWN).of((KNOWN[name] for name in (*PARTS, WHOLE)), {})
STORED = StoredVerdict(
    item="1",
    model="ours",
    dimension=WHOLE,
    verdict=Score(value=7.3, evidence={"parts": dict(PARTS)}),
    signature=str(TODAY[WHOLE]),
)


def test_the_scores_of_the_same_reply_are_told() -> None:
    parts = of_parts(STORED, KNOWN, TODAY)
    assert {name: part.value for name, part in parts.items()} == PARTS
    assert all(part.evidence == {"from": WHOLE} for part in parts.values())
    # Also where the composite itself would be made otherwise now.
    other = TODAY | {WHOLE: Signature.of({"formula": "another"})}
    assert len(of_parts(STORED, KNOWN, other)) == 3


@pytest.mark.parametrize(
    "stored",
    [
        replace(STORED, verdict=NoScore(kind="unparsable", reason="no JSON object")),
        replace(STORED, verdict=Score(value=7.3)),
        replace(STORED, verdict=Score(value=0, imputed=True, evidence=STORED.verdict.evidence)),
        replace(STORED, dimension="co_edit.editing_accuracy"),
        replace(STORED, dimension="mine.own"),
        replace(STORED, signature="parts:co_edit.over_editing=000000000000"),
        replace(STORED, signature=""),
    ],
)
def test_nothing_else_is(stored: StoredVerdict) -> None:
    assert of_parts(stored, KNOWN, TODAY) == {}
