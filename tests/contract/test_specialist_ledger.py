"""Specialists' calls with a ledger, and panels that answer from it alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode

from editjudge.answers.scores import ScoreField, Scores
from editjudge.app.client import Client
from editjudge.base.config import Endpoint, JudgeEndpoint, Price, Settings
from editjudge.base.errors import Abstention, NoModel, ServiceError, StoreError
from editjudge.base.identity import ServiceName
from editjudge.base.verdict import calls_of
from editjudge.panel import Panel
from editjudge.panel.calls import AnyCall, Reply
from editjudge.panel.prompt import Prompt, Text
from editjudge.storage.ledger import Ledger

from ..fakes.openai import ScriptedOpenAi, reply
from ..fakes.scorers import edit
from ..fakes.triton import Failure, ScriptedTriton, score
from ..patience import until
from ..replies import count_replies

FLAT = Failure(StatusCode.INVALID_ARGUMENT, "abstained/degenerate: flat")
BROKEN = Failure(StatusCode.INTERNAL, "out of memory")
PROMPT = Prompt("judge", (Text("Is it red?"),))
CONTRACT = Scores(fields=(ScoreField("s", 1, 5),))


@asynccontextmanager
async def panel_of(
    server: ScriptedTriton, ledger: Ledger | None = None, **settings: Any
) -> AsyncIterator[Panel]:
    async with server.serving() as url:
        configured = Settings(endpoints={"a": Endpoint(url=url)}, **settings)
        async with Panel(configured, ledger=ledger) as panel:
            yield panel


async def ask(panel: Panel, image: bytes = b"image", **parameters: str) -> Any:
    return (await panel.call("quality.piqe", {"IMAGE": image}, parameters))["SCORE"].tolist()


async def test_no_call_is_made_twice() -> None:
    server = ScriptedTriton(score(0.25), score(0.5))
    with Ledger() as ledger:
        async with panel_of(server, ledger) as panel:
            assert await asyncio.gather(*(ask(panel) for _ in range(8))) == [[0.25]] * 8
            assert len(server.requests) == 1
            assert await ask(panel) == [0.25]
            assert await ask(panel, b"another") == [0.5]
            assert await ask(panel, resize="none") == [0.5]
            assert len(server.requests) == 3
        async with panel_of(server, ledger) as panel:
            assert await ask(panel) == [0.25]
        assert len(server.requests) == 3


async def test_another_model_is_asked_again() -> None:
    with Ledger() as ledger:
        async with panel_of(ScriptedTriton(score(0.25)), ledger) as panel:
            await ask(panel)
        other = ScriptedTriton(score(0.5), implementation="scripted.2")
        async with panel_of(other, ledger) as panel:
            assert await ask(panel) == [0.5]


async def test_abstentions_are_kept_and_failures_are_not() -> None:
    server = ScriptedTriton(FLAT, BROKEN, score(0.5))
    with Ledger() as ledger:
        async with panel_of(server, ledger) as panel:
            for _ in range(2):
                with pytest.raises(Abstention, match="flat") as caught:
                    await ask(panel)
                assert caught.value.kind == "degenerate"
            assert len(server.requests) == 1
            with pytest.raises(ServiceError, match="out of memory"):
                await ask(panel, b"2")
            assert await ask(panel, b"2") == [0.5]


async def test_without_a_ledger_specialists_are_asked_again() -> None:
    server = ScriptedTriton(score(0.25))
    async with panel_of(server, ledger=None) as panel:
        await ask(panel)
        await ask(panel)
    assert len(server.requests) == 2


async def test_the_ledger_of_the_settings(tmp_path: Path) -> None:
    server = ScriptedTriton(score(0.25))
    for _ in range(2):
        async with server.serving() as url:
            settings = Settings(endpoints={"a": Endpoint(url=url)}, ledger=tmp_path / "l.sqlite")
            async with Client(settings) as client:
                await ask(client.panel)
    assert len(server.requests) == 1


async def test_a_ledger_that_was_given_stays_open() -> None:
    with Ledger() as ledger:
        async with panel_of(ScriptedTriton(), ledger) as panel:
            await ask(panel)
        assert count_replies(ledger) == 1


@pytest.mark.parametrize("answer", [score(0.25), FLAT])
async def test_a_verdict_names_the_specialists_calls_that_it_rests_on(
    tmp_path: Path, answer: Any
) -> None:
    server = ScriptedTriton(answer)
    async with server.serving() as url:
        settings = Settings(endpoints={"a": Endpoint(url=url)}, ledger=tmp_path / "l.sqlite")
        async with Client(settings) as client:
            judgement = await client.score(edit(), ["core.quality.piqe", "core.psnr.source.whole"])
            again = await client.score(edit(), ["core.quality.piqe"])
    asked, computed = judgement.outcomes.values()
    assert calls_of(computed) == ()
    (key,) = calls_of(asked)
    assert judgement.replies[key].judge == str(judgement.services["quality.piqe"])
    assert calls_of(*again.outcomes.values()) == (key,)


async def test_a_failed_verdict_rests_on_no_call(tmp_path: Path) -> None:
    async with ScriptedTriton(BROKEN).serving() as url:
        settings = Settings(endpoints={"a": Endpoint(url=url)}, ledger=tmp_path / "l.sqlite")
        async with Client(settings) as client:
            (outcome,) = (await client.score(edit(), ["core.quality.piqe"])).outcomes.values()
    assert outcome.status == "failed"
    assert calls_of(outcome) == ()


# From the ledger alone


async def test_specialists_from_the_ledger_alone() -> None:
    with Ledger() as ledger:
        async with panel_of(ScriptedTriton(score(0.25), FLAT), ledger) as panel:
            await ask(panel)
            with pytest.raises(Abstention):
                await ask(panel, b"flat")
            identities = panel.identities()
        async with Panel.from_ledger(ledger, identities) as panel:
            assert panel.service_names == set(identities)
            assert panel.identities() == identities
            assert await ask(panel) == [0.25]
            with pytest.raises(Abstention):
                await ask(panel, b"flat")
            with pytest.raises(NoModel, match="not in the ledger"):
                await ask(panel, b"other")
            with pytest.raises(NoModel, match="not available when"):
                await panel.call("ocr.got", {"IMAGE": b"x"})


@asynccontextmanager
async def judge_of(server: ScriptedOpenAi, ledger: Ledger, **asked: Any) -> AsyncIterator[Panel]:
    async with server.serving() as url:
        judge = JudgeEndpoint(url=url, model="judge", **asked)
        async with Panel(Settings(judges={"judge": judge}), ledger=ledger) as panel:
            yield panel


async def test_a_judge_from_the_ledger_alone() -> None:
    name = ServiceName.judge("judge")
    said = reply('{"reasoning": "x", "s": 4}')
    server = ScriptedOpenAi(None, None, said, said, None)
    with Ledger() as ledger:
        async with judge_of(server, ledger, seed=7, temperature=0.5, max_tokens=99) as panel:
            judge = panel.judge(name)
            chosen = await judge.choose(PROMPT, ("Yes", "No"))
            answered = [await judge.answer(PROMPT, CONTRACT, repeat=n) for n in range(2)]
            identities = panel.identities()
        assert identities[name].facts["choices"] == "top_logprobs"
        async with Panel.from_ledger(ledger, identities) as panel:
            judge = panel.judge(name)
            assert panel.identities() == identities
            assert (await judge.choose(PROMPT, ("Yes", "No"))).value == chosen.value
            again = [await judge.answer(PROMPT, CONTRACT, repeat=n) for n in range(2)]
            assert [one.value for one in again] == [one.value for one in answered]
            with pytest.raises(NoModel, match="not in the ledger"):
                await judge.choose(PROMPT, ("Yes", "Never"))
        priced = JudgeEndpoint(url="http://ledger/v1", price=Price(input=1, output=1))
        settings = Settings(judges={"judge": priced})
        async with Panel.from_ledger(ledger, identities, settings) as panel:
            with pytest.raises(NoModel, match="not in the ledger"):  # and nobody need pay
                await panel.judge(name).choose(PROMPT, ("Yes", "Never"))


@pytest.mark.parametrize("model", ["org/model(4bit)", "m,choices=sampled", "m(seed=3)"])
async def test_a_model_of_any_name_replays_as_itself(model: str) -> None:
    """Parts of a name that look like facts are none: nothing is parsed out of the identity."""
    server = ScriptedOpenAi(None, None, models=(model,))
    with Ledger() as ledger:
        async with server.serving() as url:
            endpoint = JudgeEndpoint(url=url, model=model, accept=("judge",), seed=7)
            settings = Settings(judges={"judge": endpoint})
            async with Panel(settings, ledger=ledger) as panel:
                chosen = await panel.judge("generalist.judge").choose(PROMPT, ("Yes", "No"))
                identities = panel.identities()
        async with Panel.from_ledger(ledger, identities) as panel:
            judge = panel.judge("generalist.judge")
            assert judge.model.name == model
            assert (judge.endpoint.seed, await judge.find_choice_method()) == (7, "top_logprobs")
            assert panel.identities() == identities
            assert (await judge.choose(PROMPT, ("Yes", "No"))).value == chosen.value


async def test_how_choices_are_answered_is_remembered() -> None:
    server = ScriptedOpenAi()
    with Ledger() as ledger:
        async with judge_of(server, ledger) as panel:
            judge = panel.judge("generalist.judge")
            await judge.choose(PROMPT, ("Yes", "No"))
            identity = judge.identity
        asked = len(server.requests)
        async with judge_of(server, ledger) as panel:
            judge = panel.judge("generalist.judge")
            assert judge.identity == identity, "known before the first call"
            await judge.choose(PROMPT, ("Yes", "No"))
            assert len(server.requests) == asked
            await judge.probe()
            assert len(server.requests) == asked + 1, "unless it is to be asked now"


async def test_why_it_is_sampled_is_remembered_too() -> None:
    server = ScriptedOpenAi(reply("Yes"))
    with Ledger() as ledger:
        for _ in range(2):
            async with judge_of(server, ledger) as panel:
                judge = panel.judge("generalist.judge")
                assert await judge.find_choice_method() == "sampled"
                assert "no logprobs" in judge.without_logprobs
    assert len(server.requests) == 1


class Held(Ledger):
    """Keeps nothing until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = asyncio.Event()
        self.waiting = self.most = 0

    async def put(self, call: AnyCall, reply: Reply) -> Reply:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await self.may.wait()
        kept = await super().put(call, reply)
        self.waiting -= 1
        return kept


