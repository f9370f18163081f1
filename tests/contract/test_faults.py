"""What every transport makes of every fault of a server and of the network.

One table: which error, and whether it is tried again. No result is wrong, and none is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from grpc import StatusCode

from editjudge.answers.scores import ScoreField, Scores
from editjudge.base.config import Endpoint, GatewayEndpoint, JudgeEndpoint, Settings
from editjudge.base.errors import (
    DeadlineExceeded,
    NoAccess,
    NoConnection,
    NoModel,
    Overload,
    RateLimit,
    Rejection,
    ServiceError,
    Unreachable,
)
from editjudge.base.identity import ServiceName
from editjudge.gateway.connection import JudgeService
from editjudge.panel import Panel, PoolPolicy
from editjudge.panel.context import DEFAULT_TERMS
from editjudge.panel.openai import OpenAiTransport
from editjudge.panel.prompt import Prompt, Text
from editjudge.panel.replica import ServerLoad
from editjudge.panel.retry import RetryPolicy
from editjudge.panel.transport import Sampling
from editjudge.panel.triton import TritonEndpoint
from editjudge.panel.vllm import VllmTransport
from editjudge.v1 import judge_pb2 as pb

from ..fakes.fault_proxy import FaultProxy, Mode
from ..fakes.grpc_server import Failure
from ..fakes.judge import ScriptedJudge
from ..fakes.openai import HALF, RESET, Fault, ScriptedOpenAi, problem, reply
from ..fakes.triton import ScriptedTriton, score
from ..fakes.vllm_grpc import ScriptedVllmGrpc
from ..patience import patience, until

ASKED = Prompt("", (Text("Good?"),))
PIQE = ("quality.piqe", "quality_piqe")


async def _ask_judge(client: Any) -> str:
    return str((await client.complete(ASKED, Sampling())).content["text"])


async def _ask_triton(client: TritonEndpoint) -> float:
    said = await client.infer(ServiceName.parse(PIQE[0]), {"IMAGE": b"image"}, {}, DEFAULT_TERMS)
    return float(said["SCORE"][0])


async def _ask_service(client: JudgeService) -> str:
    return str((await client.score(lambda: pb.ScoreRequest(request_id="7"), [])).request_id)


class Transport(NamedTuple):
    """A protocol: its scripted server, our client, how that is asked and what is a good answer.

    Attributes:
        known_as: The service and the model in errors.
    """

    server: Callable[..., Any]
    client: Callable[..., Any]
    endpoint: Callable[..., Any]
    ask: Callable[[Any], Awaitable[Any]]
    good: Any
    known_as: tuple[str, str]


@dataclass
class Side:
    """A server that speaks a protocol, and our client of it."""

    server: Any
    client: Any
    kind: Transport

    async def ask(self) -> bool:
        """Make one call; whether the answer is the good one."""
        return bool(await self.kind.ask(self.client) == self.kind.good)


JUDGE = ("generalist.judge", "judge")
TRANSPORTS: Mapping[str, Transport] = {
    "http": Transport(ScriptedOpenAi, OpenAiTransport, JudgeEndpoint, _ask_judge, "Yes", JUDGE),
    "vllm": Transport(ScriptedVllmGrpc, VllmTransport, JudgeEndpoint, _ask_judge, "Yes", JUDGE),
    "triton": Transport(ScriptedTriton, TritonEndpoint, Endpoint, _ask_triton, 0.5, PIQE),
    "gateway": Transport(ScriptedJudge, JudgeService, GatewayEndpoint, _ask_service, "7", ("the Judge service", "")),
}
ATTEMPTS = 3
every_transport = pytest.mark.parametrize("transport", TRANSPORTS)


@asynccontextmanager
async def calling(transport: str, *script: Any, deadline: float = 20.0) -> AsyncIterator[Side]:
    kind = TRANSPORTS[transport]
    policy = RetryPolicy(attempts=ATTEMPTS, deadline=deadline, first_wait=0.001)
    server = kind.server(*script)
    async with server.serving() as url, kind.client(kind.endpoint(url=url), policy) as client:
        yield Side(server, client, kind)


# The table


class Row(NamedTuple):
    """What servers say by a fault, by transport; and what we make of it.

    Attributes:
        kind: The error.
        words: In the error, where they are others than the server's.
        attempts: How often the call is made.
    """

    kind: type[ServiceError]
    said: Mapping[str, Any]
    words: str = ""
    attempts: int = 1


def again(kind: type[ServiceError], said: Mapping[str, Any], words: str = "") -> Row:
    return Row(kind, said, words, ATTEMPTS)


def grpc(code: str, detail: str, *transports: str, **more: Any) -> Mapping[str, Any]:
    """A status, which says the same over every protocol that is gRPC unless some are named."""
    of = transports or ("vllm", "triton", "gateway")
    return dict.fromkeys(of, Failure(StatusCode[code], detail)) | more


def http(status: int, message: str, **more: Any) -> Mapping[str, Any]:
    """A failure in OpenAI's form."""
    return {"http": problem(status, message, **more)}


