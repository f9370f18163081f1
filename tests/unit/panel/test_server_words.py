"""What libraries and front doors say of a failed call is explained."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from editjudge.panel.redaction import explain_failure

TABLE = tomllib.loads(Path(__file__).with_name("failures.toml").read_text("utf-8"))
EXPLAINED = {said: group["explained"] for group in TABLE["failures"] for said in group["said"]}


@pytest.mark.parametrize("said", EXPLAINED)
def test_a_failure_is_explained(said: str) -> None:
    assert explain_failure(said).startswith(EXPLAINED[said])
