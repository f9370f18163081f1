"""Streams and connections that are held open and say nothing, through the real Envoy."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc

from ..fakes.judge import ScriptedJudge
from ..patience import patience
from .test_front import Door

BATCH = 8


@contextlib.asynccontextmanager
async def judged(folder: Path, **limits: int) -> AsyncIterator[Door]:
    """A door before a scripted Judge service, with few places for class `batch`."""
    async with ScriptedJudge().serving() as at:
        door = Door(
            folder, triton={}, gateway={"addresses": [at]}, limits={"batch": BATCH, **limits}
        )
        for team in ("vision", "audio"):
            door.token(team)
        await asyncio.to_thread(door.server.start)
        try:
            yield door
        finally:
            await asyncio.to_thread(door.server.stop)


@contextlib.asynccontextmanager
async def channel_of(door: Door) -> AsyncIterator[grpc.aio.Channel]:
    credentials = grpc.ssl_channel_credentials(door.authority.certificate.read_bytes())
    own = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.secure_channel(door.target, credentials, own) as channel:
        yield channel


def batch(door: Door, team: str) -> list[tuple[str, str]]:
    token = door.keys.issue_token(team, 1, "batch", issuer="editjudge", audience="judges")
    return [("authorization", f"Bearer {token}")]


async def idle(channel: grpc.aio.Channel, metadata: Any, count: int) -> Sequence[Any]:
    """Streams of both kinds that are opened and left alone."""
    judge, health = (
        judge_pb2_grpc.JudgeServiceStub(channel),
        health_pb2_grpc.HealthStub(channel),
    )
    watched = [
        health.Watch(health_pb2.HealthCheckRequest(), metadata=metadata) for _ in range(count)
    ]
    streams = [judge.ScoreStream(metadata=metadata) for _ in range(count)]
    await asyncio.gather(*(each.read() for each in watched))
    await asyncio.gather(*(each.wait_for_connection() for each in streams))
    return [*watched, *streams]


async def score(channel: grpc.aio.Channel, metadata: Any) -> grpc.StatusCode:
    call = judge_pb2_grpc.JudgeServiceStub(channel).Score(
        pb.ScoreRequest(request_id="1"), metadata=metadata, timeout=30
    )
    return await call.code()


async def test_idle_streams_of_one_team_take_no_place_of_another(tmp_path: Path) -> None:
    async with judged(tmp_path) as door, channel_of(door) as theirs, channel_of(door) as ours:
        held = await idle(theirs, batch(door, "audio"), BATCH)
        assert not any(each.done() for each in held)
        asked = (score(ours, batch(door, "vision")) for _ in range(4))
        assert {*await asyncio.gather(*asked)} == {grpc.StatusCode.OK}


async def test_a_team_opens_so_many_streams_and_others_open_theirs(tmp_path: Path) -> None:
    async with judged(tmp_path, streams_per_minute=1) as door, channel_of(door) as channel:

        async def opened(team: str) -> grpc.StatusCode | None:
            call = health_pb2_grpc.HealthStub(channel).Watch(
                health_pb2.HealthCheckRequest(), metadata=batch(door, team)
            )
            with contextlib.suppress(grpc.aio.AioRpcError):
                await call.read()
                return None
            return await call.code()

        assert await opened("audio") is None
        assert await opened("audio") == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await opened("vision") is None
        assert await score(channel, batch(door, "audio")) == grpc.StatusCode.OK


async def test_a_stream_that_says_nothing_ends(tmp_path: Path) -> None:
    async with judged(tmp_path, stream_idle_seconds=1) as door, channel_of(door) as channel:
        for each in await idle(channel, batch(door, "audio"), 1):
            with pytest.raises(grpc.aio.AioRpcError):
                await asyncio.wait_for(each.read(), patience(30))


async def test_a_connection_that_asks_nothing_is_cut(tmp_path: Path) -> None:
    async with judged(tmp_path, connection_idle_seconds=1) as door:
        context = ssl.create_default_context(cafile=str(door.authority.certificate))
        reader, writer = await asyncio.open_connection(*door.target.split(":"), ssl=context)
        assert await asyncio.wait_for(reader.read(), patience(30)) == b""
        writer.close()
