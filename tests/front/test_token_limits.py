"""Tokens per day: the real Envoy, a rate-limit service, and a Judge service that says tokens."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.gateway.http import serve_http
from editjudge_services.gateway.server import serve_grpc
from editjudge_services.gateway.service import JudgeService

from ..fakes.judge import ScriptedJudge
from ..fakes.openai import ScriptedOpenAi
from ..fakes.rate_limits import RateLimits
from ..judge_service import ASKED, asking, asking_json, png, priced, scripted_judge
from ..patience import until
from .test_front import Door

OK, OVER = grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED


class Counted:
    """A door whose teams have so many tokens, and what stands behind it."""

    def __init__(self, door: Door, judge: ScriptedJudge) -> None:
        self.door = door
        self.judge = judge

    async def score(self, team: str, tokens: int) -> tuple[grpc.StatusCode, str, dict[str, Any]]:
        """One edit that takes so many tokens: status, words, and what came beside them."""
        door = self.door
        credentials = grpc.ssl_channel_credentials(door.authority.certificate.read_bytes())
        metadata = [("authorization", f"Bearer {door.token(team)}")]
        async with grpc.aio.secure_channel(door.target, credentials) as channel:
            stub = judge_pb2_grpc.JudgeServiceStub(channel)
            call = stub.Score(pb.ScoreRequest(request_id=str(tokens)), metadata=metadata)
            code, words = await call.code(), await call.details()
            beside = {**dict(await call.initial_metadata()), **dict(await call.trailing_metadata())}
        return code, words or "", beside


@contextlib.asynccontextmanager
async def counted(folder: Path, limits: RateLimits, **more: Any) -> AsyncIterator[Counted]:
    judge, scripted = ScriptedJudge(), ScriptedOpenAi(owner="vllm")
    async with contextlib.AsyncExitStack() as stack:
        at = await stack.enter_async_context(judge.serving())
        vllm = await stack.enter_async_context(scripted.serving())
        service = await stack.enter_async_context(limits.serving())
        door = Door(
            folder,
            triton={},
            gateway={"addresses": [at]},
            judges={"judge": {"addresses": [vllm.removeprefix("http://").removesuffix("/v1")]}},
            token_limits={"service": service, "uncounted": ["audio"], **more},
        )
        for team in ("vision", "audio", "speech"):
            door.token(team)
        await asyncio.to_thread(door.server.start)
        try:
            yield Counted(door, judge)
        finally:
            await asyncio.to_thread(door.server.stop)


async def test_a_team_has_so_many_tokens_and_the_others_go_on(tmp_path: Path) -> None:
    limits = RateLimits(vision=100)
    async with counted(tmp_path, limits) as front:
        for taken in (60, 120):
            code, _, beside = await front.score("vision", 60)
            assert (code, beside["x-tokens-used"]) == (OK, "60")
            await until(lambda taken=taken: limits.hits["vision"] == taken)
        code, _, beside = await front.score("vision", 60)
        assert code == OVER
        assert beside["retry-after"] == "3600"
        assert (await front.score("speech", 60))[0] == OK
    assert front.judge.teams == ["vision", "vision", "speech"]
    assert limits.hits["vision"] == 120
    assert limits.asked["vision"] == 3


async def test_the_judge_service_tells_what_its_judge_took(tmp_path: Path) -> None:
    limits, scripted = RateLimits(vision=150), scripted_judge()
    async with contextlib.AsyncExitStack() as stack:
        vllm = await stack.enter_async_context(scripted.serving())
        rate_limits = await stack.enter_async_context(limits.serving())
        service = await stack.enter_async_context(JudgeService(priced(vllm)))
        web = await stack.enter_async_context(serve_http(service, "127.0.0.1", 0, 1))
        at = await stack.enter_async_context(serve_grpc(service, "127.0.0.1:0", drain=1))
        judge = {"addresses": [at], "json_addresses": [web.removeprefix("http://")]}
        door = Door(tmp_path, triton={}, gateway=judge, token_limits={"service": rate_limits})
        metadata = [("authorization", f"Bearer {door.token('vision')}")]
        await asyncio.to_thread(door.server.start)
        stack.push_async_callback(asyncio.to_thread, door.server.stop)
        credentials = grpc.ssl_channel_credentials(door.authority.certificate.read_bytes())
        async with grpc.aio.secure_channel(door.target, credentials) as channel:
            stub = judge_pb2_grpc.JudgeServiceStub(channel)
            assert await stub.Score(asking(ASKED, edited=png(1)), metadata=metadata)
        await until(lambda: limits.hits["vision"] == 101)
        context = ssl.create_default_context(cafile=str(door.authority.certificate))

        async def status(seed: int) -> int:
            body = asking_json(ASKED, edited=png(seed))
            async with aiohttp.ClientSession(headers=dict(metadata)) as session:
                url = f"https://{door.target}/v1/score"
                async with session.post(url, json=body, ssl=context) as reply:
                    return reply.status

        assert await status(2) == 200
        await until(lambda: limits.hits["vision"] == 202)
        assert await status(3) == 429
    assert len(scripted.requests) == 2


async def test_who_has_so_many_tokens_takes_none_uncounted(tmp_path: Path) -> None:
    async with counted(tmp_path, RateLimits()) as front:
        door = front.door
        context = ssl.create_default_context(cafile=str(door.authority.certificate))

        async def models(team: str) -> tuple[int, str]:
            url = f"https://{door.target}/judges/judge/v1/models"
            headers = {"authorization": f"Bearer {door.token(team)}", "x-team": "audio"}
            async with aiohttp.ClientSession(headers=headers) as session:
                async with session.get(url, ssl=context) as reply:
                    return reply.status, await reply.text()

        status, words = await models("vision")
        assert status == 403
        assert "ask the Judge service" in words
        assert (await models("audio"))[0] == 200

        credentials = grpc.ssl_channel_credentials(door.authority.certificate.read_bytes())
        metadata = [("authorization", f"Bearer {door.token('vision')}")]
        async with grpc.aio.secure_channel(door.target, credentials) as channel:
            call = judge_pb2_grpc.JudgeServiceStub(channel).ScoreStream(metadata=metadata)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
        assert "ask by Score" in (caught.value.details() or "")


@pytest.mark.parametrize(
    ("open_when_down", "code"), [(False, grpc.StatusCode.UNAVAILABLE), (True, OK)]
)
async def test_while_nobody_counts_nothing_is_let_in_unless_somebody_said_so(
    tmp_path: Path, open_when_down: bool, code: grpc.StatusCode
) -> None:
    limits = RateLimits()
    async with limits.serving() as gone:
        pass
    more = {"service": gone, "open_when_down": open_when_down}
    async with counted(tmp_path, limits, **more) as front:
        assert (await front.score("vision", 1))[0] == code
        assert bool(front.judge.teams) is open_when_down