def raw(status: int, body: Any, **headers: str) -> Mapping[str, Any]:
    return {"http": Fault(status, body, {k.replace("_", "-"): v for k, v in headers.items()})}


CUT, NOT_HEALTHY = "Received RST_STREAM with error code 2", "Stub process 'x' is not healthy."
GAVE_UP = {"error": {"message": "upstream gave up", "code": 502}}
FORBIDDEN, UNKNOWN = problem(403, "not in your country"), problem(404, "unknown model")
FASTAPI = {"detail": [{"loc": ["body", "n"]}]}
FAULTS: Mapping[str, Row] = {
    # What may pass.
    "lost in mid-call": again(
        Unreachable, grpc("UNAVAILABLE", "Socket closed", "vllm", "triton", http=RESET), "the connection was lost"
    ),
    # An edit may be what ends the service.
    "an edit whose connection is cut twice": Row(
        ServiceError, grpc("INTERNAL", CUT, "gateway"), "cut twice, so the edit is not sent", 2
    ),
    "half a reply": again(Unreachable, {"http": HALF}),
    "a stream that is cut": again(Unreachable, grpc("INTERNAL", CUT, "vllm", "triton")),
    "no sign of life": again(Unreachable, grpc("INTERNAL", NOT_HEALTHY, "triton")),
    "a server that shuts down": again(Unreachable, grpc("CANCELLED", "shutting down")),
    "no room": again(Overload, grpc("RESOURCE_EXHAUSTED", "too many", http=Fault(503))),
    "a full queue": again(Overload, grpc("UNAVAILABLE", "Exceeds maximum queue size", "triton")),
    "images queue": again(Overload, grpc("UNAVAILABLE", "worker is saturated: 64", "vllm")),
    "an image that waits": again(Overload, grpc("UNAVAILABLE", "media_refs[0]: timeout", "vllm")),
    "too many requests": again(RateLimit, http(429, "slow down", code="rate_limit_exceeded")),
    "a conflict": again(Overload, http(409, "try again")),
    "a timeout there": again(Unreachable, http(408, "took too long")),
    "a status 500": again(Unreachable, http(500, "KeyError: 'x'")),
    "a proxy's page": again(Unreachable, raw(502, b"<html>Bad Gateway</html>")),
    "a failure with status 200": again(Unreachable, raw(200, GAVE_UP)),
    "too much nesting": again(Unreachable, raw(200, b"[" * 100_000)),
    "ask again, it says": again(Rejection, raw(400, {"error": "warm"}, x_should_retry="true")),
    # What will not.
    "bad input": Row(Rejection, grpc("INVALID_ARGUMENT", "IMAGE: 0 bytes")),
    "no such model": Row(NoModel, grpc("NOT_FOUND", "unknown model", http=UNKNOWN)),
    "another protocol": Row(NoModel, grpc("UNIMPLEMENTED", "Method not found!")),
    "a defect there": Row(ServiceError, grpc("INTERNAL", "KeyError: 'x'")),
    "not let in": Row(NoAccess, grpc("UNAUTHENTICATED", "no key", http=problem(401, "no key"))),
    "no rights": Row(NoAccess, grpc("PERMISSION_DENIED", "no rights", http=FORBIDDEN)),
    "no money": Row(NoAccess, http(402, "Insufficient balance")),
    "no quota": Row(NoAccess, http(429, "exceeded your quota", code="insufficient_quota")),
    "too large": Row(Rejection, raw(413, b"Request Entity Too Large"), "Entity Too Large"),
    "too long a prompt": Row(Rejection, http(400, "maximum context length is 4096")),
    "a list, as Gemini's": Row(Rejection, raw(400, [{"error": {"message": "bad"}}]), "400: bad"),
    "FastAPI's form": Row(Rejection, raw(422, FASTAPI), "body"),
    "an old vLLM's form": Row(Rejection, raw(400, {"object": "error", "message": "no"}), "400: no"),
    "text for an error": Row(Rejection, raw(400, {"error": "boom"}), "boom"),
    "do not ask, it says": Row(Unreachable, raw(500, {"error": "no"}, x_should_retry="false")),
    "moved": Row(
        NoModel,
        raw(307, b"", location="https://elsewhere.test/v1?key=x"),
        "redirects to https://elsewhere.test/v1, which is not followed",
    ),
    "a web page": Row(NoModel, raw(200, b"<p>", content_type="text/html"), "web page"),
}


