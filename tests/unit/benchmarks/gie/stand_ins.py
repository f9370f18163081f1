"""Stand-ins for the authors' prompts: made-up texts under the same names, with their digests."""

from __future__ import annotations

from pathlib import Path

import pytest

from editjudge.base.prompt_releases import import_official_prompts

from ..stand_ins import stand_ins

TEXTS = {
    "system_prompt.txt": "You pick. {Braces} are left alone.",
    "user_prompt.txt": "Asked: {question}\n{{so}} of: {', '.join(options)}\nPick.",
}
SCRIPT = r"""
def ask(question, options):
    system_prompt = (
        "You pick. "
        "{Braces} are left alone."
    )
    user_prompt = (
        f"Asked: {question}\n"
        f"{{so}} of: {', '.join(options)}\n"
        f"Pick."
    )
"""
"""A release that holds them as the real one does: one text plain, the other formatted."""


def declare_stand_ins(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Let the stand-ins be the authors' prompts, kept below a folder; their release."""
    return stand_ins(monkeypatch, folder, "gie", TEXTS, ("evaluation.py", SCRIPT))


def import_stand_ins(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The same, imported."""
    import_official_prompts("gie", declare_stand_ins(monkeypatch, folder).parent)
