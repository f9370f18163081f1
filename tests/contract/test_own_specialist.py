"""A specialist of one's own over the contract of its role: bound, signed, probed, asked."""

from __future__ import annotations

import asyncio
import re
import shlex
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge.base.config import Endpoint, Settings, load_settings
from editjudge.base.errors import ConfigError
from editjudge.base.identity import ServiceName
from editjudge.benchmarks.registry import add_specialists, load_benchmark
from editjudge.panel.specialists import list_custom_services

from ..e2e.conftest import CommandResult, run_in_process
from ..fakes.triton import ScriptedTriton, reply, score
from ..unit.test_docs import blocks, read

MINE = ServiceName("quality", "mylab")
ADDRESS = "grpc://127.0.0.1:8001"


def endpoint(*services: str) -> Settings:
    return Settings(endpoints={"mylab": Endpoint(url="grpc://node:8001", services=services)})


def test_each_role_gives_the_dimensions_of_ours() -> None:
    roles = ("quality", "aesthetics", "features", "clip", "lpips", "ocr", "segmenter")
    rules = add_specialists(load_benchmark("core").rules(), (ServiceName(r, "mylab") for r in roles))
    ids = [one.id for one in rules.extra_dimensions]
    assert len(ids) == 1 + 1 + 4 + 4 + 4 + 1
    ours = {one.id for one in rules.dimensions}
    signed = {one.signature({}).digest for one in rules.dimensions}
    assert not ours & set(ids)
    for one in rules.extra_dimensions:
        assert "mylab" in one.id
        assert one.signature({}).digest not in signed


@pytest.mark.parametrize("name", ["sharpness.mylab", "quality", "quality.My-Lab", "generalist.x", ""])
def test_what_is_no_service_is_refused_with_the_roles_there_are(name: str) -> None:
    with pytest.raises(ConfigError, match=r"endpoint grpc://node:8001: .* role one of quality, "):
        list_custom_services(endpoint(name))


def test_a_known_name_is_ours() -> None:
    assert list_custom_services(endpoint("quality.piqe", MINE, MINE)) == (MINE,)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("before.png", "after.png"):
        Pil.fromarray(np.zeros((24, 32, 3), np.uint8)).save(tmp_path / name)
    (tmp_path / "ours").mkdir()
    Pil.fromarray(np.zeros((24, 32, 3), np.uint8)).save(tmp_path / "ours" / "a.png")
    line = '{"id": "a", "instruction": "x", "source": "before.png"}\n'
    (tmp_path / "items.jsonl").write_text(line)
    return tmp_path


async def ran(*arguments: Any) -> CommandResult:
    return await asyncio.to_thread(run_in_process, *arguments)


def settings_of_the_page(folder: Path, url: str) -> None:
    (text,) = (code for code in blocks(read("docs", "howto", "own.md"), "toml") if "endpoints" in code)
    (folder / "editjudge.toml").write_text(text.replace(ADDRESS, url))
    assert list_custom_services(load_settings(folder / "editjudge.toml")) == (MINE,)


def read_commands() -> list[list[str]]:
    """The commands of the page that are about it."""
    page = read("docs", "howto", "own.md").partition("## A specialist of your own")[2].partition("\n## ")[0]
    lines = (re.sub(r"\\\n\s*", " ", code).splitlines() for code in blocks(page, "sh"))
    return [shlex.split(line)[1:] for line in chain.from_iterable(lines)]


async def test_a_specialist_from_an_empty_folder(folder: Path) -> None:
    server = ScriptedTriton(score(0.75), models=("quality_mylab",), implementation="mylab.1")
    doctor, listed, scored, judged, summary = read_commands()
    async with server.serving() as url:
        settings_of_the_page(folder, url)
        told = await ran(*doctor)
        assert (told.code, "quality.mylab" in told.out) == (0, True), told
        assert "quality_mylab" in (await ran(*listed)).out
        (verdict,) = (await ran(*scored, "--json")).json["verdicts"]
        assert (verdict["dimension"], verdict["value"]) == ("core.quality.mylab", 0.75)
        assert "implementation=mylab.1" in verdict["signature"]
        done = await ran(*judged)
        assert done.code == 0, done.err
    (folder / "editjudge.toml").unlink()
    assert "0.75" in (await ran(*summary)).out, "the run knows its services"


@pytest.mark.parametrize(
    ("answer", "told"),
    [(score(1.5), "SCORE"), (reply(RATING=np.ones((1, 1), np.float32)), "SCORE"), (None, "not among the models ready")],
    ids=["bounds", "tensor", "model"],
)
async def test_doctor_says_what_does_not_hold(folder: Path, answer: Any, told: str) -> None:
    """An answer, or None for a server without the model."""
    server = ScriptedTriton(answer, models=("quality_mylab" if answer else "quality_piqe",))
    async with server.serving() as url:
        settings_of_the_page(folder, url)
        found = await ran("doctor", "--json")
    (finding,) = (one for one in found.json if one["service"] == MINE)
    assert found.code != 0
    assert told in finding["problem"]
