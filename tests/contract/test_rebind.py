"""Services that come and go while a panel is open."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import pytest

from editjudge.base.config import Endpoint, JudgeEndpoint, Settings
from editjudge.base.errors import DeadlineExceeded, ModelExchanged, NoModel, Overload, ServiceError
from editjudge.base.identity import ServiceName
from editjudge.panel import Panel, PoolPolicy
from editjudge.panel.prompt import Prompt, Text
from editjudge.storage.ledger import Ledger

from ..fakes.fault_proxy import FaultProxy
from ..fakes.openai import ScriptedOpenAi
from ..fakes.triton import ScriptedTriton, score
from ..patience import until
from .panels import YES_NO, ask, panel_of

PIQE, READER = ServiceName("quality", "piqe"), ServiceName("ocr", "ppocr")
JUDGE = ServiceName.judge("judge")
PROMPT = Prompt("judge", (Text("Is it red?"),))


async def test_what_comes_is_taken_up_and_what_goes_is_dropped() -> None:
    server = ScriptedTriton(models=("quality_piqe",))
    async with panel_of(server) as panel:
        assert panel.service_names == {PIQE}
        server.models = ("ocr_ppocr",)
        assert panel.service_names == {PIQE}, "nothing changes by itself"
        await panel.rebind()
        assert panel.service_names == {READER}
        with pytest.raises(NoModel, match="not among the models ready"):
            await ask(panel)
        server.models = ("quality_piqe", "ocr_ppocr")
        await panel.rebind()
        assert panel.service_names == {PIQE, READER}
        assert await ask(panel) == 0.5


async def test_what_is_the_same_is_kept_and_another_model_is_another_service() -> None:
    server = ScriptedTriton(models=("quality_piqe",))
    async with panel_of(server) as panel:
        bound, lanes = panel.specialists[PIQE], panel.measure_loads().keys()
        server.models = ("quality_piqe", "ocr_ppocr")
        await panel.rebind()
        assert panel.specialists[PIQE] is bound
        assert panel.measure_loads().keys() == lanes
        server.implementation = "scripted.2"
        await panel.rebind()
        assert panel.specialists[PIQE] is not bound
        assert panel.identities()[PIQE].facts["implementation"] == "scripted.2"


async def test_a_call_in_flight_ends_as_it_began() -> None:
    server = ScriptedTriton(0.2, score(0.25))
    async with panel_of(server) as panel:
        asked = asyncio.create_task(ask(panel))
        await until(lambda: server.requests)
        server.models = ()
        await panel.rebind()
        assert panel.service_names == set()
        assert await asked == 0.25
    assert server.cancelled == 0


async def test_an_endpoint_that_comes_shares_the_calls() -> None:
    first, second = ScriptedTriton(), ScriptedTriton(models=())
    async with panel_of(first, second) as panel:
        assert len(panel.specialists[PIQE].endpoints) == 1
        second.models = ("quality_piqe",)
        await panel.rebind()
        assert len(panel.specialists[PIQE].endpoints) == 2
        for number in range(4):
            await ask(panel, number)
        assert (len(first.requests), len(second.requests)) == (2, 2)


async def test_an_endpoint_that_was_down_is_found_and_its_problem_forgotten() -> None:
    server = ScriptedTriton()
    async with server.serving() as url:
        pass
    settings = Settings(endpoints={"a": Endpoint(url=url)}, patience=0)
    async with Panel(settings) as panel:
        assert list(panel.problems) == [url]
        async with server.serving(port=int(url.rpartition(":")[2])):
            while panel.problems:  # gRPC takes a moment to look for a lost server again
                await panel.rebind()
            assert await ask(panel) == 0.5
        await panel.rebind()
        assert (panel.service_names, list(panel.problems)) == (set(), [url])


async def test_judges_come_stay_and_go() -> None:
    server = ScriptedOpenAi()
    async with server.serving() as url:
        pass
    judge = JudgeEndpoint(url=url, model="judge")
    async with Panel(Settings(judges={"judge": judge}, patience=0)) as panel:
        assert panel.service_names == set()
        async with server.serving(port=int(url.removesuffix("/v1").rpartition(":")[2])):
            await panel.rebind()
            first = await panel.judge(JUDGE).choose(PROMPT, YES_NO)
            asked = len(server.requests)
            kept = panel.judges[JUDGE]
            await panel.rebind()
            assert panel.judges[JUDGE] is kept
            again = await panel.judge(JUDGE).choose(PROMPT, YES_NO)
            assert (again.value, len(server.requests)) == (first.value, asked)
        await panel.rebind()
        assert (panel.service_names, list(panel.problems)) == (set(), [url])


@pytest.mark.parametrize("kind", [DeadlineExceeded, Overload])
async def test_what_is_busy_is_no_other_model(kind: type[ServiceError], monkeypatch: pytest.MonkeyPatch) -> None:
    async with panel_of(ScriptedTriton(), judges=[ScriptedOpenAi()]) as panel:
        bound, judge = panel.specialists[PIQE], panel.judges[JUDGE]

        async def wait(*_: object) -> NoReturn:
            raise kind("no reply within 5 s", service="any")

        monkeypatch.setattr(bound.replicas[0].target, "server", wait)
        monkeypatch.setattr(judge.replicas[0].target, "identify", wait)
        await panel.rebind()
        assert (panel.specialists[PIQE], panel.judges[JUDGE]) == (bound, judge)
        assert len(panel.problems) == 2, "they are told of all the same"


async def test_what_is_away_for_a_moment_is_waited_for_and_stays_bound() -> None:
    """A pod that is replaced where no other is: what asks meanwhile has its answer afterwards."""
    triton, judge = ScriptedTriton(), ScriptedOpenAi()
    proxies: list[FaultProxy] = []
    waits = PoolPolicy(60.0, first_pause=0.1, longest_pause=0.1)
    async with panel_of(triton, judges=[judge], proxies=proxies, policy=waits) as panel:
        bound = panel.service_names
        assert bound >= {PIQE, JUDGE}
        for proxy in proxies:
            await proxy.switch("refuse")
        await panel.rebind()
        assert (panel.service_names, len(panel.problems)) == (bound, 2)
        asked = asyncio.create_task(ask(panel))
        chosen = asyncio.create_task(panel.judge(JUDGE).choose(PROMPT, YES_NO))
        await asyncio.sleep(0.3)
        for proxy in proxies:
            await proxy.switch("pass")
        assert await asked == 0.5
        assert (await chosen).value
        await panel.rebind()
        assert (panel.service_names, panel.problems) == (bound, {})
        triton.models = ()
        await panel.rebind()
        assert panel.service_names == {JUDGE}, "what answers that it has no such model is believed"


async def test_a_judge_of_another_model_is_another_judge() -> None:
    server = ScriptedOpenAi(models=("one",), answers_as="one")
    async with panel_of(judges=[server], judge={"model": ""}) as panel:
        before = panel.judge(JUDGE)
        server.models, server.answers_as = ("two",), "two"
        await panel.rebind()
        now = panel.judge(JUDGE)
        assert (before.model.name, now.model.name) == ("one", "two")
        await now.choose(PROMPT, YES_NO)


async def test_what_answers_from_a_ledger_alone_is_asked_nothing() -> None:
    async with panel_of(ScriptedTriton()) as panel:
        identities = panel.identities()
    with Ledger() as ledger:
        async with Panel.from_ledger(ledger, identities) as panel:
            await panel.rebind()
            assert panel.identities() == identities


async def test_what_another_model_may_have_said_is_not_kept_under_the_first_ones_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A specialist, and one of two replicas of a judge; a call in flight has no answer."""
    triton = ScriptedTriton(score(0.25), score(0.75), score(0.25), models=("quality_piqe",))
    first, second = ScriptedOpenAi(owner="vllm"), ScriptedOpenAi(owner="vllm")
    with Ledger() as ledger:
        async with panel_of(triton, judges=[first, second], ledger=ledger) as panel:
            await panel.rebind()
            await panel.judge(JUDGE).choose(PROMPT, YES_NO)
            assert await ask(panel) == 0.25
            await panel.rebind()
            asked = len(first.requests) + len(second.requests)
            assert await ask(panel) == 0.25, "it was said by what was found there since"
            triton.implementation, triton.script[0] = "scripted.2", score(0.75)
            assert await ask(panel, 1) == 0.75
            await panel.judge(JUDGE).choose(Prompt("judge", (Text("Is it blue?"),)), YES_NO)
            put, exchange, waiting = ledger.put, asyncio.Event(), asyncio.Event()

            async def put_late(*reply: Any) -> Any:
                waiting.set()
                await exchange.wait()
                return await put(*reply)

            monkeypatch.setattr(ledger, "put", put_late)
            in_flight = asyncio.create_task(ask(panel, 2))
            await waiting.wait()
            second.root = "Org/Another"
            await panel.rebind()
            exchange.set()
            with pytest.raises(ModelExchanged, match=r"quality.piqe: it was exchanged: .*scripted\.2"):
                await in_flight
            triton.implementation, triton.script[:] = "scripted.1", [score(0.25)]
            second.root = "Org/Judge"
            await panel.rebind()
            assert [await ask(panel, number) for number in (1, 2)] == [0.25, 0.25]
            await panel.judge(JUDGE).choose(PROMPT, YES_NO)
            assert len(first.requests) + len(second.requests) == asked + 1
            await panel.judge(JUDGE).choose(Prompt("judge", (Text("Is it blue?"),)), YES_NO)
            assert len(first.requests) + len(second.requests) == asked + 2
