"""A caller's deadline and class, on their way through the service to Triton and vLLM."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from editjudge.base.errors import Unreachable
from editjudge.v1 import judge_pb2 as pb
from editjudge_services.gateway import accounting, schemas

from ..fakes.openai import ScriptedOpenAi, problem
from ..fakes.triton import ScriptedTriton
from ..judge_service import ASKED, JSON, RunningService, judge_settings, make_body, make_request, png, refusal, serve
from ..patience import until

PIQE = "core.quality.piqe"
BOTH = (PIQE, ASKED)
URGENT = [("x-class", "interactive")]


@asynccontextmanager
async def served_by(triton: ScriptedTriton, llm: ScriptedOpenAi) -> AsyncIterator[RunningService]:
    async with triton.serving() as at, llm.serving() as url:
        settings = judge_settings(url, endpoints={"local": {"url": at}})
        async with serve(settings, drain=0.1) as served:
            yield served


async def score_by_stream(served: RunningService, request: pb.ScoreRequest, **more: Any) -> pb.ScoreResponse:
    """The answer of a stream of one request, which is left open until it came."""
    call = served.stub.ScoreStream(**more)
    await call.write(pb.ScoreStreamRequest(request=request))
    answer = (await call.read()).response
    call.cancel()
    return answer


def priorities(triton: ScriptedTriton) -> list[int]:
    return [request.parameters["priority"].int64_param for request in triton.requests]


@pytest.mark.parametrize("stream", [False, True])
async def test_triton_gets_no_more_time_than_the_caller_waits(stream: bool) -> None:
    triton = ScriptedTriton()
    async with served_by(triton, ScriptedOpenAi()) as served:
        if stream:
            response = await score_by_stream(served, make_request(PIQE), timeout=20)
        else:
            response = await served.stub.Score(make_request(PIQE), timeout=20)
            await served.stub.Score(make_request(PIQE))
    assert response.outcomes[0].status == pb.STATUS_SCORED
    first, *others = (left or 0 for left in triton.deadlines)
    assert 0 < first < 22  # it travels rounded up, in two steps
    assert [left > 22 for left in others] == [True] * (not stream), "else that of the settings"


async def test_callers_in_a_hurry_lose_no_server_for_others() -> None:
    triton = ScriptedTriton(60.0)
    async with served_by(triton, ScriptedOpenAi()) as served:
        for _ in range(8):
            told = await refusal(served.stub.Score(make_request(PIQE), timeout=0.3))
            assert told.code is grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: not served.service.edits.in_use)
        triton.script = [ScriptedTriton().script[0]]
        response = await served.stub.Score(make_request(PIQE))
        panel: Any = served.service.client.panel
        (replica,) = panel.specialists["quality.piqe"].replicas
    assert response.outcomes[0].status == pb.STATUS_SCORED
    assert not replica.measure_load().open


@pytest.mark.parametrize("dimension", BOTH)
@pytest.mark.parametrize("as_json", [False, True])
async def test_a_team_with_one_edit_has_the_next_turn_at_judges_and_specialists(dimension: str, as_json: bool) -> None:
    """Those of a busy team that came earlier wait, whatever their number."""
    triton, llm = ScriptedTriton(), ScriptedOpenAi(owner="vllm")
    async with triton.serving() as at, llm.serving() as url:
        endpoints = {"local": {"url": at}}
        settings = judge_settings(url, endpoints=endpoints, concurrency=1, attempts=1)
        async with serve(settings, drain=0.1) as served:
            await served.service.client.panel.probe_judges()
            for server in (triton, llm):
                server.script = [0.1, server.script[-1]] * 9
            done: list[str] = []

            async def score(team: str, number: int) -> None:
                if as_json:
                    headers = JSON | {"x-team": team}
                    body = make_body(dimension, edited=png(number))
                    assert (await served.post(body, headers=headers))[0] == 200
                else:
                    request = make_request(dimension, edited=png(number))
                    await served.stub.Score(request, metadata=[("x-team", team)])
                done.append(team)

            busy = [asyncio.create_task(score("busy", number)) for number in range(1, 9)]
            await until(lambda: done)
            await score("small", 9)
            assert len(done) <= 5
            await asyncio.gather(*busy)


@pytest.mark.parametrize("headers", [URGENT, [("x-class", "batch")], [("x-class", "root")], []])
async def test_the_class_goes_on_as_a_priority(headers: list[tuple[str, str]]) -> None:
    """From every way to ask."""
    triton, llm = ScriptedTriton(), ScriptedOpenAi(owner="vllm")
    async with served_by(triton, llm) as served:
        assert (await served.stub.Score(make_request(*BOTH), metadata=headers)).outcomes
        other = make_request(*BOTH, edited=png(2))
        assert (await score_by_stream(served, other, metadata=headers)).outcomes
        as_json = JSON | dict(headers)
        assert (await served.post(make_body(*BOTH, edited=png(3)), headers=as_json))[0] == 200
        batch = {"requests": [make_body(*BOTH, edited=png(4))]}
        assert (await served.post(batch, "/v1/score:batch", as_json))[0] == 200
    urgent = headers == URGENT
    assert priorities(triton) == [int(urgent)] * 4
    sent = {body.get("priority") for body in llm.requests}
    assert sent == ({-1} if urgent else {None})


async def test_who_serves_others_is_sent_no_priority() -> None:
    llm = ScriptedOpenAi(owner="openai")
    async with served_by(ScriptedTriton(), llm) as served:
        assert (await served.stub.Score(make_request(ASKED), metadata=URGENT)).outcomes
    assert llm.requests
    assert not any("priority" in body for body in llm.requests)


async def test_a_vllm_without_priorities_is_asked_again_without() -> None:
    refused = problem(400, "Got priority -1 but Priority scheduling is not enabled.", code=400)
    llm = ScriptedOpenAi(refused, None, owner="vllm")
    async with served_by(ScriptedTriton(), llm) as served:
        for seed in (1, 2):
            request = make_request(ASKED, edited=png(seed))
            response = await served.stub.Score(request, metadata=URGENT)
            assert response.outcomes[0].status != pb.STATUS_FAILED
    first, *others = (body.get("priority") for body in llm.requests)
    assert (first, set(others)) == (-1, {None})


async def test_priority_is_in_no_signature_and_no_key() -> None:
    llm = ScriptedOpenAi(owner="vllm")
    async with served_by(ScriptedTriton(), llm) as served:
        urgent = await served.stub.Score(make_request(*BOTH), metadata=URGENT, timeout=30)
        asked_before = len(llm.requests)
        other = await served.stub.Score(make_request(*BOTH))
    signed = [[o.signature for o in answer.outcomes] for answer in (urgent, other)]
    assert signed[0] == signed[1]
    assert len(llm.requests) == asked_before  # one and the same call


class Slow:
    """Decodes pictures when it is let."""

    def __init__(self) -> None:
        self.decoding = 0
        self.go_on = threading.Event()

    def __call__(self, data: bytes, name: str, **_: Any) -> Any:
        self.decoding += 1
        try:
            self.go_on.wait(60)
        finally:
            self.decoding -= 1
        raise Unreachable("never mind", service="")


@pytest.mark.parametrize("as_json", [False, True])
async def test_who_goes_away_frees_no_room_for_pictures_that_are_still_decoded(
    monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    slow = Slow()
    monkeypatch.setattr(schemas, "load_image", slow)
    monkeypatch.setattr(accounting, "WAIT_SECONDS", 0.1)
    async with serve(megapixels=4 * 32 * 32 / 2**20, drain=0.1) as served:
        call: Any = served.post(make_body()) if as_json else served.stub.Score(make_request())
        gone = asyncio.ensure_future(call)
        await until(lambda: slow.decoding == 1)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        told = await refusal(served.stub.Score(make_request()))
        assert told.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (slow.decoding, len(served.service.edits.in_use)) == (1, 1)
        slow.go_on.set()
        await until(lambda: not served.service.edits.in_use and not slow.decoding)
