"""Streams of the Judge service: what they hold in memory, how many there are, and for how long."""

from __future__ import annotations

import asyncio
import gc
import math
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from editjudge.base.config import Settings
from editjudge.v1 import judge_pb2 as pb
from editjudge_services.gateway import accounting, interceptor, protocols
from editjudge_services.gateway import service as gateway_service
from editjudge_services.gateway.admission import MAX_CALLS, MAX_REQUEST_BYTES
from editjudge_services.gateway.interceptor import AdmittedMessages
from editjudge_services.gateway.options import ServiceOptions
from editjudge_services.gateway.schemas import EncodedEdit
from editjudge_services.gateway.service import JudgeService
from editjudge_services.gateway.servicer import JudgeServicer
from editjudge_services.runtime.cache import BoundedCache

from ..judge_service import ASKED, JSON, Context, make_body, make_request, outcome_of, refusal, serve, teams_of
from ..patience import patience, until

MESSAGE = pb.ScoreStreamRequest(request=make_request()).SerializeToString()
ONE = len(MESSAGE)


@pytest.fixture
def no_protocols(monkeypatch: pytest.MonkeyPatch) -> None:
    """No protocol has been resolved in this process, whatever tests came before."""
    monkeypatch.setattr(protocols, "_cache", BoundedCache(protocols._CACHE_BYTES))


async def drain(call: Any) -> list[Any]:
    """All answers of a stream."""
    return [answer async for answer in call]


class Caller:
    """Sends requests as fast as they are read."""

    def __init__(self, count: int) -> None:
        self.sent = 0
        self._count = count

    async def read(self) -> object:
        self.sent += 1
        return MESSAGE if self.sent <= self._count else grpc.aio.EOF


async def test_no_message_of_a_stream_is_read_before_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many streams a team has, it holds half of all room, and leaves the rest."""
    monkeypatch.setattr(interceptor, "MAX_REQUEST_BYTES", 2 * ONE)
    goes_on = asyncio.Event()
    callers = [Caller(10) for _ in range(8)]
    async with JudgeService(Settings(), ServiceOptions(held_bytes=2 * 5 * ONE)) as service:
        score = service.score

        async def held_up(*asked: Any, **more: Any) -> Any:
            await goes_on.wait()
            return await score(*asked, **more)

        async def answers(caller: Caller) -> int:
            parse = pb.ScoreStreamRequest.FromString
            messages = AdmittedMessages(service.rate, service.requests, "a", math.inf, caller.read, parse)
            stream = JudgeServicer(service).ScoreStream(messages, Context())
            return len([answer async for answer in stream if answer.response.outcomes])

        monkeypatch.setattr(service, "score", held_up)
        streams = [asyncio.create_task(answers(caller)) for caller in callers]
        await until(lambda: service.requests.in_use.get("a") == 4 * ONE)
        for _ in range(200):  # whoever could read on does so
            await asyncio.sleep(0)
        assert service.requests.in_use == {"a": 4 * ONE}, "a fifth might need the room of two"
        assert sum(caller.sent for caller in callers) == 4
        goes_on.set()
        assert await asyncio.gather(*streams) == [10] * 8
        assert not service.requests.in_use
        assert not service.streams.in_use


@pytest.mark.parametrize("way", ["a batch", "a list", "a list as JSON"])
async def test_who_sends_what_is_invalid_waits_and_others_do_not(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A refused edit, or a list of what there is not, counts as several requests of its team."""
    monkeypatch.setattr(gateway_service, "INVALID_REQUESTS", 10**6)
    rubbish = {"requests": [{"no": "edit"}]}
    async with serve(drain=0.1) as served:

        async def ask(team: str) -> Any:
            return await served.stub.Score(make_request(), metadata=[("x-team", team)], timeout=patience(60))

        assert await ask("a")
        if way == "a batch":
            await served.post(rubbish, "/v1/score:batch", {**JSON, "x-team": "a"})
        elif way == "a list as JSON":
            assert (await served.get("/v1/dimensions?pattern=nothing.*", "a"))[0] == 400
        else:
            nothing = pb.ListDimensionsRequest(patterns=["nothing.*"])
            listing = served.stub.ListDimensions(nothing, metadata=[("x-team", "a")])
            assert (await refusal(listing)).code == grpc.StatusCode.INVALID_ARGUMENT
        told = await refusal(ask("a"))
        assert (told.code, told.may_retry) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        assert "these are more than 200 requests a second" in told.words
        assert await ask("b")
        waiting = Caller(1)
        messages = AdmittedMessages(served.service.rate, served.service.requests, "a", math.inf, waiting.read, bytes)
        reader = asyncio.ensure_future(anext(messages))
        await asyncio.wait([reader], timeout=0.05)
        assert not waiting.sent, "no message is read before its time"
        reader.cancel()


