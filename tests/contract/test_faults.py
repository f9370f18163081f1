"""Panels and transports over a network that fails: no result is wrong, and none is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from editjudge.answers.scores import ScoreField, Scores
from editjudge.base.config import Endpoint, JudgeEndpoint, Settings
from editjudge.base.errors import DeadlineExceeded, ServiceError, Unreachable
from editjudge.panel import Panel, PoolPolicy
from editjudge.panel.prompt import Prompt, Text
from editjudge.panel.replica import ServerLoad

from ..fakes.fault_proxy import FaultProxy, Mode
from ..fakes.openai import ScriptedOpenAi, reply
from ..fakes.triton import ScriptedTriton, score
from ..fakes.vllm_grpc import ScriptedVllmGrpc
from ..patience import patience

TRANSPORTS = ("triton", "http", "grpc")
SAID = '{"reasoning": "x", "s": 4}'
CONTRACT = Scores(fields=(ScoreField("s", 1, 5),))
FAULTS: tuple[Mode, ...] = ("delay", "black hole", "half-open", "reset", "throttle", "refuse")


@dataclass
class Judged:
    """A panel with one service behind a proxy."""

    panel: Panel
    proxy: FaultProxy
    server: Any
    ask: Callable[[int], Awaitable[float]]

    @property
    def gauge(self) -> ServerLoad:
        (gauge,) = self.panel.measure_loads().values()
        return gauge


@asynccontextmanager
async def judged(
    kind: str, *script: Any, waits: float = 0.0, pause: float = 0.1, **settings: Any
) -> AsyncIterator[Judged]:
    """A panel with one service of a kind behind a proxy; every call has an input of its own."""
    given = {"retry_wait": 0.01, "deadline": patience(0.6), "attempts": 3}
    settings = {**given, **settings}
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        server: Any
        if kind == "triton":
            server = ScriptedTriton(*(script or (score(0.25),)))
            proxy = FaultProxy(await enter(server.serving()))
            endpoint = Endpoint(url=await enter(proxy.serving()), services=("quality.piqe",))
            configured = Settings(endpoints={"a": endpoint}, **settings)
        else:
            server = (
                ScriptedOpenAi(*(script or (reply(SAID),)))
                if kind == "http"
                else ScriptedVllmGrpc(*script, says=SAID)
            )
            proxy = FaultProxy(await enter(server.serving()))
            judge = JudgeEndpoint(url=await enter(proxy.serving()), model="judge")
            configured = Settings(judges={"judge": judge}, **settings)
        policy = PoolPolicy(waits, first_pause=pause, longest_pause=pause)
        panel = await enter(Panel(configured, policy=policy))
        assert panel.problems == {}

        async def ask(number: int) -> float:
            if kind == "triton":
                said = await panel.call("quality.piqe", {"IMAGE": f"image {number}".encode()})
                return float(said["SCORE"][0])
            prompt = Prompt("", (Text(f"Question {number}?"),))
            answer = await panel.judge("generalist.judge").answer(prompt, CONTRACT)
            return answer.value.scores["s"] / 16

        yield Judged(panel, proxy, server, ask)


@pytest.mark.parametrize("mode", FAULTS)
@pytest.mark.parametrize("kind", TRANSPORTS)
async def test_calls_resume_after_a_fault(kind: str, mode: Mode) -> None:
    async with judged(kind, waits=20.0) as it:
        assert await it.ask(0) == 0.25
        first = [asyncio.create_task(it.ask(n)) for n in range(1, 9)]
        await asyncio.sleep(0.005)
        await it.proxy.switch(mode)
        during = [asyncio.create_task(it.ask(n)) for n in range(9, 30)]
        await asyncio.sleep(1.0)
        await it.proxy.switch("pass")
        results = await asyncio.gather(*first, *during, return_exceptions=True)
        assert set(results) == {0.25}
        assert [await it.ask(n) for n in range(30, 33)] == [0.25] * 3
        assert not it.gauge.is_lost


@pytest.mark.parametrize("mode", ["black hole", "half-open"])
@pytest.mark.parametrize("kind", TRANSPORTS)
async def test_deadlines_are_honoured(kind: str, mode: Mode) -> None:
    async with judged(kind, deadline=patience(0.7)) as it:
        await it.ask(0)
        await it.proxy.switch(mode)
        start = time.monotonic()
        results = await asyncio.gather(*map(it.ask, range(1, 4)), return_exceptions=True)
        assert all(isinstance(one, DeadlineExceeded) for one in results)
        assert time.monotonic() - start > 0.6
        await it.proxy.switch("pass")
        assert await it.ask(9) == 0.25


@pytest.mark.parametrize("kind", TRANSPORTS)
async def test_the_breaker_opens_and_closes(kind: str) -> None:
    async with judged(kind, waits=0.0, pause=0.3, attempts=2) as it:
        await it.ask(0)
        await it.proxy.switch("refuse")
        for number in range(5):
            with pytest.raises((Unreachable, DeadlineExceeded)):
                await it.ask(number + 1)
        assert it.gauge.is_lost
        accepted = it.proxy.accepted
        with pytest.raises(Unreachable, match="not back since"):
            await it.ask(7)
        assert it.proxy.accepted == accepted
        await it.proxy.switch("pass")
        await asyncio.sleep(0.35)
        results = await asyncio.gather(it.ask(8), return_exceptions=True)
        while isinstance(results[0], ServiceError):  # gRPC may wait before it connects again
            await asyncio.sleep(0.35)
            results = await asyncio.gather(it.ask(8), return_exceptions=True)
        assert not it.gauge.is_lost
        assert await it.ask(9) == 0.25


@pytest.mark.parametrize("kind", TRANSPORTS)
async def test_patience_ends(kind: str) -> None:
    async with judged(kind, waits=0.8, pause=0.1, attempts=1) as it:
        await it.ask(0)
        await it.proxy.switch("refuse")
        start = time.monotonic()
        results = await asyncio.gather(*map(it.ask, range(1, 20)), return_exceptions=True)
        assert all(isinstance(one, Unreachable | DeadlineExceeded) for one in results)
        assert any("not back since" in str(one) for one in results)
        assert time.monotonic() - start > 0.7


@pytest.mark.parametrize("kind", TRANSPORTS)
async def test_cancelling_reaches_the_server(kind: str) -> None:
    async with judged(kind, 30.0, deadline=20.0) as it:
        tasks = [asyncio.create_task(it.ask(number)) for number in range(3)]
        while len(it.server.requests) < (1 if kind != "triton" else 3):
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A request that was on its way when its task was cancelled may still arrive, and is
        # cancelled then.
        async with asyncio.timeout(patience(20)):
            while not it.server.cancelled or it.server.cancelled < len(it.server.requests):
                await asyncio.sleep(0.01)
            while it.gauge.in_flight:
                await asyncio.sleep(0.01)
