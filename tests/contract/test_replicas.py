"""Services that several endpoints serve."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import numpy as np
import pytest

from editjudge.base.errors import NoModel, Unreachable
from editjudge.base.images import load_image
from editjudge.panel import Panel, PoolPolicy
from editjudge.panel.prompt import Prompt, Text

from ..fakes.fault_proxy import FaultProxy
from ..fakes.openai import ScriptedOpenAi
from ..fakes.triton import ScriptedTriton
from ..patience import patience
from .panels import YES_NO, ask, panel_of

PIQE = "quality.piqe"


def open_panel(
    proxies: list[FaultProxy], *servers: ScriptedTriton, waits: float = 0.0
) -> AbstractAsyncContextManager[Panel]:
    policy = PoolPolicy(waits, first_pause=0.2, longest_pause=0.2)
    more: dict[str, Any] = {"attempts": 2, "deadline": patience(2.0), "policy": policy}
    return panel_of(*servers, services=(PIQE,), proxies=proxies, **more)


async def switch(mode: Any, *proxies: FaultProxy) -> None:
    for proxy in proxies:
        await proxy.switch(mode)


async def test_calls_are_shared_evenly() -> None:
    servers = [ScriptedTriton() for _ in range(3)]
    async with open_panel([], *servers) as panel:
        for number in range(9):
            await ask(panel, number)
        assert [len(server.requests) for server in servers] == [3, 3, 3], "equals in turn"
        await asyncio.gather(*(ask(panel, n) for n in range(9, 99)))
    assert min(len(server.requests) for server in servers) > 15


async def test_another_model_is_not_used_and_reported() -> None:
    first, other = ScriptedTriton(), ScriptedTriton(implementation="scripted.2")
    async with open_panel([], first, other) as panel:
        for number in range(6):
            await ask(panel, number)
        (problem,) = panel.problems.values()
        assert "quality.piqe is not used: quality_piqe/1(implementation=scripted.2)" in problem
        assert "scripted.1) at grpc://" in problem
        assert len(panel.specialists[PIQE].endpoints) == 1
    assert (len(first.requests), len(other.requests)) == (6, 0)


async def test_calls_of_a_dead_replica_go_to_the_others_and_come_back() -> None:
    first, second, proxies = ScriptedTriton(), ScriptedTriton(), list[FaultProxy]()
    async with open_panel(proxies, first, second) as panel:
        await ask(panel, 0)
        await switch("refuse", proxies[0])
        said = await asyncio.gather(*(ask(panel, n) for n in range(1, 41)))
        assert said == [0.5] * 40
        gauges = list(panel.measure_loads().values())
        assert [gauge.open for gauge in gauges] == [True, False]
        before = len(first.requests)
        await switch("pass", proxies[0])
        for number in range(100, 200):
            await ask(panel, number)
            await asyncio.sleep(0.02)
            if len(first.requests) > before + 5:
                break
        assert len(first.requests) > before + 5
        assert not any(gauge.open for gauge in panel.measure_loads().values())


async def test_all_replicas_dead() -> None:
    proxies: list[FaultProxy] = []
    async with open_panel(proxies, ScriptedTriton(), ScriptedTriton()) as panel:
        await ask(panel, 0)
        await switch("refuse", *proxies)
        asked = (ask(panel, n) for n in range(1, 30))
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(one, Unreachable) for one in results)


async def test_a_waiting_run_goes_on_with_the_first_replica_that_is_back() -> None:
    servers, proxies = [ScriptedTriton(), ScriptedTriton()], list[FaultProxy]()
    async with open_panel(proxies, *servers, waits=20.0) as panel:
        await ask(panel, 0)
        await switch("refuse", *proxies)
        tasks = [asyncio.create_task(ask(panel, n)) for n in range(1, 30)]
        await asyncio.sleep(0.5)
        await switch("pass", proxies[1])
        assert await asyncio.gather(*tasks) == [0.5] * 29
        assert len(servers[0].requests) <= 1


# Generalists


def about(panel: Panel, picture: int, question: int) -> Prompt:
    image = load_image(np.full((8, 8, 3), picture, np.uint8))
    shown = panel.judge("generalist.judge").prepare_picture(image)
    return Prompt("judge", (shown, Text(f"Question {question}?")))


async def test_questions_about_one_image_go_to_one_replica() -> None:
    servers = [ScriptedOpenAi() for _ in range(3)]
    async with panel_of(judges=servers) as panel:
        judge = panel.judge("generalist.judge")
        assert len(judge.replicas) == 3
        # Ports are drawn: with 60 pictures no replica is left out (chance below 1e-10).
        for picture in range(60):
            for question in range(2):
                await judge.choose(about(panel, picture, question), YES_NO)
    seen: dict[str, set[int]] = {}
    for number, server in enumerate(servers):
        for request in server.requests:
            if "Question" in str(request):  # the others ask how it answers choices
                image = request["messages"][1]["content"][0]["image_url"]["url"]
                seen.setdefault(image, set()).add(number)
    assert len(seen) == 60
    assert all(len(where) == 1 for where in seen.values())
    assert len(set.union(*seen.values())) == 3, "and not all of them to the same"


@pytest.mark.parametrize("dead", [False, True])
async def test_a_much_busier_replica_and_a_dead_one_are_left(dead: bool) -> None:
    servers, proxies = [ScriptedOpenAi() for _ in range(2)], list[FaultProxy]()
    async with panel_of(judges=servers, proxies=proxies, attempts=2) as panel:
        judge = panel.judge("generalist.judge")
        await judge.find_choice_method()
        await switch("refuse" if dead else "pass", proxies[0])
        prompts = [about(panel, n if dead else 7, 0 if dead else n) for n in range(60)]
        await asyncio.gather(*(judge.choose(prompt, YES_NO) for prompt in prompts))
    counts = [len(server.requests) for server in servers]
    assert counts[1] >= 60 if dead else min(counts) >= 5


async def test_a_judge_replica_with_another_model() -> None:
    other = ScriptedOpenAi(models=("other",), owner="vllm")
    servers = ScriptedOpenAi(), ScriptedOpenAi(owner="vllm"), other
    async with panel_of(judges=servers) as panel:
        assert len(panel.judge("generalist.judge").replicas) == 1
        different, absent = panel.problems.values()
        assert different.startswith("not used: judge(")
        assert "no model judge" in absent


async def test_a_judge_without_any_server() -> None:
    servers = [ScriptedOpenAi(models=(name,), owner="vllm") for name in "xy"]
    async with panel_of(judges=servers) as panel:
        assert len(panel.problems) == 2
        with pytest.raises(NoModel, match="no model judge"):
            panel.judge("generalist.judge")
