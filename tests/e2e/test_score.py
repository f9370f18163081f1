"""`editjudge score`, `doctor`, `list`: from files to verdicts and exit codes."""

from __future__ import annotations

import os
from pathlib import Path

import grpc
import numpy as np
import pytest
from PIL import Image as Pil
from PIL import ImageDraw, ImageFont

from ..fakes.grpc_server import Failure
from ..fakes.triton import ScriptedTriton
from ..unit.base.test_images import REFUSED
from .conftest import run, run_in_process, run_in_thread

pytestmark = pytest.mark.triton
NOBODY = "grpc://127.0.0.1:9"


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
    pictures = {"source": source, "target": target, "mask": mask}
    for name, picture in pictures.items():
        picture.save(tmp_path / f"{name}.png")
    target.save(tmp_path / "edited.jpg", quality=90)
    paths = {name: tmp_path / f"{name}.png" for name in pictures}
    return paths | {"edited": tmp_path / "edited.jpg"}


def make_arguments(files: dict[str, Path], *names: str) -> list[object]:
    """`score` of an edit with some of its files."""
    parts = [part for name in names for part in (f"--{name}", files[name])]
    return ["score", *parts, "--instruction", "hang up a sign"]


def test_everything_at_hand_is_judged(files: dict[str, Path], stack: str) -> None:
    asked = make_arguments(files, "source", "edited", "mask", "target")
    ran = run_in_process(*asked, "--target-text", "SALE", "--endpoint", stack, "--json")
    assert ran.code == 0, ran.err
    verdicts = {v["dimension"]: v for v in ran.json["verdicts"]}
    asking = {"core.multiple_choice", "core.fact_check", "core.preference"}
    assert {verdicts.pop(name)["status"] for name in asking} == {"not_applicable"}
    judged = {name: v for name, v in verdicts.items() if v["status"] != "not_served"}
    assert {v["status"] for v in judged.values()} == {"scored"}
    assert len(judged) == 29
    assert verdicts["core.text_content_accuracy"]["value"] == 1
    assert verdicts["core.text_content_accuracy"]["evidence"]["read"] == "SALE"
    assert verdicts["core.psnr.source.outside"]["value"] > 30
    for one in judged.values():
        low, high = one["range"]
        assert low <= one["value"] <= high
    assert set(ran.json["services"]) == {"ocr.ppocr", "quality.piqe"}
    assert ran.json["sample"]["instruction"] == "hang up a sign"


def test_what_is_not_scored_says_why(files: dict[str, Path]) -> None:
    ran = run_in_process(*make_arguments(files, "source", "edited"), "--json", "--endpoint", NOBODY)
    assert ran.code == 0
    reasons = {v["dimension"]: v["reason"] for v in ran.json["verdicts"] if v["value"] is None}
    assert reasons["core.psnr.source.outside"] == "needs a mask"
    assert reasons["core.psnr.target.whole"] == "needs a target"
    assert reasons["core.text_content_accuracy"] == "needs a target text"
    assert NOBODY in reasons["core.quality.piqe"]


def test_a_dimension_that_was_named_and_has_no_service_is_no_success(files: dict[str, Path]) -> None:
    asked = make_arguments(files, "source", "edited")
    ran = run_in_process(*asked, "-d", "ssim.source.whole", "-d", "editing_artifacts")
    assert (ran.code, "no judge is configured" in ran.out) == (3, True), ran.err
    assert run_in_process(*asked, "-d", "ssim.source.whole").code == 0


def test_a_table_for_people(files: dict[str, Path], stack: str) -> None:
    ran = run_in_process(*make_arguments(files, "source", "edited"), "--endpoint", stack)
    assert ran.code == 0
    row = next(line for line in ran.out.splitlines() if "core.psnr.source.whole" in line)
    assert {"dB", "0..100", "↑"} <= set(row.replace("│", " ").split()), row
    assert ran.out.splitlines()[-1].startswith("other dimensions: ")
    assert "not judged" not in ran.out


@pytest.mark.parametrize(("dimension", "starts"), [("core.*.piqe", True), ("core.psnr.*", False)])
def test_a_stack_is_started_for_the_call_where_it_is_needed(
    files: dict[str, Path], dimension: str, starts: bool
) -> None:
    ran = run(*make_arguments(files, "source", "edited"), "--dimension", dimension, "--json")
    assert ran.code == 0, ran.err
    assert "scored" in {verdict["status"] for verdict in ran.json["verdicts"]}
    assert ("starting the local services" in ran.err) is starts


