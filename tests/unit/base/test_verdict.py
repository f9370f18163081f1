"""Nothing but a finite number can be a score."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from editjudge.base.verdict import Failure, NoScore, Score, Verdict


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "3"])
def test_a_score_is_finite(value: Any) -> None:
    if value == "3":
        assert Score(value=value).value == 3  # stored verdicts read back from text
        return
    with pytest.raises(ValidationError):
        Score(value=value)


def test_only_the_stated_kinds_of_unscored() -> None:
    with pytest.raises(ValidationError):
        NoScore(kind="unlucky", reason="?")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "verdict",
    [
        Score(value=0.5, evidence={"read": "SALE", "boxes": [[1.5, 2.0]]}, imputed=True),
        NoScore(kind="abstained", reason="cannot tell"),
        Failure(error="gone", retryable=True),
    ],
)
def test_verdicts_survive_being_stored(verdict: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Verdict)
    assert adapter.validate_json(adapter.dump_json(verdict)) == verdict
