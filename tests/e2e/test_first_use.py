"""The first use, as the README has it: from data that is not all right to a table and a winner."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil

from ..small_data import save_picture, write_items
from .conftest import CommandResult, run_in_process

README = Path(__file__).parents[2] / "README.md"
COUNT = 10


def commands() -> list[list[str]]:
    """The commands of the README's first walk."""
    text = README.read_text(encoding="utf-8")
    section = text.partition('## From your data to "A beats B"')[2]
    block = re.search(r"^```sh\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert block is not None
    return [shlex.split(line)[1:] for line in block[1].splitlines()]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten tasks and two models, the second with more noise; four of the files are not right."""
    rng = np.random.default_rng(5)
    mask = np.zeros((72, 96), bool)
    mask[20:50, 30:60] = True
    lines = []
    for index in range(COUNT):
        source = np.kron(rng.integers(0, 256, (6, 8, 3)), np.ones((12, 12, 1))).astype(np.uint8)
        target = source.copy()
        target[mask] = 200, 30, 30
        for folder, pixels in {"sources": source, "masks": mask, "targets": target}.items():
            save_picture(tmp_path / folder / f"{index}.png", pixels)
        for model, noise in {"ours": 3, "theirs": 12}.items():
            noisy = target + rng.normal(0, noise + index / 5, source.shape)
            save_picture(tmp_path / f"out/{model}/{index}.png", noisy.clip(0, 255).astype(np.uint8))
        lines.append({name: f"{name}s/{index}.png" for name in ("source", "mask", "target")})
    write_items(tmp_path, lines)
    (tmp_path / "out/ours/3.png").write_bytes(b"\x89PNG broken")
    (tmp_path / "out/theirs/4.png").unlink()
    save_picture(tmp_path / "masks/5.png", np.zeros((99, 10), bool))
    grey = tmp_path / "out/theirs/6.png"
    Pil.open(grey).convert("L").save(grey)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def calm(ran: CommandResult) -> str:
    """What a command said: no traceback, no escape codes, no more than fits a screen twice."""
    said = ran.out + ran.err
    assert "Traceback" not in said
    assert "\x1b" not in said
    assert len(said.splitlines()) <= 40, said
    return said


def test_the_first_walk_leads_to_a_winner(data: Path) -> None:
    validate, run, compare, summary, report = (calm(run_in_process(*line)) for line in commands())
    for what in ("out/ours/3.png: not an image", "no out/theirs/4.png", "mask of 10x99"):
        assert what in validate
    assert validate.endswith("editjudge run can judge the rest, unless a line is no item\n")
    assert "(9/10)" in run, "each number says on how many edits it rests"
    assert "4 verdicts failed (first: core.ssim.source.outside:" in run
    assert run.endswith("stored in runs/first\nnext: editjudge compare runs/first ours theirs\n")
    assert re.search(
        r"^ours beats theirs by 0\.\d+ \[0\.\d+, 0\.\d+\] on core\.ssim\.target\.whole;"
        r" a loss on up to \d+(\.\d)? % of sources could be unseen \(\d+ sources\)$",
        compare,
        re.MULTILINE,
    ), compare
    assert "next: editjudge show RUN ITEM" in compare
    assert r"\textit{" in summary
    assert r"\textbf{" not in summary, "the models have numbers on different items"
    assert "9 of 10 edits have a number" in summary
    assert "runs/first.html" in report
    assert "ours" in (data / "runs/first.html").read_text(encoding="utf-8")


def test_fixed_files_are_judged_by_the_same_command(data: Path) -> None:
    line = commands()[1]
    assert run_in_process(*line).code == 3
    for file in ("out/ours/3.png", "out/theirs/4.png"):
        (data / file).write_bytes((data / "targets/3.png").read_bytes())
    (data / "masks/5.png").write_bytes((data / "masks/4.png").read_bytes())
    again = run_in_process(*line)
    assert again.code == 0
    assert "(10/10)" in again.out
    assert "20/20 edits" in again.err
