"""The tutorials, run from top to bottom with a scripted judge."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ..tutorials import ADDRESS, FOLDER, TutorialJudge, run_tutorial

ENDS = {
    "first": "exact beats no_edit by",
    "criterion": "rubric.light",
    "table": "no significant difference",
    "people": "a rater against the others",
    "pairs": "models by pairs",
    "anchor": "anchored to people",
    "train": "change",
    "gate": "PASS; FAIL\nexit code 4; CANNOT TELL\nexit code 5",
}
"""What the comparisons of each tutorial say."""
ELSEWHERE = {"shared": "tests/front", "kubernetes": "tests/k8s"}
"""Where the others are run."""


def test_every_tutorial_is_run() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} == ENDS.keys() | ELSEWHERE.keys()


@pytest.mark.triton
@pytest.mark.parametrize("name", ENDS)
async def test_every_step_runs(name: str, tmp_path: Path) -> None:
    server = TutorialJudge()
    has_judge = ADDRESS in (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    async with server.serving() as url:
        replacing = {ADDRESS: url} if has_judge else {}
        compared = await asyncio.to_thread(run_tutorial, name, tmp_path, replacing)
    assert [words for words in ENDS[name].split("; ") if words not in compared] == []
    assert bool(server.bodies) == has_judge
