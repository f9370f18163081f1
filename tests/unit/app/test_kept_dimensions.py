"""A run keeps its dimensions: a session that names none judges those, and one that names more says
what they add before it judges."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

import editjudge
from editjudge import RunView
from editjudge.app.run import preview_run
from editjudge.base.config import JudgeEndpoint, Settings
from editjudge.base.errors import ConfigError
from editjudge.benchmarks.registry import load_dimensions

from ...fakes.openai import ScriptedOpenAi
from ...small_data import read_items, write_items
from .changing import COUNT, DIMENSIONS, LEVELS, run_again, spec, values

pytestmark = pytest.mark.usefixtures("clock")
RUBRIC = {
    "rubric/light.toml": """
asks = "How well does the light fit?"
criterion = "Shadows fall as the light asks."
scale = { 1 = "not at all", 5 = "wholly" }
"""
}


def test_a_forgotten_choice_of_dimensions_adds_nothing(folder: Path) -> None:
    run_again(folder, dimensions=DIMENSIONS[:1])
    before = values(folder / "run")
    result, said = run_again(folder, dimensions=None)
    assert (result.last_event.edits, said) == (0, [])
    estimate, plan = preview_run(spec(folder, dimensions=None), folder / "run", Settings())
    assert (estimate.verdicts, plan.edit_count) == (0, 0)
    with RunView(folder / "run") as view:
        assert view.header.dimensions == DIMENSIONS[:1]
    lines = read_items(folder / "data")
    write_items(folder / "data", [lines[0] | {"hint": "a cup"}, *lines[1:]])
    result, _ = run_again(folder, dimensions=None)
    assert (result.last_event.edits, values(folder / "run")) == (1, before)


async def test_what_a_new_dimension_adds_is_said_before_the_first_call(folder: Path) -> None:
    server = ScriptedOpenAi(probabilities={"good": 0.7, "bad": 0.3})
    said: list[tuple[str, int]] = []

    def hear(event: object) -> None:
        if text := getattr(event, "text", ""):
            said.append((text, len(server.requests)))

    async with server.serving() as url:
        settings = Settings(judges={"judge": JudgeEndpoint(url=url)})
        for names in (DIMENSIONS, (LEVELS,)):
            asked, before = spec(folder, dimensions=names), len(server.requests)
            estimate, _ = await asyncio.to_thread(preview_run, asked, folder / "run", settings)
            await editjudge.run_async(asked, out=folder / "run", settings=settings, progress=hear)
    line = f"added to the run: {LEVELS}: {COUNT} verdicts, calls: generalist.judge at most {COUNT}"
    assert said == [(line, before)]
    assert line in estimate.notes


def test_dimensions_that_only_objects_are_stay_as_they_are(folder: Path) -> None:
    own = replace(load_dimensions(["core"])[DIMENSIONS[0]], id="lab.alike")
    run_again(folder, dimensions=(own, DIMENSIONS[1]))
    before = values(folder / "run")
    assert run_again(folder, dimensions=None)[0].last_event.edits == 0
    assert values(folder / "run") == before
    run_again(folder, out="other", dimensions=(own,))
    with pytest.raises(ConfigError, match=r"not known here: lab\.alike; give each as an object"):
        run_again(folder, out="other", dimensions=None)


def test_a_new_rubric_is_added_to_the_dimensions_of_the_run(folder: Path) -> None:
    run_again(folder, dimensions=DIMENSIONS[:1])
    asked = spec(folder, dimensions=None, prompts=RUBRIC)
    estimate, plan = preview_run(asked, folder / "run", Settings())
    assert {one.id for one in plan.inputs.dimensions} == {DIMENSIONS[0], "rubric.light"}
    assert any("added to the run: rubric.light: 4 verdicts" in one for one in estimate.notes)
