"""A caller's deadline and class, on their way through the service to Triton and vLLM."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import grpc
import pytest

from editjudge.base.config import Settings
from editjudge.base.errors import Unreachable
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.gateway import schemas
from editjudge_services.gateway.http import serve_http
from editjudge_services.gateway.options import ServiceOptions
from editjudge_services.gateway.server import serve_grpc
from editjudge_services.gateway.service import JudgeService

from ..fakes.openai import Fault, ScriptedOpenAi
from ..fakes.triton import ScriptedTriton
from ..patience import until
from .test_serve import asking, png
from .test_serve_json import asking as asking_json

BOTH = ("core.quality.piqe", "core.instruction_following")
URGENT = [("x-class", "interactive")]


@asynccontextmanager
async def stub_of(service: JudgeService) -> AsyncIterator[Any]:
    async with serve_grpc(service, "127.0.0.1:0", drain=0.1) as address:
        async with grpc.aio.insecure_channel(address) as channel:
            yield judge_pb2_grpc.JudgeServiceStub(channel)


@asynccontextmanager
async def judged_by(triton: ScriptedTriton, llm: ScriptedOpenAi) -> AsyncIterator[JudgeService]:
    async with triton.serving() as at, llm.serving() as url:
        settings = Settings.model_validate(
            {"endpoints": {"local": {"url": at}}, "judges": {"judge": {"url": url}}}
        )
        async with JudgeService(settings) as service:
            yield service


def priorities(triton: ScriptedTriton) -> list[int]:
    return [request.parameters["priority"].int64_param for request in triton.requests]


@pytest.mark.parametrize("stream", [False, True])
async def test_triton_gets_no_more_time_than_the_caller_waits(stream: bool) -> None:
    triton = ScriptedTriton()
    async with judged_by(triton, ScriptedOpenAi()) as service, stub_of(service) as stub:
        if stream:
            call = stub.ScoreStream(timeout=20)
            await call.write(pb.ScoreStreamRequest(request=asking("core.quality.piqe")))
            response = (await call.read()).response
            call.cancel()
        else:
            response = await stub.Score(asking("core.quality.piqe"), timeout=20)
            await stub.Score(asking("core.quality.piqe"))
    assert response.outcomes[0].status == pb.STATUS_SCORED
    assert triton.deadlines[0] is not None
    assert 0 < triton.deadlines[0] < 22  # it travels rounded up, in two steps
    if not stream:  # who says nothing has the time of the settings
        assert triton.deadlines[1] is not None
        assert triton.deadlines[1] > 22


async def test_callers_in_a_hurry_lose_no_server_for_others() -> None:
    triton = ScriptedTriton(60.0)
    async with judged_by(triton, ScriptedOpenAi()) as service, stub_of(service) as stub:
        for _ in range(8):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Score(asking("core.quality.piqe"), timeout=0.3)
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: not service.in_flight)
        triton.script = [ScriptedTriton().script[0]]
        response = await stub.Score(asking("core.quality.piqe"))
        (replica,) = service.client.panel.specialists["quality.piqe"].replicas  # type: ignore[index]
    assert response.outcomes[0].status == pb.STATUS_SCORED
    assert not replica.measure_load().is_lost


@pytest.mark.parametrize("headers", [URGENT, [("x-class", "batch")], [("x-class", "root")], []])
async def test_the_class_goes_on_as_a_priority(headers: list[tuple[str, str]]) -> None:
    triton, llm = ScriptedTriton(), ScriptedOpenAi(owner="vllm")
    async with judged_by(triton, llm) as service, stub_of(service) as stub:
        assert (await stub.Score(asking(*BOTH), metadata=headers)).outcomes
        call = stub.ScoreStream(metadata=headers)
        request = asking(*BOTH, edited=pb.Picture(data=png(2)))
        await call.write(pb.ScoreStreamRequest(request=request))
        assert (await call.read()).response.outcomes
        await call.done_writing()
    urgent = headers == URGENT
    assert priorities(triton) == [int(urgent)] * 2
    sent = [body.get("priority") for body in llm.requests]
    assert set(sent) == ({-1} if urgent else {None})


async def test_the_class_goes_on_from_json_too() -> None:
    triton, llm = ScriptedTriton(), ScriptedOpenAi(owner="vllm")
    async with judged_by(triton, llm) as service:
        async with serve_http(service, "127.0.0.1", 0, 5) as base:
            async with aiohttp.ClientSession() as session:
                one = asking_json() | {"dimensions": list(BOTH)}
                two = {"requests": [asking_json(target_text="x") | {"dimensions": list(BOTH)}]}
                for path, body in (("/v1/score", one), ("/v1/score:batch", two)):
                    for headers in (dict(URGENT), {}):
                        asked = session.post(base + path, json=body, headers=headers)
                        async with asked as reply:
                            assert reply.status == 200
    assert priorities(triton)[:2] == [1, 0]
    assert priorities(triton)[2:] == [1, 0]


async def test_who_serves_others_is_sent_no_priority() -> None:
    llm = ScriptedOpenAi(owner="openai")
    async with judged_by(ScriptedTriton(), llm) as service, stub_of(service) as stub:
        assert (await stub.Score(asking(BOTH[1]), metadata=URGENT)).outcomes
    assert llm.requests
    assert not any("priority" in body for body in llm.requests)


async def test_a_vllm_without_priorities_is_asked_again_without() -> None:
    words = "Got priority -1 but Priority scheduling is not enabled."
    refusal = Fault(400, {"error": {"message": words, "code": 400}})
    llm = ScriptedOpenAi(refusal, None, owner="vllm")
    async with judged_by(ScriptedTriton(), llm) as service, stub_of(service) as stub:
        for seed in (1, 2):
            request = asking(BOTH[1], edited=pb.Picture(data=png(seed)))
            response = await stub.Score(request, metadata=URGENT)
            assert response.outcomes[0].status != pb.STATUS_FAILED
    sent = [body.get("priority") for body in llm.requests]
    assert sent[0] == -1
    assert set(sent[1:]) == {None}


async def test_priority_is_in_no_signature_and_no_key() -> None:
    triton, llm = ScriptedTriton(), ScriptedOpenAi(owner="vllm")
    async with judged_by(triton, llm) as service, stub_of(service) as stub:
        urgent = await stub.Score(asking(*BOTH), metadata=URGENT, timeout=30)
        asked_before = len(llm.requests)
        other = await stub.Score(asking(*BOTH))
    signed = [[o.signature for o in answer.outcomes] for answer in (urgent, other)]
    assert signed[0] == signed[1]
    assert len(llm.requests) == asked_before  # one and the same call


class Slow:
    """Decodes pictures when it is let."""

    def __init__(self) -> None:
        self.decoding = 0
        self.go_on = threading.Event()

    def __call__(self, data: bytes, name: str) -> Any:
        self.decoding += 1
        try:
            self.go_on.wait(60)
        finally:
            self.decoding -= 1
        raise Unreachable("never mind", service="")


@pytest.mark.parametrize("json", [False, True])
async def test_who_goes_away_frees_no_room_for_pictures_that_are_still_decoded(
    monkeypatch: pytest.MonkeyPatch, json: bool
) -> None:
    slow = Slow()
    monkeypatch.setattr(schemas, "load_image", slow)
    async with JudgeService(
        Settings(), ServiceOptions(megapixels=4 * 32 * 32 / 2**20, edits_of_one=8)
    ) as service:
        async with stub_of(service) as stub, serve_http(service, "127.0.0.1", 0, 1) as base:
            async with aiohttp.ClientSession() as session:

                async def call() -> Any:
                    if not json:
                        return await stub.Score(asking())
                    async with session.post(f"{base}/v1/score", json=asking_json()) as reply:
                        return reply.status

                gone = asyncio.create_task(call())
                await until(lambda: slow.decoding == 1)
                gone.cancel()
                await asyncio.gather(gone, return_exceptions=True)
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await stub.Score(asking())
                assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                assert (slow.decoding, len(service.in_flight)) == (1, 1)
                slow.go_on.set()
                await until(lambda: not service.in_flight and not slow.decoding)
