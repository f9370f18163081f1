"""Stand-ins for the authors' prompts: made-up texts under the same names, with their digests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from editjudge.base.prompt_releases import import_official_prompts
from editjudge.prompts.official_prompts import load_official_prompts

from ..stand_ins import stand_ins

BY_OURS = load_official_prompts("editjudge.benchmarks.kris")
PROMPTS = tuple(BY_OURS.values())


def stand_in(file: str) -> str:
    """A made-up text with the fields and the kind of braces that the real one has."""
    told = {name for one in PROMPTS if one.file == file for name, _ in one.fields or ()}
    lines = [f"Rate by {file}.", *(f"{name}={{{name}}}" for name in sorted(told))]
    return "\n".join([*lines, 'Say {{"a_score": X}}.\n'])


TEXTS: Mapping[str, str] = {one.file: stand_in(one.file) for one in PROMPTS}


def declare_stand_ins(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Let the stand-ins be the authors' prompts, kept below a folder; their release."""
    script = "".join(f"{n.removesuffix('.txt')} = {t!r}\n" for n, t in TEXTS.items())
    return stand_ins(monkeypatch, folder, "kris", TEXTS, ("prompts.py", script))


def import_stand_ins(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The same, imported."""
    import_official_prompts("kris", declare_stand_ins(monkeypatch, folder).parent)
