"""What reaches the servers behind the door: of every protocol the methods of a list, and once."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from smg_grpc_proto import vllm_engine_pb2
from tritonclient.grpc import service_pb2

from editjudge.v1 import judge_pb2, judge_pb2_grpc

from ..fakes.grpc_server import Failure
from ..fakes.grpc_server import serve as serve_grpc
from ..fakes.judge import ScriptedJudge
from ..fakes.openai import ScriptedOpenAi
from ..judge_service import RunningService, serve
from .door import MANY_TEAMS, OK, WIDE, Door, open_door, score

OPEN: Mapping[Any, set[str]] = {
    service_pb2: {
        *("ServerLive", "ServerReady", "ServerMetadata"),
        *("ModelReady", "ModelMetadata", "ModelConfig", "ModelInfer"),
    },
    vllm_engine_pb2: set(),
    judge_pb2: {"Score", "ScoreStream", "ListDimensions", "GetPanel"},
    health_pb2: {"Check", "Watch"},
    reflection_pb2: {"ServerReflectionInfo"},
}
"""The methods of each proto that callers reach."""
ODD = ("{}/", "/{}", "{}%2f", "{}?x", "x/../{}")
"""Other spellings of a method that is closed."""
JUDGE = ("v1/models", "v1/chat/completions", "tokenize", "version", "health")
JSON = ("score", "score:batch", "dimensions", "panel", "openapi.json", "docs")
CLOSED = (
    *("/judges/judge/metrics", "/judges/judge/v1/completions", "/judges/judge/v1/responses"),
    *("/judges/judge/v1/embeddings", "/judges/judge/v1/load_lora_adapter", "/judges/judge/sleep"),
    *("/judges/judge/reset_prefix_cache", "/judges/judge/detokenize", "/judges/judge/openapi.json"),
    *("/judges/judge/v1/chat/completions/render", "/judges/judge/v1xmodels", "/judges/other/health"),
    *("/v1/", "/v1/scores", "/v1/score:", "/v1/openapixjson", "/metrics", "/health", "/"),
)


class _AnyMethod(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers every method with one message, which says of a health check that all is well."""

    def service(self, _: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._answer)

    async def _answer(self, _request: bytes, _context: Any) -> bytes:
        return b"\x08\x01"


@contextlib.asynccontextmanager
async def open_wide_door(folder: Path) -> AsyncIterator[Door]:
    """A door before servers that answer whatever they are asked."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as plain:
        add = lambda server: server.add_generic_rpc_handlers((_AnyMethod(),))  # noqa: E731
        async with serve_grpc(add) as at:
            http = f"{plain.host}:{plain.port}"
            servers: dict[str, Any] = {
                "triton": {"all": {"addresses": [at]}},
                "judges": {"judge": {"addresses": [http]}},
                "gateway": {"addresses": [at], "json_addresses": [http]},
            }
            async with open_door(folder, **servers, rate=WIDE) as door:
                yield door


async def test_of_every_proto_the_methods_of_the_list_pass_and_no_other(tmp_path: Path) -> None:
    async with open_wide_door(tmp_path) as door, door.channel() as channel:
        metadata = [*door.metadata("vision"), ("x-judge", "judge")]

        async def passes(path: str) -> bool:
            code = await channel.unary_unary(path)(b"", metadata=metadata, timeout=30).code()
            assert code in {OK, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INTERNAL}, path
            return bool(code is OK)

        async def find_open(service: ServiceDescriptor) -> set[str]:
            path = f"/{service.full_name}/"
            names = {method.name for method in service.methods}
            passed = {name for name in names if await passes(path + name)}
            odd = [path + each.format(name, name) for name in names - passed for each in ODD]
            assert not [each for each in odd if await passes(each)]
            return passed

        for module, methods in OPEN.items():
            services = module.DESCRIPTOR.services_by_name.values()
            assert services
            assert set().union(*[await find_open(each) for each in services]) == methods


async def test_of_json_the_paths_of_the_list_pass_and_no_other(tmp_path: Path) -> None:
    async with open_wide_door(tmp_path) as door:
        bearer = dict(door.metadata("vision"))
        for path in (*(f"/judges/judge/{each}" for each in JUDGE), *(f"/v1/{each}" for each in JSON)):
            assert (await door.http(path, **bearer))[0] == 200, path
        for path in CLOSED:
            assert (await door.http(path, **bearer))[0] == 404, path


PIECE = 1024 * 1024
"""Bytes of a question that the door reads at a time."""
MORTAL = """
import asyncio, os, signal
from tests.fakes.judge import ScriptedJudge

