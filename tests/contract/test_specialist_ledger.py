"""Specialists' calls with a ledger, and panels that answer from it alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode

from editjudge.app.client import Client
from editjudge.base.config import Endpoint, Settings
from editjudge.base.errors import Abstention, NoModel, ServiceError, StoreError
from editjudge.base.verdict import calls_of
from editjudge.panel import Panel
from editjudge.panel.calls import AnyCall, Reply
from editjudge.panel.prompt import Prompt, Text
from editjudge.storage.ledger import Ledger

from ..fakes.grpc_server import Failure
from ..fakes.openai import ScriptedOpenAi, reply
from ..fakes.scorers import edit
from ..fakes.triton import ScriptedTriton, score
from ..patience import until
from ..replies import count_replies
from .panels import CONTRACT, SAID, YES_NO, ask, judge_of, panel_of

FLAT = Failure(StatusCode.INVALID_ARGUMENT, "abstained/degenerate: flat")
BROKEN = Failure(StatusCode.INTERNAL, "out of memory")
PROMPT = Prompt("judge", (Text("Is it red?"),))
QUARTER = score(0.25)


async def test_no_call_is_made_twice() -> None:
    server = ScriptedTriton(QUARTER, score(0.5))
    with Ledger() as ledger:
        async with panel_of(server, ledger=ledger) as panel:
            assert await asyncio.gather(*(ask(panel) for _ in range(8))) == [0.25] * 8
            assert len(server.requests) == 1
            assert (await ask(panel), await ask(panel, b"another")) == (0.25, 0.5)
            resized = await panel.call("quality.piqe", {"IMAGE": b"image"}, {"resize": "none"})
            assert resized["SCORE"].tolist() == [0.5]
            assert len(server.requests) == 3
        async with panel_of(server, ledger=ledger) as panel:
            assert await ask(panel) == 0.25
        assert count_replies(ledger) == 3, "one that was given stays open"
        assert len(server.requests) == 3
        other = ScriptedTriton(score(0.5), implementation="scripted.2")
        async with panel_of(other, ledger=ledger) as panel:
            assert await ask(panel) == 0.5, "another model is asked again"


async def test_abstentions_are_kept_and_failures_are_not() -> None:
    server = ScriptedTriton(FLAT, BROKEN, score(0.5))
    with Ledger() as ledger:
        async with panel_of(server, ledger=ledger) as panel:
            for _ in range(2):
                with pytest.raises(Abstention, match="flat") as caught:
                    await ask(panel)
                assert caught.value.kind == "degenerate"
            assert len(server.requests) == 1
            with pytest.raises(ServiceError, match="out of memory"):
                await ask(panel, b"2")
            assert await ask(panel, b"2") == 0.5


async def test_without_a_ledger_specialists_are_asked_again() -> None:
    async with panel_of(server := ScriptedTriton()) as panel:
        await ask(panel)
        await ask(panel)
    assert len(server.requests) == 2


def at(url: str, folder: Path) -> Settings:
    return Settings(endpoints={"a": Endpoint(url=url)}, ledger=folder / "l.sqlite")


async def test_the_ledger_of_the_settings(tmp_path: Path) -> None:
    server = ScriptedTriton()
    for _ in range(2):
        async with server.serving() as url, Client(at(url, tmp_path)) as client:
            await ask(client.panel)
    assert len(server.requests) == 1


@pytest.mark.parametrize("answer", [QUARTER, FLAT])
async def test_a_verdict_names_the_specialists_calls_that_it_rests_on(tmp_path: Path, answer: Any) -> None:
    async with ScriptedTriton(answer).serving() as url, Client(at(url, tmp_path)) as client:
        judgement = await client.score(edit(), ["core.quality.piqe", "core.psnr.source.whole"])
        again = await client.score(edit(), ["core.quality.piqe"])
    asked, computed = judgement.outcomes.values()
    assert calls_of(computed) == ()
    (key,) = calls_of(asked)
    assert judgement.replies[key].judge == str(judgement.services["quality.piqe"])
    assert calls_of(*again.outcomes.values()) == (key,)


async def test_a_failed_verdict_rests_on_no_call(tmp_path: Path) -> None:
    async with ScriptedTriton(BROKEN).serving() as url, Client(at(url, tmp_path)) as client:
        (outcome,) = (await client.score(edit(), ["core.quality.piqe"])).outcomes.values()
    assert (outcome.status, calls_of(outcome)) == ("failed", ())


# From the ledger alone


async def test_specialists_from_the_ledger_alone() -> None:
    with Ledger() as ledger:
        async with panel_of(ScriptedTriton(QUARTER, FLAT), ledger=ledger) as panel:
            await ask(panel)
            with pytest.raises(Abstention):
                await ask(panel, b"flat")
            identities = panel.identities()
        async with Panel.from_ledger(ledger, identities) as panel:
            assert panel.service_names == set(identities)
            assert panel.identities() == identities
            assert await ask(panel) == 0.25
            with pytest.raises(Abstention):
                await ask(panel, b"flat")
            with pytest.raises(NoModel, match="not in the ledger"):
                await ask(panel, b"other")
            with pytest.raises(NoModel, match="not available when"):
                await ask(panel, service="ocr.got")


async def test_a_judge_from_the_ledger_alone() -> None:
    said = reply(SAID)
    server = ScriptedOpenAi(None, None, said, said, None)
    told = {"seed": 7, "temperature": 0.5, "max_tokens": 99}
    with Ledger() as ledger:
        async with panel_of(judges=[server], judge=told, ledger=ledger) as panel:
            judge = panel.judge("generalist.judge")
            chosen = await judge.choose(PROMPT, YES_NO)
            answered = [await judge.answer(PROMPT, CONTRACT, repeat=n) for n in range(2)]
            identities = panel.identities()
        assert judge.identity.facts["choices"] == "top_logprobs"
        async with Panel.from_ledger(ledger, identities) as panel:
            judge = panel.judge("generalist.judge")
            assert panel.identities() == identities
            assert (await judge.choose(PROMPT, YES_NO)).value == chosen.value
            again = [await judge.answer(PROMPT, CONTRACT, repeat=n) for n in range(2)]
            assert [one.value for one in again] == [one.value for one in answered]
            with pytest.raises(NoModel, match="not in the ledger"):
                await judge.choose(PROMPT, ("Yes", "Never"))


@pytest.mark.parametrize("model", ["org/model(4bit)", "m,choices=sampled", "m(seed=3)"])
async def test_a_model_of_any_name_replays_as_itself(model: str) -> None:
    """Parts of a name that look like facts are none: nothing is parsed out of the identity."""
    server = ScriptedOpenAi(None, None, models=(model,))
    told = {"model": model, "accept": ("judge",), "seed": 7}
    with Ledger() as ledger:
        async with panel_of(judges=[server], judge=told, ledger=ledger) as panel:
            chosen = await panel.judge("generalist.judge").choose(PROMPT, YES_NO)
            identities = panel.identities()
        async with Panel.from_ledger(ledger, identities) as panel:
            judge = panel.judge("generalist.judge")
            assert judge.model.name == model
            assert (judge.endpoint.seed, await judge.find_choice_method()) == (7, "top_logprobs")
            assert panel.identities() == identities
            assert (await judge.choose(PROMPT, YES_NO)).value == chosen.value


async def test_how_choices_are_answered_is_remembered() -> None:
    server = ScriptedOpenAi()
    with Ledger() as ledger:
        async with judge_of(server, ledger) as judge:
            await judge.choose(PROMPT, YES_NO)
            identity = judge.identity
        asked = len(server.requests)
        async with judge_of(server, ledger) as judge:
            assert judge.identity == identity, "known before the first call"
            await judge.choose(PROMPT, YES_NO)
            assert len(server.requests) == asked
            await judge.probe()
            assert len(server.requests) == asked + 1, "unless it is to be asked now"


async def test_why_it_is_sampled_is_remembered_too() -> None:
    server = ScriptedOpenAi(reply("Yes"))
    with Ledger() as ledger:
        for _ in range(2):
            async with judge_of(server, ledger) as judge:
                assert await judge.find_choice_method() == "sampled"
                assert "no logprobs" in judge.without_logprobs
    assert len(server.requests) == 1


class HeldLedger(Ledger):
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
    server = ScriptedOpenAi(reply(SAID))
    with HeldLedger() as ledger:
        async with panel_of(judges=[server], ledger=ledger, concurrency=2) as panel:
            judge = panel.judge("generalist.judge")
            calls = (judge.answer(PROMPT, CONTRACT, repeat=n) for n in range(6))
            answers = asyncio.gather(*calls)
            await until(lambda: ledger.waiting)
            await asyncio.sleep(0.2)  # were there more, they would have come
            ledger.may.set()
            await answers
    assert 1 <= ledger.most <= 2
    assert len(server.requests) == 7, "and the question about probabilities"


class Full(Ledger):
    """Keeps nothing while its disk is full."""

    full = True

    async def put(self, call: AnyCall, reply: Reply) -> Reply:
        if self.full:
            raise StoreError("run.sqlite: the disk is full", "make room")
        return await super().put(call, reply)


async def test_what_waits_where_a_reply_cannot_be_kept_is_not_paid_for() -> None:
    server = ScriptedOpenAi(reply(SAID))
    with Full() as ledger:
        async with panel_of(judges=[server], ledger=ledger, concurrency=2) as panel:
            judge = panel.judge("generalist.judge")
            asked = (judge.answer(PROMPT, CONTRACT, repeat=n) for n in range(8))
            errors = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(error, StoreError) for error in errors)
            assert len(server.requests) <= 2
            ledger.full = False
            await judge.answer(PROMPT, CONTRACT)
            assert len(server.requests) <= 3
