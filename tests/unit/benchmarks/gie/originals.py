"""Stand-ins for the authors' prompts: made-up texts under the same names, with their digests."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from editjudge.prompts import originals as module
from editjudge.prompts.originals import Originals, import_originals

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


def declared(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Let the stand-ins be the authors' prompts, kept below a folder; their release."""
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in TEXTS.items()}
    known = {"gie": Originals("gie", "example.org/gie", digests)}
    monkeypatch.setattr(module, "originals", lambda: known)
    monkeypatch.setenv("EDITJUDGE_PROMPTS_DIR", str(folder / "kept"))
    release = folder / "release" / "evaluation.py"
    release.parent.mkdir(parents=True, exist_ok=True)
    release.write_text(SCRIPT)
    return release


def imported(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The same, imported."""
    import_originals("gie", declared(monkeypatch, folder).parent)
