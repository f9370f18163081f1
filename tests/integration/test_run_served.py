"""Whole runs behind the real Triton: scored, resumed, replayed, and through the server's death."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pil
from PIL import ImageDraw, ImageFont

from editjudge.base.errors import ConfigError
from editjudge.benchmarks.registry import load_dimensions
from editjudge.storage.store import RunStore
from editjudge_services.runtime.triton_server import TritonServer

from ..patience import patience, wait_until

pytestmark = pytest.mark.triton

ITEMS, MODELS = 5, ("a", "b")
SERVED = ("core.text_content_accuracy", "core.quality.piqe")
PIXELS = ("core.psnr.source.whole", "core.psnr.source.outside", "core.ssim.source.outside")


def picture(text: str, seed: int) -> Pil.Image:
    rng = np.random.default_rng(seed)
    noise = Pil.fromarray(rng.integers(0, 256, (12, 40, 3), dtype=np.uint8))
    image = noise.resize((320, 96), Pil.Resampling.BICUBIC)
    ImageDraw.Draw(image).rectangle((8, 16, 240, 72), fill="white")
    ImageDraw.Draw(image).text((16, 20), text, fill="navy", font=ImageFont.load_default(40))
    return image


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Items with a text to be written; `b` writes another one."""
    folder = tmp_path_factory.mktemp("data")
    mask = Pil.new("1", (320, 96))
    ImageDraw.Draw(mask).rectangle((8, 16, 240, 72), fill=1)
    mask.save(folder / "mask.png")
    lines = []
    for number in range(ITEMS):
        item = {"id": f"sign{number}", "instruction": f"write NEW {number}", "mask": "mask.png"}
        picture(f"OLD {number}", number).save(folder / f"{number}.png")
        lines.append(item | {"source": f"{number}.png", "target_text": f"NEW {number}"})
        for model, text in zip(MODELS, ("NEW", "HOW"), strict=True):
            (folder / model).mkdir(exist_ok=True)
            picture(f"{text} {number}", number).save(folder / model / f"sign{number}.png")
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def start_run(
    data: Path, out: Path, *options: str, dimensions: tuple[str, ...] = SERVED + PIXELS, concurrency: int = 2
) -> subprocess.Popen[str]:
    arguments: list[Any] = ["run", "core", "--data", data / "items.jsonl", "--out", out, "--json"]
    for model in MODELS:
        arguments += ["--outputs", f"{model}={data / model}"]
    for name in dimensions:
        arguments += ["--dimension", name]
    waits = {"PATIENCE": 60, "DEADLINE": 60, "PROBE_TIMEOUT": 60}
    patient = {f"EDITJUDGE_{name}": str(patience(seconds)) for name, seconds in waits.items()}
    return subprocess.Popen(
        [sys.executable, "-m", "editjudge", *map(str, arguments), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "EDITJUDGE_CONCURRENCY": str(concurrency), **patient},
    )


def finish_run(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=patience(240))
    assert process.returncode == 0, err + out
    last: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert last["event"] == "finished"
    return last


def verdicts(out: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    with RunStore.open(out, read_only=True) as store:
        return {(one.model, one.item, one.dimension): one.verdict.model_dump() for one in store.verdicts()}


def replies(out: Path) -> int:
    """Specialists' replies in the ledger; 0 where there is no run yet."""
    try:
        with RunStore.open(out, read_only=True) as store:
            row = store.database.query_row("SELECT count(*) FROM calls WHERE prompt IS NULL")
    except ConfigError:  # it begins just now
        return 0
    return int(row[0]) if row else 0


def requests(triton: TritonServer) -> int:
    """What the server was asked for, by its own count."""
    with urllib.request.urlopen(triton.metrics_url, timeout=5) as reply:  # noqa: S310
        text = reply.read().decode()
    counted = re.findall(r"^nv_inference_request_(?:success|failure)\{.*\} (\d+)$", text, re.MULTILINE)
    return sum(map(int, counted))


Ended = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def whole_run(data: Path, triton: TritonServer, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, finish_run(start_run(data, out, "--endpoint", triton.url))


def test_every_dimension_is_scored_and_every_reply_kept(whole_run: Ended) -> None:
    out, last = whole_run
    found = verdicts(out)
    assert len(found) == ITEMS * len(MODELS) * len(SERVED + PIXELS)
    assert {one["status"] for one in found.values()} == {"scored"}
    text = {model: last["columns"][model][SERVED[0]]["value"] for model in MODELS}
    assert text["a"] > 0.9 > text["b"]
    assert replies(out) == 2 * ITEMS * len(MODELS), "one of each service for each output"


def test_a_second_run_and_rescore_ask_the_server_nothing(data: Path, triton: TritonServer, whole_run: Ended) -> None:
    out, last = whole_run
    before, asked = verdicts(out), requests(triton)
    assert asked > 0
    again = finish_run(start_run(data, out, "--endpoint", triton.url))
    assert again["columns"] == last["columns"]
    # Nor does it need one: what is left to do is nothing.
    assert finish_run(start_run(data, out))["columns"] == last["columns"]
    rescored = subprocess.run(
        [sys.executable, "-m", "editjudge", "rescore", str(out), "--json", "--write"],
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=True,
    )
    for one in json.loads(rescored.stdout):
        assert (one["changed"], one["kept"]) == (0, 0)
        assert one["before"] == one["after"]
        column = last["columns"][one["model"]][one["dimension"]]
        assert one["after"]["mean"] == column["value"]
    assert verdicts(out) == before
    assert requests(triton) == asked


@pytest.mark.parametrize("concurrency", [1, 32])
def test_scores_do_not_depend_on_what_else_is_in_flight(
    data: Path, triton: TritonServer, whole_run: Ended, tmp_path: Path, concurrency: int
) -> None:
    server = ("--endpoint", triton.url)
    finish_run(start_run(data, tmp_path / "run", *server, concurrency=concurrency))
    whole, other = verdicts(whole_run[0]), verdicts(tmp_path / "run")
    assert whole.keys() == other.keys()
    for key, one in whole.items():
        tolerance = load_dimensions()[key[2]].tolerance
        assert other[key]["value"] == pytest.approx(one["value"], abs=max(tolerance, 1e-12)), key


async def test_a_server_that_is_killed_in_mid_run_fails_nothing(data: Path, whole_run: Ended, tmp_path: Path) -> None:
    server, out = TritonServer(tmp_path / "triton.log"), tmp_path / "run"
    server.start()
    try:
        url, judging = server.url, start_run(data, out, "--endpoint", server.url)
        wait_until(lambda: judging.poll() is not None or replies(out) >= 3)
        assert judging.poll() is None, "it ended too early"
        os.kill(server.pid, signal.SIGKILL)
        lost = replies(out)
        server.stop()
        server.start()
        assert server.url == url
        last = await asyncio.to_thread(finish_run, judging)
    finally:
        server.stop()
    assert lost < 2 * ITEMS * len(MODELS), "it was killed before the end"
    assert all(one["failed"] == 0 for one in last["verdicts"].values())
    assert last["columns"] == whole_run[1]["columns"]
    assert verdicts(out) == verdicts(whole_run[0])
