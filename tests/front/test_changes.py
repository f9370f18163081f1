"""What changes while calls run: a server that is drained, a key that is taken back."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import grpc

from editjudge.base.config import Settings
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.gateway.server import serve_grpc
from editjudge_services.gateway.service import JudgeService

from ..judge_service import serve
from ..patience import until
from .door import MANY_TEAMS, NOBODY, OK, WIDE, Door, gateway_values, open_door

Answers = Counter[grpc.StatusCode]


async def ask_for_ever(door: Door, team: str, answers: Answers) -> None:
    """By plain gRPC, and so without anybody's retries; counts the answers."""
    request, metadata = pb.ListDimensionsRequest(patterns=["core.psnr.*"]), door.metadata(team)
    async with door.channel() as channel:
        stub = judge_pb2_grpc.JudgeServiceStub(channel)
        while True:
            answers[await stub.ListDimensions(request, metadata=metadata).code()] += 1


@contextlib.asynccontextmanager
async def calling(door: Door, *teams: str) -> AsyncIterator[list[Answers]]:
    """Teams that ask while the block runs."""
    answers = [Answers() for _ in teams]
    tasks = [asyncio.create_task(ask_for_ever(door, team, of)) for team, of in zip(teams, answers, strict=True)]
    try:
        yield answers
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ended)


async def test_a_service_that_is_drained_while_calls_run_loses_none(tmp_path: Path) -> None:
    async with serve() as stays, JudgeService(Settings()) as leaving:
        goes = contextlib.AsyncExitStack()
        # As `editjudge serve` has it: longer than Envoy takes to ask for health.
        gone = await goes.enter_async_context(serve_grpc(leaving, "127.0.0.1:0", notice=8, drain=5))
        async with open_door(tmp_path, teams=MANY_TEAMS, gateway=gateway_values(stays, gone), rate=WIDE) as door:
            async with calling(door, *MANY_TEAMS) as counts:
                servers = {stays.address, gone}
                await until(lambda: {call["server"] for call in door.read_calls()} == servers)
                await goes.aclose()
                so_far = [count[OK] for count in counts]
                await until(lambda: all(now[OK] > before + 2 for now, before in zip(counts, so_far, strict=True)))
        assert set().union(*counts) == {OK}
        assert {call["server"] for call in door.read_calls()[-10:]} == {stays.address}


async def test_a_key_that_is_taken_back_while_calls_run_ends_its_team_alone(tmp_path: Path) -> None:
    teams = ("leaving", "staying")
    async with serve() as served:
        async with open_door(tmp_path, teams=teams, gateway=gateway_values(served), rate=WIDE) as door:
            async with calling(door, *teams) as (leaving, staying):
                await until(lambda: leaving[OK] and staying[OK])
                door.keys.revoke("leaving")
                await until(lambda: leaving[NOBODY])
                accepted, others = leaving[OK], staying[OK]
                await until(lambda: staying[OK] > others + 20)
                assert leaving[OK] == accepted
    assert set(staying) == {OK}
