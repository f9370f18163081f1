"""`editjudge compare` on a run of three models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil

from .conftest import Command


@pytest.fixture
def judged(tmp_path: Path, command: Command) -> Path:
    """A run of eight sources: `bad` is far from them, `good` and `alike` near."""
    rng = np.random.default_rng(0)
    lines = []
    for number in range(8):
        source = np.kron(rng.integers(0, 255, (4, 4, 3)), np.ones((8, 8, 1))).astype(np.uint8)
        Pil.fromarray(source).save(tmp_path / f"{number}.png")
        lines.append(json.dumps({"id": f"{number}", "instruction": "x", "source": f"{number}.png"}))
        for model, noise in (("good", 5), ("alike", 5), ("bad", 25)):
            (tmp_path / model).mkdir(exist_ok=True)
            edited = np.clip(source + rng.normal(0, noise, source.shape), 0, 255).astype(np.uint8)
            Pil.fromarray(edited).save(tmp_path / model / f"{number}.png")
    (tmp_path / "items.jsonl").write_text("\n".join(lines))
    outputs = [f"--outputs={model}={tmp_path / model}" for model in ("good", "alike", "bad")]
    data = ("--data", tmp_path / "items.jsonl", "--out", tmp_path / "run")
    asked = ("--dimension", "core.psnr.source.whole", "--dimension", "core.mse.source.whole")
    done = command("run", "core", *data, *outputs, *asked)
    assert done.code == 0, done.err
    return tmp_path / "run"


def test_compare(judged: Path, command: Command) -> None:
    done = command("compare", judged, "bad", "good")
    assert done.code == 0
    assert "good beats bad by " in done.out
    alike = command("compare", judged, "good", "alike", "--json")
    assert alike.code == 0
    assert {each["better"] for each in alike.json["dimensions"]} == {""}
    ranked = command("compare", judged, "--json").json["dimensions"]
    assert [each["models"]["bad"]["first_place"] for each in ranked] == [3, 3]
    again = command("compare", judged, "good", "good", "--other", judged)
    assert "no significant difference" in again.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("good",), "1 model was named; name two models, or none to rank all"),
        (("good", "bad", "alike"), "3 models were named"),
        (("good", "nobody"), "no model nobody; its models: good, alike, bad"),
        (("--other", "RUN"), "name them: RUN A B"),
        (("good", "bad", "-d", "core.lpips*"), "no dimension matches 'core.lpips*'"),
    ],
)
def test_what_cannot_be_compared(judged: Path, command: Command, arguments: tuple[str, ...], told: str) -> None:
    done = command("compare", judged, *arguments)
    assert done.code == 2
    assert told in done.err
    assert len(done.err.strip().splitlines()) == 1
