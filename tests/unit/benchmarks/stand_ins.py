"""Stand-ins for authors' prompts: made-up texts under the same names, with their digests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from editjudge.base import prompt_releases as module
from editjudge.base.prompt_releases import PromptRelease


def stand_ins(
    monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, texts: Mapping[str, str], release: tuple[str, str]
) -> Path:
    """Let texts be the prompts of a benchmark's authors, kept below a folder; their release.

    Args:
        name: Of the benchmark.
        texts: By file.
        release: Name and content of the file that they are published in.
    """
    digests = {file: hashlib.sha256(text.encode()).hexdigest() for file, text in texts.items()}
    known = {name: PromptRelease(name, f"example.org/{name}", digests)}
    monkeypatch.setattr(module, "prompt_releases", lambda: known)
    monkeypatch.setenv("EDITJUDGE_PROMPTS_DIR", str(folder / "kept"))
    published = folder / "release" / release[0]
    published.parent.mkdir(parents=True, exist_ok=True)
    published.write_text(release[1])
    return published