def words_of(answer: Any) -> str:
    """What a server says by a fault."""
    if isinstance(answer, Failure):
        return answer.detail
    error = answer.body.get("error") if isinstance(getattr(answer, "body", 0), dict) else ""
    return str(error["message"] if isinstance(error, dict) else error)


CELLS = [(transport, fault) for fault, row in FAULTS.items() for transport in row.said]


@pytest.mark.parametrize(("transport", "fault"), CELLS)
async def test_each_transport_does_with_each_fault_what_the_table_says(transport: str, fault: str) -> None:
    row = FAULTS[fault]
    said, attempts = row.said[transport], row.attempts
    # A limit is waited for until the deadline, however often that is.
    has_limit = row.kind is RateLimit
    async with calling(transport, said, deadline=patience(0.5) if has_limit else 20.0) as side:
        with pytest.raises(row.kind) as caught:
            await side.ask()
        error = caught.value
        if has_limit:
            attempts = error.attempts
            assert attempts > 3
        assert (row.words or words_of(said)) in str(error)
        assert type(error) is row.kind
        assert (error.service, error.model) == side.kind.known_as
        assert (error.endpoint, error.attempts) == (side.client.url, attempts)
        assert (f"after {attempts} attempts" in str(error)) == (attempts > 1)
        assert len(side.server.requests) == attempts
        if row.attempts < ATTEMPTS:
            assert not error.retryable
            return
        side.server.requests.clear()
        side.server.script = [said, said, None]
        assert await side.ask()
        first, _, third = side.server.requests
        assert first == third or transport == "vllm", "the same is asked, there by another number"


def test_every_transport_has_its_column() -> None:
    columns = {name: {fault for of, fault in CELLS if of == name} for name in TRANSPORTS}
    assert set.intersection(*columns.values()) >= {"no room", "not let in"}


@every_transport
async def test_one_deadline_for_all_attempts(transport: str) -> None:
    first = Fault(500) if transport == "http" else Failure(StatusCode.UNAVAILABLE, "Socket closed")
    async with calling(transport, None, first, 30.0, deadline=patience(1.0)) as side:
        assert await side.ask()
        with pytest.raises(DeadlineExceeded, match="no reply within|[Dd]eadline"):
            await side.ask()
        await until(lambda: side.server.cancelled == 1)
    assert len(side.server.requests) == 3


@every_transport
async def test_a_slow_first_byte_is_waited_for(transport: str) -> None:
    async with calling(transport, 0.3, None) as side:
        assert await side.ask()


@every_transport
async def test_cancelling_reaches_the_server(transport: str) -> None:
    async with calling(transport, 30.0) as side:
        task = asyncio.ensure_future(side.ask())
        await until(lambda: side.server.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: side.server.cancelled == 1)
    if transport == "vllm":  # the engine goes on unless it is told
        assert side.server.aborted == [side.server.requests[0].request_id]


@every_transport
async def test_closing_ends_calls_in_flight(transport: str) -> None:
    async with calling(transport, 30.0) as side:
        task = asyncio.ensure_future(side.ask())
        await until(lambda: side.server.requests)
        await side.client.close()
        with pytest.raises((asyncio.CancelledError, ServiceError)):
            await task
        if transport == "http":
            with pytest.raises(Unreachable, match="closed"):
                await side.ask()
    assert len(side.server.requests) == 1


@every_transport
async def test_a_server_that_is_not_there(transport: str) -> None:
    kind = TRANSPORTS[transport]
    url = "http://127.0.0.1:9/v1" if transport == "http" else "grpc://127.0.0.1:9"
    policy = RetryPolicy(attempts=2, first_wait=0.001)
    async with kind.client(kind.endpoint(url=url), policy) as client:
        with pytest.raises(NoConnection, match=r"127\.0\.0\.1:9.*after 2 attempts"):
            await kind.ask(client)


# A network that fails, between a panel and its server

KINDS = ("triton", "http", "vllm")
SAID = '{"reasoning": "x", "s": 4}'
CONTRACT = Scores(fields=(ScoreField("s", 1, 5),))
MODES: tuple[Mode, ...] = ("delay", "black hole", "half-open", "reset", "throttle", "refuse")
every_kind = pytest.mark.parametrize("kind", KINDS)


@dataclass
class ProxiedPanel:
    """A panel with one service behind a proxy; every call has an input of its own."""

    panel: Panel
    proxy: FaultProxy
    server: Any
    is_judge: bool

    @property
    def gauge(self) -> ServerLoad:
        (gauge,) = self.panel.measure_loads().values()
        return gauge

    async def ask(self, number: int) -> float:
        if not self.is_judge:
            said = await self.panel.call("quality.piqe", {"IMAGE": f"image {number}".encode()})
            return float(said["SCORE"][0])
        prompt = Prompt("", (Text(f"Question {number}?"),))
        answer = await self.panel.judge("generalist.judge").answer(prompt, CONTRACT)
        return answer.value.scores["s"] / 16

    async def ask_all(self, first: int, end: int) -> list[Any]:
        calls = map(self.ask, range(first, end))
        return await asyncio.gather(*calls, return_exceptions=True)


