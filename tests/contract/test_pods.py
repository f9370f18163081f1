"""Servers behind one name come and go while calls flow: none is lost, and all get their share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from editjudge.app.run import run_async
from editjudge.base.config import Endpoint, GatewayEndpoint, JudgeEndpoint, Settings
from editjudge.base.identity import ServiceName
from editjudge.gateway.panel import Gateway
from editjudge.panel import PoolPolicy
from editjudge.panel.context import DEFAULT_TERMS
from editjudge.panel.prompt import Prompt, Text
from editjudge.panel.retry import RetryPolicy
from editjudge.panel.triton import TritonEndpoint
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc

from ..fakes.grpc_server import Failure
from ..fakes.openai import ScriptedOpenAi
from ..fakes.pods import REFUSAL, SHARE, UNLOADED, Ask, Pods, check_shares, come_and_go, keep_calling
from ..fakes.triton import ScriptedTriton
from ..fakes.vllm_grpc import ScriptedVllmGrpc
from ..judge_service import make_body, make_request, png, serve
from ..patience import until
from ..small_data import make_spec, save_picture, write_items
from .panels import YES_NO, ask, panel_of

AGE = 0.5
"""Seconds that connections last here."""
WAITS = PoolPolicy(60.0, first_pause=0.1, longest_pause=0.5)


class TritonPod(ScriptedTriton):
    grace = 5.0

    def __init__(self, seconds: float = 0.002) -> None:
        super().__init__(seconds)

    async def refuse(self) -> None:
        refusal = Failure(grpc.StatusCode.UNAVAILABLE, REFUSAL)
        self.script[:] = [*[refusal] * 9, Failure(grpc.StatusCode.NOT_FOUND, UNLOADED)]


class VllmGrpcPod(ScriptedVllmGrpc):
    grace = 5.0

    def __init__(self) -> None:
        super().__init__(logits={"Yes": 1.0, "No": 0.0})

    async def refuse(self) -> None:
        """It ends what it has, and closes connections."""


class VllmPod(ScriptedOpenAi):
    async def refuse(self) -> None:
        """It ends what it has, and closes connections."""


class ServicePod:
    """A Judge service; over JSON where that is said."""

    ports = (0, 0)

    def __init__(self, settings: Settings, *, json: bool = False) -> None:
        self.requests: list[Any] = []
        self._settings = settings
        self._json = json

    @asynccontextmanager
    async def serving(self, port: int, host: str) -> AsyncIterator[str]:
        ports = (0, port) if self._json else (port, 0)
        async with serve(self._settings, host=host, ports=ports, notice=0.3, drain=5, edits=64) as served:
            score = served.service.score

            async def keep_request(*given: Any, **named: Any) -> Any:
                self.requests.append(given)
                return await score(*given, **named)

            served.service.score = keep_request  # type: ignore[method-assign]
            yield served.web if self._json else f"grpc://{served.address}"

    async def refuse(self) -> None:
        """It ends what it has, and closes connections."""


@pytest.mark.parametrize("make", [TritonPod, VllmPod, VllmGrpcPod])
async def test_pods_of_a_name_that_come_get_their_share_and_those_that_go_cost_nothing(make: Any) -> None:
    pods = Pods(make)
    servers: dict[str, Any] = {} if make is TritonPod else {"judges": [pods]}
    of_triton = () if servers else (pods,)
    more = {"connection_age": AGE, "retry_wait": 0.05, "policy": WAITS, **servers}
    async with panel_of(*of_triton, services=("quality.piqe",), **more) as panel:

        async def choose(number: int) -> Any:
            prompt = Prompt("judge", (Text(f"Is it {number}?"),))
            return await panel.judge("generalist.judge").choose(prompt, YES_NO)

        await come_and_go(pods, choose if servers else lambda number: ask(panel, number), AGE)


CallService = Callable[[str], AbstractAsyncContextManager[Ask]]


@asynccontextmanager
async def by_client(url: str) -> AsyncIterator[Ask]:
    """Our own client of a Judge service."""
    settings = Settings(connection_age=AGE, retry_wait=0.05)
    async with Gateway(GatewayEndpoint(url=url), settings) as gateway:
        await gateway.learn(pb.GetPanelRequest())
        yield lambda number: gateway.score(lambda: make_request(request_id=str(number)))


@asynccontextmanager
async def by_grpc(url: str) -> AsyncIterator[Ask]:
    """A caller of another language: what makes it look the name up again is the service's doing."""
    options = [("grpc.lb_policy_name", "round_robin"), ("grpc.dns_min_time_between_resolutions_ms", 100)]
    async with grpc.aio.insecure_channel(url.removeprefix("grpc://"), options=options) as channel:
        stub = judge_pb2_grpc.JudgeServiceStub(channel)
        yield lambda number: stub.Score(make_request(request_id=str(number)))


@asynccontextmanager
async def by_json(url: str) -> AsyncIterator[Ask]:
    connector = aiohttp.TCPConnector(use_dns_cache=False)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def post(number: int) -> None:
            async with session.post(f"{url}/v1/score", json=make_body()) as reply:
                assert reply.status == 200, await reply.text()

        yield post


