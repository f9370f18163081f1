"""The Judge service in this process, and who asks it: over gRPC, and as JSON over HTTP."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from PIL import Image

from editjudge.base.config import Settings
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.gateway.http import serve_http
from editjudge_services.gateway.options import ServiceOptions
from editjudge_services.gateway.server import serve_grpc
from editjudge_services.gateway.service import JudgeService

from .fakes.openai import ScriptedOpenAi

ASKED = "core.instruction_following"
JSON = {"content-type": "application/json"}
PICTURES = ("edited", "mask", "target")


def png(seed: int = 0, size: int = 32) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (size, size, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def _edit(fields: Mapping[str, Any]) -> dict[str, Any]:
    usual = {"instruction": "make it red", "sources": [png(0)], "edited": png(1)}
    return {**usual, **fields}


def make_request(
    *dimensions: str, request_id: str = "", protocol: Mapping[str, Any] = {}, **fields: Any
) -> pb.ScoreRequest:
    """A request over gRPC. Pictures are bytes; questions and extra are what their JSON says."""
    edit = _edit({"id": "one", **fields})
    edit["sources"] = [pb.Picture(data=each, name="before.png") for each in edit["sources"]]
    for name in edit.keys() & PICTURES:
        edit[name] = None if edit[name] is None else pb.Picture(data=edit[name], name="after.png")
    for name in edit.keys() & {"questions", "extra"}:
        edit[f"{name}_json"] = json.dumps(edit.pop(name))
    edit["flaws"] = [_flaw(**flaw) for flaw in edit.get("flaws", ())]
    request = pb.ScoreRequest(request_id=request_id, edit=pb.Edit(**edit), dimensions=dimensions or ["core.psnr.*"])
    if protocol:
        request.protocol.CopyFrom(pb.Protocol(**protocol))
    return request


def _flaw(status: str = "unscored", **fields: str) -> pb.Flaw:
    return pb.Flaw(status=pb.Status.Value(f"STATUS_{status.upper()}"), **fields)


def make_body(*dimensions: str, protocol: Mapping[str, Any] = {}, **fields: Any) -> dict[str, Any]:
    """The same as JSON."""
    edit = _edit(fields)
    edit["sources"] = [_encode_picture(each) for each in edit["sources"]]
    edit |= {name: _encode_picture(edit[name]) for name in edit.keys() & PICTURES}
    request = {"edit": edit, "dimensions": list(dimensions) or ["core.psnr.*"]}
    return request | ({"protocol": protocol} if protocol else {})


def _encode_picture(picture: Any) -> Any:
    encoded = isinstance(picture, bytes)
    return {"data": base64.b64encode(picture).decode()} if encoded else picture


def scripted_judge(*script: Any, **more: Any) -> ScriptedOpenAi:
    return ScriptedOpenAi(*script, probabilities={"good": 0.9, "poor": 0.1}, **more)


def judge_settings(url: str, **more: Any) -> Settings:
    """Settings with one judge."""
    return Settings.model_validate({"judges": {"judge": {"url": url}}, **more})


def priced_settings(url: str) -> Settings:
    """Settings with one judge that is asked once for each verdict, for 0.1 a call."""
    price = {"input": 1000, "output": 0}
    judge = {"url": url, "price": price, "logprobs": "never", "samples": 1}
    return Settings.model_validate({"judges": {"judge": judge}, "attempts": 1})


def teams_of(service: JudgeService) -> set[str]:
    """Those that have used anything."""
    return set(re.findall(r'editjudge_edits_total{team="(.*?)"}', service.metrics.text().decode()))


class Refusal(NamedTuple):
    """How a call over gRPC was refused.

    Attributes:
        field: That could not be used, of the details; "" for none.
        may_retry: Whether the details say when to ask again.
    """

    code: grpc.StatusCode
    words: str
    field: str
    may_retry: bool


async def refusal(call: Awaitable[Any]) -> Refusal:
    """Of a call that is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    bad, retry = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    status = rpc_status.from_call(caught.value)
    details = status.details if status else ()
    may_retry = any(each.Unpack(retry) for each in details)
    field = next((bad.field_violations[0].field for each in details if each.Unpack(bad)), "")
    return Refusal(caught.value.code(), caught.value.details() or "", field, may_retry)


