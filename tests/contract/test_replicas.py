"""Services that several endpoints serve."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import numpy as np
import pytest

from editjudge.base.config import Endpoint, JudgeEndpoint, Settings
from editjudge.base.errors import NoModel, Unreachable
from editjudge.base.images import load_image
from editjudge.panel import Panel, PoolPolicy
from editjudge.panel.prompt import Prompt, Text

from ..fakes.fault_proxy import FaultProxy
from ..fakes.openai import ScriptedOpenAi
from ..fakes.triton import ScriptedTriton, score
from ..patience import patience

PIQE = ("quality.piqe",)


@asynccontextmanager
async def balanced(
    *servers: ScriptedTriton, waits: float = 0.0, **settings: Any
) -> AsyncIterator[tuple[Panel, list[FaultProxy]]]:
    async with AsyncExitStack() as stack:
        proxies, endpoints = [], {}
        for number, server in enumerate(servers):
            proxy = FaultProxy(await stack.enter_async_context(server.serving()))
            proxies.append(proxy)
            url = await stack.enter_async_context(proxy.serving())
            endpoints[str(number)] = Endpoint(url=url, services=PIQE)
        settings = {"retry_wait": 0.001, "attempts": 2, "deadline": patience(2.0), **settings}
        policy = PoolPolicy(waits, first_pause=0.2, longest_pause=0.2)
        async with Panel(Settings(endpoints=endpoints, **settings), policy=policy) as panel:
            yield panel, proxies


async def ask(panel: Panel, number: int) -> float:
    reply = await panel.call("quality.piqe", {"IMAGE": f"image {number}".encode()})
    return float(reply["SCORE"][0])


async def test_calls_are_shared_evenly() -> None:
    servers = [ScriptedTriton(0.01) for _ in range(3)]
    for server in servers:
        server.script = [score(0.5)]
    async with balanced(*servers) as (panel, _):
        for number in range(9):
            await ask(panel, number)
        assert [len(server.requests) for server in servers] == [3, 3, 3], "equals in turn"
        await asyncio.gather(*(ask(panel, n) for n in range(9, 99)))
    assert min(len(server.requests) for server in servers) > 15


async def test_another_model_is_not_used_and_reported() -> None:
    first, other = ScriptedTriton(), ScriptedTriton(implementation="scripted.2")
    async with balanced(first, other) as (panel, _):
        for number in range(6):
            await ask(panel, number)
        (problem,) = panel.problems.values()
        assert "quality.piqe is not used: quality_piqe/1(implementation=scripted.2)" in problem
        assert "scripted.1) at grpc://" in problem
        assert len(panel.specialists["quality.piqe"].endpoints) == 1
    assert (len(first.requests), len(other.requests)) == (6, 0)


async def test_calls_of_a_dead_replica_go_to_the_others_and_come_back() -> None:
    first, second = ScriptedTriton(score(0.5)), ScriptedTriton(score(0.5))
    async with balanced(first, second) as (panel, proxies):
        await ask(panel, 0)
        await proxies[0].switch("refuse")
        said = await asyncio.gather(*(ask(panel, n) for n in range(1, 41)))
        assert said == [0.5] * 40
        gauges = list(panel.measure_loads().values())
        assert [gauge.is_lost for gauge in gauges] == [True, False]
        before = len(first.requests)
        await proxies[0].switch("pass")
        for number in range(100, 200):
            await ask(panel, number)
            await asyncio.sleep(0.02)
            if len(first.requests) > before + 5:
                break
        assert len(first.requests) > before + 5
        assert not any(gauge.is_lost for gauge in panel.measure_loads().values())


async def test_all_replicas_dead() -> None:
    async with balanced(ScriptedTriton(), ScriptedTriton()) as (panel, proxies):
        await ask(panel, 0)
        for proxy in proxies:
            await proxy.switch("refuse")
        results = await asyncio.gather(
            *(ask(panel, n) for n in range(1, 30)), return_exceptions=True
        )
        assert all(isinstance(one, Unreachable) for one in results)


async def test_a_waiting_run_goes_on_with_the_first_replica_that_is_back() -> None:
    servers = ScriptedTriton(score(0.5)), ScriptedTriton(score(0.5))
    async with balanced(*servers, waits=20.0) as (panel, proxies):
        await ask(panel, 0)
        for proxy in proxies:
            await proxy.switch("refuse")
        tasks = [asyncio.create_task(ask(panel, n)) for n in range(1, 30)]
        await asyncio.sleep(0.5)
        await proxies[1].switch("pass")
        assert await asyncio.gather(*tasks) == [0.5] * 29
        before = len(servers[0].requests)
        assert before <= 1


# Generalists

YES_NO = ("Yes", "No")


@asynccontextmanager
async def judges(
    *servers: ScriptedOpenAi, **settings: Any
) -> AsyncIterator[tuple[Panel, list[FaultProxy]]]:
    async with AsyncExitStack() as stack:
        proxies, urls = [], []
        for server in servers:
            proxies.append(FaultProxy(await stack.enter_async_context(server.serving())))
            urls.append(await stack.enter_async_context(proxies[-1].serving()))
        judge = JudgeEndpoint(url=urls[0], replicas=tuple(urls[1:]), model="judge")
        configured = Settings(judges={"judge": judge}, retry_wait=0.001, attempts=2)
        panel = await stack.enter_async_context(Panel(configured, **settings))
        yield panel, proxies


def about(panel: Panel, picture: int, question: int) -> Prompt:
    image = load_image(np.full((8, 8, 3), picture, np.uint8))
    shown = panel.judge("generalist.judge").prepare_picture(image)
    return Prompt("judge", (shown, Text(f"Question {question}?")))


async def test_questions_about_one_image_go_to_one_replica() -> None:
    servers = [ScriptedOpenAi() for _ in range(3)]
    async with judges(*servers) as (panel, _):
        judge = panel.judge("generalist.judge")
        assert len(judge.replicas) == 3
        for picture in range(12):
            for question in range(4):
                await judge.choose(about(panel, picture, question), YES_NO)
    seen: dict[str, set[int]] = {}
    for number, server in enumerate(servers):
        for request in server.requests:
            if "Question" not in str(request):
                continue  # how it answers choices
            image = request["messages"][1]["content"][0]["image_url"]["url"]
            seen.setdefault(image, set()).add(number)
    assert len(seen) == 12
    assert all(len(where) == 1 for where in seen.values())
    assert len(set.union(*seen.values())) == 3, "and not all of them to the same"


async def test_a_much_busier_replica_is_left() -> None:
    servers = [ScriptedOpenAi() for _ in range(2)]
    async with judges(*servers) as (panel, _):
        judge = panel.judge("generalist.judge")
        await judge.find_choice_method()
        await asyncio.gather(*(judge.choose(about(panel, 7, n), YES_NO) for n in range(60)))
    assert min(len(server.requests) for server in servers) >= 5


async def test_a_dead_judge_replica() -> None:
    servers = [ScriptedOpenAi() for _ in range(2)]
    async with judges(*servers) as (panel, proxies):
        judge = panel.judge("generalist.judge")
        await judge.find_choice_method()
        await proxies[0].switch("refuse")
        await asyncio.gather(*(judge.choose(about(panel, n, 0), YES_NO) for n in range(30)))
        assert len(servers[1].requests) >= 30


async def test_a_judge_replica_with_another_model() -> None:
    servers = ScriptedOpenAi(), ScriptedOpenAi(owner="vllm"), ScriptedOpenAi(models=("other",))
    async with judges(*servers) as (panel, _):
        judge = panel.judge("generalist.judge")
        assert len(judge.replicas) == 1
        different, absent = panel.problems.values()
        assert different.startswith("not used: judge(")
        assert "no model judge" in absent


async def test_a_judge_without_any_server() -> None:
    servers = ScriptedOpenAi(models=("x",)), ScriptedOpenAi(models=("y",))
    async with judges(*servers) as (panel, _):
        assert len(panel.problems) == 2
        with pytest.raises(NoModel, match="no model judge"):
            panel.judge("generalist.judge")
