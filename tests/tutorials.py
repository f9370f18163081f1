"""Runs the steps of a tutorial as a reader does: writes files, runs samples and commands.

`python -m tests.tutorials` serves the judge of the tutorials until it is ended, and prints its address;
`make docs` runs tutorials beside it.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from .doc_samples import ROOT
from .fakes.openai import ScriptedOpenAi, reply
from .patience import patience

FOLDER = ROOT / "docs" / "tutorials"
ADDRESS = "http://127.0.0.1:8000/v1"
"""Where the pages have their judge."""
_BLOCK = re.compile(r"^```(toml|python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


_PICTURE = re.compile(rb"data:image/\w+;base64,([A-Za-z0-9+/=]+)")
NOISE = 4
"""What JPEG changes of a level of 255 at most, in the median."""


def _decode(data: bytes) -> np.ndarray[Any, np.dtype[np.int16]]:
    picture = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    return np.asarray(picture.resize((64, 64)), dtype=np.int16)


class TutorialJudge(ScriptedOpenAi):
    """Gives 5 of 5, but 3 where more than half of all pixels are others than in the first picture."""

    def make_reply(self) -> dict[str, Any]:
        if "Edit A" in json.dumps(self.requests[-1]["messages"]):
            self.probabilities = {"A": 0.6, "B": 0.3, "tie": 0.1}
            return super().make_reply()
        form = self.requests[-1].get("response_format", {}).get("json_schema", {}).get("schema", {})
        fields = form.get("properties", {"reasoning": {"type": "string"}, "score": {}})
        pictures = [_decode(data) for data in _PICTURE.findall(self.bodies[-1])]
        is_spoilt = len(pictures) > 1 and np.median(np.abs(pictures[0] - pictures[-1])) > NOISE
        words, score = ("the rest has changed", 3) if is_spoilt else ("as asked", 5)
        return reply(json.dumps({name: words if "string" in str(of) else score for name, of in fields.items()}))


def run_tutorial(name: str, folder: Path, replacing: Mapping[str, str]) -> str:
    """Run all steps in a folder, which is the reader's home too.

    Args:
        name: The page, without suffix.
        folder: An empty folder.
        replacing: What stands elsewhere during the test, such as addresses.

    Returns:
        What `compare`, `gate`, `agreement`, `summary` and `reward` printed.

    Raises:
        AssertionError: a step failed.
    """
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    for words, ours in replacing.items():
        assert words in page, f"{name} has no {words}"
        page = page.replace(words, ours)
    keep = {key: of for key, of in os.environ.items() if not key.startswith(("XDG_", "EDITJUDGE_"))}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    reader = keep | {"HOME": str(folder), "PATH": path, "COLUMNS": "120"}
    place, compared = folder, ""
    for language, text in _BLOCK.findall(page):
        if language == "toml":
            file = place / text.split()[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        commands = [sys.executable + " -"] if language == "python" else re.findall(r"^\$ (.+)$", text, re.MULTILINE)
        for command in commands:
            if command.startswith("cd "):
                place = (place / command[3:]).resolve()
                continue
            ran = subprocess.run(  # noqa: S602 - our own pages
                command,
                check=False,
                shell=True,
                input=text if language == "python" else "",
                capture_output=True,
                text=True,
                cwd=place,
                env=reader,
                timeout=patience(300),
            )
            assert ran.returncode == 0, f"{name}: {command}\n{ran.stdout}\n{ran.stderr}"
            if command.startswith(
                tuple(f"editjudge {verb}" for verb in ("compare", "gate", "agreement", "summary", "reward"))
            ):
                compared += ran.stdout
    return compared


async def _serve() -> None:
    async with TutorialJudge().serving() as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