BAD = {
    "missing file": ["--edited", "{tmp}/nowhere.png"],
    "directory": ["--edited", "{tmp}"],
    "mask of another shape": ["--edited", "{edited}", "--mask", "{tmp}/narrow.png"],
    "1 MB instruction": ["--edited", "{edited}", "--target-text", "x" * 100_000],
    "control character": ["--edited", "{edited}", "--target-text", "a\x07b"],
    "unknown dimension": ["--edited", "{edited}", "--dimension", "core.pnsr"],
    "missing config": ["--edited", "{edited}", "--config", "{tmp}/no.toml"],
    "bad endpoint": ["--edited", "{edited}", "--endpoint", "http://x:1"],
    "no edited image": [],
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(case: str, files: dict[str, Path], tmp_path: Path) -> None:
    Pil.new("L", (50, 200), 255).save(tmp_path / "narrow.png")
    further = [word.format(tmp=tmp_path, **files) for word in BAD[case]]
    ran = run_in_process(*make_arguments(files, "source"), *further)
    assert ran.code == 2, ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""
    if case != "no edited image":
        assert len(ran.err.strip().splitlines()) == 1


@pytest.mark.parametrize("case", ["0 bytes", "truncated", "30,000 x 30,000 header", "animated"])
def test_bad_images_are_named(case: str, files: dict[str, Path], tmp_path: Path) -> None:
    files["edited"] = tmp_path / "bad.png"
    files["edited"].write_bytes(REFUSED[case][0]())
    ran = run_in_process(*make_arguments(files, "source", "edited"))
    assert ran.code == 2
    assert str(files["edited"]) in ran.err


def test_a_path_that_is_not_utf8(files: dict[str, Path], tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/caf\xe9.png"
    Path(os.fsdecode(odd)).write_bytes(files["source"].read_bytes())
    dimension = ("--dimension", "core.psnr.source.whole")
    ran = run(*make_arguments(files, "source"), "--edited", odd, "--json", *dimension)
    assert ran.code == 0, ran.err
    assert ran.json["sample"]["edited"]["name"].endswith(r"caf\xe9.png")


async def test_a_service_that_dies_gives_failed_verdicts_and_exit_code_3(files: dict[str, Path]) -> None:
    """The server answers the client's questions and is gone for its calls."""
    hasty = {"EDITJUDGE_ATTEMPTS": "1", "EDITJUDGE_PATIENCE": "0"}
    gone = Failure(grpc.StatusCode.UNAVAILABLE, "connection reset")
    async with ScriptedTriton(gone).serving() as url:
        asked = make_arguments(files, "source", "edited")
        ran = await run_in_thread(*asked, "--json", "--endpoint", url, **hasty)
    assert ran.code == 3, ran.err
    verdicts = {v["dimension"]: v for v in ran.json["verdicts"]}
    lost = verdicts["core.quality.piqe"]
    assert (lost["status"], lost["value"]) == ("failed", None)
    assert url in lost["reason"]
    assert verdicts["core.psnr.source.whole"]["status"] == "scored"


def test_doctor_finds_everything_right(stack: str) -> None:
    ran = run_in_process("doctor", "--endpoint", stack, "--json")
    assert ran.code == 0, ran.out
    right = dict.fromkeys(("quality.piqe", "ocr.ppocr"), "known answer right")
    assert {f["service"]: f["answer"] for f in ran.json} == right
    assert all(f["round_trip_ms"] > 0 and "triton" in f["server"] for f in ran.json)


def test_doctor_says_what_is_wrong_and_the_fix() -> None:
    ran = run_in_process("doctor", "--endpoint", NOBODY)
    assert ran.code == 1
    assert NOBODY in ran.out
    assert "fix: check the address" in ran.out


def test_lists_come_from_the_declarations() -> None:
    dimensions = run_in_process("list", "dimensions", "--json")
    assert {d["id"] for d in dimensions.json} >= {"core.psnr.source.whole", "core.quality.piqe"}
    services = run_in_process("list", "services", "--json")
    assert {"quality_piqe", "ocr_ppocr"} <= {s["model"] for s in services.json}
    assert "BOXES FP32[n,4,2]" in run_in_process("list", "services").out
    assert "core.text_content_accuracy" in run_in_process("list", "dimensions", "core.text*").out


def test_help_and_version() -> None:
    assert "score" in run("--help").out
    assert "--target-text" in run_in_process("score", "--help").out
    assert run_in_process("--version").out.startswith("editjudge")
    assert run_in_process("nonsense").code == 2
