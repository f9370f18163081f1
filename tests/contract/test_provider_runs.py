"""Whole runs by every provider: choices of GIE-Bench by its paper, and scores of KRIS-Bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

import editjudge
from editjudge import RunSpec, RunView
from editjudge.base.config import JudgeEndpoint, Settings
from editjudge.benchmarks.gie.release import convert

from ..fakes.openai import bound_to, choices_of, reply
from ..fakes.providers import PROVIDERS, ScriptedProvider
from ..unit.benchmarks.gie.release import record, write_release

GIE, KRIS = "gie.functional_correctness", "kris.visual_consistency"


class Judge(ScriptedProvider):
    """Takes the first of the choices that it is held to, or the one that is right; scores 4."""

    def make_reply(self) -> dict[str, Any]:
        request = self.requests[-1]
        choices = choices_of(request)
        if choices and self.habits.get("holds", True):
            return reply(bound_to(request, choices[0]))
        if "What of" in json.dumps(request["messages"]):
            return reply("The new one")
        return reply(json.dumps({"reasoning": "As it was.", "consistency_score": 4}))


def make_gie(folder: Path) -> RunSpec:
    convert(write_release(folder / "released", [record(), record("Layout Modification")]), folder / "gie")
    return RunSpec(benchmark="gie", data=folder / "gie", outputs={"ours": ":sources"}, dimensions=(GIE,))


def make_kris(folder: Path) -> RunSpec:
    for place in ("kris", "ours"):
        path = folder / place / "count_change" / "1.png"
        path.parent.mkdir(parents=True)
        pixels = np.random.default_rng(len(place)).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Pil.fromarray(pixels).save(path)
    line = {"ori_img": "1.png", "gt_img": "", "ins_en": "make it red", "explain_en": ""}
    (folder / "kris" / "count_change" / "annotation.json").write_text(json.dumps({"1": line}))
    outputs = {"ours": folder / "ours"}
    return RunSpec(benchmark="kris", data=folder / "kris", outputs=outputs, dimensions=(KRIS,))


@pytest.mark.parametrize("make", [make_gie, make_kris])
@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_run_is_judged(name: str, make: Any, tmp_path: Path) -> None:
    server = Judge(name)
    async with server.serving() as url:
        judge = JudgeEndpoint(url=url, model=server.model)
        settings = Settings(judges={"judge": judge}, retry_wait=0.001)
        result = await editjudge.run_async(make(tmp_path), out=tmp_path / "run", settings=settings)
    assert result.status == "done"
    with RunView(tmp_path / "run") as view:
        outcomes = [getattr(one.verdict, "error", one.verdict.status) for one in view.verdicts()]
        signatures = {one.signature for one in view.verdicts()}
    assert set(outcomes) == {"scored"}, outcomes
    assert len(signatures) == 1
    assert len(server.refusals) == len(set(server.refusals))
