"""`editjudge score` over the real vLLM: every generic dimension of a judge has a number."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image as Pil

from editjudge_services.runtime.vllm_server import Protocol

from .conftest import Pair

GENERIC = (
    "core.instruction_following",
    "core.preservation",
    "core.blending_naturalness",
    "core.editing_artifacts",
    "core.physical_plausibility",
    "core.composition_and_interaction",
)
# Random weights spread their probability over everything, and sampled at a temperature they do
# not write the same question twice; that they write questions at all is the grammar's doing.
TOLERANT = "max_outside = 1\ntemperature = 1\nmax_tokens = 3000\n"


def score_edit(folder: Path, url: str) -> dict[str, object]:
    for name, level in (("source", 90), ("edited", 160)):
        pixels = np.full((64, 64, 3), level, np.uint8)
        pixels[16:48, 16:48] = 255 - level
        Pil.fromarray(pixels).save(folder / f"{name}.png")
    (folder / "editjudge.toml").write_text(f'[judges.judge]\nurl = "{url}"\n{TOLERANT}')
    asked = [part for name in GENERIC for part in ("--dimension", name)]
    files = ["--source", folder / "source.png", "--edited", folder / "edited.png"]
    ran = subprocess.run(
        [sys.executable, "-m", "editjudge", "score", *files, "--instruction", "lighten it",
         *asked, "--ledger", folder / "ledger.sqlite", "--json"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)  # type: ignore[no-any-return]


async def test_every_generic_dimension(pair: Pair, protocol: Protocol, tmp_path: Path) -> None:
    url = pair.servers[protocol].url
    judged: dict[str, object] = await asyncio.to_thread(score_edit, tmp_path, url)
    verdicts = {v["dimension"]: v for v in judged["verdicts"]}  # type: ignore[attr-defined]
    assert set(verdicts) == set(GENERIC)
    for verdict in verdicts.values():
        assert verdict["status"] == "scored", verdict
        assert 0 <= verdict["value"] <= 1
        assert verdict["untrained"] is True
        assert f"transport={protocol}" in verdict["signature"]
        assert "choices=logprobs" in verdict["signature"]
    listed = verdicts["core.physical_plausibility"]["evidence"]["questions"]
    assert len({one["question"] for one in listed}) >= 5
    assert judged["usage"]["cached_tokens"] > 0  # type: ignore[index]
    again: dict[str, object] = await asyncio.to_thread(score_edit, tmp_path, url)
    assert again["usage"]["calls"] == 0  # type: ignore[index]
    assert [v["value"] for v in again["verdicts"]] == [v["value"] for v in judged["verdicts"]]  # type: ignore[attr-defined]
