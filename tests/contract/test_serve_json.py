"""The Judge service as JSON over HTTP."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import jsonschema
import pytest
from PIL import Image

from editjudge.base.config import Settings
from editjudge.base.images import Mask
from editjudge.engine.score_report import ScoreReport
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.gateway.http import make_openapi, serve_http
from editjudge_services.gateway.options import ServiceOptions, split_address
from editjudge_services.gateway.server import serve_grpc
from editjudge_services.gateway.service import JudgeService
from editjudge_services.gateway.usage import read_usage

from ..fakes.openai import ScriptedOpenAi
from ..patience import until
from .test_serve import png


def sent(data: bytes) -> dict[str, str]:
    return {"data": base64.b64encode(data).decode()}


def asking(**fields: Any) -> dict[str, Any]:
    edit = {
        "instruction": "make it red",
        "sources": [sent(png(0))],
        "edited": sent(png(1)),
        **fields,
    }
    return {"edit": edit, "dimensions": ["core.psnr.*"]}


JSON = {"content-type": "application/json"}


class Json:
    """A client of JSON over HTTP."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self._base = base

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        kind = {"data": body, "headers": JSON} if isinstance(body, bytes) else {"json": body}
        async with self._session.post(self._base + path, **kind) as reply:
            return reply.status, await reply.json()

    async def get(self, path: str) -> tuple[int, Any]:
        async with self._session.get(self._base + path) as reply:
            return reply.status, await reply.json()


@pytest.fixture
async def served() -> AsyncIterator[Json]:
    async with JudgeService(Settings(), ServiceOptions(edits=40)) as service:
        async with serve_http(service, "127.0.0.1", 0, 5) as base:
            async with aiohttp.ClientSession() as session:
                yield Json(session, base)


async def test_a_score_is_what_the_command_prints_as_json(served: Json) -> None:
    status, body = await served.post("/v1/score", asking())
    assert status == 200
    score = ScoreReport.model_validate(body)
    assert score.verdicts[0].dimension.startswith("core.psnr.")
    assert score.verdicts[0].value is not None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", "body"),
        (b"[" * 100_000, "body"),
        ({}, "edit"),
        (asking() | {"dimension": ["core.*"]}, "dimension"),
        (asking(instructions="x"), "edit.instructions"),
        (asking(edited={"data": "not base64!"}), "edit.edited.data"),
        (asking(sources=[sent(b"rubbish")]), "edit.sources[0]"),
        (asking(sources=[]), "edit.sources"),
        (asking(mask=sent(png(size=9))), "edit.mask"),
        (asking() | {"dimensions": ["core.pnsr.*"]}, "dimensions"),
    ],
    ids=str,
)
async def test_what_cannot_be_used_is_refused_with_its_field(
    served: Json, body: Any, field: str
) -> None:
    status, reply = await served.post("/v1/score", body)
    assert (status, reply["error"]["code"]) == (400, "INVALID_ARGUMENT")
    assert reply["error"]["field"] == field


async def test_a_batch_refuses_one_and_judges_the_others(served: Json) -> None:
    requests = [asking(id=str(i)) for i in range(5)]
    requests[2]["edit"]["edited"] = sent(b"no")
    status, body = await served.post("/v1/score:batch", {"requests": requests})
    assert status == 200
    refused = [i for i, each in enumerate(body["results"]) if each["error"]]
    assert refused == [2]
    assert [r["score"]["sample"]["id"] for r in body["results"] if r["score"]] == list("0134")
    wrong = (asking(), asking() | {"bogus": 1}, asking(instruction=7), 7)
    status, body = await served.post("/v1/score:batch", {"requests": wrong})
    fields = [each["error"] and each["error"]["field"] for each in body["results"]]
    assert (status, fields) == (200, [None, "bogus", "edit.instruction", "body"])
    status, body = await served.post("/v1/score:batch", {"requests": []})
    assert (status, body["error"]["field"]) == (400, "requests")