@pytest.mark.usefixtures("no_protocols")
async def test_a_new_protocol_is_made_when_its_team_has_paid_for_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of its calls bring one at a time. Another team does not wait for it."""
    monkeypatch.setattr(gateway_service, "NEW_OF_REQUEST", 1e-6)
    async with serve(drain=0.1) as served:

        def ask(team: str, rounds: int) -> Any:
            protocol = pb.Protocol(rounds=rounds)
            request = pb.GetPanelRequest(dimensions=[ASKED], protocol=protocol)
            call = served.stub.GetPanel(request, metadata=[("x-team", team)], timeout=patience(60))
            return outcome_of(call)

        several = await asyncio.gather(*(ask("a", rounds) for rounds in range(2, 7)))
        made = [each for each in several if not isinstance(each, grpc.aio.AioRpcError)]
        codes = {each.code() for each in several if each not in made}
        assert (len(made), codes) == (1, {grpc.StatusCode.RESOURCE_EXHAUSTED})
        assert (await ask("b", 7)).signatures


@pytest.mark.usefixtures("no_protocols")
async def test_an_edit_counts_by_all_that_its_dimensions_derive_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """One dimension of 120 rounds is no single request; who made the protocol has paid for that."""
    monkeypatch.setattr(accounting, "WAIT_SECONDS", 0.5)
    async with serve(drain=0.1, rate=20) as served:

        def ask(team: str, rounds: int) -> Any:
            protocol = pb.Protocol(benchmark="kris", rounds=rounds)
            request = pb.GetPanelRequest(dimensions=["kris.visual_consistency"], protocol=protocol)
            return served.stub.GetPanel(request, metadata=[("x-team", team)])

        for team, rounds in (("maker", 120), ("maker-2", 1), ("light", 1)):
            assert await ask(team, rounds)
        told = await refusal(ask("heavy", 120))
        assert (told.code, told.may_retry) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        assert await ask("light", 1)


async def test_lists_and_descriptions_take_places_and_turns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "WAIT_SECONDS", 0.0)
    paths = "/v1/dimensions", "/v1/panel", "/v1/openapi.json"
    async with serve(drain=0.1) as served:

        async def statuses() -> set[int]:
            return {(await served.get(path, "a"))[0] for path in paths}

        reflection = reflection_pb2_grpc.ServerReflectionStub(served.channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")

        def reflect() -> Any:
            call = reflection.ServerReflectionInfo([asked] * 2, metadata=[("x-team", "a")])
            return asyncio.ensure_future(drain(call))

        assert await statuses() == {200}
        assert len(await reflect()) == 2
        async with served.service.calls.acquire("a", MAX_CALLS // 2):
            assert await statuses() == {429}
            # Who writes to a stream that is refused meanwhile is told of that by grpcio, and not why.
            refused = reflection.ServerReflectionInfo(metadata=[("x-team", "a")]).read()
            assert (await refusal(refused)).code == grpc.StatusCode.RESOURCE_EXHAUSTED
        served.service.rate.charge("a", 1e6)
        assert await statuses() == {429}
        waiting = reflect()
        assert not (await asyncio.wait([waiting], timeout=0.1))[0], "a message is a request"
        waiting.cancel()
        assert (await served.get("/health", "a"))[0] == 200
        listing = served.stub.ListDimensions(
            pb.ListDimensionsRequest(), metadata=[("x-team", "a")], timeout=patience(60)
        )
        assert (await refusal(listing)).code == grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("method", ["Score", "GetPanel", "ListDimensions"])
async def test_no_request_is_read_before_there_is_room(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """A unary call sends its message at once, and the service reads it as late as in a stream."""
    monkeypatch.setattr(accounting, "WAIT_SECONDS", 0.1)
    asked = {"Score": make_request(), "GetPanel": pb.GetPanelRequest()}
    async with serve(drain=0.1, held_bytes=4 * MAX_REQUEST_BYTES) as served:
        ask = getattr(served.stub, method)
        request = asked.get(method, pb.ListDimensionsRequest())
        metadata = [("x-team", "a")]
        async with served.service.requests.acquire("a", 2 * MAX_REQUEST_BYTES):
            told = await refusal(ask(request, metadata=metadata))
            assert (told.code, told.may_retry) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
            assert await ask(request, metadata=[("x-team", "b")])
            checks = health_pb2_grpc.HealthStub(served.channel)
            assert await checks.Check(health_pb2.HealthCheckRequest())
            waiting = asyncio.ensure_future(ask(request, metadata=metadata, timeout=60))
            await asyncio.sleep(0)
        assert await waiting
        assert not served.service.requests.in_use
        assert f'method="{method}",status="RESOURCE_EXHAUSTED"' in await served.metrics()


async def test_callers_have_so_many_calls_open_and_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of those that wait; what is too much is refused at once."""
    monkeypatch.setattr(gateway_service, "MAX_CALLS", 4)
    async with serve(drain=0.1, held_bytes=4 * MAX_REQUEST_BYTES) as served:

        def ask(team: str) -> Any:
            return served.stub.Score(make_request(), metadata=[("x-team", team)], timeout=60)

        async with served.service.requests.acquire("busy", 2 * MAX_REQUEST_BYTES):
            waiting = [asyncio.ensure_future(ask("busy")) for _ in range(2)]
            await until(lambda: served.service.calls.in_use.get("busy") == 2)
            told = await refusal(ask("busy"))
            assert (told.code, told.may_retry) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
            assert "2 of 4 calls are in use, 2 of them yours" in told.words
            status, _ = await served.post(make_body(), headers={**JSON, "x-team": "busy"})
            assert status == 429
            assert await ask("other")
        assert all(await asyncio.gather(*waiting))
        assert not served.service.calls.in_use


