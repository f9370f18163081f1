"""`editjudge compare` on a run of three models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil

from .conftest import Command


@pytest.fixture
def run_folder(tmp_path: Path, command: Command) -> Path:
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


def test_compare(run_folder: Path, command: Command) -> None:
    done = command("compare", run_folder, "bad", "good")
    assert done.code == 0
    assert "good beats bad by " in done.out
    alike = command("compare", run_folder, "good", "alike", "--json")
    assert alike.code == 0
    assert {each["better"] for each in alike.json["dimensions"]} == {""}
    ranked = command("compare", run_folder, "--json").json["dimensions"]
    assert [each["models"]["bad"]["first_place"] for each in ranked] == [3, 3]
    again = command("compare", run_folder, "good", "good", "--other", run_folder)
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
def test_what_cannot_be_compared(run_folder: Path, command: Command, arguments: tuple[str, ...], told: str) -> None:
    done = command("compare", run_folder, *arguments)
    assert done.code == 2
    assert told in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_seeds_are_outputs_of_one_model(run_folder: Path, command: Command, tmp_path: Path) -> None:
    """A resumed run with one seed more, and one in shards, are the run of all seeds at once."""

    def run(name: str, *seeds: str, shard: str = "0/1") -> Path:
        outputs = [f"--outputs=ours={tmp_path / seed}" for seed in seeds]
        data = "--data", tmp_path / "items.jsonl", "--out", tmp_path / name, "--shard", shard
        done = command("run", "core", *data, *outputs, "--dimension", "core.mse.source.whole")
        assert done.code == 0, done.err
        assert "editjudge compare" not in done.out + done.err, "there is one model"
        assert "ours@" not in done.out, "its table has a row for each model"
        return tmp_path / name

    def read(out: Path) -> tuple[float, int, int]:
        (cell,) = command("summary", out, "--json").json["models"]["ours"].values()
        return cell["value"], cell["scored"], cell["interval"]["clusters"]

    run("grown", "good", "alike")
    whole, grown = run("whole", "good", "alike", "bad"), run("grown", "good", "alike", "bad")
    parts = [run(f"part{n}", "good", "alike", "bad", shard=f"{n}/2") for n in range(2)]
    assert command("merge", *parts, "--out", tmp_path / "merged").code == 0
    assert read(whole) == read(grown) == read(tmp_path / "merged")
    assert read(whole)[1:] == (24, 8)
    compared = command("compare", whole, "ours@3", "ours").out
    assert "noise of ours on one item (sd):" in compared
    assert command("show", whole, "0", "--model", "ours@2").code == 0
    rescored = command("rescore", whole, "--json")
    assert (rescored.code, {row["changed"] for row in rescored.json}) == (0, {0})
    assert command("export", whole, "--format", "csv", "--out", tmp_path / "rows.csv").code == 0
    assert "ours@3" in (tmp_path / "rows.csv").read_text()
    assert command("report", whole, "--out", tmp_path / "page.html").code == 0
    twice = command("validate", "core", "--data", tmp_path / "items.jsonl", *["--outputs=ours=x"] * 2)
    assert (twice.code, "is given twice" in twice.err) == (2, True)