async def outcome_of(call: Any) -> Any:
    """What a call gives, or the error that it ends with."""
    try:
        return await call
    except (asyncio.CancelledError, grpc.aio.AioRpcError) as error:
        return error


class RunningService:
    """A service that runs, and what its callers need."""

    def __init__(self, service: JudgeService, address: str, web: str, session: aiohttp.ClientSession) -> None:
        self.service = service
        self.address = address
        self.web = web
        self.session = session
        self.channel = grpc.aio.insecure_channel(address)
        self.stub = judge_pb2_grpc.JudgeServiceStub(self.channel)

    async def post(self, body: Any, path: str = "/v1/score", headers: Mapping[str, str] = JSON) -> tuple[int, Any]:
        data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        async with self.session.post(self.web + path, data=data, headers=headers) as reply:
            return reply.status, await reply.json()

    async def batch(self, *requests: Any) -> tuple[int, Any]:
        return await self.post({"requests": requests}, "/v1/score:batch")

    async def get(self, path: str, team: str = "") -> tuple[int, Any]:
        headers = {"x-team": team}
        async with self.session.get(self.web + path, headers=headers) as reply:
            is_json = reply.content_type == JSON["content-type"]
            return reply.status, await (reply.json() if is_json else reply.text())

    async def score(self, team: str, edited: int = 1, **fields: Any) -> tuple[Any, int]:
        """The outcome of what the judge is asked, and the tokens that the headers tell."""
        metadata = [("x-team", team)] if team else []
        call = self.stub.Score(make_request(ASKED, edited=png(edited), **fields), metadata=metadata)
        (outcome,) = (await call).outcomes
        return outcome, int(dict(await call.initial_metadata())["x-tokens-used"])

    async def stream(self, *requests: pb.ScoreRequest) -> list[Any]:
        """The answers of a stream to which these are sent."""
        sent = iter([pb.ScoreStreamRequest(request=each) for each in requests])
        return [answer async for answer in self.stub.ScoreStream(sent)]

    async def metrics(self) -> str:
        async with self.session.get(f"{self.web}/metrics") as reply:
            assert reply.status == 200
            return await reply.text()


@contextlib.asynccontextmanager
async def serve(
    settings: Settings | None = None,
    *,
    drain: float = 1.0,
    notice: float = 0.0,
    host: str = "127.0.0.1",
    ports: tuple[int, int] = (0, 0),
    discovery_seconds: float = 15.0,
    **options: Any,
) -> AsyncIterator[RunningService]:
    """A service over both protocols; its callers' connections outlive it.

    Args:
        ports: For gRPC and for JSON.
    """
    async with contextlib.AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        limits = ServiceOptions(**options)
        service = JudgeService(settings or Settings(), limits, discovery_seconds)
        await stack.enter_async_context(service)
        async with serve_http(service, host, ports[1], drain) as web:
            async with serve_grpc(service, f"{host}:{ports[0]}", notice, drain) as address:
                served = RunningService(service, address, web, session)
                stack.push_async_callback(served.channel.close, 5)  # answers on their way arrive
                yield served


@contextlib.asynccontextmanager
async def serve_priced(url: str, folder: Path | None = None, **options: Any) -> AsyncIterator[RunningService]:
    """One with a priced judge, whose probe no team pays for."""
    async with serve(priced_settings(url), cache=folder, **options) as served:
        await served.service.client.panel.probe_judges()
        yield served


@contextlib.asynccontextmanager
async def serve_with_judge(
    folder: Path | None = None, *script: Any, **options: Any
) -> AsyncIterator[tuple[ScriptedOpenAi, RunningService]]:
    """The judge, and the service that pays it."""
    scripted = scripted_judge(*script)
    async with scripted.serving() as url, serve_priced(url, folder, **options) as served:
        yield scripted, served


class EndedCall(Exception):
    """A call that the service ended."""


class Context:
    """Of a call of team `a` that reaches the service without a network.

    Args:
        seconds: That its caller waits; None for ever.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self.headers: dict[str, str] = {}

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("x-team", "a"),)

    def time_remaining(self) -> float | None:
        return self.seconds

    async def send_initial_metadata(self, metadata: tuple[tuple[str, str], ...]) -> None:
        self.headers |= dict(metadata)

    def add_done_callback(self, _: Any) -> None:
        pass

    def set_trailing_metadata(self, _: Any) -> None:
        pass

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise EndedCall(code.name, details)
