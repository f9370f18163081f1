"""Tokens per day: the real Envoy, a rate-limit service, and a Judge service that says tokens."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc

from ..fakes.judge import ScriptedJudge
from ..fakes.openai import ScriptedOpenAi
from ..fakes.rate_limits import RateLimits
from ..judge_service import ASKED, make_body, make_request, png, refusal, serve_with_judge
from ..patience import until
from .door import OK, OVER, Door, gateway_values, open_door, open_judged_door, score


async def take(door: Door, team: str, tokens: int = 1) -> tuple[grpc.StatusCode, dict[str, Any]]:
    """One edit that takes so many tokens: status, and what came beside it."""
    async with door.channel() as channel:
        request = pb.ScoreRequest(request_id=str(tokens))
        stub = judge_pb2_grpc.JudgeServiceStub(channel)
        call = stub.Score(request, metadata=door.metadata(team))
        beside = {**dict(await call.initial_metadata()), **dict(await call.trailing_metadata())}
        return await call.code(), beside


@contextlib.asynccontextmanager
async def open_counting_door(
    folder: Path, limits: RateLimits, **more: Any
) -> AsyncIterator[tuple[Door, ScriptedJudge]]:
    """A door whose teams have so many tokens, and the Judge service behind it."""
    async with ScriptedOpenAi(owner="vllm").serving() as vllm, limits.serving() as service:
        judges = {"judge": {"addresses": [vllm.removeprefix("http://").removesuffix("/v1")]}}
        counting = {"service": service, "uncounted": ["audio"], **more}
        teams = ("vision", "audio", "speech")
        async with open_judged_door(folder, teams=teams, judges=judges, token_limits=counting) as both:
            yield both


async def test_a_team_has_so_many_tokens_and_the_others_go_on(tmp_path: Path) -> None:
    limits = RateLimits(vision=100)
    async with open_counting_door(tmp_path, limits) as (door, judge):
        for taken in (60, 120):
            code, beside = await take(door, "vision", 60)
            assert (code, beside["x-tokens-used"]) == (OK, "60")
            await until(lambda taken=taken: limits.hits["vision"] == taken)
        code, beside = await take(door, "vision", 60)
        assert (code, beside["retry-after"]) == (OVER, "3600")
        assert (await take(door, "speech", 60))[0] == OK
    assert judge.teams == ["vision", "vision", "speech"]
    assert (limits.hits["vision"], limits.asked["vision"]) == (120, 3)


async def test_the_judge_service_tells_what_its_judge_took(tmp_path: Path) -> None:
    limits = RateLimits(vision=150)
    async with limits.serving() as counting, serve_with_judge() as (scripted, served):
        more = {"gateway": gateway_values(served), "token_limits": {"service": counting}}
        async with open_door(tmp_path, **more) as door:
            async with door.channel() as channel:
                request = make_request(ASKED, edited=png(1))
                assert await score(channel, door.metadata("vision"), request) == OK
            await until(lambda: limits.hits["vision"] == 101)

            async def status(seed: int) -> int:
                body, headers = make_body(ASKED, edited=png(seed)), door.metadata("vision")
                return (await door.http("/v1/score", body, **dict(headers)))[0]

            assert await status(2) == 200
            await until(lambda: limits.hits["vision"] == 202)
            assert await status(3) == 429
    assert len(scripted.requests) == 2


async def test_a_team_that_hangs_up_each_time_spends_its_limit_and_what_is_in_flight(tmp_path: Path) -> None:
    """Each edit is two calls; the first is answered, and the team hangs up on the second."""
    limits, edit = RateLimits(vision=2000), 2 * 101
    script = [None, 600.0] * 100
    async with limits.serving() as counting, serve_with_judge(None, *script) as (scripted, served):
        more = {"gateway": gateway_values(served), "token_limits": {"service": counting}}
        async with open_door(tmp_path, **more) as door, door.channel() as channel:
            stub, codes = judge_pb2_grpc.JudgeServiceStub(channel), Counter[Any]()
            for seed in range(100):
                request = make_request(ASKED, "core.blending_naturalness", edited=png(seed))
                call, end = (stub.Score(request, metadata=door.metadata("vision")), len(scripted.requests) + 2)
                await until(lambda call=call, end=end: call.done() or len(scripted.requests) == end)
                call.cancel()
                codes[await call.code()] += 1
    assert codes.keys() == {OVER, grpc.StatusCode.CANCELLED}
    assert codes[grpc.StatusCode.CANCELLED] * edit <= 2000 + edit
    assert limits.hits["vision"] >= 2000


async def test_who_has_so_many_tokens_takes_none_uncounted(tmp_path: Path) -> None:
    async with open_counting_door(tmp_path, RateLimits()) as (door, _):

        async def models(team: str) -> tuple[int, str]:
            headers = {**dict(door.metadata(team)), "x-team": "audio"}
            status, _, words = await door.http("/judges/judge/v1/models", **headers)
            return status, words

        status, words = await models("vision")
        assert status == 403
        assert "ask the Judge service" in words
        assert (await models("audio"))[0] == 200
        async with door.channel() as channel:
            stub = judge_pb2_grpc.JudgeServiceStub(channel)
            told = await refusal(stub.ScoreStream(metadata=door.metadata("vision")).read())
        assert told.code == grpc.StatusCode.PERMISSION_DENIED
        assert "ask by Score" in told.words


@pytest.mark.parametrize(("open_when_down", "code"), [(False, grpc.StatusCode.UNAVAILABLE), (True, OK)])
async def test_while_nobody_counts_nothing_is_let_in_unless_somebody_said_so(
    tmp_path: Path, open_when_down: bool, code: grpc.StatusCode
) -> None:
    limits = RateLimits()
    async with limits.serving() as gone:
        pass
    more = {"service": gone, "open_when_down": open_when_down}
    async with open_counting_door(tmp_path, limits, **more) as (door, judge):
        assert (await take(door, "vision"))[0] == code
        assert bool(judge.teams) is open_when_down
