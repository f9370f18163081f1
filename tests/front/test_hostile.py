"""A hostile team beside two honest ones, and servers that go while calls run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from editjudge.base.config import StackSettings
from editjudge.base.probes import probe_inputs
from editjudge.panel import Panel
from editjudge_services.runtime.triton_server import TritonServer, temporary_stack

from ..patience import patience, until
from .door import MOST_BYTES, OK, Door, open_door

CALLS = 60
SMALL = StackSettings(models=("quality_piqe",), startup_timeout=patience(120))


async def honest(door: Door, team: str) -> list[float]:
    """The numbers that a team gets, by the client that anybody has."""
    inputs = probe_inputs("quality")
    settings = door.settings(door.token(team)).model_copy(
        update={"attempts": 10, "deadline": patience(120), "probe_timeout": patience(30)}
    )
    numbers = []
    async with Panel(settings) as panel:
        for _ in range(CALLS // 4):
            replies = await asyncio.gather(*(panel.call("quality.piqe", inputs) for _ in range(4)))
            numbers += [float(np.asarray(reply["SCORE"]).item()) for reply in replies]
    return numbers


class Hostile:
    """Everything that a caller should not do, until it is told to end; counts its answers."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._random = random.Random(0)
        self.answers: Counter[str] = Counter()
        self._context = door.tls
        self._context.set_alpn_protocols(["h2"])

    async def act(self) -> None:
        """All of it, side by side."""
        slow = (self.slow_headers() for _ in range(20))
        asked = self.floods(), self.call_without_token(), self.call_with_too_much(), self.rubbish()
        await asyncio.gather(*asked, *slow)

    async def floods(self) -> None:
        token = self._door.token("busy")
        while True:
            for code in await asyncio.gather(*(self._door.alive(token) for _ in range(10))):
                self.answers[f"flood {code.name}"] += 1

    async def call_without_token(self) -> None:
        while True:
            code = await self._door.alive(None)
            self.answers[f"unauthenticated {code.name}"] += 1

    async def call_with_too_much(self) -> None:
        request = service_pb2.ModelInferRequest(model_name="quality_piqe")
        request.raw_input_contents.append(bytes(2 * MOST_BYTES))
        while True:
            code, _ = await self._door.ask("ModelInfer", request, self._door.token("hostile"))
            self.answers[f"oversized {code.name}"] += 1

    async def rubbish(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                async with self._connect(self._context) as writer:
                    head = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                    writer.write(head + self._random.randbytes(4096))
                    await writer.drain()
            await asyncio.sleep(0.05)

    async def slow_headers(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                async with self._connect(None) as writer:
                    for _ in range(20):
                        writer.write(b"x")
                        await writer.drain()
                        await asyncio.sleep(0.5)
            await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def _connect(self, tls: ssl.SSLContext | None) -> AsyncIterator[asyncio.StreamWriter]:
        _, writer = await asyncio.open_connection(*self._door.address, ssl=tls)
        try:
            yield writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def test_two_honest_teams_lose_nothing_beside_a_hostile_one(
    triton: TritonServer, tmp_path: Path, pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    teams = ("vision", "audio", "busy", "hostile")
    async with open_door(tmp_path, triton, teams=teams) as door:
        hostile = Hostile(door)
        attack = asyncio.create_task(hostile.act())
        await until(lambda: hostile.answers["unauthenticated UNAUTHENTICATED"])
        ours, theirs = await asyncio.gather(honest(door, "vision"), honest(door, "audio"))
        attack.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await attack
    honestly = [call for call in door.read_calls() if call["team"] in {"vision", "audio"}]
    refused = [call for call in honestly if (call["status"], call["grpc_status"]) != (200, "OK")]
    told = f"Envoy lost {len(refused)} of {len(honestly)} honest calls beside the hostile team"
    with capsys.disabled():
        pytestconfig.get_terminal_writer().line(f"\n{told}, before the client asked again")
    assert len(ours) == len(theirs) == CALLS
    assert len({*ours, *theirs}) == 1
    for never in ("unauthenticated OK", "oversized OK", "oversized INVALID_ARGUMENT"):
        assert not hostile.answers[never]  # the last one would be Triton's
    assert hostile.answers["flood RESOURCE_EXHAUSTED"] > hostile.answers["flood OK"]
    reached = {call["team"] for call in door.read_calls() if call["server"]}
    assert reached <= {"vision", "audio", "busy"}


async def test_a_server_that_is_killed_while_calls_run_loses_none(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(temporary_stack(SMALL)) for _ in range(2)]
        async with open_door(tmp_path, *servers) as door:
            calls = asyncio.create_task(honest(door, "vision"))
            await until(lambda: len(door.read_calls()) > CALLS // 3)
            os.kill(servers[0].pid, signal.SIGKILL)
            numbers = await calls
    assert len(numbers) == CALLS
    assert len(set(numbers)) == 1


async def test_what_is_in_flight_is_finished_when_the_door_is_closed(triton: TritonServer, tmp_path: Path) -> None:
    async with open_door(tmp_path, triton) as door:
        token = door.token("vision")
        await door.answers(token, OK)
        calls = asyncio.gather(*(door.alive(token) for _ in range(20)))
        await asyncio.sleep(0)
    assert {*await calls} <= {OK, grpc.StatusCode.UNAVAILABLE}
    assert not door.server.is_healthy()