async def test_dimensions_panel_and_health(served: Json) -> None:
    status, listed = await served.get("/v1/dimensions?pattern=core.psnr.*")
    assert status == 200
    assert all(d["served"] and d["id"].startswith("core.psnr.") for d in listed)
    assert (await served.get("/v1/dimensions?pattern=x"))[0] == 400
    status, panel = await served.get("/v1/panel")
    assert (status, panel["services"]) == (200, [])


async def test_the_description_fits_what_is_answered(served: Json) -> None:
    status, described = await served.get("/v1/openapi.json")
    assert status == 200
    assert described == make_openapi()
    schemas = described["components"]["schemas"]
    assert schemas["ScoreRequest"]["additionalProperties"] is False
    checks = {"$defs": schemas, "$ref": "#/$defs/ScoreReport"}
    text = str(checks).replace("#/components/schemas/", "#/$defs/")
    _, body = await served.post("/v1/score", asking())
    jsonschema.validate(body, eval(text))  # noqa: S307 - our own schema, with other references


async def test_a_batch_waits_for_places_where_they_are_few() -> None:
    async with JudgeService(Settings(), ServiceOptions(edits=8, edits_of_one=4)) as service:
        async with serve_http(service, "127.0.0.1", 0, 5) as base:
            async with aiohttp.ClientSession() as session:
                requests = [asking(id=str(i)) for i in range(64)]
                status, body = await Json(session, base).post(
                    "/v1/score:batch", {"requests": requests}
                )
    assert status == 200
    assert [each["error"] for each in body["results"]] == [None] * 64


async def test_a_defect_in_one_edit_of_a_batch_costs_that_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with JudgeService(Settings()) as service:
        judge = service.client.judge

        async def trips(edit: Any, *asked: Any, **more: Any) -> Any:
            if edit.item.id == "1":
                raise LookupError("half \ud83d")
            return await judge(edit, *asked, **more)

        monkeypatch.setattr(service.client, "judge", trips)
        async with serve_http(service, "127.0.0.1", 0, 5) as base:
            async with aiohttp.ClientSession() as session:
                client = Json(session, base)
                requests = [asking(id=str(i)) for i in range(3)]
                status, body = await client.post("/v1/score:batch", {"requests": requests})
                assert status == 200
                codes = [each["error"] and each["error"]["code"] for each in body["results"]]
                assert codes == [None, "INTERNAL", None]
                status, body = await client.post("/v1/score", asking(id="1"))
                assert (status, body["error"]["code"]) == (500, "INTERNAL")


async def test_who_goes_away_keeps_no_place() -> None:
    scripted = ScriptedOpenAi(60.0)
    async with scripted.serving() as url:
        settings = Settings.model_validate({"judges": {"judge": {"url": url}}})
        async with JudgeService(settings) as service:
            async with serve_http(service, "127.0.0.1", 0, 0.1) as base:
                async with aiohttp.ClientSession() as session:
                    slow = asking() | {"dimensions": ["core.instruction_following"]}
                    call = asyncio.ensure_future(session.post(f"{base}/v1/score", json=slow))
                    await until(lambda: scripted.requests)
                    assert service.in_flight
                    call.cancel()
                await until(lambda: not service.in_flight)


async def test_a_place_comes_before_the_body() -> None:
    async with JudgeService(Settings(), ServiceOptions(edits=2, edits_of_one=1)) as service:
        async with serve_http(service, "127.0.0.1", 0, 0.1) as base:
            async with aiohttp.ClientSession() as session:

                async def never() -> AsyncIterator[bytes]:
                    yield b"{"
                    await asyncio.sleep(60)

                slow = asyncio.ensure_future(
                    session.post(f"{base}/v1/score", data=never(), headers=JSON)
                )
                await until(lambda: service.in_flight)
                status, body = await Json(session, base).post("/v1/score", b"not even JSON")
                assert (status, body["error"]["code"]) == (429, "RESOURCE_EXHAUSTED")
                slow.cancel()


async def test_a_body_that_is_not_encoded_as_it_says_is_refused(served: Json) -> None:
    async with aiohttp.ClientSession() as session:
        headers = JSON | {"content-encoding": "gzip"}
        async with session.post(f"{served._base}/v1/score", data=b"{}", headers=headers) as reply:
            assert reply.status == 400