class Mortal(ScriptedJudge):
    async def Score(self, request, context):
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with Mortal().serving() as url:
        print(url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
"""A Judge service that dies of every edit."""


async def test_a_request_that_ends_a_server_is_sent_to_no_other(tmp_path: Path) -> None:
    root, pipe = Path(__file__).parents[2], asyncio.subprocess.PIPE
    command = (sys.executable, "-c", MORTAL)
    servers = [await asyncio.create_subprocess_exec(*command, cwd=root, stdout=pipe) for _ in range(2)]
    try:
        urls = [(await server.stdout.readline()).decode().strip() for server in servers]  # type: ignore[union-attr]
        gateway = {"addresses": [url.removeprefix("grpc://") for url in urls]}
        async with open_door(tmp_path, gateway=gateway) as door, door.channel() as channel:
            code = await score(channel, door.metadata("vision"))
            assert code is grpc.StatusCode.UNAVAILABLE
            await asyncio.wait([asyncio.create_task(s.wait()) for s in servers], return_when="FIRST_COMPLETED")
            assert [server.returncode is None for server in servers].count(True) == 1
    finally:
        for server in servers:
            if server.returncode is None:
                server.kill()
            await server.wait()


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED])
async def test_what_a_draining_server_refuses_is_sent_to_another(tmp_path: Path, code: grpc.StatusCode) -> None:
    busy, free = ScriptedJudge(Failure(code, "ending")), ScriptedJudge()
    async with busy.serving() as first, free.serving() as second:
        gateway = {"addresses": [url.removeprefix("grpc://") for url in (first, second)]}
        async with open_door(tmp_path, teams=MANY_TEAMS, gateway=gateway) as door, door.channel() as channel:
            codes = [await score(channel, door.metadata(team)) for team in MANY_TEAMS]
    assert set(codes) == {OK}
    assert busy.teams


