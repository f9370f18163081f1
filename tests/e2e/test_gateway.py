"""A Judge service and its thin clients, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from editjudge.base.errors import EditjudgeError
from editjudge.storage.store import RunStore

from ..golden.cases import CASES
from ..golden.services import serve_models
from ..patience import until
from .conftest import await_end, await_run, process, run_in_process, serving

ASKED = ("--dimension", "core.psnr.*", "--dimension", "core.instruction_following")
CASE = next(case for case in CASES if case.name == "core")


@asynccontextmanager
async def service(folder: Path) -> AsyncIterator[tuple[Path, str]]:
    """The services of the case, and one before them: its settings, and its address for clients."""
    async with serve_models(folder, CASE.models) as config:
        cache = ("--cache", config.parent / "calls")
        async with serving(*cache, "--notice", 0, "--config", config) as (started, address, _):
            yield config, f"grpc://{address}"
            started.terminate()
            assert (await await_end(started)).code == 0


def values(folder: Path) -> dict[tuple[str, str, str], Any]:
    with RunStore.open(folder, read_only=True) as store:
        return {
            (one.item, one.model, one.dimension): (
                one.verdict.model_dump(exclude={"calls"}), one.signature
            )
            for one in store.verdicts()
        }  # fmt: skip


def count_verdicts(folder: Path) -> int:
    """How many verdicts a run that is being judged has by now; 0 while it is not there yet."""
    with contextlib.suppress(EditjudgeError):
        with RunStore.open(folder, read_only=True) as store:
            return store.verdict_count
    return 0


async def test_a_killed_run_goes_on_and_is_the_one_by_direct_calls(tmp_path: Path) -> None:
    arguments = ["run", *CASE.arguments(tmp_path), *ASKED, "--json"]
    out = tmp_path / "through"
    async with service(tmp_path) as (config, url):
        through = [*arguments, "--out", out, "--gateway", url, "--set", "concurrency=1"]
        with process(*through) as started:
            await until(lambda: count_verdicts(out) or started.poll() is not None, 60)
            started.send_signal(signal.SIGKILL)
            await await_end(started)
        done = await await_run(*through)
        assert done.code == 0, done.err
        direct = await await_run(*arguments, "--out", tmp_path / "direct", "--config", config)
        assert direct.code == 0, direct.err
        again = await await_run(*through)
    assert again.code == 0, again.err
    assert json.loads(again.out.splitlines()[-1])["edits"] == 0
    assert values(out) == values(tmp_path / "direct")


async def test_a_score_through_the_service_is_the_one_by_direct_calls(tmp_path: Path) -> None:
    CASE.arguments(tmp_path)
    data = tmp_path / "data"
    edit = ["score", "--source", data / "source.png", "--edited", tmp_path / "theirs" / "full.png",
            "--mask", data / "mask.png", "--instruction", "make it warm",
            "--target-text", "NEW 1", "--json"]  # fmt: skip
    async with service(tmp_path) as (config, url):
        far = await await_run(*edit, "--gateway", url)
        near = await await_run(*edit, "--config", config, "--ledger", tmp_path / "own")
    assert (far.code, near.code) == (0, 0), far.err
    through, direct = far.json, near.json
    for of in (through, direct):
        # The second judge has no part in the score. Only the service has probed it.
        assert of["services"].pop("generalist.second").startswith("model-second(")
    for name in ("sample", "services"):
        assert through[name] == direct[name]
    for mine, other in zip(through["verdicts"], direct["verdicts"], strict=True):
        if mine["status"] == "not_served":  # why, each says by its own place
            mine["reason"] = other["reason"]
        assert mine == other


def test_nobody_there_is_one_line(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    Image.new("RGB", (8, 8)).save(picture)
    edit = ("--source", picture, "--edited", picture, "--instruction", "x")
    done = run_in_process("score", *edit, "--gateway", "grpc://127.0.0.1:9")
    assert done.code == 2
    (line,) = done.err.strip().splitlines()
    assert "the Judge service at grpc://127.0.0.1:9" in line
    assert "editjudge doctor --gateway" in line
