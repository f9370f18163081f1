"""What changes while calls run: a server that is drained, a key that is taken back."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from editjudge.base.config import Settings
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.gateway.server import serve_grpc
from editjudge_services.gateway.service import JudgeService

from ..patience import until
from .test_front import Door

OK = grpc.StatusCode.OK
WIDE = {"calls_per_second": 100_000, "burst": 100_000}


class Asking:
    """A team that asks all the time, by plain gRPC and so without anybody's retries.

    Attributes:
        answers: How often it had each status.
    """

    def __init__(self, door: Door, team: str, call: Callable[[Any], Any]) -> None:
        self._door, self._team, self._call = door, team, call
        self.answers: Counter[grpc.StatusCode] = Counter()

    async def act(self) -> None:
        """Until it is cancelled."""
        door = self._door
        credentials = grpc.ssl_channel_credentials(door.authority.certificate.read_bytes())
        metadata = [("authorization", f"Bearer {door.token(self._team)}")]
        own = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.secure_channel(door.target, credentials, own) as channel:
            while True:
                call = self._call(channel)(metadata)
                self.answers[await call.code()] += 1


def dimensions(channel: grpc.aio.Channel) -> Callable[[Any], Any]:
    """Asks the Judge service what there is."""
    stub = judge_pb2_grpc.JudgeServiceStub(channel)
    request = pb.ListDimensionsRequest(patterns=["core.psnr.*"])
    return lambda metadata: stub.ListDimensions(request, metadata=metadata)


@contextlib.asynccontextmanager
async def calling(*teams: Asking) -> Any:
    """Teams that ask while the block runs."""
    tasks = [asyncio.create_task(team.act()) for team in teams]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ended)


async def test_a_service_that_is_drained_while_calls_run_loses_none(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        service = await stack.enter_async_context(JudgeService(Settings()))
        stays = await stack.enter_async_context(serve_grpc(service, "127.0.0.1:0", drain=1))
        goes = contextlib.AsyncExitStack()
        leaving = await stack.enter_async_context(JudgeService(Settings()))
        # As `editjudge serve` has it: longer than Envoy takes to ask for health.
        gone = await goes.enter_async_context(serve_grpc(leaving, "127.0.0.1:0", notice=8, drain=5))
        door = Door(tmp_path, triton={}, gateway={"addresses": [stays, gone]}, rate=WIDE)
        vision = Asking(door, "vision", dimensions)
        door.token("vision")
        await asyncio.to_thread(door.server.start)
        try:
            async with calling(vision):
                await until(lambda: {call["server"] for call in door.called()} == {stays, gone})
                await goes.aclose()
                before = vision.answers[OK]
                await until(lambda: vision.answers[OK] > before + 20)
        finally:
            await asyncio.to_thread(door.server.stop)
    assert set(vision.answers) == {OK}
    assert {call["server"] for call in door.called()[-10:]} == {stays}


async def test_a_key_that_is_taken_back_while_calls_run_ends_its_team_alone(
    tmp_path: Path,
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        service = await stack.enter_async_context(JudgeService(Settings()))
        at = await stack.enter_async_context(serve_grpc(service, "127.0.0.1:0", drain=1))
        door = Door(tmp_path, triton={}, gateway={"addresses": [at]}, rate=WIDE)
        leaving, staying = (Asking(door, team, dimensions) for team in ("leaving", "staying"))
        for team in ("leaving", "staying"):
            door.token(team)
        await asyncio.to_thread(door.server.start)
        try:
            async with calling(leaving, staying):
                await until(lambda: leaving.answers[OK] and staying.answers[OK])
                door.keys.revoke("leaving")
                await until(lambda: leaving.answers[grpc.StatusCode.UNAUTHENTICATED])
                accepted, others = leaving.answers[OK], staying.answers[OK]
                await until(lambda: staying.answers[OK] > others + 20)
                assert leaving.answers[OK] == accepted
        finally:
            await asyncio.to_thread(door.server.stop)
    assert set(staying.answers) == {OK}
