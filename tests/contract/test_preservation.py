"""What a judge is sent that is asked whether the rest was kept: pictures and instruction."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil

from editjudge import Client, Edit
from editjudge.base.config import JudgeEndpoint, Settings
from editjudge.prompts import get_template

from ..fakes.openai import ScriptedOpenAi

PRESERVATION = "core.preservation"
SAID = {"excellent": 0.5, "fair": 0.3, "bad": 0.1, "Perhaps": 0.1}


def draw(folder: Path, name: str, level: int) -> Path:
    path = folder / f"{name}.png"
    Pil.fromarray(np.full((24, 32, 3), level, np.uint8)).save(path)
    return path


@pytest.mark.parametrize("names", [("source",), ("first", "second")])
async def test_sources_edit_and_instruction_go_out(tmp_path: Path, names: tuple[str, ...]) -> None:
    files = [draw(tmp_path, name, 40 * n) for n, name in enumerate((*names, "edited"), 1)]
    edit = Edit.load(
        source=files[:-1],
        edited=files[-1],
        instruction="make the cup red",
        target=draw(tmp_path, "target", 200),
        target_text="a sign",
    )
    server = ScriptedOpenAi(probabilities=SAID)
    async with server.serving() as url:
        judge = {"judge": JudgeEndpoint(url=url, model="judge")}
        async with Client(Settings(), judges=judge) as client:
            judged = await client.score(edit, PRESERVATION)
    verdict = judged[PRESERVATION]
    # Eq. 1: normalised over the five.
    assert verdict.value == pytest.approx((0.5 + 0.3 * 0.5) / 0.9)

    system, user = server.requests[-1]["messages"]
    template = get_template("core/preservation")
    assert system == {"role": "system", "content": template.system}
    parts = user["content"]
    sent = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    pictures = [base64.b64decode(url.partition(",")[2]) for url in sent]
    assert pictures == [file.read_bytes() for file in files], "sources, then the edit: no target"
    text = "".join(part.get("text", "[picture]") for part in parts)
    assert text.count("[picture]") == len(files)
    assert "Edited image:\n[picture]" in text
    assert "\n-----\nmake the cup red\n-----\n" in text
    assert text.endswith(template.answer)
    assert "a sign" not in text
