"""Outputs that are no file, or no picture that can be read, in the tables of a command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil

from .conftest import Ran, run

COUNT = 5
PSNR = "core.psnr.source.whole"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five items whose outputs are their sources; 3.png is there for a test to replace."""
    lines = []
    (tmp_path / "ours").mkdir()
    for index in range(COUNT):
        pixels = np.random.default_rng(index).integers(0, 256, (12, 16, 3), np.uint8)
        for place in (tmp_path, tmp_path / "ours"):
            Pil.fromarray(pixels).save(place / f"{index}.png")
        lines.append({"id": str(index), "instruction": "x", "source": f"{index}.png"})
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "ours" / "3.png").unlink()
    return tmp_path


def judged(folder: Path, command: str) -> Ran:
    given = ("core", "--data", "items.jsonl", "--outputs", "ours=ours", "--dimension", PSNR)
    out = ("--out", "run") if command == "run" else ()
    return run(command, *given, *out, cwd=folder)


def mean(folder: Path, *options: str) -> tuple[float, int, int]:
    """The mean, and how many of how many edits it is of."""
    cell = run("summary", "run", "--json", *options, cwd=folder).json["models"]["ours"][PSNR]
    return cell["value"], cell["scored"], cell["asked"]


def test_a_link_to_nothing_is_missing_and_counts_once(folder: Path) -> None:
    (folder / "ours" / "3.png").symlink_to("nowhere.png")
    assert "3: ours/3.png leads to no file" in judged(folder, "validate").out.replace("\n", " ")
    for _ in range(2):
        ran = judged(folder, "run")
        assert ran.code == 0
        assert f"({COUNT - 1}/{COUNT})" in ran.out
        assert mean(folder) == (100, COUNT - 1, COUNT)
        assert mean(folder, "--count-missing") == (80, COUNT, COUNT)
        (folder / "ours" / "3.png").unlink(missing_ok=True)


def test_a_picture_that_would_be_nearly_black_has_no_number(folder: Path) -> None:
    levels = np.random.default_rng(3).integers(0, 1024, (12, 16), np.uint16)
    Pil.fromarray(levels).save(folder / "ours" / "3.png")
    why = f"ours/3.png: 16 bits per channel with values up to {levels.max():,} only"
    checked = judged(folder, "validate")
    assert checked.code == 2
    assert why in checked.out.replace("\n", " ")
    ran = judged(folder, "run")
    assert why in (ran.out + ran.err).replace("\n", " ")
    assert mean(folder) == (100, COUNT - 1, COUNT)
