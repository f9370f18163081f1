"""Whole benchmarks on the real vLLM, with random weights."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil

from ..unit.benchmarks.kris.release import write_release
from .conftest import serving
from .test_score import TOLERANT

pytestmark = [pytest.mark.timeout(600)]
SIDE = 64


@pytest.fixture(scope="module")
def judge(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a judge.

    On a CPU, vLLM 0.32 ends when a request with a seed is prefilled in chunks: its generators
    cannot be set back there.
    """
    folders = {"whole": checkpoints["whole"]}
    flags = ("--dtype=float32", "--no-enable-chunked-prefill")
    with serving(folders, tmp_path_factory.mktemp("logs"), *flags) as servers:
        servers["whole"].wait_until_ready()
        yield servers["whole"].url


def picture(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    Pil.fromarray(coarse).resize((SIDE, SIDE), Pil.Resampling.BICUBIC).save(path)


def items(folder: Path, *lines: dict[str, Any]) -> Path:
    """`items.jsonl` with two sources, a mask, and outputs of `ours`."""
    for seed, name in enumerate(("source.png", "other.png")):
        picture(folder / name, seed)
    mask = np.zeros((SIDE, SIDE), np.uint8)
    mask[8:40, 8:40] = 255
    Pil.fromarray(mask).save(folder / "mask.png")
    for seed, line in enumerate(lines):
        picture(folder / "ours" / f"{line['id']}.png", 10 + seed)
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder / "items.jsonl"


def editjudge(folder: Path, *arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "editjudge", *map(str, arguments), "--json"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip


def judge_run(
    folder: Path, benchmark: str, data: Path, judge: str, *more: str, told: str = TOLERANT, code: int = 0
) -> dict[str, Any]:
    """The summary's cells of `ours`, after a run that ends with this exit code."""
    (folder / "editjudge.toml").write_text(f'[judges.judge]\nurl = "{judge}"\n{told}')
    outputs = ("--outputs", f"ours={folder / 'ours'}", "--out", folder / "run")
    done = editjudge(folder, "run", benchmark, "--data", data, *outputs, *more)
    assert done.returncode == code, done.stderr + done.stdout[-2000:]
    summary = json.loads(editjudge(folder, "summary", folder / "run").stdout)
    assert summary["untrained"] == ["generalist.judge"]
    cells: dict[str, Any] = summary["models"]["ours"]
    return cells


def read_covered(cells: dict[str, Any], but: tuple[str, ...] = ()) -> dict[str, float]:
    """Values of the cells that ask about anything; each but some has full coverage."""
    asked = {name: c for name, c in cells.items() if c["asked"] and not name.endswith(but or " ")}
    assert {name: cell["counts"] for name, cell in asked.items() if cell["scored"] < cell["asked"]} == {}
    return {name: cell["value"] for name, cell in asked.items()}


def test_kris(judge: str, tmp_path: Path) -> None:
    data = write_release(tmp_path / "KRIS_Bench", anomaly_correction=1, temporal_prediction=1, rule__based_reasoning=1)
    for number, folder in enumerate(sorted(p for p in data.iterdir() if p.is_dir())):
        picture(tmp_path / "ours" / folder.name / "1.png", number)
    values = read_covered(judge_run(tmp_path, "kris", data, judge))
    assert {"kris.overall", "kris.logical_reasoning.knowledge_plausibility"} <= set(values)
    assert all(0 <= value <= 100 for value in values.values())


def co_edit(folder: Path) -> Path:
    """Items of three types."""
    usual = {"instruction": "make it red", "source": "source.png"}
    kept = {"mask": "mask.png", "mask_shows": "edited"}
    return items(
        folder,
        {"id": "1", "type": "subject_customization", **kept, **usual},
        {"id": "2", "type": "style_editing", **usual},
        {"id": "3", "type": "in_context", "subject": True, **usual},
    )


def test_co_edit(judge: str, tmp_path: Path) -> None:
    """Its specialists are on the real Triton in the integration tests."""
    asked = ("--without", "specialists", "--with", "plain_questions")
    values = read_covered(judge_run(tmp_path, "co_edit", co_edit(tmp_path), judge, *asked))
    assert {"co_edit.overall", "co_edit.non_edited_preservation"} <= set(values)
    assert all(0 <= value <= 10 for value in values.values())


def test_a_judge_that_never_comes_to_its_scores_gives_none(judge: str, tmp_path: Path) -> None:
    """Where it examines first nothing forces a form, and random weights find none."""
    told = "max_outside = 1\ntemperature = 1\nmax_tokens = 48\n"
    data = co_edit(tmp_path)
    without = ("--without", "specialists")
    # No reply could be used, which is what the exit code says.
    cells = judge_run(tmp_path, "co_edit", data, judge, *without, told=told, code=3)
    asked = [cell for cell in cells.values() if cell["asked"]]
    assert asked
    assert all(cell["value"] is None for cell in asked)
    assert {status for cell in asked for status in cell["counts"]} == {"unscored"}


def test_i2i(judge: str, tmp_path: Path) -> None:
    """What a judge judges alone; the rest is on the real Triton in the integration tests."""
    asked = {
        "se": ["blending_naturalness", "instruction_following", "physical_plausibility",
               "local_attribute_accuracy", "world_knowledge_reasoning"],
        "me": ["composition_interaction", "cross_source_transfer", "inter_subject_consistency"],
    }  # fmt: skip
    told = {"instruction": "write HELLO on it"}
    data = items(
        tmp_path,
        {"id": "1", "task": "text_rendering", "source": "source.png",
         "hint": "a sign says HELLO", "dimensions": asked["se"], **told},
        {"id": "2", "task": "basic_combination", "sources": ["source.png", "other.png"],
         "dimensions": asked["me"], **told},
    )  # fmt: skip
    cells = judge_run(tmp_path, "i2i", data, judge)
    # Sampled at random, a list may hold the same question twice: then it cannot be read.
    lists = ("plausibility", "interaction", "transfer", "subject_consistency")
    said = [cells[f"i2i.me.{name}"]["counts"] for name in asked["me"]]
    assert all(counts in ({"scored": 1}, {"unscored": 1}) for counts in said)
    assert {"scored": 1} in said
    values = read_covered(cells, (*lists, "overall"))
    due = {f"i2i.se.{name}" for name in asked["se"] if not name.endswith(lists)}
    assert due <= set(values)
    # With one item a track, nothing stands on both sides of a difference.
    assert all(0 <= value <= 1 for name, value in values.items() if "less" not in name)
