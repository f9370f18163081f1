"""`editjudge serve`: killed at any moment it forgets nothing; what it kept is shown and purged."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import csv
import io
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import grpc
import pytest

from editjudge.v1 import judge_pb2_grpc

from ..judge_service import ASKED, make_request, png, scripted_judge, serve_priced
from . import conftest
from .conftest import CommandResult, run_in_process, run_in_thread

NOBODY = "grpc://127.0.0.1:9"


def settings(folder: Path, url: str) -> Path:
    """A file of settings with a judge."""
    config = folder / "editjudge.toml"
    config.write_text(
        f'[judges.judge]\nurl = "{url}"\nlogprobs = "never"\nsamples = 1\nprice = {{input = 1000, output = 0}}\n'
    )
    return config


@contextlib.asynccontextmanager
async def serving(url: str, folder: Path) -> AsyncIterator[tuple[conftest.Started, judge_pb2_grpc.JudgeServiceStub]]:
    """The command, until the block ends it by SIGKILL."""
    given = ("--config", settings(folder.parent, url), "--endpoint", NOBODY, "--cache", folder)
    async with conftest.serving(*given) as (started, address, _):
        async with grpc.aio.insecure_channel(address) as channel:
            yield started, judge_pb2_grpc.JudgeServiceStub(channel)


async def test_killed_it_pays_nothing_twice_but_what_was_in_flight(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    requests = [make_request(ASKED, edited=png(i)) for i in range(8)]
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
            own = ("--endpoint", NOBODY, "--http-address", "127.0.0.1:0")
            second = await run_in_thread("serve", "--cache", folder, *own)
            assert (second.code, second.out) == (2, "")
            assert "another Judge service has its cache here" in second.err.splitlines()[-1]
            process.kill()
            assert await waiting is not grpc.StatusCode.OK
        async with serving(url, folder) as (_, stub):
            answers = [await stub.Score(request, metadata=team) for request in requests]
            assert len(scripted.requests) == 6 + 3
            assert all(answer.outcomes[0].HasField("value") for answer in answers)
            live = await run_in_thread("serve", "usage", folder, "--json")
    await asyncio.to_thread(_check_usage, folder, live)


def _check_usage(folder: Path, live: CommandResult) -> None:
    """What the command says of the two services, and that it deletes what they kept."""
    shown = run_in_process("serve", "usage", folder, "--json")
    (used,), (before,) = shown.json, live.json
    # The last edit is written down in the background, maybe after this was read.
    assert used["edits"] - before["edits"] in {0, 1}
    assert before | {"edits": used["edits"]} == used
    # Each of both services asked once whether the judge holds replies to choices.
    assert (used["team"], used["calls"], used["cached"]) == ("vision", 8 + 2, 5)
    assert used["cost"] == pytest.approx(0.8)
    (row,) = csv.DictReader(io.StringIO(run_in_process("serve", "usage", folder, "--csv").out))
    assert {name: str(value) for name, value in used.items()} == row
    assert "vision" in run_in_process("serve", "usage", folder).out
    assert run_in_process("serve", "usage", folder, "--team", "audio", "--json").json == []
    kept = run_in_process("serve", "purge", folder).out
    assert re.fullmatch(r"vision: 8 replies, \d days? of usage, 0 audit lines\n", kept)
    _check_purge(folder, folder.parent / "audit.jsonl")


def _check_purge(folder: Path, audit: Path) -> None:
    (compressed := audit.with_name("audit.jsonl.1.gz")).write_bytes(b"\x1f\x8b")
    audit.write_text('{"time": "2026-11-22T13:40:07.512+00:00", "team": "vision"}\n' * 2)
    purge = ("serve", "purge", folder)
    unknown = run_in_process(*purge, "--team", "visoin", "--team", "vision")
    assert (unknown.code, unknown.out) == (2, "")
    assert "nothing is kept of team 'visoin'" in unknown.err
    old = run_in_process(*purge, "--older-than", "30")
    assert old.out == "all teams: 0 replies, 0 days of usage, 0 audit lines deleted\n"
    purged = run_in_process(*purge, "--team", "vision", "--json")
    (told,) = purged.json
    assert {**told, "usage_days": 0} == {
        "team": "vision", "replies": 8, "usage_days": 0, "audit_lines": 0,
    }  # fmt: skip
    assert "audit lines are not deleted: give the file of the service with --audit" in purged.err
    purged = run_in_process(*purge, "--team", "vision", "--audit", audit)
    told = "vision: 0 replies, 0 days of usage, 2 audit lines deleted\n"
    assert (purged.code, purged.out) == (1, told)
    assert f"{compressed}: no audit log that can be read" in purged.err
    assert run_in_process(*purge, "--team", "vision").code == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("serve", "purge", "FOLDER"), "no Judge service has stored usage here"),
        (("serve", "purge", "NOTHING", "--older-than", "1"), "no Judge service has stored usage here"),
        (("serve", "usage", "FOLDER"), "no Judge service has stored usage here"),
        (("serve", "--cache-shared"), "--cache-shared needs a cache"),
        (("serve", "--cache", "FILE", "--endpoint", NOBODY), "File exists"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments: tuple[str, ...], told: str) -> None:
    Path("FILE").write_text("here")
    Path("FOLDER").mkdir()
    done = run_in_process(*arguments)
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
        async with serve_priced(url) as service, aiohttp.ClientSession() as session:
            body = {"edit": edit, "dimensions": asked}
            async with session.post(f"{service.web}/v1/score", json=body) as reply:
                verdicts = (await reply.json())["verdicts"]
        outputs = ("--outputs", f"ours={after.parent}", "--out", tmp_path / "first")
        dimensions = (word for name in asked for word in ("--dimension", name))
        services = ("--endpoint", NOBODY, "--config", settings(tmp_path, url))
        data = ("core", "--data", tmp_path / "items.jsonl")
        done = await run_in_thread("run", *data, *outputs, *dimensions, *services)
        assert done.code == 3, done.err  # nobody serves the specialist
    shown = (await run_in_thread("show", tmp_path / "first", "one", "--json")).json
    stored = {each["dimension"]: each for each in shown["edits"][0]["verdicts"]}
    assert {"scored"} <= {each["status"] for each in verdicts}
    for each in verdicts:
        if each["status"] in {"scored", "unscored"}:
            assert {name: each[name] for name in stored[each["dimension"]]} == stored.pop(each["dimension"])
        else:
            assert each["dimension"] in shown["not_served"]
    assert not stored