@pytest.mark.parametrize("call", [by_client, by_grpc, by_json])
async def test_replicas_of_the_judge_service_come_and_go(call: CallService) -> None:
    lasting = {by_client: 3600.0}.get(call, AGE)
    settings = Settings(connection_age=lasting)
    pods = Pods(lambda: ServicePod(settings, json=call is by_json))
    async with pods.serving() as url, call(url) as ask:
        await come_and_go(pods, ask, AGE)


DIMENSIONS = ("core.quality.piqe", "core.instruction_following")


class JudgePod(VllmPod):
    """One whose model has the words of our templates."""

    def __init__(self) -> None:
        super().__init__(probabilities={"good": 0.9, "poor": 0.1})


@asynccontextmanager
async def panel_pods(seconds: float = 0.002, **more: Any) -> AsyncIterator[tuple[Pods, Pods, Settings]]:
    """Pods of specialists and of a judge, and settings by which both are asked.

    Args:
        seconds: That a specialist takes.
    """
    tritons = Pods(lambda: TritonPod(seconds), "triton.svc")
    judges = Pods(JudgePod, "vllm.svc")
    async with tritons.serving() as triton, judges.serving() as judge:
        settings = Settings(
            endpoints={"a": Endpoint(url=triton)},
            judges={"judge": JudgeEndpoint(url=judge, model="judge", send_images=True)},
            connection_age=AGE,
            retry_wait=0.05,
            **more,
        )
        yield tritons, judges, settings


async def test_a_judge_service_follows_the_pods_that_it_asks() -> None:
    """Every edit has its verdicts, also those that came while no pod was there."""
    async with panel_pods() as (tritons, judges, settings):
        async with serve(settings, discovery_seconds=0.2, edits=64) as served:

            async def score(number: int) -> None:
                request = make_request(*DIMENSIONS, edited=png(number, 16))
                outcomes = (await served.stub.Score(request)).outcomes
                assert {outcome.status for outcome in outcomes} == {pb.STATUS_SCORED}, outcomes

            async with keep_calling(score) as lost:
                for pods in (tritons, judges):
                    await pods.scale(3)
                    await check_shares(pods, lost, AGE)
                    await pods.replace()
                    await check_shares(pods, lost, AGE)
                    await pods.scale(0)
                    await asyncio.sleep(1)
                    await pods.scale(1)
                    await check_shares(pods, lost, AGE)
            assert not lost, lost[0]


async def test_a_run_loses_no_verdict_while_pods_come_and_go(tmp_path: Path) -> None:
    edits = 400
    for number in range(edits):
        save_picture(tmp_path / "ours" / f"{number}.png", png(number, 16))
    save_picture(tmp_path / "s.png", png(0, 16))
    write_items(tmp_path, [{}] * edits)
    spec = make_spec(tmp_path, dimensions=DIMENSIONS)
    async with panel_pods(0.15, concurrency=4) as (tritons, judges, settings):
        going = asyncio.create_task(run_async(spec, out=tmp_path / "run", settings=settings))

        async def wait_for_calls(more: int) -> None:
            for pods in (tritons, judges):
                so_far = sum(len(pod.requests) for pod in pods.all)
                await until(
                    lambda pods=pods, so_far=so_far: (
                        going.done() or sum(len(pod.requests) for pod in pods.all) >= so_far + more
                    )
                )

        await wait_for_calls(10)
        for number in (3, 1):
            await asyncio.gather(tritons.scale(number), judges.scale(number))
            await wait_for_calls(60)
        await asyncio.gather(tritons.replace(), judges.replace())
        assert not going.done(), "all of it happened while it judged"
        result = await going
    assert result.status == "done"
    counts = result.last_event.verdicts
    assert [counts[name].scored for name in DIMENSIONS] == [edits, edits]
    assert all(pod.requests for pods in (tritons, judges) for pod in pods.all)


async def test_callers_spread_over_the_pods_of_one_address() -> None:
    """A Service with an address of its own spreads connections: many callers share its pods."""
    age, sources = 2.0, 500
    pods = Pods(TritonPod, balanced=True)
    policy = RetryPolicy(connection_age=age)
    async with pods.serving() as url, AsyncExitStack() as stack:
        endpoint = Endpoint(url=url)
        made = [TritonEndpoint(endpoint, policy) for _ in range(sources)]
        callers = [await stack.enter_async_context(one) for one in made]

        async def ask_once() -> list[int]:
            piqe, inputs = ServiceName("quality", "piqe"), {"IMAGE": b"image"}
            await asyncio.gather(*(caller.infer(piqe, inputs, {}, DEFAULT_TERMS) for caller in callers))
            return pods.counts()

        assert await ask_once() == [sources]
        await pods.scale(3)
        await asyncio.sleep(1.2 * age)
        counts = await ask_once()
        assert sum(counts) == sources
        assert all(abs(each - sources / 3) <= SHARE * sources / 3 for each in counts), counts
        await pods.scale(1)
        assert await ask_once() == [sources]
