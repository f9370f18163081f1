"""Streams of the Judge service: what they hold in memory, how many there are, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from editjudge.base.config import Settings
from editjudge.v1 import judge_pb2 as pb
from editjudge_services.gateway.options import ServiceOptions
from editjudge_services.gateway.service import JudgeService
from editjudge_services.gateway.servicer import JudgeServicer

from ..judge_service import Context, make_request, refusal, serve, teams_of
from ..patience import until

ONE = make_request().ByteSize()


class Caller:
    """Sends requests as fast as they are read, and then nothing, until it is told to end."""

    def __init__(self, count: int) -> None:
        self.read = 0
        self.ends = asyncio.Event()
        self._count = count

    async def __aiter__(self) -> AsyncIterator[pb.ScoreStreamRequest]:
        for _ in range(self._count):
            self.read += 1
            yield pb.ScoreStreamRequest(request=make_request())
        await self.ends.wait()


async def test_a_stream_holds_one_message_at_most_that_has_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goes_on = asyncio.Event()
    callers = [Caller(10) for _ in range(3)]
    async with JudgeService(Settings(), ServiceOptions(held_bytes=2 * 4 * ONE)) as service:
        score = service.score

        async def held_up(*asked: Any, **more: Any) -> Any:
            await goes_on.wait()
            return await score(*asked, **more)

        async def answers(caller: Caller) -> int:
            caller.ends.set()
            stream = JudgeServicer(service).ScoreStream(aiter(caller), Context())
            return len([answer async for answer in stream if answer.response.outcomes])

        monkeypatch.setattr(service, "score", held_up)
        streams = [asyncio.create_task(answers(caller)) for caller in callers]
        await until(lambda: service.requests.in_use.get("a") == 4 * ONE)
        for _ in range(200):  # whoever could read on does so
            await asyncio.sleep(0)
        assert service.requests.in_use == {"a": 4 * ONE}
        assert sum(caller.read for caller in callers) == 4 + len(callers)
        goes_on.set()
        assert await asyncio.gather(*streams) == [10] * 3
        assert not service.requests.in_use
        assert not service.streams.in_use


async def test_callers_have_so_many_streams_and_leave_room_for_others() -> None:
    async with serve(streams=3, streams_of_one=2, drain=0.1) as served:

        async def opened(team: str) -> Any:
            call = served.stub.ScoreStream(metadata=[("x-team", team)])
            await call.write(pb.ScoreStreamRequest(request=make_request()))
            assert (await call.read()).response.outcomes
            return call

        async def refused(team: str) -> str:
            told = await refusal(served.stub.ScoreStream(metadata=[("x-team", team)]).read())
            assert (told.code, told.may_retry) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
            return told.words

        first = await opened("busy")
        second = await opened("busy")
        assert "2 streams of yours" in await refused("busy")
        third = await opened("other")
        assert "3 streams are in use" in await refused("another")
        assert await served.stub.Score(make_request(), metadata=[("x-team", "busy")])
        await first.done_writing()
        assert await first.read() is grpc.aio.EOF
        second.cancel()
        await until(lambda: served.service.streams.in_use == {"other": 1})
        await opened("busy")
        third.cancel()


async def test_who_reads_no_answer_and_hangs_up_gives_his_place_back() -> None:
    async with serve(drain=0.1) as served:
        service = served.service
        call = served.stub.ScoreStream()
        long = make_request(request_id="x" * 1_000_000)  # it comes back: more than is sent unread
        for _ in range(6):
            await call.write(pb.ScoreStreamRequest(request=long))
        await until(lambda: teams_of(service) and not service.requests.in_use)
        assert service.streams.in_use
        call.cancel()
        await until(lambda: not service.streams.in_use and not service.requests.in_use)
