"""What every command says of a finished run whose source pictures were put away."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil

from .conftest import Command

PSNR = "core.psnr.source.whole"
COMMANDS = (
    ("compare", "RUN", "a", "b", "--json"),
    ("compare", "RUN", "a", "b", "--other", "RUN", "--json"),
    ("compare", "RUN", "--json"),
    ("summary", "RUN", "--json"),
    ("summary", "RUN", "--json", "--count-missing", "--common"),
    ("summary", "RUN", "--format", "csv"),
    ("summary", "RUN", "--format", "latex"),
)


@pytest.fixture
def judged(tmp_path: Path, command: Command) -> Path:
    """A run of five sources with three edits each; the last of each names a copy of its source."""
    rng = np.random.default_rng(3)
    lines = []
    for source in range(5):
        pixels = np.kron(rng.integers(0, 255, (4, 4, 3)), np.ones((8, 8, 1))).astype(np.uint8)
        gain = rng.normal(0, 2)
        for edit in range(3):
            item, name = f"{source}{edit}", f"{source}.png" if edit < 2 else f"copy {source}.png"
            Pil.fromarray(pixels).save(tmp_path / name)
            lines.append(json.dumps({"id": item, "instruction": "x", "source": name}))
            for model, noise in (("a", 12), ("b", 11 + gain)):
                (tmp_path / model).mkdir(exist_ok=True)
                edited = np.clip(pixels + rng.normal(0, noise, pixels.shape), 0, 255)
                if (model, item) != ("b", "11"):
                    Pil.fromarray(edited.astype(np.uint8)).save(tmp_path / model / f"{item}.png")
    (tmp_path / "items.jsonl").write_text("\n".join(lines))
    outputs = [f"--outputs={model}={tmp_path / model}" for model in ("a", "b")]
    data = ("--data", tmp_path / "items.jsonl", "--out", tmp_path / "run")
    done = command("run", "core", *data, *outputs, "--dimension", PSNR)
    assert done.code == 0, done.err
    return tmp_path / "run"


def test_no_number_moves(judged: Path, command: Command) -> None:
    def ask() -> list[str]:
        asked = [[judged if word == "RUN" else word for word in words] for words in COMMANDS]
        done = [command(*words) for words in asked]
        assert [(one.code, one.err) for one in done] == [(0, "")] * len(done)
        return [one.out for one in done]

    before = ask()
    figures = json.loads(before[0])["dimensions"][0]["figures"]
    assert (figures["edits"], figures["sources"]) == (14, 5)
    interval = json.loads(before[3])["models"]["b"][PSNR]["interval"]
    assert interval["clusters"] == 5
    (judged.parent / "1.png").unlink()
    assert ask() == before
    for picture in judged.parent.glob("*.png"):
        picture.unlink()
    assert ask() == before
    page = judged.parent / "page"
    assert command("report", judged, "--out", page).code == 0
    assert f'"low":{interval["low"]}' in (page / "index.html").read_text()
