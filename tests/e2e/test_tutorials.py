"""The commands of the tutorials, run one after the other, with a scripted judge."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ..doc_samples import ROOT
from ..fakes.openai import ScriptedOpenAi, reply
from .conftest import beside

FOLDER = ROOT / "docs" / "tutorials"
ADDRESS = "http://127.0.0.1:8000/v1"
ENDS = {
    "first": "exact beats no_edit by",
    "criterion": "rubric.light",
}
"""What the last comparison of each tutorial says."""


def test_every_tutorial_is_run() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} == {*ENDS}


@pytest.mark.triton
@pytest.mark.parametrize("name", ENDS)
async def test_every_command_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    for file, text in re.findall(r"^```toml\n# (\S+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        Path(file).write_text(text)
    commands = re.findall(r"^\$ editjudge (.+)$", page, re.MULTILINE)
    server = ScriptedOpenAi(reply('{"reasoning": "the shadow is off", "score": 4}'))
    compared = ""
    async with server.serving() as url:
        for command in commands:
            ran = await beside(*shlex.split(command.replace(ADDRESS, url)))
            assert ran.code == 0, f"{command}: {ran.err}"
            if command.startswith("compare"):
                compared = ran.out
    assert ENDS[name] in compared
    assert bool(server.bodies) == (ADDRESS in page)
