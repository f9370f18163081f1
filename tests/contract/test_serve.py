"""The Judge service as a caller without our client meets it: by its proto, and as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import aiohttp
import grpc
import jsonschema
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from PIL import Image

from editjudge.app.client import Client
from editjudge.base.config import Settings
from editjudge.base.images import Image as EditImage
from editjudge.base.images import Mask
from editjudge.base.item import Edit
from editjudge.base.verdict import Failure
from editjudge.engine.score_report import ScoreReport
from editjudge.panel import prompt
from editjudge.panel.prompt import Picture
from editjudge.v1 import judge_pb2 as pb
from editjudge_services.gateway import accounting
from editjudge_services.gateway.admission import MAX_REQUEST_BYTES
from editjudge_services.gateway.http import serve_http
from editjudge_services.gateway.openapi import EXAMPLES, make_openapi
from editjudge_services.gateway.options import split_address
from editjudge_services.gateway.schemas import BatchReply, drop_hints
from editjudge_services.gateway.service import JudgeService
from editjudge_services.gateway.servicer import JudgeServicer

from ..fakes.openai import ScriptedOpenAi
from ..judge_service import (
    ASKED,
    JSON,
    Context,
    EndedCall,
    RunningService,
    judge_settings,
    make_body,
    make_request,
    outcome_of,
    png,
    priced_settings,
    refusal,
    scripted_judge,
    serve,
    serve_with_judge,
)
from ..patience import patience, until

Code = grpc.StatusCode


@pytest.fixture
async def service() -> AsyncIterator[RunningService]:
    async with serve(edits=40) as service:
        yield service


def rows(outcomes: Any) -> list[tuple[str, str, float | None, str]]:
    """What is said over gRPC, as JSON has it."""
    return [
        (
            o.dimension,
            pb.Status.Name(o.status).removeprefix("STATUS_").lower(),
            o.value if o.HasField("value") else None,
            o.signature,
        )
        for o in outcomes
    ]


def rows_of_json(answer: Any) -> list[tuple[str, str, float | None, str]]:
    return [(v["dimension"], v["status"], v["value"], v["signature"]) for v in answer["verdicts"]]


async def test_a_score_is_the_one_that_our_client_gives(service: RunningService) -> None:
    response = await service.stub.Score(make_request("core.*", request_id="r1"))
    edit = Edit.load(source=png(0), edited=png(1), instruction="make it red", item_id="one")
    async with Client(Settings()) as client:
        direct = await client.score(edit, ["core.*"])
    assert (response.request_id, response.edit_id) == ("r1", "one")
    ours = ScoreReport.of(direct).model_dump(mode="json")
    assert rows(response.outcomes) == rows_of_json(ours)
    reasons = {o.dimension: o.reason for o in response.outcomes if not o.HasField("value")}
    assert reasons == {name: drop_hints(direct.outcomes[name].reason) for name in reasons}
    status, body = await service.post(make_body("core.*", id="one"))
    assert (status, rows_of_json(ScoreReport.model_validate(body).model_dump(mode="json"))) == (200, rows_of_json(ours))


async def test_an_item_of_a_benchmark_is_judged_alike_over_both_protocols() -> None:
    """The same fields in the same words; a judge that is not there leaves its rounds unjudged."""
    item = {
        "id": "one",
        "hint": "HINT",
        "task": "local",
        "questions": [{"question": "Is it red?", "answer": "yes"}],
        "extra": {"level": 3},
        "flaws": [{"field": "mask", "kind": "degenerate", "reason": "no mask"}],
        "protocol": {"judges": ["judge", "other"], "rounds": 2},
    }
    async with ScriptedOpenAi().serving() as url, serve(judge_settings(url)) as service:
        status, answer = await service.post(make_body("core.*", **item))
        far = await service.stub.Score(make_request("core.*", **item))
    assert status == 200, answer
    assert rows(far.outcomes) == rows_of_json(answer)
    by_name = {name: status for name, status, *_ in rows(far.outcomes)}
    assert by_name["core.instruction_following@judge.2"] != "not_served"
    assert by_name["core.instruction_following@other.1"] == "not_served"
    told = json.dumps(answer) + str(far)
    assert not re.search(r"editjudge [a-z]|[^-\w]--[a-z]|docs/", told), "callers have none of these"
    assert by_name["core.psnr.source.outside"] == "unscored"


async def test_a_fix_names_nothing_that_callers_lack(service: RunningService) -> None:
    status, answer = await service.post(make_body("zzz"))
    assert status == 400
    assert "zzz" in answer["error"]["message"]
    assert answer["error"]["fix"] == "see /v1/openapi.json"


async def test_a_stream_answers_before_the_next_is_asked(service: RunningService) -> None:
    call = service.stub.ScoreStream()
    for i in range(3):
        await call.write(pb.ScoreStreamRequest(request=make_request(request_id=str(i))))
        assert (await call.read()).response.request_id == str(i)
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


async def test_dimensions_and_panel_say_what_is_here(service: RunningService) -> None:
    listed = (await service.stub.ListDimensions(pb.ListDimensionsRequest())).dimensions
    known = {d.id: d for d in listed}
    assert known["core.psnr.source.whole"].served
    assert not known["core.quality.piqe"].served
    assert list(known["core.quality.piqe"].services) == ["quality.piqe"]
    panel = await service.stub.GetPanel(pb.GetPanelRequest())
    assert not panel.services
    assert panel.version
    status, listed = await service.get("/v1/dimensions?pattern=core.psnr.*")
    assert status == 200
    assert all(d["served"] and d["id"].startswith("core.psnr.") for d in listed)
    status, panel = await service.get("/v1/panel")
    assert (status, panel["services"]) == (200, [])


async def test_the_signatures_of_a_protocol_are_told_and_are_those_of_its_values(service: RunningService) -> None:
    protocol = {"benchmark": "gie", "judges": ["judge", "second"], "rounds": 2}
    about = pb.GetPanelRequest(protocol=pb.Protocol(**protocol))
    signatures = dict((await service.stub.GetPanel(about)).signatures)
    rounds = {f"@{judge}.{n}" for judge in ("judge", "second") for n in (1, 2)}
    assert {name[name.index("@") :] for name in signatures if "@" in name} == rounds
    judged = await service.stub.Score(make_request(*signatures, protocol=protocol))
    assert {o.dimension: o.signature for o in judged.outcomes} == signatures


# The page and the description


async def test_the_description_fits_what_is_answered(service: RunningService) -> None:
    status, described = await service.get("/v1/openapi.json")
    assert status == 200
    assert described == make_openapi()
    schemas = described["components"]["schemas"]
    assert schemas["ScoreRequest"]["additionalProperties"] is False
    checks = {"$defs": schemas, "$ref": "#/$defs/ScoreReport"}
    text = str(checks).replace("#/components/schemas/", "#/$defs/")
    _, body = await service.post(make_body())
    jsonschema.validate(body, eval(text))  # noqa: S307 - our own schema, with other references


async def test_the_examples_are_judged_as_they_stand(service: RunningService) -> None:
    _, score = await service.post(EXAMPLES["/v1/score"])
    _, batch = await service.post(EXAMPLES["/v1/score:batch"], "/v1/score:batch")
    verdicts = ScoreReport.model_validate(score).verdicts
    assert any(verdict.value is not None for verdict in verdicts)
    assert [result.error for result in BatchReply.model_validate(batch).results] == [None]


# Places


@pytest.mark.parametrize("as_json", [False, True])
async def test_who_has_half_waits_and_others_are_judged(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    monkeypatch.setattr(accounting, "WAIT_SECONDS", 0.1)
    busy, other = [("x-team", "busy")], [("x-team", "other")]
    async with ScriptedOpenAi(30.0).serving() as url:
        async with serve(judge_settings(url), edits=4, drain=0.1) as service:
            calls = [service.stub.Score(make_request(ASKED), metadata=busy) for _ in range(2)]
            waiting = [asyncio.ensure_future(outcome_of(call)) for call in calls]
            await until(lambda: service.service.edits.in_use.get("busy") == 2)
            if as_json:
                status, body = await service.post(make_body(), headers=JSON | dict(busy))
                assert (status, body["error"]["code"]) == (429, "RESOURCE_EXHAUSTED")
            else:
                told = await refusal(service.stub.Score(make_request(), metadata=busy))
                assert "2 of 4 edits are in use, 2 of them yours" in told.words
                assert (told.code, told.may_retry) == (Code.RESOURCE_EXHAUSTED, True)
            assert await service.stub.Score(make_request(), metadata=other)
            patient = service.stub.Score(make_request(), metadata=busy, timeout=60)
            for call in calls:
                call.cancel()
            assert (await patient).outcomes
            await asyncio.gather(*waiting)
            await until(lambda: not service.service.edits.in_use)


async def test_edits_of_streams_and_batches_wait_for_places() -> None:
    async with serve(edits=3) as service:
        answers = await service.stream(*(make_request(request_id=str(i)) for i in range(12)))
        status, body = await service.batch(*(make_body(id=str(i)) for i in range(64)))
    assert [answer.WhichOneof("result") for answer in answers] == ["response"] * 12
    assert (status, [each["error"] for each in body["results"]]) == (200, [None] * 64)
    assert not service.service.edits.in_use


@pytest.mark.parametrize("method", ["Score", "ScoreStream"])
async def test_one_caller_fills_a_judge(method: str) -> None:
    """With the limits as they are, and a judge that takes 64 calls."""
    scripted = scripted_judge(600.0)
    async with scripted.serving() as url:
        more = {"concurrency": 64, "deadline": patience(300)}
        settings = priced_settings(url).model_copy(update=more)
        async with serve(settings, drain=0.1) as service:
            requests = [make_request(ASKED, edited=png(1, 8 + i)) for i in range(80)]
            if method == "Score":
                waiting = [asyncio.ensure_future(service.stub.Score(each)) for each in requests]
            else:
                waiting = [asyncio.ensure_future(service.stream(*requests))]
            await until(lambda: len(scripted.requests) >= 64)
            assert service.service.edits.in_use == {"": 64}
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize("has_place", [True, False])
async def test_a_body_is_sent_when_there_is_room_for_it(monkeypatch: pytest.MonkeyPatch, has_place: bool) -> None:
    """Who asks before sending it (`Expect: 100-continue`) sends none in vain."""
    monkeypatch.setattr(accounting, "WAIT_SECONDS", 30.0 if has_place else 0.1)
    body = json.dumps(make_body()).encode()
    async with serve(edits=2, drain=0.1) as service, contextlib.AsyncExitStack() as stack:
        if not has_place:
            await stack.enter_async_context(service.service.edits.acquire("", 1))
        host, _, port = service.web.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        writer.write(f"POST /v1/score HTTP/1.1\r\nhost: x\r\n{head}expect: 100-continue\r\n\r\n".encode())
        status = (await reader.readuntil(b"\r\n")).split()[1]
        assert status == (b"100" if has_place else b"429")
        if has_place:
            writer.write(body)
            assert b" 200 " in await reader.readuntil(b"OK\r\n")
        writer.close()


async def test_an_edit_that_has_no_place_is_not_read() -> None:
    """A call sends its message at once; it stays where it is, and takes the room of the largest."""
    async with serve(edits=2, drain=0.1) as service:
        async with service.service.edits.acquire("", 1):
            waiting = asyncio.ensure_future(service.stub.Score(make_request(), timeout=60))
            await until(lambda: service.service.requests.in_use)
            for _ in range(200):  # whoever could read it does so
                await asyncio.sleep(0)
            assert service.service.requests.in_use == {"Score": MAX_REQUEST_BYTES}
        assert (await waiting).outcomes


# Ends


@pytest.mark.parametrize("how", ["by its deadline", "over gRPC", "over JSON"])
async def test_who_goes_away_keeps_no_place_and_makes_no_further_calls(how: str) -> None:
    scripted = ScriptedOpenAi(60.0)
    async with scripted.serving() as url, serve(judge_settings(url), drain=0.1) as service:
        if how == "over JSON":
            asked = asyncio.ensure_future(service.post(make_body(ASKED)))
        else:
            timeout = patience(2) if how == "by its deadline" else None
            call = service.stub.Score(make_request(ASKED), timeout=timeout)
            asked = asyncio.ensure_future(outcome_of(call))
        await until(lambda: scripted.requests)
        assert service.service.edits.in_use
        if how == "by its deadline":
            assert (await asked).code() is Code.DEADLINE_EXCEEDED
        asked.cancel()
        await until(lambda: not service.service.edits.in_use and scripted.cancelled)


async def test_a_deadline_that_is_over_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(*_: Any, **__: Any) -> None:
        await asyncio.sleep(60)

    async with JudgeService(Settings()) as service:
        monkeypatch.setattr(service, "score", slow)
        with pytest.raises(EndedCall, match="DEADLINE_EXCEEDED"):
            await JudgeServicer(service).Score(make_request(), Context(0.01))


@pytest.mark.parametrize("is_finished", [True, False])
async def test_what_is_in_flight_is_finished_and_what_takes_longer_is_cut(is_finished: bool) -> None:
    seconds, drain = (1.0, 60.0) if is_finished else (60.0, 0.1)
    scripted = ScriptedOpenAi(seconds, seconds, None)
    async with scripted.serving() as url:
        async with serve(judge_settings(url), drain=drain) as service:
            far = asyncio.ensure_future(outcome_of(service.stub.Score(make_request(ASKED))))
            other = make_body(ASKED, instruction="make it blue")
            near = asyncio.ensure_future(service.post(other))
            await until(lambda: sum(service.service.edits.in_use.values()) == 2 and scripted.requests)
        answer = await far
        assert not service.service.edits.in_use
    if is_finished:
        assert answer.outcomes[0].status in {pb.STATUS_SCORED, pb.STATUS_UNSCORED}
        assert (await near)[0] == 200
    else:
        assert isinstance(answer, asyncio.CancelledError | grpc.aio.AioRpcError)
        with pytest.raises(aiohttp.ClientError):
            await near


async def test_it_says_that_it_ends_and_still_answers_for_a_while() -> None:
    states = health_pb2.HealthCheckResponse
    async with serve(notice=3) as service:
        checks = health_pb2_grpc.HealthStub(service.channel)
        watched = checks.Watch(health_pb2.HealthCheckRequest(service=""))
        assert (await watched.read()).status == states.SERVING

        async def ask_at_the_end() -> Any:
            assert (await watched.read()).status == states.NOT_SERVING
            return await service.stub.Score(make_request())

        answer = asyncio.ensure_future(ask_at_the_end())
    assert (await answer).outcomes


async def test_both_protocols_end_together() -> None:
    """While either finishes what is in flight, neither takes anything new."""
    async with ScriptedOpenAi(60.0, 60.0, None).serving() as url:
        async with serve(judge_settings(url), drain=60) as service:
            far = service.stub.Score(make_request(ASKED, instruction="make it blue"))
            near = asyncio.create_task(service.post(make_body(ASKED)))
            await until(lambda: sum(service.service.edits.in_use.values()) == 2)

            async def is_refused() -> bool:
                await service.service.shutdown.wait()
                await asyncio.sleep(0)
                try:
                    await service.post(make_body())
                except aiohttp.ClientConnectionError:
                    return True
                finally:
                    far.cancel()
                    near.cancel()
                return False

            asked = asyncio.create_task(is_refused())
        assert await asked


async def test_an_address_of_ipv6_is_served_and_shown() -> None:
    host, port = split_address("[::1]:0")
    assert (host, port) == ("::1", 0)
    async with JudgeService(Settings()) as service, serve_http(service, host, port, 1) as base:
        assert base.startswith("http://[::1]:")
        async with aiohttp.ClientSession() as session, session.get(f"{base}/v1/panel") as reply:
            assert reply.status == 200


# Oddities


async def test_half_a_character_in_a_reason_ends_no_stream(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = service.service.client.judge

    async def failing(*asked: Any, **more: Any) -> Any:
        judged = await judge(*asked, **more)
        failed = {name: Failure(error="cut \ud83d") for name in judged.outcomes}
        return replace(judged, outcomes=failed)

    monkeypatch.setattr(service.service.client, "judge", failing)
    response = await service.stub.Score(make_request())
    assert response.outcomes[0].reason == "cut \ufffd"


async def test_services_are_looked_for_again_whatever_went_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    async def rebind() -> None:
        asked.append(len(asked))
        raise OSError("too many open files")

    async with JudgeService(Settings(), discovery_seconds=0.01) as service:
        monkeypatch.setattr(service.client.panel, "rebind", rebind)
        await until(lambda: len(asked) > 2)
    told = "services could not be discovered: OSError: too many open files"
    assert told in capsys.readouterr().err


async def test_pictures_are_made_smaller_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, make = set(), prompt._prepare

    def note(image: EditImage, max_pixels: int) -> Picture:
        threads.add(threading.get_ident())
        return make(image, max_pixels)

    monkeypatch.setattr(prompt, "_prepare", note)
    async with serve_with_judge() as (_, service):
        answer = await service.stub.Score(make_request(ASKED))
    assert answer.outcomes[0].status == pb.STATUS_SCORED
    assert threads
    assert threading.get_ident() not in threads


async def test_the_size_of_a_mask_is_checked_without_making_another(
    service: RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_resize(*_: Any) -> None:
        raise AssertionError("it was resized")

    monkeypatch.setattr(Mask, "resize", refuse_resize)
    stream = io.BytesIO()
    Image.new("L", (64, 64), 255).save(stream, "PNG")
    body = make_body("core.psnr.source.whole", mask=stream.getvalue())
    assert (await service.post(body))[0] == 200
