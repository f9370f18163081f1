"""The real Envoy as a front door, and what its callers need."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import jwt
from tritonclient.grpc import service_pb2, service_pb2_grpc

from editjudge.base.config import Endpoint, Secret, Settings
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.front.identity import Authority, TeamKeys
from editjudge_services.front.server import EnvoyServer
from editjudge_services.front.values import FrontValues
from editjudge_services.runtime.triton_server import TritonServer

from ..fakes.judge import ScriptedJudge
from ..judge_service import RunningService, serve
from ..patience import patience

MANY_TEAMS = [f"team-{number}" for number in range(16)]
"""So many that a door before two servers sends some to each."""
MOST_BYTES = 4 * 1024 * 1024
OK, NOBODY = grpc.StatusCode.OK, grpc.StatusCode.UNAUTHENTICATED
OVER = grpc.StatusCode.RESOURCE_EXHAUSTED
LIVE = service_pb2.ServerLiveRequest()
_CONNECTIONS = 24
_OWN = ("grpc.use_local_subchannel_pool", 1)  # a connection that no other call shares
_ANY_SIZE = ("grpc.max_send_message_length", -1)


WIDE = {"calls_per_second": 100_000, "burst": 100_000}
"""The rate of a team whose calls follow each other at once."""


class Door:
    """A front door, with its keys and its authority."""

    def __init__(self, folder: Path, *triton: TritonServer, **more: Any) -> None:
        self.folder = folder
        self.keys = TeamKeys(folder)
        self.authority = Authority(folder)
        self.authority.renew_certificate(("localhost", "127.0.0.1"))
        self.keys.publish()
        servers = [each.url.removeprefix("grpc://") for each in triton]
        values = FrontValues.model_validate(
            {
                "listen": "127.0.0.1:0",
                "metrics": "127.0.0.1:0",
                "admin_port": 0,
                "certificate": self.authority.server,
                "private_key": self.authority.server_key,
                "tokens": {"keys": self.keys.public, "key_cache_seconds": 1},
                "triton": {"local": {"addresses": servers}} if servers else {},
                "rates": {"busy": {"calls_per_second": 1, "burst": 3}},
                "limits": {"request_bytes": MOST_BYTES},
                "drain_seconds": 5,
                **more,
            }
        )
        self.server = EnvoyServer(folder / "front.log", values, folder, self.authority.certificate)

    @property
    def target(self) -> str:
        return self.server.url.removeprefix("grpcs://")

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.target.split(":")
        return host, int(port)

    @property
    def tls(self) -> ssl.SSLContext:
        """Trusts its authority."""
        return ssl.create_default_context(cafile=str(self.authority.certificate))

    @property
    def log(self) -> str:
        """What it wrote, its calls too."""
        return self.server.log.read_text() + self.server.calls.read_text()

    def read_calls(self) -> list[dict[str, Any]]:
        """The calls of its log, in order."""
        text = self.server.calls.read_text()
        # The last line may be half there: Envoy writes in pieces.
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def token(self, team: str, kind: str = "interactive", **claims: str) -> str:
        return self.keys.issue_token(team, 1, kind, self.server.values.tokens.model_copy(update=claims))

    def make_expired_token(self, team: str) -> str:
        """A token that ended an hour ago."""
        claims = jwt.decode(self.token(team), options={"verify_signature": False})
        key = max((self.folder / "teams").glob(f"{team}@*.pem"))
        claims["exp"] -= 25 * 3600
        return jwt.encode(claims, key.read_bytes(), "ES256", headers={"kid": key.stem})

    def settings(self, token: str, **more: Any) -> Settings:
        kept = self.folder / f"token-{abs(hash(token))}"
        kept.write_text(token)
        known = {"ca_file": self.authority.certificate, "api_key": Secret(file=kept), **more}
        return Settings(endpoints={"front": Endpoint(url=self.server.url, **known)})

    def metadata(self, team: str, kind: str = "interactive") -> list[tuple[str, str]]:
        """Headers of a team's calls."""
        return [("authorization", f"Bearer {self.token(team, kind)}")]

    def channel(self, *options: tuple[str, int]) -> grpc.aio.Channel:
        """A connection of its own; to be entered."""
        credentials = grpc.ssl_channel_credentials(self.authority.certificate.read_bytes())
        return grpc.aio.secure_channel(self.target, credentials, [_OWN, _ANY_SIZE, *options])

    async def ask(self, method: str, request: Any, token: str | None, **headers: str) -> tuple[grpc.StatusCode, str]:
        """One call to Triton by plain gRPC: status and words."""
        metadata = [*headers.items()]
        if token is not None:
            metadata.append(("authorization", f"Bearer {token}"))
        async with self.channel() as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            call = getattr(stub, method)(request, metadata=metadata, timeout=30)
            return await call.code(), await call.details() or ""

    async def alive(self, token: str | None, **headers: str) -> grpc.StatusCode:
        """The status of the least of calls."""
        return (await self.ask("ServerLive", LIVE, token, **headers))[0]

    async def answers(self, token: str, code: grpc.StatusCode) -> None:
        """Wait until a token has this answer everywhere.

        Each of Envoy's threads reads the keys again by itself, and a connection is one thread's: so
        many are made at once that none of a few threads is left out.
        """
        end = asyncio.get_running_loop().time() + patience(30)
        while True:
            codes = set(await asyncio.gather(*(self.alive(token) for _ in range(_CONNECTIONS))))
            if codes == {code}:
                return
            assert asyncio.get_running_loop().time() < end, f"never {code} alone: {codes}"
            await asyncio.sleep(0.1)

    async def http(self, path: str, body: Any = None, **headers: str) -> tuple[int, aiohttp.ClientResponse, str]:
        """The status, headers and text of a request; with a body, JSON is posted."""
        url, method = f"https://{self.target}{path}", "GET" if body is None else "POST"
        async with aiohttp.ClientSession(headers=headers) as session:
            async with session.request(method, url, json=body, ssl=self.tls) as reply:
                return reply.status, reply, await reply.text()


