"""A Judge service and its thin clients, each a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from editjudge.storage.store import RunStore

from ..golden.cases import CASES
from ..golden.services import served
from ..patience import patience, until

ASKED = ("--dimension", "core.psnr.*", "--dimension", "core.instruction_following")


async def process(*arguments: Any) -> asyncio.subprocess.Process:
    words = [str(one) for one in arguments]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "editjudge", *words, stdout=pipe, stderr=pipe
    )


async def ran(*arguments: Any) -> tuple[int, str]:
    """A command that ends by itself: its exit code and what it printed."""
    command = await process(*arguments)
    async with asyncio.timeout(patience(100)):
        out, err = await command.communicate()
    assert command.returncode is not None
    return command.returncode, out.decode() or err.decode()


@asynccontextmanager
async def service(config: Path) -> AsyncIterator[str]:
    """`editjudge serve`, and its address for clients; at the end it is told to end."""
    ports = ("--address", "127.0.0.1:0", "--http-address", "127.0.0.1:0")
    cache = ("--cache", config.parent / "calls")
    command = await process("serve", *ports, *cache, "--notice", 0, "--config", config)
    assert command.stdout is not None
    try:
        async with asyncio.timeout(patience(60)):
            line = (await command.stdout.readline()).decode()
        address = re.search(r"judging at (\S+) ", line)
        assert address, line
        yield f"grpc://{address[1]}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            command.terminate()
        async with asyncio.timeout(patience(60)):
            await command.communicate()
    assert command.returncode == 0


def values(folder: Path) -> dict[tuple[str, str, str], Any]:
    with RunStore.open(folder, read_only=True) as store:
        return {
            (one.item, model, one.dimension): (one.verdict.model_dump(exclude={"calls"}),
                                               one.signature)
            for model in store.header.outputs
            for one in store.verdicts(model)
        }  # fmt: skip


def judged(folder: Path) -> int:
    """How many verdicts a run that is being judged has by now."""
    with contextlib.suppress(Exception):  # it is not there yet, or just being written
        with RunStore.open(folder, read_only=True) as store:
            return store.verdict_count
    return 0


async def test_a_killed_run_goes_on_and_is_the_one_by_direct_calls(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "core")
    arguments = ["run", *case.arguments(tmp_path), *ASKED, "--json"]
    out = tmp_path / "through"
    async with served(tmp_path, case.models) as config, service(config) as url:
        through = [*arguments, "--out", out, "--gateway", url, "--set", "concurrency=1"]
        command = await process(*through)
        await until(lambda: judged(out) or command.returncode is not None, 60)
        with contextlib.suppress(ProcessLookupError):
            command.send_signal(signal.SIGKILL)
        await command.communicate()
        code, said = await ran(*through)
        assert code == 0, said
        direct = [*arguments, "--out", tmp_path / "direct", "--config", config]
        assert (await ran(*direct))[0] == 0
        again = await ran(*through)
    assert again[0] == 0
    assert json.loads(again[1].splitlines()[-1])["edits"] == 0
    assert values(out) == values(tmp_path / "direct")


async def test_a_score_through_the_service_is_the_one_by_direct_calls(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "core")
    case.arguments(tmp_path)
    data = tmp_path / "data"
    edit = ["--source", data / "source.png", "--edited", tmp_path / "theirs" / "full.png",
            "--mask", data / "mask.png", "--instruction", "make it warm",
            "--target-text", "NEW 1"]  # fmt: skip
    async with served(tmp_path, case.models) as config, service(config) as url:
        far, said = await ran("score", *edit, "--gateway", url, "--json")
        near, ours = await ran(
            "score", *edit, "--config", config, "--ledger", tmp_path / "own", "--json"
        )
    assert (far, near) == (0, 0), said
    through, direct = json.loads(said), json.loads(ours)
    for of in (through, direct):
        # The second judge has no part in the score. Only the service has probed it.
        assert of["services"].pop("generalist.second").startswith("model-second(")
    for name in ("sample", "services"):
        assert through[name] == direct[name]
    for mine, other in zip(through["verdicts"], direct["verdicts"], strict=True):
        if mine["status"] == "not_served":  # why, each says by its own place
            mine["reason"] = other["reason"]
        assert mine == other


async def test_nobody_there_is_one_line(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    Image.new("RGB", (8, 8)).save(picture)
    edit = ("--source", picture, "--edited", picture, "--instruction", "x")
    code, said = await ran("score", *edit, "--gateway", "grpc://127.0.0.1:9")
    assert code == 2
    (line,) = said.strip().splitlines()
    assert "the Judge service at grpc://127.0.0.1:9" in line
    assert "editjudge doctor --gateway" in line