async def test_no_more_replies_wait_to_be_kept_than_calls_may_be_in_flight() -> None:
    """They are paid for, and lost where the process is killed: a slow disk must hold up calls."""
    said = reply('{"reasoning": "x", "s": 4}')
    server = ScriptedOpenAi(*[said] * 8)
    with Held() as ledger:
        async with server.serving() as url:
            judge = JudgeEndpoint(url=url)
            settings = Settings(judges={"judge": judge}, concurrency=2)
            async with Panel(settings, ledger=ledger) as panel:
                judge = panel.judge("generalist.judge")
                asked = [
                    asyncio.create_task(judge.answer(PROMPT, CONTRACT, repeat=n)) for n in range(6)
                ]
                await until(lambda: ledger.waiting)
                await asyncio.sleep(0.2)  # were there more, they would have come
                ledger.may.set()
                await asyncio.gather(*asked)
    assert 1 <= ledger.most <= 2
    assert len(server.requests) == 6


class Full(Ledger):
    """Keeps nothing while its disk is full."""

    full = True

    async def put(self, call: AnyCall, reply: Reply) -> Reply:
        if self.full:
            raise StoreError("run.sqlite: the disk is full", "make room")
        return await super().put(call, reply)


async def test_what_waits_where_a_reply_cannot_be_kept_is_not_paid_for() -> None:
    server = ScriptedOpenAi(*[reply('{"reasoning": "x", "s": 4}')] * 12)
    with Full() as ledger:
        async with server.serving() as url:
            judge = JudgeEndpoint(url=url)
            settings = Settings(judges={"judge": judge}, concurrency=2)
            async with Panel(settings, ledger=ledger) as panel:
                judge = panel.judge("generalist.judge")
                asked = (judge.answer(PROMPT, CONTRACT, repeat=n) for n in range(8))
                errors = await asyncio.gather(*asked, return_exceptions=True)
                assert all(isinstance(error, StoreError) for error in errors)
                assert len(server.requests) <= 2
                ledger.full = False
                await judge.answer(PROMPT, CONTRACT)
                assert len(server.requests) <= 3
