"""One edit from Python, without any service."""

from __future__ import annotations

from pathlib import Path

import pytest

import editjudge
from editjudge import NotServed
from editjudge.base.config import Settings
from editjudge.base.errors import ConfigError


def test_an_edit_is_judged_in_ones_own_words(photo_file: Path, tmp_path: Path) -> None:
    words = tmp_path / "mine"
    (words / "core").mkdir(parents=True)
    file = words / "core" / "instruction_following.toml"
    asked = {
        "source": photo_file,
        "edited": photo_file,
        "instruction": "make it red",
        "dimensions": ["core.instruction_following", "core.editing_artifacts"],
        "settings": Settings(),
    }
    file.write_text('user = "{sources}{edited}{instruction}"')
    judged = editjudge.score(**asked, prompts=words)  # type: ignore[arg-type]
    assert {name: d.words for name, d in judged.dimensions.items()} == {
        "core.instruction_following": "custom",
        "core.editing_artifacts": "own",
    }
    assert all(isinstance(outcome, NotServed) for outcome in judged.outcomes.values())
    file.write_text('user = "{edited}{instruction}"')
    with pytest.raises(ConfigError, match=r"instruction_following\.toml lacks {sources}"):
        editjudge.score(**asked, prompts=words)  # type: ignore[arg-type]
