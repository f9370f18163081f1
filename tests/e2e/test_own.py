"""docs/howto/own.md from an empty folder, typed as it stands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ..fakes.openai import ScriptedOpenAi, reply
from ..small_data import save_picture, write_items
from ..unit.test_docs import blocks, read
from .conftest import CommandResult, run_in_thread

ADDRESS = "http://127.0.0.1:8000/v1"


def read_commands(url: str) -> Iterator[list[str]]:
    """The commands about rubrics, with the judge's address."""
    for code in blocks(read("docs", "howto", "own.md"), "sh"):
        for line in re.sub(r"\\\n\s*", " ", code).splitlines():
            if line.startswith("editjudge ") and ("light" in line):
                yield shlex.split(line.replace(ADDRESS, url))[1:]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder but for the page's rubric and somebody's data."""
    monkeypatch.chdir(tmp_path)
    rubric = blocks(read("docs", "howto", "own.md"), "toml")[0]
    (tmp_path / "light.toml").write_text(rubric)
    rng = np.random.default_rng(3)
    for name in ("before.png", "after.png", "out/ours/a.png"):
        save_picture(tmp_path / name, rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
    write_items(tmp_path, [{"id": "a", "instruction": "add a lamp", "source": "before.png"}])
    return tmp_path


def value(ran: CommandResult, dimension: str = "rubric.light") -> Any:
    assert ran.code == 0, ran.err
    return {one["dimension"]: one.get("value") for one in ran.json["verdicts"]}[dimension]


async def test_a_rubric_from_an_empty_folder(folder: Path) -> None:
    server = ScriptedOpenAi(reply('{"reasoning": "the shadow is off", "score": 4}'))

    async with server.serving() as url:
        commands = list(read_commands(url))
        assert [words[0] for words in commands] == ["prompts", "score", "run", "summary"]
        bare, score, judge, summary = commands
        assert "- 3: most fits, one thing is off" in (await run_in_thread(*bare)).out
        assert value(await run_in_thread(*score, "--json")) == 4
        assert "shadows, reflections" in server.bodies[-1].decode()

        done = await run_in_thread(*judge)
        assert done.code == 0, done.err
        made = len(server.requests)
        assert "4 (1/1)" in (await run_in_thread(*summary)).out
        assert "the shadow is off" in (await run_in_thread("show", "runs/light", "a")).out
        rescored = await run_in_thread("rescore", "runs/light")
        assert (rescored.code, len(server.requests)) == (0, made), rescored.err

        # The run goes on in its words, asks nothing again, and refuses others.
        bare_run = [word for word in judge if word not in {"--rubric", "light.toml"}]
        again = await run_in_thread(*bare_run)
        assert again.code == 0, again.err
        assert "rubric/light.toml" in again.err
        assert len(server.requests) == made
        rubric = folder / "light.toml"
        rubric.write_text(rubric.read_text().replace("pasted in", "wrong"))
        other = await run_in_thread(*judge)
        assert other.code == 2
        assert "was judged with other prompts: rubric/light.toml" in other.err
        # Another one joins it.
        rubric.rename(folder / "lamp.toml")
        more = [word.replace("light.toml", "lamp.toml") for word in judge]
        more[more.index("rubric.light")] = "psnr"
        joined = await run_in_thread(*more)
        assert joined.code == 0, joined.err
        assert len(server.requests) == made + 1
        table = await run_in_thread(*summary, "--json")
        columns = {column["id"] for column in table.json["columns"]}
        assert {"rubric.light", "rubric.lamp"} <= columns
