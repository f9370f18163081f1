"""Co-EditBench behind the real Triton: untrained CLIP, DINOv2 and LPIPS, a scripted judge."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from editjudge_services.runtime.triton_server import TritonServer

from ..e2e.conftest import run_in_process
from ..e2e.test_run import command
from ..golden import cases
from ..golden.services import Judge
from .test_run_served import requests

pytestmark = [pytest.mark.triton, pytest.mark.timeout(400)]


EMPTY = {"empty.png", "full.png"}
"""Masks of nothing and of all: there is no number inside or outside them."""


async def test_every_item_is_covered_and_asked_once(stack: TritonServer, tmp_path: Path) -> None:
    made, out, judge = cases.co_edit(tmp_path), tmp_path / "run", Judge("model", refuses=False)
    lines = [line for line in made.data.read_text().splitlines() if not EMPTY & {*line.split('"')}]
    made.data.write_text("\n".join(lines))
    for seed, file in enumerate(made.outputs.values(), 20):
        cases.draw_picture(tmp_path / "ours" / file, seed, (24, 16))
    async with judge.serving() as url:
        run = ["co_edit", "--data", made.data, "--outputs", f"ours={tmp_path / 'ours'}"]
        run += ["--out", out]
        run += ["--generalist", url, "--endpoint", stack.url]
        done = await asyncio.to_thread(command, "run", *run)
        assert done.code == 0, done.err
        asked, served = len(judge.requests), requests(stack)
        assert (await asyncio.to_thread(command, "run", *run)).code == 0
        assert (len(judge.requests), requests(stack)) == (asked, served)
    table = run_in_process("summary", out, "--json").json
    cells = table["models"]["ours"]
    less = {name: c["counts"] for name, c in cells.items() if c["scored"] < c["asked"]}
    assert less == {}
    assert {"lpips.vgg", "features.dinov2", "clip.vit_b_32"} <= set(table["untrained"])
    for name in ("clip.subject", "dino.subject", "lpips.kept", "identity_preservation", "overall"):
        assert cells[f"co_edit.{name}"]["scored"] > 0, name