async def test_calls_go_on_while_a_server_drains(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack, serve(drain=5) as stays:
        leaves: RunningService = await stack.enter_async_context(serve(drain=5))
        gateway = {"addresses": [stays.address, leaves.address]}
        async with open_door(tmp_path, teams=MANY_TEAMS, gateway=gateway) as door, door.channel() as channel:
            stub = judge_pb2_grpc.JudgeServiceStub(channel)
            gone = asyncio.Event()

            async def ask(team: str) -> set[grpc.StatusCode]:
                codes = set()
                while not gone.is_set():
                    asked = judge_pb2.ListDimensionsRequest(patterns=["core.psnr.*"])
                    call = stub.ListDimensions(asked, metadata=door.metadata(team))
                    codes.add(await call.code())
                return codes

            asking = [asyncio.create_task(ask(team)) for team in MANY_TEAMS]
            await asyncio.sleep(0.5)
            await stack.aclose()
            gone.set()
            assert set().union(*await asyncio.gather(*asking)) == {OK}


def chat(part: str = "", **more: Any) -> str:
    """The JSON of a question to a judge; `part` is put into a part of its message."""
    content = [{"type": "text", "text": "Is it red?"}]
    body = {"model": "judge", "messages": [{"role": "user", "content": content}], **more}
    return json.dumps(body).replace('"type": "text"', f'"type": "text"{part}')


def push(length: int) -> str:
    """A question of which a closed field begins so many bytes after its start."""
    body = chat(user="x", uuid="1")
    return body.replace('"x"', '"' + "x" * (length - body.index('"uuid"') + 1) + '"')


CLOSED_FIELDS: Mapping[str, tuple[str | bytes, str]] = {
    "a name of a cached picture": (chat(', "uuid": "1"'), "uuid"),
    "blanks before the colon": (chat(', "uuid" \n\t: "1"'), "uuid"),
    "the first of its letters by its number": (chat(', "\\u0070riority": 1'), "letters"),
    "behind too many quotes to look at": (chat(user="", bad_words=[""] * 10**6), "too many"),
    "behind too many that are escaped": (chat(user="\n" * 10**6), "too many"),
    "letters by their numbers": (chat(', "\\u0075uid": "1"'), "letters"),
    "capitals in numbers": (chat(', "uu\\u0069D": "1"'), "letters"),
    "an underline by its number": (chat(', "kv\\u005Ftransfer_params": {}'), "letters"),
    **{f"{n} from the end of a piece": (push(PIECE - n), "uuid") for n in range(-1, 8)},
    "letters by their numbers behind a piece": (push(PIECE).replace("uuid", "\\u0075uid"), "letters"),
    "behind too many that may be closed": (chat(user="", bad_words=["p"] * 30_000), "too many"),
    "UTF-16": (chat(', "uuid": "1"').encode("utf-16-le"), "UTF-8"),
    "UTF-32": (chat(', "uuid": "1"').encode("utf-32"), "UTF-8"),
    "before all others": (chat(priority=-1), "priority"),
    "another server's cache": (chat(kv_transfer_params={"remote_host": "x"}), "kv_transfer"),
    "pictures of another server": (chat(ec_transfer_params={}), "ec_transfer_params"),
}


async def test_no_field_of_a_question_touches_those_of_others(tmp_path: Path) -> None:
    judge = ScriptedOpenAi(owner="vllm")
    async with judge.serving() as url:
        servers = {"judge": {"addresses": [url.removeprefix("http://").removesuffix("/v1")]}}
        async with open_door(tmp_path, judges=servers) as door:
            headers = {**dict(door.metadata("vision")), "content-type": "application/json"}
            url = f"https://{door.target}/judges/judge/v1/chat/completions"
            async with aiohttp.ClientSession(headers=headers) as session:

                async def ask(body: str | bytes) -> tuple[int, str]:
                    data = io.BytesIO(body.encode() if isinstance(body, str) else body)
                    async with session.post(url, data=data, ssl=door.tls) as reply:
                        return reply.status, await reply.text()

                for name, (body, word) in CLOSED_FIELDS.items():
                    status, words = await ask(body)
                    assert (name, status) == (name, 400)
                    assert word in json.loads(words)["error"]["message"]
                assert not judge.requests
                mentioned = 'which "uuid": or "priority": <b>ü</b> `{}` \\ \u0001'
                assert (await ask(chat(user=mentioned)))[0] == 200


class _WaitingJudge(ScriptedOpenAi):
    """A judge that answers once so many calls have come to it and its siblings."""

    arrived: set[str]
    expected = 1

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.arrived.add(request.headers["x-request-id"])
        while len(self.arrived) < self.expected:
            await asyncio.sleep(0.01)
        return await super()._answer(request)


async def test_calls_of_one_source_meet_one_judge_while_it_has_no_more_than_others(tmp_path: Path) -> None:
    judges = [_WaitingJudge(owner="vllm") for _ in range(3)]
    arrived: set[str] = set()
    async with contextlib.AsyncExitStack() as stack:
        running = [await stack.enter_async_context(contextlib.AsyncExitStack()) for _ in judges]
        urls = []
        for judge, own in zip(judges, running, strict=True):
            judge.arrived = arrived
            urls.append(await own.enter_async_context(judge.serving()))
        addresses = [url.removeprefix("http://").removesuffix("/v1") for url in urls]
        servers = {"judge": {"addresses": addresses}}
        door = await stack.enter_async_context(open_door(tmp_path, judges=servers))
        bearer = dict(door.metadata("vision"))

        async def ask(source: str) -> None:
            path = "/judges/judge/v1/chat/completions"
            status, _, text = await door.http(path, json.loads(chat()), **bearer, **{"x-source": source})
            assert status == 200, text

        async def find_home(source: str) -> int:
            before = [len(judge.requests) for judge in judges]
            await ask(source)
            return [len(j.requests) - n for j, n in zip(judges, before, strict=True)].index(1)

        async def find_homes() -> list[int]:
            return [await find_home(source) for source in sources]

        sources = [hashlib.sha256(bytes([number])).hexdigest() for number in range(40)]
        homes: list[int] = []
        # Each thread of Envoy learns within a second or so which judges are healthy.
        while len({*homes}) < len(judges) or homes != await find_homes():
            homes = await find_homes()
        assert judges[homes[-1]].headers[-1]["x-source"] == sources[-1]

        for odd in ("x" * 64, "a" * 65, "A" * 64, "a", f"{'a' * 64}, {'a' * 64}"):
            home = await find_home(odd)
            assert "x-source" not in judges[home].headers[-1], odd

        arrived.clear()
        _WaitingJudge.expected = 12
        before = [len(judge.requests) for judge in judges]
        tasks = []
        for number in range(12):  # Envoy counts a call once it has a connection
            tasks.append(asyncio.create_task(ask(sources[0])))
            while len(arrived) <= number:
                await asyncio.sleep(0.01)
        await asyncio.gather(*tasks)
        parts = [len(judge.requests) - n for judge, n in zip(judges, before, strict=True)]
        assert max(parts) <= 6, "of a greedy source"
        assert parts[homes[0]] == max(parts)

        await running[0].aclose()
        _WaitingJudge.expected = 1
        after = [await find_home(source) for source in sources]
        assert 0 not in after
        moved = [new for old, new in zip(homes, after, strict=True) if old not in {0, new}]
        assert len(moved) <= len(sources) // 8, "Maglev moves a few sources of other judges"


async def test_two_servers_have_teams_of_their_own(tmp_path: Path) -> None:
    """However often a team asks; and when its server goes, the other one has it."""
    judges = ScriptedJudge(), ScriptedJudge()
    async with contextlib.AsyncExitStack() as stack, judges[1].serving() as stays:
        leaves = await stack.enter_async_context(judges[0].serving())
        gateway = {"addresses": [url.removeprefix("grpc://") for url in (leaves, stays)]}
        async with open_door(tmp_path, teams=MANY_TEAMS, gateway=gateway) as door, door.channel() as channel:
            for team in MANY_TEAMS * 4:
                assert await score(channel, door.metadata(team)) is OK
            first, second = ({*judge.teams} for judge in judges)
            assert first
            assert second
            assert not first & second
            await stack.aclose()
            codes = [await score(channel, door.metadata(team)) for team in MANY_TEAMS]
            # What is under way to a server when it goes is lost, and asked of no other.
            assert sum(code is not OK for code in codes) <= 1
            assert {*judges[1].teams} >= {team for team, code in zip(MANY_TEAMS, codes, strict=True) if code is OK}


async def test_a_team_has_one_server_by_grpc_and_by_json(tmp_path: Path) -> None:
    """Although the ports differ, by which servers are told apart elsewhere."""
    judges = ScriptedJudge(), ScriptedJudge()
    by_json: list[set[str]] = [set(), set()]

    def make_web(teams: set[str]) -> TestServer:
        async def answer(request: web.Request) -> web.Response:
            teams.add(request.headers.get("x-team", ""))
            return web.Response()

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        return TestServer(app)

    async with contextlib.AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(judge.serving()) for judge in judges]
        plain = [await stack.enter_async_context(make_web(teams)) for teams in by_json]
        gateway = {
            "addresses": [url.removeprefix("grpc://") for url in urls],
            "json_addresses": [f"{each.host}:{each.port}" for each in plain],
        }
        async with open_door(tmp_path, teams=MANY_TEAMS, gateway=gateway) as door, door.channel() as channel:
            for team in MANY_TEAMS * 2:
                assert await score(channel, door.metadata(team)) is OK
                assert (await door.http("/v1/dimensions", **dict(door.metadata(team))))[0] == 200
        by_grpc = [{*judge.teams} for judge in judges]
        assert all(by_grpc)
        assert [teams - {""} for teams in by_json] == by_grpc
