"""Pods that come and go behind the door, and callers whose connections have an age."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.front import server as front_server
from editjudge_services.front.values import FrontValues

from ..fakes.grpc_server import Failure
from ..fakes.judge import ScriptedJudge
from ..fakes.pods import REFUSAL, Pods, come_and_go
from .door import WIDE, open_door

RESOLVER = """
typed_dns_resolver_config:
  name: envoy.network.dns_resolver.cares
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig
    resolvers: [{socket_address: {protocol: UDP, address: 127.0.0.1, port_value: PORT}}]
"""
DNS_SECONDS = 1
TEAMS = [f"team-{number}" for number in range(256)]
SHARE = 0.3
"""The door spreads teams and not calls, so that shares differ by chance."""


class JudgePod(ScriptedJudge):
    grace = 5.0

    async def refuse(self) -> None:
        self.script[:] = [Failure(grpc.StatusCode.UNAVAILABLE, REFUSAL)]


async def test_pods_come_and_go_behind_the_door_and_connections_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = Pods(JudgePod)
    pods.names.seconds, pods.pause = DNS_SECONDS, 2.5 * DNS_SECONDS
    render = front_server.render_and_check

    def render_with_resolver(values: FrontValues, *more: Any) -> Path:
        file = render(values, *more)
        file.write_text(file.read_text() + RESOLVER.replace("PORT", str(pods.names.port)))
        return file

    monkeypatch.setattr(front_server, "render_and_check", render_with_resolver)
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