async def test_the_size_of_a_mask_is_checked_without_making_another(
    served: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resized(*_: Any) -> None:
        raise AssertionError("it was resized")

    monkeypatch.setattr(Mask, "resize", resized)
    body = asking(mask=sent(png_mask())) | {"dimensions": ["core.psnr.source.whole"]}
    assert (await served.post("/v1/score", body))[0] == 200


def png_mask() -> bytes:
    stream = io.BytesIO()
    Image.new("L", (64, 64), 255).save(stream, "PNG")
    return stream.getvalue()


async def test_an_item_of_a_benchmark_is_judged_as_over_grpc() -> None:
    """The same fields in the same words; a judge that is not there leaves its rounds unjudged."""
    scripted = ScriptedOpenAi()
    question = {"question": "Is it red?", "answer": "yes"}
    async with scripted.serving() as url:
        settings = Settings.model_validate({"judges": {"judge": {"url": url}}})
        async with JudgeService(settings) as service, contextlib.AsyncExitStack() as stack:
            base = await stack.enter_async_context(serve_http(service, "127.0.0.1", 0, 5))
            at = await stack.enter_async_context(serve_grpc(service, "127.0.0.1:0", drain=5))
            session = await stack.enter_async_context(aiohttp.ClientSession())
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(at))
            body = asking(
                id="one",
                hint="HINT",
                task="local",
                questions=[question],
                extra={"level": 3},
                flaws=[{"field": "mask", "kind": "degenerate", "reason": "no mask"}],
            )
            body["dimensions"] = ["core.*"]
            body["protocol"] = {"judges": ["judge", "other"], "rounds": 2}
            status, answer = await Json(session, base).post("/v1/score", body)
            assert status == 200, answer
            edit = pb.Edit(
                id="one",
                instruction="make it red",
                sources=[pb.Picture(data=png(0))],
                edited=pb.Picture(data=png(1)),
                hint="HINT",
                task="local",
                questions_json=json.dumps([question]),
                extra_json='{"level": 3}',
                flaws=[
                    pb.Flaw(
                        field="mask", status=pb.STATUS_UNSCORED, kind="degenerate", reason="no mask"
                    )
                ],
            )
            protocol = pb.Protocol(judges=["judge", "other"], rounds=2)
            request = pb.ScoreRequest(edit=edit, dimensions=["core.*"], protocol=protocol)
            rpc = await judge_pb2_grpc.JudgeServiceStub(channel).Score(request)
    web = [(v["dimension"], v["status"], v["value"], v["signature"]) for v in answer["verdicts"]]
    assert web == [
        (
            o.dimension,
            pb.Status.Name(o.status).removeprefix("STATUS_").lower(),
            o.value if o.HasField("value") else None,
            o.signature,
        )
        for o in rpc.outcomes
    ]
    by_name = {name: status for name, status, *_ in web}
    assert by_name["core.instruction_following@judge.2"] != "not_served"
    assert by_name["core.instruction_following@other.1"] == "not_served"
    assert by_name["core.psnr.source.outside"] == "unscored"


NO_RULES = [
    ({"onn": ["x"]}, "protocol.onn"),
    ({"benchmark": "kriss"}, "protocol.benchmark"),
    ({"rounds": "many"}, "protocol.rounds"),
]


@pytest.mark.parametrize(("protocol", "field"), NO_RULES)
async def test_rules_that_are_not_there_are_refused_by_their_field(
    served: Json, protocol: dict[str, Any], field: str
) -> None:
    status, body = await served.post("/v1/score", asking() | {"protocol": protocol})
    assert (status, body["error"]["field"]) == (400, field)