@contextlib.asynccontextmanager
async def open_door(
    folder: Path, *triton: TritonServer, teams: Sequence[str] = ("vision",), **more: Any
) -> AsyncIterator[Door]:
    """A door that runs; it knows the tokens of some teams from the start."""
    folder.mkdir(exist_ok=True)
    door = Door(folder, *triton, **more)
    for team in teams:
        door.token(team)
    await asyncio.to_thread(door.server.start)
    try:
        yield door
    finally:
        await asyncio.to_thread(door.server.stop)


def gateway_values(served: RunningService, *addresses: str) -> dict[str, Any]:
    """The values of a door before a Judge service."""
    web = served.web.removeprefix("http://")
    return {"addresses": [served.address, *addresses], "json_addresses": [web]}


@contextlib.asynccontextmanager
async def open_judged_door(folder: Path, **more: Any) -> AsyncIterator[tuple[Door, ScriptedJudge]]:
    """A door before a Judge service that answers at once."""
    judge = ScriptedJudge()
    async with judge.serving() as url:
        gateway = {"addresses": [url.removeprefix("grpc://")]}
        async with open_door(folder, gateway=gateway, **more) as door:
            yield door, judge


@contextlib.asynccontextmanager
async def open_judging_door(triton: TritonServer, folder: Path) -> AsyncIterator[tuple[Door, RunningService]]:
    """The Judge service before the real Triton, behind a door of its own."""
    settings = Settings(endpoints={"local": Endpoint(url=triton.url)})
    async with serve(settings, drain=5) as served:
        async with open_door(folder, triton, gateway=gateway_values(served)) as door:
            await door.answers(door.token("vision"), OK)
            yield door, served


async def score(channel: grpc.aio.Channel, metadata: Any, request: pb.ScoreRequest | None = None) -> grpc.StatusCode:
    """The status of one edit."""
    asked = pb.ScoreRequest(request_id="1") if request is None else request
    stub = judge_pb2_grpc.JudgeServiceStub(channel)
    return await stub.Score(asked, metadata=metadata, timeout=60).code()
