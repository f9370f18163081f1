"""Judges that decline in words."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from editjudge.answers.words import LONGEST, REFUSALS, is_refusal

TABLE = tomllib.loads(Path(__file__).with_name("declining.toml").read_text("utf-8"))
DECLINES = {group["language"]: group["texts"] for group in TABLE["declines"]}
LONG = "I can't assist with that. " + "The edit is fine. " * (LONGEST // 10)


@pytest.mark.parametrize("language", sorted({row["language"] for row in REFUSALS}))
def test_a_refusal(language: str) -> None:
    assert [reply for reply in DECLINES[language] if not is_refusal(reply)] == []


@pytest.mark.parametrize("reply", [*TABLE["others"]["texts"], LONG])
def test_what_is_none(reply: str) -> None:
    assert not is_refusal(reply)
