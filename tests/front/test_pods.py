"""Pods that come and go behind the door, and callers whose connections have an age."""

from __future__ import annotations

import asyncio
import contextlib
import re
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from editjudge.base.config import JudgeEndpoint, Settings
from editjudge.panel import Panel
from editjudge.panel.prompt import Picture, Prompt, Text
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.front import server as front_server
from editjudge_services.front.values import FrontValues
from editjudge_services.runtime.process import reserve_ports

from ..fakes.grpc_server import Failure
from ..fakes.judge import ScriptedJudge
from ..fakes.openai import ScriptedOpenAi
from ..fakes.pods import REFUSAL, Pods, come_and_go, keep_calling
from .door import WIDE, open_door

RESOLVER = """
typed_dns_resolver_config:
  name: envoy.network.dns_resolver.cares
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig
    resolvers: [{socket_address: {protocol: UDP, address: 127.0.0.1, port_value: PORT}}]
"""
DNS_SECONDS = 1
TEAMS = [f"team-{number}" for number in range(384)]
SHARE = 0.3
"""The door spreads teams and not calls, so that shares differ by chance, as ports do: by more once in 10,000 draws
with so many teams, and once in 400 with half of them."""


class JudgePod(ScriptedJudge):
    grace = 5.0

    async def refuse(self) -> None:
        self.script[:] = [Failure(grpc.StatusCode.UNAVAILABLE, REFUSAL)]


def let_the_door_find(pods: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Envoy ask their name server."""
    pods.names.seconds, pods.pause = DNS_SECONDS, 2.5 * DNS_SECONDS
    render = front_server.render_and_check

    def render_with_resolver(values: FrontValues, *more: Any) -> Path:
        file = render(values, *more)
        file.write_text(file.read_text() + RESOLVER.replace("PORT", str(pods.names.port)))
        return file

    monkeypatch.setattr(front_server, "render_and_check", render_with_resolver)


async def test_pods_come_and_go_behind_the_door_and_connections_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = Pods(JudgePod)
    let_the_door_find(pods, monkeypatch)
    async with pods.serving() as url:
        gateway = {"addresses": [url.removeprefix("grpc://")]}
        limits = {"connection_seconds": DNS_SECONDS, "batch": 1024, "interactive": 1024}
        values = {"gateway": gateway, "rate": WIDE, "limits": limits, "drain_seconds": 1}
        async with open_door(tmp_path, teams=TEAMS, **values) as door:
            async with door.channel() as channel:
                stub, callers = judge_pb2_grpc.JudgeServiceStub(channel), [*map(door.metadata, TEAMS)]

                async def ask(number: int) -> None:
                    request = pb.ScoreRequest(request_id=str(number))
                    await stub.Score(request, metadata=callers[number % len(TEAMS)], timeout=60)

                await come_and_go(pods, ask, 2.5 * DNS_SECONDS, SHARE)
            async with aiohttp.ClientSession() as session:
                async with session.get(door.server.metrics_url) as reply:
                    text = await reply.text()
            name = r"envoy_http_downstream_cx_max_duration_reached\{[^}]*\"front\"[^}]*\} (\d+)"
            assert sum(map(int, re.findall(name, text))) > 3


class VllmPod(ScriptedOpenAi):
    async def refuse(self) -> None:
        """It ends what it has, and closes connections."""


async def test_the_judge_service_meets_one_pod_of_a_judge_with_the_edits_of_one_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the listener inside, without a token; pods come and go, and no call is lost."""
    pods = Pods(lambda: VllmPod(owner="vllm"), "vllm.svc")
    let_the_door_find(pods, monkeypatch)
    (port,) = reserve_ports([0])
    sources = [Picture(b"source %d" % number, "image/png", (8, 8)) for number in range(40)]  # no pod is without one
    async with pods.serving(2) as url:
        at = url.removeprefix("http://").removesuffix("/v1")
        inside = {"listen": f"127.0.0.1:{port}", "judges": {"judge": {"addresses": [at]}}}
        async with contextlib.AsyncExitStack() as stack:
            judged = await stack.enter_async_context(ScriptedJudge().serving())
            gateway = {"addresses": [judged.removeprefix("grpc://")]}
            await stack.enter_async_context(open_door(tmp_path, gateway=gateway, inside=inside))
            to_judge = f"http://127.0.0.1:{port}/judges/judge"
            async with aiohttp.ClientSession() as session:
                for path in ("metrics", "reset_prefix_cache", "v1/completions"):
                    async with session.post(f"{to_judge}/{path}") as reply:
                        assert reply.status == 404, path
                while not await is_open(session, f"{to_judge}/health"):
                    await asyncio.sleep(0.1)
            endpoint = JudgeEndpoint(url=f"{to_judge}/v1", model="judge")
            panel = await stack.enter_async_context(Panel(Settings(judges={"judge": endpoint})))

            async def ask(number: int) -> None:
                prompt = Prompt("", (sources[number % len(sources)], Text(f"Is it {number}?")))
                await panel.judge("generalist.judge").choose(prompt, ("Yes", "No"))

            async def find_homes() -> list[int]:
                """By source the pod that four of its siblings meet; -1 for more than one."""
                homes = []
                for source in range(len(sources)):
                    before = [len(pod.requests) for pod in pods.running]
                    for _ in range(4):  # at once they would be more than one pod's part
                        await ask(next(numbers) * len(sources) + source)
                    news = [len(pod.requests) - n for pod, n in zip(pods.running, before, strict=True)]
                    homes.append(news.index(4) if 4 in news else -1)
                return homes

            async def settle() -> list[int]:
                """Once every pod is known to be healthy, siblings meet."""
                homes: list[int] = []
                while {*homes} != {*range(len(pods.running))} or homes != await find_homes():
                    homes = await find_homes()
                return homes

            numbers = count()
            of_two = await settle()
            async with keep_calling(ask) as lost:
                await pods.scale(3)
            assert not lost, lost[0]
            of_three = await settle()
            stayed = sum(old == new for old, new in zip(of_two, of_three, strict=True))
            assert stayed >= len(sources) // 3, "a pod that comes takes its own part"
            async with keep_calling(ask) as lost:
                await pods.scale(2)
            assert not lost, lost[0]
            await settle()


async def is_open(session: aiohttp.ClientSession, url: str) -> bool:
    """Whether something answers there that all is well."""
    async with session.get(url) as reply:
        return reply.status == 200