@pytest.mark.parametrize("method", ["Score", "ScoreStream"])
async def test_a_refused_request_is_out_of_memory_at_once(method: str) -> None:
    """Though its error has passed through threads, and though no garbage is collected."""
    async with serve(drain=0.1) as served:
        gc.collect()
        gc.disable()
        try:
            if method == "Score":
                assert (await refusal(served.stub.Score(make_request("no-such")))).field
            else:
                (answer,) = await served.stream(make_request("no-such"))
                assert answer.refusal.field
            await until(lambda: not any(isinstance(each, EncodedEdit) for each in gc.get_objects()))
        finally:
            gc.enable()


async def test_callers_have_so_many_streams_and_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "WAIT_SECONDS", 0.1)
    async with serve(streams=4, drain=0.1) as served:

        async def open_stream(team: str) -> Any:
            call = served.stub.ScoreStream(metadata=[("x-team", team)])
            await call.write(pb.ScoreStreamRequest(request=make_request()))
            assert (await call.read()).response.outcomes
            return call

        async def check_refusal(team: str) -> str:
            told = await refusal(served.stub.ScoreStream(metadata=[("x-team", team)]).read())
            assert (told.code, told.may_retry) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
            return told.words

        first = await open_stream("busy")
        second = await open_stream("busy")
        assert "2 of 4 streams are in use, 2 of them yours" in await check_refusal("busy")
        others = [await open_stream("other"), await open_stream("another")]
        assert "4 of 4 streams are in use, 0 of them yours" in await check_refusal("a fourth")
        assert await served.stub.Score(make_request(), metadata=[("x-team", "busy")])
        await first.done_writing()
        assert await first.read() is grpc.aio.EOF
        second.cancel()
        await until(lambda: served.service.streams.in_use == {"other": 1, "another": 1})
        await open_stream("busy")
        for each in others:
            each.cancel()


async def test_who_reads_no_answer_and_hangs_up_gives_his_place_back() -> None:
    async with serve(drain=0.1) as served:
        service = served.service
        call = served.stub.ScoreStream()
        long = make_request(request_id="x" * 1_000_000)  # it comes back: more than is sent unread
        for _ in range(6):
            await call.write(pb.ScoreStreamRequest(request=long))
        await until(lambda: teams_of(service) and served.service.edits.in_use == {})
        assert service.streams.in_use
        call.cancel()
        await until(lambda: not service.streams.in_use and not service.requests.in_use)
