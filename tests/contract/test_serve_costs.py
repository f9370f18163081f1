"""What a team may spend at the Judge service: it holds whatever callers do."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import grpc
import pytest
from aiohttp import web

from editjudge.storage.ledger import Ledger
from editjudge.v1 import judge_pb2 as pb
from editjudge_services.judge.accounts import Accounts, Used, used_in
from editjudge_services.judge.callers import ledger_of

from ..fakes.openai import ScriptedOpenAi
from ..patience import until
from .test_serve import asking, png
from .test_serve_kept import ASKED, running, scripted_judge


class SlowJudge(ScriptedOpenAi):
    """So slow that calls which may be made at once are."""

    async def _chat(self, request: web.Request) -> web.Response:
        await asyncio.sleep(0.1)
        return await super()._chat(request)


async def test_a_limit_of_a_day_holds_for_a_burst_of_first_calls(tmp_path: Path) -> None:
    scripted = SlowJudge(probabilities={"good": 0.9, "poor": 0.1})
    async with scripted.serving() as url:
        async with running(url, tmp_path, max_cost=0.35) as service:
            answers = await asyncio.gather(
                *(
                    service.score("a", sources=[pb.Picture(data=png(100 + number))])
                    for number in range(12)
                )
            )
    scored = [outcome for outcome, _ in answers if outcome.status == pb.STATUS_SCORED]
    assert len(scored) == len(scripted.requests) == 3
    (used,) = used_in(tmp_path).values()
    assert used.cost == pytest.approx(0.3)


async def test_hanging_up_is_not_free(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    scripted = scripted_judge(None, 600.0)
    async with scripted.serving() as url:
        async with running(url, tmp_path, max_cost=0.35, audit=log) as service:
            await service.score("a")
            for number in (2, 3):
                edited = pb.Picture(data=png(number))
                call = service.stub.Score(asking(ASKED, edited=edited), metadata=[("x-team", "a")])
                waiting = asyncio.ensure_future(call.code())
                await until(lambda sent=number: len(scripted.requests) == sent)
                call.cancel()
                assert await waiting is grpc.StatusCode.CANCELLED
                await until(lambda sent=number: len(log.read_text().splitlines()) == sent)
                scripted.script = [600.0]
            over, _ = await service.score("a", 4)
            assert over.status == pb.STATUS_FAILED
            assert "00:00 UTC" in over.reason
            assert len(scripted.requests) == 3
    (used,) = used_in(tmp_path).values()
    assert (used.calls, used.failed, used.refused) == (1, 2, 2)
    assert used.cost == pytest.approx(0.3)
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [line["failed"] for line in lines] == [0, 1, 1, 0]
    assert lines[1]["cost"] == pytest.approx(0.1)


async def test_a_day_that_comes_back_goes_on_from_what_was_spent(tmp_path: Path) -> None:
    day = "2026-11-22"

    def today() -> str:
        return day

    for _ in range(2):  # the second one finds it in the file
        async with Accounts(tmp_path, 0.5, print, today) as accounts:
            with accounts.budget("a").room_for_one("judge"):
                accounts.budget("a").spend(0.2)
                accounts.add("a", Used(calls=1, cost=0.2, dearest=0.2))
            day = "2026-11-23"
            assert accounts.budget("a").spent == 0.0
            day = "2026-11-22"
            spent = accounts.budget("a").spent
    assert spent == pytest.approx(0.4)
    async with Accounts(tmp_path, 0.5, print, today) as accounts:
        day = "2026-11-21"
        assert accounts.budget("a").spent == 0.0


async def test_none_but_the_owner_may_read_what_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(0o755)
    log = tmp_path / "audit.jsonl"
    earlier = ledger_of(kept, "old")
    earlier.parent.mkdir(0o755)
    with Ledger(earlier):
        earlier.chmod(0o644)
    before = os.umask(0)
    try:
        scripted = scripted_judge()
        async with scripted.serving() as url:
            async with running(url, kept, audit=log) as service:
                for team in ("a", "old"):
                    await service.score(team)
                modes = {p: p.stat().st_mode & 0o777 for p in kept.rglob("*") if p.is_file()}
    finally:
        os.umask(before)
    assert {path.suffix for path in modes} >= {".sqlite", ".sqlite-wal", ".lock"}
    assert {f"{mode:o}" for mode in modes.values()} == {"600"}
    assert log.stat().st_mode & 0o777 == 0o600


async def test_lines_of_the_audit_that_are_lost_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    scripted = scripted_judge()
    async with scripted.serving() as url:
        async with running(url, audit=log) as service:
            assert "\neditjudge_audit_lost_total 0.0\n" in await service.metrics()
            log.unlink()
            log.symlink_to("/dev/full")
            for _ in range(2):
                await service.score("a")
            assert "\neditjudge_audit_lost_total 2.0\n" in await service.metrics()