async def test_both_protocols_end_together() -> None:
    """While either finishes what is in flight, neither takes anything new."""
    async with ScriptedOpenAi(60.0, 60.0, None).serving() as url, contextlib.AsyncExitStack() as on:
        settings = Settings.model_validate({"judges": {"judge": {"url": url}}})
        service = await on.enter_async_context(JudgeService(settings))
        session = await on.enter_async_context(aiohttp.ClientSession())
        async with serve_http(service, "127.0.0.1", 0, 60) as base:
            client = Json(session, base)
            body = asking() | {"dimensions": ["core.instruction_following"]}
            async with serve_grpc(service, "127.0.0.1:0", drain=60) as at:
                channel = await on.enter_async_context(grpc.aio.insecure_channel(at))
                stub = judge_pb2_grpc.JudgeServiceStub(channel)
                edit = pb.Edit(
                    instruction="make it blue",
                    sources=[pb.Picture(data=png(0))],
                    edited=pb.Picture(data=png(1)),
                )
                request = pb.ScoreRequest(edit=edit, dimensions=["core.instruction_following"])
                far = stub.Score(request)
                near = asyncio.create_task(client.post("/v1/score", body))
                await until(lambda: sum(service.in_flight.values()) == 2)

                async def refused() -> bool:
                    await service.shutdown.wait()
                    await asyncio.sleep(0)
                    try:
                        await client.post("/v1/score", asking())
                    except aiohttp.ClientConnectionError:
                        return True
                    finally:
                        far.cancel()
                        near.cancel()
                    return False

                asked = asyncio.create_task(refused())
        assert await asked


async def test_what_is_in_flight_is_finished_and_what_takes_longer_is_cut() -> None:
    for seconds, finished in ((1.0, True), (60.0, False)):
        scripted = ScriptedOpenAi(seconds, None)
        async with scripted.serving() as url, aiohttp.ClientSession() as session:
            settings = Settings.model_validate({"judges": {"judge": {"url": url}}})
            async with JudgeService(settings) as service:
                async with serve_http(service, "127.0.0.1", 0, 60 if finished else 0.1) as base:
                    body = asking() | {"dimensions": ["core.instruction_following"]}
                    near = asyncio.create_task(Json(session, base).post("/v1/score", body))
                    await until(lambda: scripted.requests)  # noqa: B023
                if finished:
                    assert (await near)[0] == 200
                else:
                    with pytest.raises(aiohttp.ClientError):
                        await near
                assert not service.in_flight


async def test_an_address_of_ipv6_is_served_and_shown() -> None:
    host, port = split_address("[::1]:0")
    assert (host, port) == ("::1", 0)
    async with JudgeService(Settings()) as service, serve_http(service, host, port, 1) as base:
        assert base.startswith("http://[::1]:")
        async with aiohttp.ClientSession() as session:
            assert (await Json(session, base).get("/v1/panel"))[0] == 200


async def test_a_batch_that_is_refused_as_a_whole_is_accounted_for(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    async with JudgeService(
        Settings(), ServiceOptions(held_bytes=2**20, cache=tmp_path, audit=log)
    ) as service:
        async with serve_http(service, "127.0.0.1", 0, 1) as web, aiohttp.ClientSession() as http:

            async def post(data: bytes, team: str = "a", kind: str = "application/json") -> int:
                headers = {"x-team": team, "content-type": kind}
                async with http.post(f"{web}/v1/score:batch", data=data, headers=headers) as reply:
                    return reply.status

            good = json.dumps({"requests": [asking(), asking()]}).encode()
            assert await post(b"{") == 400
            assert await post(good, kind="text/plain") == 415
            assert await post(b" " * 2**20) == 400  # more than one caller can ever have
            async with service.requests.acquire("a", 2**19, may_wait=False):
                assert await post(good) == 429
                assert await post(good, team="a b") == 400
            assert await post(good) == 200
    ((_, team), used), *others = read_usage(tmp_path).items()
    assert (team, others) == ("a", [])
    assert (used.edits, used.refused) == (2, 4)
    statuses = [json.loads(line)["status"] for line in log.read_text().splitlines()]
    refused = ["INVALID_ARGUMENT"] * 3 + ["RESOURCE_EXHAUSTED"]
    assert statuses == [*refused, "OK", "OK"]
