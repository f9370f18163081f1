"""A folder of data and outputs that tests change between two sessions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pil

import editjudge
from editjudge import RunResult, RunSpec, RunView
from editjudge.engine.events import NoteEvent, RunEvent

DIMENSIONS = ("core.psnr.source.whole", "core.psnr.source.outside", "core.psnr.target.inside")
LEVELS = "core.instruction_following"
COUNT = 4
DAY = 86_400 * 10**9
Folder = Callable[[Path], None]


def save(path: Path, pixels: NDArray[np.uint8]) -> None:
    """As BMP, whose size says nothing of its content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Pil.fromarray(pixels).save(path, format="BMP")


def noise(seed: int, *shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def half(*, left: bool) -> NDArray[np.uint8]:
    mask = np.zeros((8, 12), np.uint8)
    mask[:, :6] = 255
    return mask if left else 255 - mask


def write(folder: Path, lines: list[dict[str, Any]]) -> None:
    (folder / "data" / "items.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")


def lines_of(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "data" / "items.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def spec(folder: Path, **given: Any) -> RunSpec:
    asked: dict[str, Any] = {
        "benchmark": "core",
        "data": folder / "data",
        "outputs": {"ours": folder / "ours"},
        "dimensions": DIMENSIONS,
    }
    return RunSpec(**{**asked, **given})


def values(out: Path) -> dict[tuple[str, str, str], float]:
    with RunView(out) as view:
        return {
            (one.item, one.model, one.dimension): one.verdict.value  # type: ignore[union-attr]
            for one in view.verdicts()
        }


def again(folder: Path, *, out: str = "run", **given: Any) -> tuple[RunResult, list[str]]:
    """Give the command once more; what came of it, and what it said."""
    said: list[RunEvent] = []
    result = editjudge.run(spec(folder, **given), out=folder / out, progress=said.append)
    return result, [one.text for one in said if isinstance(one, NoteEvent)]


def rewritten(path: Path, data: bytes, times: os.stat_result | None = None) -> None:
    """Write into a file that is there, and give it its old times."""
    times = times or path.stat()
    with path.open("r+b") as file:
        file.truncate()
        file.write(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