@asynccontextmanager
async def open_panel(
    kind: str, *script: Any, waits: float = 0.0, pause: float = 0.1, **settings: Any
) -> AsyncIterator[ProxiedPanel]:
    settings = {"retry_wait": 0.01, "deadline": patience(0.6), "attempts": 3, **settings}
    good = {"triton": score(0.25), "http": reply(SAID), "vllm": None}
    more = {"says": SAID} if kind == "vllm" else {}
    server = TRANSPORTS[kind].server(*(script or (good[kind],)), **more)
    async with AsyncExitStack() as stack:
        proxy = FaultProxy(await stack.enter_async_context(server.serving()))
        url = await stack.enter_async_context(proxy.serving())
        if kind == "triton":
            settings["endpoints"] = {"a": Endpoint(url=url, services=("quality.piqe",))}
        else:
            settings["judges"] = {"judge": JudgeEndpoint(url=url, model="judge")}
        policy = PoolPolicy(waits, first_pause=pause, longest_pause=pause)
        panel = await stack.enter_async_context(Panel(Settings(**settings), policy=policy))
        assert panel.problems == {}
        yield ProxiedPanel(panel, proxy, server, kind != "triton")


@pytest.mark.parametrize("mode", MODES)
@every_kind
async def test_calls_resume_after_a_fault_of_the_network(kind: str, mode: Mode) -> None:
    async with open_panel(kind, waits=20.0) as it:
        assert await it.ask(0) == 0.25
        first = asyncio.ensure_future(it.ask_all(1, 9))
        await asyncio.sleep(0.005)
        await it.proxy.switch(mode)
        during = asyncio.ensure_future(it.ask_all(9, 30))
        await asyncio.sleep(1.0)
        await it.proxy.switch("pass")
        assert set(await first + await during) == {0.25}
        assert await it.ask_all(30, 33) == [0.25] * 3
        assert not it.gauge.open


@pytest.mark.parametrize("mode", ["black hole", "half-open"])
@every_kind
async def test_deadlines_are_honoured(kind: str, mode: Mode) -> None:
    async with open_panel(kind, deadline=patience(0.7)) as it:
        await it.ask(0)
        await it.proxy.switch(mode)
        start = time.monotonic()
        results = await it.ask_all(1, 4)
        assert all(isinstance(one, DeadlineExceeded) for one in results)
        assert time.monotonic() - start > 0.6
        await it.proxy.switch("pass")
        assert await it.ask(9) == 0.25


@every_kind
async def test_the_breaker_opens_and_closes(kind: str) -> None:
    async with open_panel(kind, waits=0.0, pause=0.3, attempts=2) as it:
        await it.ask(0)
        await it.proxy.switch("refuse")
        for number in range(5):
            with pytest.raises((Unreachable, DeadlineExceeded)):
                await it.ask(number + 1)
        assert it.gauge.open
        accepted = it.proxy.accepted
        with pytest.raises(Unreachable, match="not back since"):
            await it.ask(7)
        assert it.proxy.accepted == accepted
        await it.proxy.switch("pass")
        result: Any = None
        while result is None or isinstance(result, ServiceError):
            await asyncio.sleep(0.35)  # gRPC may wait before it connects again
            (result,) = await it.ask_all(8, 9)
        assert not it.gauge.open
        assert await it.ask(9) == 0.25


@every_kind
async def test_patience_ends(kind: str) -> None:
    async with open_panel(kind, waits=0.8, pause=0.1, attempts=1) as it:
        await it.ask(0)
        await it.proxy.switch("refuse")
        start = time.monotonic()
        results = await it.ask_all(1, 20)
        assert all(isinstance(one, Unreachable | DeadlineExceeded) for one in results)
        assert any("not back since" in str(one) for one in results)
        assert time.monotonic() - start > 0.7


@every_kind
async def test_cancelling_through_a_network_reaches_the_server(kind: str) -> None:
    async with open_panel(kind, 30.0, deadline=20.0) as it:
        tasks = [asyncio.create_task(it.ask(number)) for number in range(3)]
        await until(lambda: len(it.server.requests) >= (3 if kind == "triton" else 1))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A request that was on its way when its task was cancelled may still arrive, and is
        # cancelled then.
        await until(lambda: it.server.cancelled >= max(1, len(it.server.requests)))
        await until(lambda: not it.gauge.in_flight)
