"""A folder of data and outputs that tests change between two sessions."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import editjudge
from editjudge import RunResult, RunSpec, RunView
from editjudge.benchmarks.cell import Cell
from editjudge.engine.events import NoteEvent, RunEvent

from ...small_data import make_spec

DIMENSIONS = ("core.psnr.source.whole", "core.psnr.source.outside", "core.psnr.target.inside")
LEVELS = "core.instruction_following"
COUNT = 4
DAY = 86_400 * 10**9
Folder = Callable[[Path], None]
Values = dict[tuple[str, str, str], Any]


def noise(seed: int, *shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape or (8, 12, 3), dtype=np.uint8)


def half(*, left: bool) -> NDArray[np.uint8]:
    mask = np.zeros((8, 12), np.uint8)
    mask[:, :6] = 255
    return mask if left else 255 - mask


def spec(folder: Path, **given: Any) -> RunSpec:
    return make_spec(folder, **{"data": folder / "data", "dimensions": DIMENSIONS, **given})


def values(out: Path, *dimensions: str) -> Values:
    with RunView(out) as view:
        return {
            (one.item, one.model, one.dimension): getattr(one.verdict, "value", one.verdict)
            for one in view.verdicts()
            if one.dimension in dimensions or not dimensions
        }


def cells(folder: Path, model: str = "ours") -> list[Cell]:
    """The row of a model in the table of the run."""
    with RunView(folder / "run") as view:
        return list(view.results().models[model].values())


def run_again(folder: Path, *, out: str = "run", **given: Any) -> tuple[RunResult, list[str]]:
    """Give the command once more; what came of it, and what it said."""
    said: list[RunEvent] = []
    result = editjudge.run(spec(folder, **given), out=folder / out, progress=said.append)
    return result, [one.text for one in said if isinstance(one, NoteEvent)]


def count_judged_anew(folder: Path, **given: Any) -> int:
    """How many edits the same command judges now."""
    return run_again(folder, **given)[0].last_event.edits


def is_like_a_fresh_run(folder: Path, **given: Any) -> bool:
    run_again(folder, out="fresh", **given)
    return values(folder / "run") == values(folder / "fresh")


def rewrite_file(path: Path, data: bytes) -> None:
    """Write into a file that is there, and give it its old times."""
    times = path.stat()
    with path.open("r+b") as file:
        file.truncate()
        file.write(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
