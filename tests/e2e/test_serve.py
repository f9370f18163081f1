"""`editjudge serve`: killed at any moment it forgets nothing; what it kept is shown and purged."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import csv
import io
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import grpc
import pytest

from editjudge.v1 import judge_pb2_grpc

from ..judge_service import ASKED, asking, png, running, scripted_judge
from ..patience import patience
from .conftest import run

NOBODY = "grpc://127.0.0.1:9"


@contextlib.asynccontextmanager
async def serving(
    url: str, folder: Path, *flags: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, judge_pb2_grpc.JudgeServiceStub]]:
    """The command, until the block ends it by SIGKILL."""
    config = folder.parent / "editjudge.toml"
    config.write_text(
        f'[judges.judge]\nurl = "{url}"\nlogprobs = "never"\nsamples = 1\n'
        "price = {input = 1000, output = 0}\n"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "editjudge", "serve", "--config", str(config)),
        *("--endpoint", NOBODY, "--cache", str(folder)),
        *("--address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", *flags),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), patience(60))
        address = line.decode().split()[2]
        async with grpc.aio.insecure_channel(address) as channel:
            yield process, judge_pb2_grpc.JudgeServiceStub(channel)
    finally:
        with contextlib.suppress(ProcessLookupError):  # a test may have ended it
            process.kill()
        await process.wait()


async def test_killed_it_pays_nothing_twice_but_what_was_in_flight(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    requests = [asking(ASKED, edited=png(i)) for i in range(8)]
    team = [("x-team", "vision")]
    scripted = scripted_judge(*[None] * 5, 60.0, None)
    async with scripted.serving() as url:
        async with serving(url, folder) as (process, stub):
            for request in requests[:5]:
                assert (await stub.Score(request, metadata=team)).outcomes[0].HasField("value")
            lost = stub.Score(requests[5], metadata=team)
            waiting = asyncio.ensure_future(lost.code())
            while len(scripted.requests) < 6:
                await asyncio.sleep(0.01)
            second = await asyncio.to_thread(
                run,
                "serve",
                "--cache",
                folder,
                "--endpoint",
                NOBODY,
                "--http-address",
                "127.0.0.1:0",
            )
            assert (second.code, second.out) == (2, "")
            assert "another Judge service has its cache here" in second.err.splitlines()[-1]
            os.kill(process.pid, signal.SIGKILL)
            assert await waiting is not grpc.StatusCode.OK
        async with serving(url, folder) as (_, stub):
            answers = [await stub.Score(request, metadata=team) for request in requests]
            assert len(scripted.requests) == 6 + 3
            assert all(answer.outcomes[0].HasField("value") for answer in answers)
            live = await asyncio.to_thread(run, "serve", "usage", folder, "--json")
    shown = run("serve", "usage", folder, "--json")
    assert live.json == shown.json
    (used,) = shown.json
    # Each of both services asked once whether the judge holds replies to choices.
    assert (used["team"], used["calls"], used["cached"]) == ("vision", 8 + 2, 5)
    assert used["cost"] == pytest.approx(0.8)
    (row,) = csv.DictReader(io.StringIO(run("serve", "usage", folder, "--csv").out))
    assert {name: str(value) for name, value in used.items()} == row
    assert "vision" in run("serve", "usage", folder).out
    assert run("serve", "usage", folder, "--team", "audio", "--json").json == []
    assert re.fullmatch(r"vision: \d\.\d\d MB\n", run("serve", "purge", folder).out)
    purged = run("serve", "purge", folder, "--team", "vision")
    assert (purged.code, purged.out) == (0, "vision: 8 calls deleted\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("serve", "purge", "FOLDER"), "no Judge service has a cache here"),
        (
            ("serve", "purge", "NOTHING", "--older-than", "1"),
            "no Judge service has a cache here",
        ),
        (("serve", "usage", "FOLDER"), "no Judge service has stored usage here"),
        (("serve", "--cache-shared"), "--cache-shared needs a cache"),
        (("serve", "--cache", "FILE", "--endpoint", NOBODY), "File exists"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    (tmp_path / "FILE").write_text("here")
    (tmp_path / "FOLDER").mkdir()
    done = run(*arguments, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert "Traceback" not in done.err


async def test_a_verdict_is_the_one_that_show_tells(tmp_path: Path) -> None:
    """Field by field: what `/v1/score` answers, and what `show --json` says of a run."""
    before, after = tmp_path / "before.png", tmp_path / "ours" / "one.png"
    after.parent.mkdir()
    before.write_bytes(png(0))
    after.write_bytes(png(1))
    item = {"id": "one", "instruction": "make it red", "source": "before.png"}
    (tmp_path / "items.jsonl").write_text(json.dumps(item))
    asked = (ASKED, "core.psnr.source.whole", "core.quality.piqe")
    sent = [{"data": base64.b64encode(png(number)).decode()} for number in (0, 1)]
    edit = {"id": "one", "model": "ours", "instruction": "make it red", "sources": sent[:1]}
    edit["edited"] = sent[1]
    scripted = scripted_judge()
    async with scripted.serving() as url:
        async with running(url) as service, aiohttp.ClientSession() as session:
            body = {"edit": edit, "dimensions": asked}
            async with session.post(f"{service.web}/v1/score", json=body) as reply:
                verdicts = (await reply.json())["verdicts"]
        config = tmp_path / "editjudge.toml"
        config.write_text(
            f'[judges.judge]\nurl = "{url}"\nlogprobs = "never"\nsamples = 1\n'
            "price = {input = 1000, output = 0}\n"
        )
        done = await asyncio.to_thread(
            run,
            *("run", "core", "--data", "items.jsonl", "--outputs", "ours=ours", "--out", "first"),
            *(word for name in asked for word in ("--dimension", name)),
            *("--endpoint", NOBODY, "--config", config),
            cwd=tmp_path,
        )
    assert done.code in {0, 1}, done.err
    shown = run("show", "first", "one", "--json", cwd=tmp_path).json
    stored = {each["dimension"]: each for each in shown["edits"][0]["verdicts"]}
    assert {"scored"} <= {each["status"] for each in verdicts}
    for each in verdicts:
        if each["status"] in {"scored", "unscored"}:
            assert {name: each[name] for name in stored[each["dimension"]]} == stored.pop(
                each["dimension"]
            )
        else:
            assert each["dimension"] in shown["not_served"]
    assert not stored
