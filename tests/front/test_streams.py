"""Streams and connections that are held open and say nothing, through the real Envoy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc

from ..patience import patience, until
from .door import OK, OVER, open_judged_door, score

BATCH = 8
UNREAD, LARGE = 50, 2 * 1024 * 1024


def open_limited_door(folder: Path, **limits: int) -> Any:
    """A door with few places for class `batch`."""
    return open_judged_door(folder, teams=("vision", "audio"), limits={"batch": BATCH, **limits})


async def idle(channel: grpc.aio.Channel, metadata: Any, count: int) -> Sequence[Any]:
    """Streams of both kinds that are opened and left alone."""
    judge, health = judge_pb2_grpc.JudgeServiceStub(channel), health_pb2_grpc.HealthStub(channel)
    asked = health_pb2.HealthCheckRequest()
    watched = [health.Watch(asked, metadata=metadata) for _ in range(count)]
    streams = [judge.ScoreStream(metadata=metadata) for _ in range(count)]
    await asyncio.gather(*(each.read() for each in watched))
    await asyncio.gather(*(each.wait_for_connection() for each in streams))
    return [*watched, *streams]


async def test_idle_streams_of_one_team_take_no_place_of_another(tmp_path: Path) -> None:
    async with open_limited_door(tmp_path) as (door, _), door.channel() as theirs, door.channel() as ours:
        held = await idle(theirs, door.metadata("audio", "batch"), BATCH)
        assert not any(each.done() for each in held)
        asked = (score(ours, door.metadata("vision", "batch")) for _ in range(4))
        assert {*await asyncio.gather(*asked)} == {OK}


async def test_answers_that_a_team_does_not_read_hold_up_no_others(tmp_path: Path) -> None:
    large = pb.ScoreStreamRequest(request=pb.ScoreRequest(request_id="x" * LARGE))
    no_larger_windows = "grpc.http2.bdp_probe", 0
    async with open_limited_door(tmp_path) as (door, judge), door.channel(no_larger_windows) as theirs:
        stub = judge_pb2_grpc.JudgeServiceStub(theirs)
        streams = [stub.ScoreStream(metadata=door.metadata("audio", "batch")) for _ in range(UNREAD)]
        await asyncio.gather(*(each.write(large) for each in streams))
        await until(lambda: len(judge.metadata) == UNREAD)
        for _ in range(8):  # each of the door's threads has connections of its own
            async with door.channel() as ours:
                asked = score(ours, door.metadata("vision", "batch"))
                assert await asyncio.wait_for(asked, patience(10)) == OK


async def test_a_team_opens_so_many_streams_and_others_open_theirs(tmp_path: Path) -> None:
    async with open_limited_door(tmp_path, streams_per_minute=1) as (door, _), door.channel() as channel:

        async def open_watch(team: str) -> grpc.StatusCode | None:
            call = health_pb2_grpc.HealthStub(channel).Watch(
                health_pb2.HealthCheckRequest(), metadata=door.metadata(team, "batch")
            )
            with contextlib.suppress(grpc.aio.AioRpcError):
                await call.read()
                return None
            return await call.code()

        assert [await open_watch(team) for team in ("audio", "audio", "vision")] == [None, OVER, None]
        assert await score(channel, door.metadata("audio", "batch")) == OK


async def test_a_stream_that_says_nothing_ends(tmp_path: Path) -> None:
    async with open_limited_door(tmp_path, stream_idle_seconds=1) as (door, _), door.channel() as channel:
        for each in await idle(channel, door.metadata("audio", "batch"), 1):
            with pytest.raises(grpc.aio.AioRpcError):
                await asyncio.wait_for(each.read(), patience(30))


async def test_a_connection_that_asks_nothing_is_cut(tmp_path: Path) -> None:
    async with open_limited_door(tmp_path, connection_idle_seconds=1) as (door, _):
        reader, writer = await asyncio.open_connection(*door.address, ssl=door.tls)
        assert await asyncio.wait_for(reader.read(), patience(30)) == b""
        writer.close()
