"""`editjudge score`, `doctor`, `list`: from files to verdicts and exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pil
from PIL import ImageDraw, ImageFont

from ..unit.base.test_images import REFUSED
from .conftest import Command, here

pytestmark = pytest.mark.triton


@pytest.fixture
def files(photo: np.ndarray, tmp_path: Path) -> dict[str, Path]:
    """A source, an edit with a sign in its left half, its target and mask."""
    source = Pil.fromarray(photo).resize((384, 288))
    target = source.copy()
    draw = ImageDraw.Draw(target)
    draw.rectangle((10, 100, 180, 180), fill="white")
    draw.text((24, 112), "SALE", fill="black", font=ImageFont.load_default(48))
    mask = Pil.new("L", source.size, 0)
    ImageDraw.Draw(mask).rectangle((10, 100, 180, 180), fill=255)
    paths = {name: tmp_path / f"{name}.png" for name in ("source", "target", "mask")}
    source.save(paths["source"])
    target.save(paths["target"])
    mask.save(paths["mask"])
    paths["edited"] = tmp_path / "edited.jpg"
    target.save(paths["edited"], quality=90)
    return paths


def given(files: dict[str, Path], *names: str) -> list[str | Path]:
    return [part for name in names for part in (f"--{name}", files[name])]


def test_everything_at_hand_is_judged(command: Command, files: dict[str, Path], stack: str) -> None:
    inputs = given(files, "source", "edited", "mask", "target")
    text = ["--instruction", "hang up a sign", "--target-text", "SALE"]
    ran = command("score", *inputs, *text, "--endpoint", stack, "--json")
    assert ran.code == 0, ran.err
    verdicts = {v["dimension"]: v for v in ran.json["verdicts"]}
    asking = {"core.multiple_choice", "core.fact_check"}
    assert {verdicts.pop(name)["status"] for name in asking} == {"not_applicable"}
    judged = {name: v for name, v in verdicts.items() if v["status"] != "not_served"}
    assert {v["status"] for v in judged.values()} == {"scored"}
    assert len(judged) == 22
    assert verdicts["core.text_content_accuracy"]["value"] == 1
    assert verdicts["core.text_content_accuracy"]["evidence"]["read"] == "SALE"
    assert verdicts["core.psnr.source.outside"]["value"] > 30
    for one in judged.values():
        low, high = one["range"]
        assert low <= one["value"] <= high
    assert set(ran.json["services"]) == {"ocr.ppocr", "quality.piqe"}
    assert ran.json["sample"]["instruction"] == "hang up a sign"


def test_what_is_not_scored_says_why(command: Command, files: dict[str, Path]) -> None:
    inputs = given(files, "source", "edited")
    ran = command(
        "score", *inputs, "--instruction", "x", "--json", "--endpoint", "grpc://127.0.0.1:9"
    )
    assert ran.code == 0
    reasons = {v["dimension"]: v["reason"] for v in ran.json["verdicts"] if v["value"] is None}
    assert reasons["core.psnr.source.outside"] == "needs a mask"
    assert reasons["core.psnr.target.whole"] == "needs a target"
    assert reasons["core.text_content_accuracy"] == "needs a target text"
    assert "grpc://127.0.0.1:9" in reasons["core.quality.piqe"]


def test_a_table_for_people(command: Command, files: dict[str, Path], stack: str) -> None:
    inputs = given(files, "source", "edited")
    ran = command("score", *inputs, "--instruction", "x", "--endpoint", stack)
    assert ran.code == 0
    row = next(line for line in ran.out.splitlines() if "core.psnr.source.whole" in line)
    assert "dB" in row
    assert "0..100" in row
    assert "↑" in row
    assert ran.out.splitlines()[-1].startswith("other dimensions: ")
    assert "not judged" not in ran.out


def test_a_stack_is_started_for_the_call_when_none_runs(
    command: Command, files: dict[str, Path]
) -> None:
    inputs = given(files, "source", "edited")
    ran = command("score", *inputs, "--instruction", "x", "--dimension", "core.*.piqe", "--json")
    assert ran.code == 0, ran.err
    (verdict,) = ran.json["verdicts"]
    assert verdict["status"] == "scored"
    assert "starting the local services" in ran.err


def test_pixels_alone_start_nothing(command: Command, files: dict[str, Path]) -> None:
    inputs = given(files, "source", "edited")
    ran = command("score", *inputs, "--instruction", "x", "--dimension", "core.psnr.*")
    assert ran.code == 0
    assert "starting" not in ran.err


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


BAD: dict[str, Callable[[dict[str, Path], Path], list[str | Path]]] = {
    "missing file": lambda files, tmp: ["--edited", tmp / "nowhere.png"],
    "directory": lambda files, tmp: ["--edited", tmp],
    "mask of another shape": lambda files, tmp: [
        "--edited",
        files["edited"],
        "--mask",
        _mask(tmp / "m.png", (50, 200)),
    ],
    "1 MB instruction": lambda files, tmp: [
        "--edited",
        files["edited"],
        "--target-text",
        "x" * 100_000,
    ],
    "control character": lambda files, tmp: [
        "--edited",
        files["edited"],
        "--target-text",
        "a\x07b",
    ],
    "unknown dimension": lambda files, tmp: [
        "--edited",
        files["edited"],
        "--dimension",
        "core.pnsr",
    ],
    "missing config": lambda files, tmp: ["--edited", files["edited"], "--config", tmp / "no.toml"],
    "bad endpoint": lambda files, tmp: ["--edited", files["edited"], "--endpoint", "http://x:1"],
    "no edited image": lambda files, tmp: [],
}


def _mask(path: Path, size: tuple[int, int]) -> Path:
    Pil.new("L", size, 255).save(path)
    return path


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(
    case: str, files: dict[str, Path], tmp_path: Path
) -> None:
    arguments = BAD[case](files, tmp_path)
    ran = here("score", *given(files, "source"), "--instruction", "x", *arguments)
    assert ran.code == 2, ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""
    if case != "no edited image":
        assert len(ran.err.strip().splitlines()) == 1


@pytest.mark.parametrize("case", ["0 bytes", "truncated", "30,000 x 30,000 header", "animated"])
def test_bad_images_are_named(case: str, files: dict[str, Path], tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.png", REFUSED[case][0]())
    ran = here("score", *given(files, "source"), "--edited", bad, "--instruction", "x")
    assert ran.code == 2
    assert str(bad) in ran.err


def test_a_path_that_is_not_utf8(command: Command, files: dict[str, Path], tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/caf\xe9.png"
    Path(os.fsdecode(odd)).write_bytes(files["source"].read_bytes())
    dimension = ["--dimension", "core.psnr.source.whole"]
    inputs = ["--edited", odd, *given(files, "source")]
    ran = command("score", *inputs, "--instruction", "x", "--json", *dimension)
    assert ran.code == 0, ran.err
    assert ran.json["sample"]["edited"]["name"].endswith(r"caf\xe9.png")


def test_a_service_that_dies_gives_failed_verdicts_and_exit_code_3(
    command: Command, files: dict[str, Path], tmp_path: Path
) -> None:
    """The server answers the client's questions and is gone for its calls."""
    script = tmp_path / "dying.py"
    script.write_text(
        "import asyncio, os\n"
        "from tests.fakes.triton import ScriptedTriton\n"
        "class Dying(ScriptedTriton):\n"
        "    async def ModelInfer(self, request, context):\n"
        "        os._exit(1)\n"
        "async def main():\n"
        "    async with Dying().serving() as url:\n"
        "        print(url, flush=True)\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        inputs = given(files, "source", "edited")
        ran = command("score", *inputs, "--instruction", "x", "--json", "--endpoint", url)
    assert ran.code == 3, ran.err
    verdicts = {v["dimension"]: v for v in ran.json["verdicts"]}
    lost = verdicts["core.quality.piqe"]
    assert lost["status"] == "failed"
    assert lost["value"] is None
    assert url in lost["reason"]
    assert verdicts["core.psnr.source.whole"]["status"] == "scored"


def test_doctor_finds_everything_right(command: Command, stack: str) -> None:
    ran = command("doctor", "--endpoint", stack, "--json")
    assert ran.code == 0, ran.out
    assert {f["service"]: f["answer"] for f in ran.json} == {
        "quality.piqe": "known answer right",
        "ocr.ppocr": "known answer right",
    }
    assert all(f["round_trip_ms"] > 0 and "triton" in f["server"] for f in ran.json)


def test_doctor_says_what_is_wrong_and_the_fix(command: Command) -> None:
    ran = command("doctor", "--endpoint", "grpc://127.0.0.1:9")
    assert ran.code == 1
    assert "grpc://127.0.0.1:9" in ran.out
    assert "fix: check the address" in ran.out


def test_lists_come_from_the_declarations(command: Command) -> None:
    dimensions = command("list", "dimensions", "--json")
    assert {d["id"] for d in dimensions.json} >= {"core.psnr.source.whole", "core.quality.piqe"}
    services = here("list", "services", "--json")
    assert {"quality_piqe", "ocr_ppocr"} <= {s["model"] for s in services.json}
    assert "BOXES FP32[n,4,2]" in here("list", "services").out
    assert "core.text_content_accuracy" in here("list", "dimensions", "core.text*").out


def test_help_and_version(command: Command) -> None:
    assert "score" in command("--help").out
    assert "--target-text" in here("score", "--help").out
    assert command("--version").out.startswith("editjudge")
    assert here("nonsense").code == 2
