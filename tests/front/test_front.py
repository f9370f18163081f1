"""The real Envoy before the real Triton: who comes in, as whom, and what nobody may do."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from editjudge.answers.texts import Option
from editjudge.app.client import Client
from editjudge.app.doctor import check_services
from editjudge.base.config import Endpoint, JudgeEndpoint, Settings
from editjudge.base.identity import ServiceName
from editjudge.base.item import Edit
from editjudge.base.probes import probe_inputs
from editjudge.engine.score_report import ScoreReport
from editjudge.panel import Panel
from editjudge.panel.prompt import Prompt, Text
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.front.identity import TeamKeys
from editjudge_services.runtime.process import fetch
from editjudge_services.runtime.triton_server import TritonServer

from ..fakes.openai import ScriptedOpenAi
from ..judge_service import make_body, make_request, png, refusal, teams_of
from ..patience import until
from .door import LIVE, MOST_BYTES, NOBODY, OK, OVER, Door, open_door, open_judging_door

pytestmark = pytest.mark.triton


async def test_the_same_number_comes_through_the_door(door: Door, panel: Panel) -> None:
    inputs = probe_inputs("quality")
    direct = await panel.call("quality.piqe", inputs)
    async with Panel(door.settings(door.token("vision"))) as through:
        assert through.identities() == panel.identities()
        same = await through.call("quality.piqe", inputs)
    np.testing.assert_array_equal(same["SCORE"], direct["SCORE"])
    await until(lambda: any(c["model"] == "quality_piqe" for c in door.read_calls()))
    assert {c["team"] for c in door.read_calls() if c["model"] == "quality_piqe"} == {"vision"}


STRANGERS = {
    "none": "Jwt is missing",
    "rubbish": "Jwt is not in the form",
    "forged": "Jwt verification fails",
    "unknown team": "doesn't have key",
    "audience": "Audiences in Jwt are not allowed",
    "issuer": "Jwt issuer is not configured",
}


@pytest.mark.parametrize("case", STRANGERS)
async def test_who_is_not_known_gets_no_answer(door: Door, tmp_path: Path, case: str) -> None:
    known, other = door.token("vision"), TeamKeys(tmp_path)
    await door.answers(known, OK)
    tokens = {
        "none": None,
        "rubbish": "a.b",
        "forged": other.issue_token("vision", 1, "interactive", door.server.values.tokens),
        "unknown team": other.issue_token("nobody", 1, "batch", door.server.values.tokens),
        "audience": door.token("vision", audience="others"),
        "issuer": door.token("vision", issuer="others"),
    }
    code, words = await door.ask("ServerLive", LIVE, tokens[case])
    assert code in {NOBODY, grpc.StatusCode.PERMISSION_DENIED}
    assert STRANGERS[case] in words


async def test_a_token_that_is_taken_back_ends_while_others_go_on(door: Door) -> None:
    lost, kept = door.token("leaving"), door.token("staying")
    for token in (lost, kept):
        await door.answers(token, OK)
    door.keys.revoke("leaving")
    await door.answers(lost, NOBODY)
    assert await door.alive(kept) == OK


async def test_nobody_passes_for_another_team(door: Door) -> None:
    token, before = door.token("vision"), len(door.read_calls())
    assert await door.alive(token, **{"x-team": "audio", "x-class": "batch"}) == OK
    await until(lambda: len(door.read_calls()) > before)
    said = door.read_calls()[-1]
    assert (said["team"], said["class"]) == ("vision", "interactive")
    assert await door.alive(None, **{"x-team": "vision"}) == NOBODY


async def test_a_team_over_its_limit_is_told_and_the_others_are_not(door: Door) -> None:
    busy, other = door.token("busy"), door.token("vision")
    await door.answers(other, OK)
    assert {*await asyncio.gather(*(door.alive(busy) for _ in range(30)))} == {OK, OVER}
    assert [await door.alive(other) for _ in range(8)] == [OK] * 8


async def test_a_picture_larger_than_allowed_is_refused_and_no_other(door: Door) -> None:
    codes = []
    for size in (2 * MOST_BYTES, MOST_BYTES // 2):
        request = service_pb2.ModelInferRequest(model_name="quality_piqe")
        request.raw_input_contents.append(bytes(size))
        codes.append((await door.ask("ModelInfer", request, door.token("vision")))[0])
    assert codes[0] not in {OK, grpc.StatusCode.INVALID_ARGUMENT}
    assert codes[1] == grpc.StatusCode.INVALID_ARGUMENT  # Triton's own


async def test_the_log_has_no_token_and_no_picture(door: Door) -> None:
    token = door.token("vision")
    async with Panel(door.settings(token)) as panel:
        await panel.call("quality.piqe", probe_inputs("quality"))
    await until(lambda: any(c["path"].endswith("ModelInfer") for c in door.read_calls()))
    assert not [word for word in (token, token.split(".")[2], "PNG") if word in door.log]


def test_only_today_s_tls_is_spoken(door: Door) -> None:
    with socket.create_connection(door.address, timeout=60) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert plain.recv(100) == b""
    with socket.create_connection(door.address, timeout=60) as plain:
        with door.tls.wrap_socket(plain, server_hostname="localhost") as secure:
            assert secure.version() == "TLSv1.3"


def test_metrics_are_apart_and_the_admin_is_not_reached(door: Door) -> None:
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
        async with open_door(tmp_path, triton, judges={"judge": behind}) as door:
            token, path = door.token("vision"), "/judges/judge"
            await door.answers(token, OK)
            (front,) = door.settings(token).endpoints.values()
            known = {"ca_file": front.ca_file, "api_key": front.api_key, "send_images": True}
            judge = JudgeEndpoint(url=f"https://{door.target}{path}/v1", **known)
            async with Panel(Settings(judges={"judge": judge})) as panel:
                question = Prompt("", (Text("Is it red?"),))
                assert await panel.judge("generalist.judge").answer(question, Option(("Yes", "No")))
            bearer = dict(door.metadata("vision"))
            assert (await door.http(f"{path}/v1/models"))[0] == 401
            assert (await door.http(f"{path}/v1/models", **bearer))[0] == 200
            hidden = ("/metrics", "/v1/load_lora_adapter", "/v1/models/../../metrics", "/docs")
            for each in hidden:
                assert (await door.http(path + each, **bearer))[0] in {400, 404}
    assert scripted.requests
    assert not any("authorization" in headers for headers in scripted.headers)
    assert {headers["x-team"] for headers in scripted.headers} == {"vision"}


async def test_the_judge_service_behind_the_door_gives_what_our_client_gives(
    triton: TritonServer, tmp_path: Path
) -> None:
    dimensions = ("core.psnr.*", "core.quality.piqe")
    async with open_judging_door(triton, tmp_path) as (door, served):
        metadata = [*door.metadata("vision"), ("x-team", "audio")]
        async with door.channel() as channel:
            stub = judge_pb2_grpc.JudgeServiceStub(channel)
            request = make_request(*dimensions)
            assert (await refusal(stub.Score(request))).code == NOBODY
            rpc = await stub.Score(request, metadata=metadata)
            call = stub.ScoreStream(metadata=metadata)
            await call.write(pb.ScoreStreamRequest(request=request))
            streamed = (await call.read()).response
            await call.done_writing()
        body = make_body(*dimensions)
        status, _, text = await door.http("/v1/score", body, **dict(metadata))
        assert status == 200
        assert teams_of(served.service) == {"vision"}
    direct_edit = Edit.load(source=png(0), edited=png(1), instruction="make it red")
    async with Client(Settings(endpoints={"local": Endpoint(url=triton.url)})) as client:
        direct = ScoreReport.of(await client.score(direct_edit, dimensions))

    def rows(report: ScoreReport) -> list[tuple[Any, ...]]:
        return [(v.dimension, v.value, v.signature) for v in report.verdicts]

    assert any(v.value is not None and v.dimension == "core.quality.piqe" for v in direct.verdicts)
    assert rows(ScoreReport.model_validate_json(text)) == rows(direct)
    for answer in (rpc, streamed):
        values = {o.dimension: o.value if o.HasField("value") else None for o in answer.outcomes}
        told = [(o.dimension, values[o.dimension], o.signature) for o in answer.outcomes]
        assert told == rows(direct)


async def test_doctor_says_as_whom_it_came_in(door: Door) -> None:
    token = door.token("vision")
    await door.answers(token, OK)
    findings = {f.service: f for f in await check_services(door.settings(token))}
    piqe = findings["quality.piqe"]
    assert piqe.team == "vision"
    assert not any(f.problem for f in findings.values())
    expected = {ServiceName.parse(name): {} for name in findings}
    expected[ServiceName.parse("quality.piqe")] = {"implementation": "piqe.0", "device": "gpu"}
    found = await check_services(door.settings(token), expected)
    (problem,) = [f.problem for f in found if f.problem]
    assert "implementation piqe.0 is expected" in problem
    assert "device gpu is expected, and cpu is served" in problem
    (ended,) = await check_services(door.settings(door.make_expired_token("vision")))
    assert "the token has expired" in ended.problem
