"""What no caller should send: each has one code and one clear line, and costs itself alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from editjudge.base.config import Settings
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.gateway import http, server
from editjudge_services.gateway.http import serve_http
from editjudge_services.gateway.server import SERVICE, serve_grpc
from editjudge_services.gateway.service import JudgeService

from .test_serve import asking, png
from .test_serve_json import asking as asking_json
from .test_serve_json import sent

Code = grpc.StatusCode
LARGEST = 200_000
GARBAGE = b"\xff\xfe not a message"


@pytest.fixture
async def service() -> AsyncIterator[JudgeService]:
    async with JudgeService(Settings()) as service:
        yield service


@pytest.fixture
async def channel(service: JudgeService, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    options = dict(server._OPTIONS) | {"grpc.max_receive_message_length": LARGEST}
    monkeypatch.setattr(server, "_OPTIONS", tuple(options.items()))
    async with serve_grpc(service, "127.0.0.1:0", drain=5) as address:
        async with grpc.aio.insecure_channel(address) as channel:
            yield channel


def method(name: str) -> str:
    return f"/{SERVICE}/{name}"


HEALTH, REFLECTION = "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"
LARGE = asking(instruction="x" * LARGEST).SerializeToString()
RPC: Mapping[str, tuple[str, bytes, Code, str]] = {
    "garbage": (method("Score"), GARBAGE, Code.INVALID_ARGUMENT, "no message of this method"),
    "a cut message": (
        method("Score"),
        asking().SerializeToString()[:-5],
        Code.INVALID_ARGUMENT,
        "no message of this method",
    ),
    "JSON": (method("GetPanel"), b"{}", Code.INVALID_ARGUMENT, "2 bytes are no message"),
    "garbage to the health check": (
        f"/{HEALTH}/Check",
        GARBAGE,
        Code.INVALID_ARGUMENT,
        "no message of this method",
    ),
    "nothing": (method("Score"), b"", Code.INVALID_ARGUMENT, "edit.sources: there is none"),
    "another message": (
        method("Score"),
        health_pb2.HealthCheckRequest(service="x").SerializeToString(),
        Code.INVALID_ARGUMENT,
        "edit.sources: there is none",
    ),
    "an unknown method": (method("Judge"), b"", Code.UNIMPLEMENTED, "Method not found"),
    "an unknown service": (
        "/editjudge.v2.JudgeService/Score",
        b"",
        Code.UNIMPLEMENTED,
        "not found",
    ),
    "another's method": (
        "/inference.GRPCInferenceService/ServerLive",
        b"",
        Code.UNIMPLEMENTED,
        "not found",
    ),
    "too large a message": (method("Score"), LARGE, Code.RESOURCE_EXHAUSTED, "larger than max"),
    "an unknown service's health": (
        f"/{HEALTH}/Check",
        health_pb2.HealthCheckRequest(service="x").SerializeToString(),
        Code.NOT_FOUND,
        "",
    ),
}


@pytest.mark.parametrize("case", RPC)
async def test_a_bad_call_is_refused_by_its_code_and_the_next_is_answered(
    channel: Any, case: str
) -> None:
    path, data, code, words = RPC[case]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary(path)(data)
    assert caught.value.code() is code
    told = caught.value.details() or ""
    assert words in told
    assert "\n" not in told
    assert (await judge_pb2_grpc.JudgeServiceStub(channel).Score(asking())).outcomes


async def test_garbage_names_the_request_as_its_field(channel: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary(method("Score"))(GARBAGE)
    (detail,) = rpc_status.from_call(caught.value).details
    bad = error_details_pb2.BadRequest()
    assert detail.Unpack(bad)
    assert bad.field_violations[0].field == "request"


async def test_garbage_in_a_stream_ends_that_stream(channel: Any) -> None:
    for path in (method("ScoreStream"), f"/{REFLECTION}/ServerReflectionInfo"):
        call = channel.stream_stream(path)()
        await call.write(GARBAGE)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is Code.INVALID_ARGUMENT


async def test_health_is_watched_and_methods_are_reflected_past_the_entrance(channel: Any) -> None:
    watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
    assert (await watched.read()).status == health_pb2.HealthCheckResponse.SERVING
    watched.cancel()
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    asked = reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE)
    (reply,) = [each async for each in stub.ServerReflectionInfo(iter([asked]))]
    assert reply.file_descriptor_response.file_descriptor_proto
    unknown = reflection_pb2.ServerReflectionRequest(file_containing_symbol="x.Y")
    (reply,) = [each async for each in stub.ServerReflectionInfo(iter([unknown]))]
    assert reply.error_response.error_code == Code.NOT_FOUND.value[0]


async def test_fields_that_are_newer_than_the_service_are_passed_over(channel: Any) -> None:
    newer = asking().SerializeToString() + b"\xfa\x7f\x03new"  # field 2047, of bytes
    answer = await channel.unary_unary(method("Score"))(newer)
    assert pb.ScoreResponse.FromString(answer).outcomes


GOOD = asking_json()
HEADERS = {"content-type": "application/json"}
DEEP = b'{"edit":' * 5000 + b"1" + b"}" * 5000
WEB: Mapping[str, tuple[str, str, Mapping[str, str], bytes, int, str, str]] = {
    "no JSON": ("POST", "/v1/score", HEADERS, b"{", 400, "INVALID_ARGUMENT", "body"),
    "no object": ("POST", "/v1/score", HEADERS, b"[]", 400, "INVALID_ARGUMENT", "body"),
    "nothing": ("POST", "/v1/score", HEADERS, b"", 400, "INVALID_ARGUMENT", "body"),
    "deep lists": ("POST", "/v1/score", HEADERS, b"[" * 90_000, 400, "INVALID_ARGUMENT", "body"),
    "deep objects": ("POST", "/v1/score", HEADERS, DEEP, 400, "INVALID_ARGUMENT", "body"),
    "no UTF-8": ("POST", "/v1/score", HEADERS, b'{"\xff":1}', 400, "INVALID_ARGUMENT", "body"),
    "half a character": (
        "POST",
        "/v1/score",
        HEADERS,
        json.dumps(GOOD | {"dimensions": ["\ud83d"]}).encode(),
        400,
        "INVALID_ARGUMENT",
        "body",
    ),
    "a misspelt field": (
        "POST",
        "/v1/score",
        HEADERS,
        json.dumps(asking_json(instructions="x")).encode(),
        400,
        "INVALID_ARGUMENT",
        "edit.instructions",
    ),
    "a misspelt field of a batch": (
        "POST",
        "/v1/score:batch",
        HEADERS,
        json.dumps({"requests": [GOOD], "wait": True}).encode(),
        400,
        "INVALID_ARGUMENT",
        "wait",
    ),
    "too many in a batch": (
        "POST",
        "/v1/score:batch",
        HEADERS,
        json.dumps({"requests": [{"edit": {}}] * 65}).encode(),
        400,
        "INVALID_ARGUMENT",
        "requests",
    ),
    "a number as text": (
        "POST",
        "/v1/score",
        HEADERS,
        json.dumps(asking_json(instruction=7)).encode(),
        400,
        "INVALID_ARGUMENT",
        "edit.instruction",
    ),
    "a picture that is none": (
        "POST",
        "/v1/score",
        HEADERS,
        json.dumps(asking_json(edited=sent(b"GIF89a"))).encode(),
        400,
        "INVALID_ARGUMENT",
        "edit.edited",
    ),
    "too large": (
        "POST",
        "/v1/score",
        HEADERS,
        json.dumps(asking_json(instruction="x" * LARGEST)).encode(),
        413,
        "INVALID_ARGUMENT",
        "",
    ),
    "a form": (
        "POST",
        "/v1/score",
        {"content-type": "application/x-www-form-urlencoded"},
        json.dumps(GOOD).encode(),
        415,
        "INVALID_ARGUMENT",
        "",
    ),
    "JSON that calls itself text": (
        "POST",
        "/v1/score:batch",
        {"content-type": "text/plain"},
        b"{}",
        415,
        "INVALID_ARGUMENT",
        "",
    ),
    "an encoding that it has not": (
        "POST",
        "/v1/score",
        HEADERS | {"content-encoding": "gzip"},
        b"{}",
        400,
        "INVALID_ARGUMENT",
        "body",
    ),
    "GET of what is posted": ("GET", "/v1/score", {}, b"", 405, "UNIMPLEMENTED", ""),
    "PUT": ("PUT", "/v1/score", HEADERS, b"{}", 405, "UNIMPLEMENTED", ""),
    "OPTIONS": ("OPTIONS", "/v1/score", {}, b"", 405, "UNIMPLEMENTED", ""),
    "DELETE": ("DELETE", "/v1/panel", {}, b"", 405, "UNIMPLEMENTED", ""),
    "another path": ("GET", "/v2/score", {}, b"", 404, "NOT_FOUND", ""),
    "a path with a file": ("GET", "/v1/../etc/passwd", {}, b"", 404, "NOT_FOUND", ""),
    "a misspelt field of a query": (
        "GET",
        "/v1/dimensions?pattern=core.*&patern=x",
        {},
        b"",
        400,
        "INVALID_ARGUMENT",
        "patern",
    ),
    "a query of what takes none": (
        "POST",
        "/v1/score?wait=1",
        HEADERS,
        json.dumps(GOOD).encode(),
        400,
        "INVALID_ARGUMENT",
        "wait",
    ),
    "a query of what is not there": ("GET", "/v2/score?x=1", {}, b"", 404, "NOT_FOUND", ""),
    "no dimension": (
        "GET",
        "/v1/dimensions?pattern=x",
        {},
        b"",
        400,
        "INVALID_ARGUMENT",
        "pattern",
    ),
}


@pytest.mark.parametrize("case", WEB)
async def test_a_bad_request_is_refused_by_its_status_and_the_next_is_answered(
    service: JudgeService, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(http, "MAX_BODY_BYTES", LARGEST)
    method, path, headers, body, status, code, field = WEB[case]
    async with serve_http(service, "127.0.0.1", 0, 5) as base:
        async with aiohttp.ClientSession() as session:
            asked = session.request(method, base + path, data=body or None, headers=headers)
            async with asked as reply:
                told = json.loads(await reply.text())["error"]
            assert (reply.status, told["code"], told["field"]) == (status, code, field)
            assert told["message"]
            assert "\n" not in told["message"] + told["fix"]
            assert ("allow" in reply.headers) == (status == 405)
            async with session.post(f"{base}/v1/score", json=GOOD) as reply:
                assert reply.status == 200


async def test_who_asks_for_heads_gets_them(service: JudgeService) -> None:
    async with serve_http(service, "127.0.0.1", 0, 5) as base:
        async with aiohttp.ClientSession() as session:
            for path in ("/health", "/v1/panel", "/v1/openapi.json"):
                async with session.head(base + path) as reply:
                    assert (reply.status, await reply.read()) == (200, b"")


async def test_a_picture_too_large_for_its_message_is_told_with_the_limit(channel: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await judge_pb2_grpc.JudgeServiceStub(channel).Score(
            asking(edited=pb.Picture(data=png(1, 400)))
        )
    assert caught.value.code() is Code.RESOURCE_EXHAUSTED
    assert str(LARGEST) in (caught.value.details() or "")
