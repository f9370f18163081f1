"""Co-EditBench behind the real Triton: untrained CLIP, DINOv2 and LPIPS, a scripted judge."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from editjudge_services.runtime.triton_server import TritonServer

from ..e2e.test_co_edit import LINES, SCORES, Judge
from ..e2e.test_kris import verb
from ..e2e.test_run import command
from ..unit.benchmarks.co_edit.made import picture, written
from .test_run_served import requests

pytestmark = [pytest.mark.triton, pytest.mark.timeout(400)]


async def test_every_item_is_covered_and_asked_once(stack: TritonServer, tmp_path: Path) -> None:
    data = written(tmp_path / "data", LINES)
    for seed, item in enumerate(SCORES):
        picture(tmp_path / "ours" / f"{item}.png", 20 + seed)
    out = tmp_path / "run"
    judge = Judge()
    async with judge.serving() as url:
        run = ["co_edit", "--data", data, "--outputs", f"ours={tmp_path / 'ours'}", "--out", out]
        run += ["--generalist", url, "--endpoint", stack.url]
        done = await asyncio.to_thread(command, "run", *run)
        assert done.code == 0, done.err
        asked, served = len(judge.asked), requests(stack)
        assert (await asyncio.to_thread(command, "run", *run)).code == 0
        assert (len(judge.asked), requests(stack)) == (asked, served)
    table = verb("summary", out, "--json").json
    cells = table["models"]["ours"]
    less = {name: c["counts"] for name, c in cells.items() if c["scored"] < c["asked"]}
    assert less == {}
    assert {"lpips.vgg", "features.dinov2", "clip.vit_b_32"} <= set(table["untrained"])
    for name in ("clip.subject", "dino.subject", "lpips.kept", "identity_preservation", "overall"):
        assert cells[f"co_edit.{name}"]["scored"] > 0, name
