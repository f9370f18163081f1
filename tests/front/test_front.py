"""The real Envoy before the real Triton: who comes in, as whom, and what nobody may do."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import jwt
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from editjudge.answers.texts import Option
from editjudge.app.client import Client
from editjudge.app.doctor import check_services
from editjudge.base.config import Endpoint, JudgeEndpoint, Secret, Settings
from editjudge.base.identity import ServiceName
from editjudge.base.item import Edit
from editjudge.base.probes import probe_inputs
from editjudge.engine.score_report import ScoreReport
from editjudge.panel import Panel
from editjudge.panel.prompt import Prompt, Text
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.front.identity import Authority, TeamKeys
from editjudge_services.front.server import EnvoyServer
from editjudge_services.front.values import FrontValues
from editjudge_services.gateway.http import serve_http
from editjudge_services.gateway.server import serve_grpc
from editjudge_services.gateway.service import JudgeService
from editjudge_services.runtime.triton_server import TritonServer

from ..fakes.openai import ScriptedOpenAi
from ..judge_service import png, teams_of
from ..patience import patience, until

pytestmark = pytest.mark.triton

CLAIMS = {"issuer": "editjudge", "audience": "judges"}
MOST_BYTES = 4 * 1024 * 1024


class Door:
    """A front door that runs, and what its callers need."""

    def __init__(self, folder: Path, *triton: TritonServer, **more: Any) -> None:
        self.folder = folder
        self.keys = TeamKeys(folder)
        self.authority = Authority(folder)
        self.authority.renew_certificate(("localhost", "127.0.0.1"))
        self.keys.publish()
        values = FrontValues.model_validate(
            {
                "listen": "127.0.0.1:0",
                "metrics": "127.0.0.1:0",
                "admin_port": 0,
                "certificate": self.authority.server,
                "private_key": self.authority.server_key,
                "tokens": {"keys": self.keys.public, "key_cache_seconds": 1},
                "triton": {
                    "local": {"addresses": [each.url.removeprefix("grpc://") for each in triton]}
                },
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
    def log(self) -> str:
        """What it wrote, its calls too."""
        return self.server.log.read_text() + self.server.calls.read_text()

    def token(self, team: str, days: float = 1, **claims: str) -> str:
        return self.keys.issue_token(team, days, "interactive", **{**CLAIMS, **claims})

    def expired(self, team: str) -> str:
        """A token that ended an hour ago."""
        claims = jwt.decode(self.token(team), options={"verify_signature": False})
        key = max((self.folder / "teams").glob(f"{team}@*.pem"))
        claims["exp"] -= 25 * 3600
        return jwt.encode(claims, key.read_bytes(), "ES256", headers={"kid": key.stem})

    def settings(self, token: str, **more: Any) -> Settings:
        kept = self.folder / f"token-{abs(hash(token))}"
        kept.write_text(token)
        endpoint = Endpoint(
            url=self.server.url,
            ca_file=self.authority.certificate,
            api_key=Secret(file=kept),
            **more,
        )
        return Settings(endpoints={"front": endpoint})

    def called(self) -> list[dict[str, Any]]:
        """The calls of its log, in order."""
        text = self.server.calls.read_text()
        # The last line may be half there: Envoy writes in pieces.
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    async def ask(
        self, method: str, request: Any, token: str | None, **headers: str
    ) -> tuple[grpc.StatusCode, str, Any]:
        """One call by plain gRPC: status, words and reply."""
        credentials = grpc.ssl_channel_credentials(self.authority.certificate.read_bytes())
        metadata = [*headers.items()]
        if token is not None:
            metadata.append(("authorization", f"Bearer {token}"))
        own = [("grpc.use_local_subchannel_pool", 1)]  # a connection that no other call shares
        async with grpc.aio.secure_channel(self.target, credentials, own) as channel:
            call = getattr(service_pb2_grpc.GRPCInferenceServiceStub(channel), method)
            try:
                reply = await call(request, metadata=metadata, timeout=30)
            except grpc.aio.AioRpcError as error:
                return error.code(), error.details() or "", None
            return grpc.StatusCode.OK, "", reply

    async def answers(self, token: str, code: grpc.StatusCode) -> None:
        """Wait until a token has this answer everywhere.

        Each of Envoy's threads reads the keys again by itself, and a connection is one thread's: so
        many are made at once that none of a few threads is left out.
        """
        end = asyncio.get_running_loop().time() + patience(30)
        while True:
            asked = (self.ask("ServerLive", LIVE, token) for _ in range(_CONNECTIONS))
            codes = {got for got, *_ in await asyncio.gather(*asked)}
            if codes == {code}:
                return
            assert asyncio.get_running_loop().time() < end, f"never {code} alone: {codes}"
            await asyncio.sleep(0.1)


LIVE = service_pb2.ServerLiveRequest()
_CONNECTIONS = 24


@pytest.fixture(scope="module")
def door(triton: TritonServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    door = Door(tmp_path_factory.mktemp("door"), triton)
    door.server.start()
    try:
        yield door
    finally:
        door.server.stop()


async def test_the_same_number_comes_through_the_door(door: Door, panel: Panel) -> None:
    inputs = probe_inputs("quality")
    direct = await panel.call("quality.piqe", inputs)
    async with Panel(door.settings(door.token("vision"))) as through:
        assert through.identities() == panel.identities()
        same = await through.call("quality.piqe", inputs)
    np.testing.assert_array_equal(same["SCORE"], direct["SCORE"])
    await until(lambda: any(c["model"] == "quality_piqe" for c in door.called()))
    assert {c["team"] for c in door.called() if c["model"] == "quality_piqe"} == {"vision"}


def forged(door: Door, folder: Path) -> str:
    """A token of the same name and number, signed by somebody else."""
    door.token("vision")
    return TeamKeys(folder).issue_token("vision", 1, "interactive", **CLAIMS)


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("none", "Jwt is missing"),
        ("rubbish", "Jwt is not in the form"),
        ("forged", "Jwt verification fails"),
        ("unknown team", "doesn't have key"),
        ("audience", "Audiences in Jwt are not allowed"),
        ("issuer", "Jwt issuer is not configured"),
    ],
)
async def test_who_is_not_known_gets_no_answer(
    door: Door, tmp_path: Path, case: str, told: str
) -> None:
    tokens: Mapping[str, str | None] = {
        "none": None,
        "rubbish": "a.b",
        "forged": forged(door, tmp_path),
        "unknown team": TeamKeys(tmp_path).issue_token("nobody", 1, "batch", **CLAIMS),
        "audience": door.token("vision", audience="others"),
        "issuer": door.token("vision", issuer="others"),
    }
    code, words, _ = await door.ask("ServerLive", LIVE, tokens[case])
    assert code in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
    assert told in words


async def test_a_token_that_is_taken_back_ends_while_others_go_on(door: Door) -> None:
    lost, kept = door.token("leaving"), door.token("staying")
    for token in (lost, kept):
        await door.answers(token, grpc.StatusCode.OK)
    door.keys.revoke("leaving")
    await door.answers(lost, grpc.StatusCode.UNAUTHENTICATED)
    code, _, _ = await door.ask("ServerLive", LIVE, kept)
    assert code == grpc.StatusCode.OK


async def test_nobody_passes_for_another_team(door: Door) -> None:
    before = len(door.called())
    code, _, _ = await door.ask(
        "ServerLive", LIVE, door.token("vision"), **{"x-team": "audio", "x-class": "batch"}
    )
    assert code == grpc.StatusCode.OK
    await until(lambda: len(door.called()) > before)
    said = door.called()[-1]
    assert (said["team"], said["class"]) == ("vision", "interactive")
    code, _, _ = await door.ask("ServerLive", LIVE, None, **{"x-team": "vision"})
    assert code == grpc.StatusCode.UNAUTHENTICATED


async def test_a_team_over_its_limit_is_told_and_the_others_are_not(door: Door) -> None:
    busy, other = door.token("busy"), door.token("vision")
    await door.answers(other, grpc.StatusCode.OK)
    codes = await asyncio.gather(*(door.ask("ServerLive", LIVE, busy) for _ in range(30)))
    assert {code for code, *_ in codes} == {
        grpc.StatusCode.OK,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
    codes = [(await door.ask("ServerLive", LIVE, other))[0] for _ in range(8)]
    assert codes == [grpc.StatusCode.OK] * 8


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("RepositoryModelUnload", service_pb2.RepositoryModelUnloadRequest(model_name="x")),
        ("RepositoryIndex", service_pb2.RepositoryIndexRequest()),
        ("SystemSharedMemoryStatus", service_pb2.SystemSharedMemoryStatusRequest()),
        ("LogSettings", service_pb2.LogSettingsRequest()),
    ],
)
async def test_what_judging_does_not_need_is_not_there(
    door: Door, method: str, request_: Any
) -> None:
    code, words, _ = await door.ask(method, request_, door.token("vision"))
    assert code == grpc.StatusCode.UNIMPLEMENTED
    assert "nothing is served here" in words


async def test_a_picture_larger_than_allowed_is_refused_and_no_other(door: Door) -> None:
    def asking(size: int) -> Any:
        request = service_pb2.ModelInferRequest(model_name="quality_piqe")
        request.raw_input_contents.append(b"\0" * size)
        return request

    code, _, _ = await door.ask("ModelInfer", asking(2 * MOST_BYTES), door.token("vision"))
    assert code not in {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT}
    code, _, _ = await door.ask("ModelInfer", asking(MOST_BYTES // 2), door.token("vision"))
    assert code == grpc.StatusCode.INVALID_ARGUMENT  # Triton's own


async def test_the_log_has_no_token_and_no_picture(door: Door) -> None:
    token = door.token("vision")
    async with Panel(door.settings(token)) as panel:
        await panel.call("quality.piqe", probe_inputs("quality"))
    await until(lambda: any(c["path"].endswith("ModelInfer") for c in door.called()))
    assert token not in door.log
    assert token.split(".")[2] not in door.log
    assert "PNG" not in door.log


def test_a_connection_without_tls_gets_nothing(door: Door) -> None:
    host, port = door.target.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert plain.recv(100) == b""


def test_only_today_s_tls_is_spoken(door: Door) -> None:
    host, port = door.target.split(":")
    context = ssl.create_default_context(cafile=str(door.authority.certificate))
    with socket.create_connection((host, int(port)), timeout=60) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            assert secure.version() == "TLSv1.3"


def test_metrics_are_apart_and_the_admin_is_not_reached(door: Door) -> None:
    from editjudge_services.runtime.process import fetch

    metrics = fetch(door.server.metrics_url)
    assert metrics is not None
    assert b"envoy_http_downstream_rq_total" in metrics
    base = door.server.metrics_url.removesuffix("/stats/prometheus")
    assert fetch(f"{base}/ready") is not None
    assert fetch(f"{base}/config_dump") is None
    assert fetch(f"{base}/quitquitquit", b"") is None
    assert door.server.is_healthy()


async def test_a_judge_is_reached_under_its_name(triton: TritonServer, tmp_path: Path) -> None:
    scripted = ScriptedOpenAi(owner="vllm")
    async with scripted.serving() as url:
        behind = {"addresses": [url.removeprefix("http://").removesuffix("/v1")]}
        door = Door(tmp_path, triton, judges={"judge": behind})
        token = door.token("vision")
        door.server.start()
        try:
            await _asks_a_judge(door, token)
        finally:
            door.server.stop()
    assert scripted.requests
    assert not any("authorization" in headers for headers in scripted.headers)
    assert {headers["x-team"] for headers in scripted.headers} == {"vision"}


async def _asks_a_judge(door: Door, token: str) -> None:
    base = f"https://{door.target}/judges/judge"
    (endpoint,) = door.settings(token).endpoints.values()
    judge = JudgeEndpoint(
        url=f"{base}/v1", ca_file=endpoint.ca_file, api_key=endpoint.api_key, send_images=True
    )
    async with Panel(Settings(judges={"judge": judge})) as panel:
        judge = panel.judge("generalist.judge")
        question = Prompt("", (Text("Is it red?"),))
        assert await judge.answer(question, Option(("Yes", "No")))
    context = ssl.create_default_context(cafile=str(door.authority.certificate))

    async def status(path: str, **headers: str) -> int:
        async with aiohttp.ClientSession(headers=headers) as session:
            async with session.get(f"{base}{path}", ssl=context) as reply:
                return reply.status

    known = {"authorization": f"Bearer {token}"}
    assert await status("/v1/models") == 401
    assert await status("/v1/models", **known) == 200
    for path in ("/metrics", "/v1/load_lora_adapter", "/v1/models/../../metrics", "/docs"):
        assert await status(path, **known) in {400, 404}


@contextlib.asynccontextmanager
async def judging_behind(
    triton: TritonServer, folder: Path
) -> AsyncIterator[tuple[Door, JudgeService]]:
    """The Judge service before the real Triton, behind a door of its own."""
    settings = Settings(endpoints={"local": Endpoint(url=triton.url)})
    async with JudgeService(settings) as service, contextlib.AsyncExitStack() as stack:
        web = await stack.enter_async_context(serve_http(service, "127.0.0.1", 0, 5))
        rpc = await stack.enter_async_context(serve_grpc(service, "127.0.0.1:0", drain=5))
        judge = {"addresses": [rpc], "json_addresses": [web.removeprefix("http://")]}
        door = Door(folder, triton, gateway=judge)
        token = door.token("vision")
        door.server.start()
        try:
            await door.answers(token, grpc.StatusCode.OK)
            yield door, service
        finally:
            door.server.stop()


async def test_the_judge_service_behind_the_door_gives_what_our_client_gives(
    triton: TritonServer, tmp_path: Path
) -> None:
    source, edited = png(0), png(1)
    dimensions = ["core.psnr.*", "core.quality.piqe"]
    picture = {"data": base64.b64encode(source).decode()}
    async with judging_behind(triton, tmp_path) as (door, service):
        metadata = [("authorization", f"Bearer {door.token('vision')}"), ("x-team", "audio")]
        credentials = grpc.ssl_channel_credentials(door.authority.certificate.read_bytes())
        edit = pb.Edit(
            instruction="x",
            sources=[pb.Picture(data=source)],
            edited=pb.Picture(data=edited),
        )
        async with grpc.aio.secure_channel(door.target, credentials) as channel:
            stub = judge_pb2_grpc.JudgeServiceStub(channel)
            request = pb.ScoreRequest(edit=edit, dimensions=dimensions)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Score(request)
            assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
            rpc = await stub.Score(request, metadata=metadata)
            call = stub.ScoreStream(metadata=metadata)
            await call.write(pb.ScoreStreamRequest(request=request))
            streamed = (await call.read()).response
            await call.done_writing()
        context = ssl.create_default_context(cafile=str(door.authority.certificate))
        body = {
            "edit": {
                "instruction": "x",
                "sources": [picture],
                "edited": {"data": base64.b64encode(edited).decode()},
            },
            "dimensions": dimensions,
        }
        async with aiohttp.ClientSession(headers=dict(metadata)) as session:
            url = f"https://{door.target}/v1/score"
            async with session.post(url, json=body, ssl=context) as reply:
                assert reply.status == 200
                web = ScoreReport.model_validate(await reply.json())
        assert teams_of(service) == {"vision"}
    direct_edit = Edit.load(source=source, edited=edited, instruction="x")
    async with Client(Settings(endpoints={"local": Endpoint(url=triton.url)})) as client:
        direct = ScoreReport.of(await client.score(direct_edit, dimensions))
    ours = [(v.dimension, v.value, v.signature) for v in direct.verdicts]
    assert any(v.value is not None and v.dimension == "core.quality.piqe" for v in direct.verdicts)
    assert [(v.dimension, v.value, v.signature) for v in web.verdicts] == ours
    for answer in (rpc, streamed):
        assert [
            (o.dimension, o.value if o.HasField("value") else None, o.signature)
            for o in answer.outcomes
        ] == ours


async def test_doctor_says_as_whom_it_came_in(door: Door) -> None:
    token = door.token("vision")
    await door.answers(token, grpc.StatusCode.OK)
    findings = {f.service: f for f in await check_services(door.settings(token))}
    assert findings["quality.piqe"].team == "vision"
    assert findings["quality.piqe"].access == "a call without them is refused"
    assert not any(f.problem for f in findings.values())
    expected = {ServiceName.parse(name): {} for name in findings}
    expected[ServiceName.parse("quality.piqe")] = {"implementation": "piqe.0", "device": "gpu"}
    found = {f.service: f for f in await check_services(door.settings(token), expected)}
    assert "implementation piqe.0 is expected" in found["quality.piqe"].problem
    assert "device gpu is expected, and cpu is served" in found["quality.piqe"].problem
    assert [name for name, f in found.items() if f.problem] == ["quality.piqe"]
    (ended,) = await check_services(door.settings(door.expired("vision")))
    assert "Jwt is expired" in ended.problem
