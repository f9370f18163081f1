"""The commands of the tutorials, run one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ..doc_samples import ROOT
from .conftest import run

PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.mark.triton
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^\$ editjudge (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert commands
    printed = ""
    for command in commands:
        ran = run(*shlex.split(command))
        assert ran.code == 0, f"{command}: {ran.err}"
        printed += ran.out
    assert "exact beats no_edit by" in printed
    assert (tmp_path / "out" / "demo" / "page.html").is_file()
