"""What a hostile team with a valid token costs honest ones.

The real Envoy with TLS and tokens stands before two replicas of the Judge service, which ask a
scripted judge that answers after 50 ms. The door gives each team a replica. Three honest teams
score edits, each edit anew, first alone and then for a minute beside a hostile team: two have
another replica than it, one has the same. The hostile team does at once all that a caller may try:
prompts that grow, messages of a million parts, pictures with endless heads, streams of large
messages, requests that it does not wait for, thousands of calls for one edit, the largest pictures,
floods. Its processes run at the lowest priority: a hostile team has machines of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json
import os
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp
import click
import grpc
import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table
from scripted_judge import EDIT, Script, serve_script

from editjudge.base.config import JudgeEndpoint, Settings
from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc
from editjudge_services.front.identity import Authority, TeamKeys
from editjudge_services.front.server import EnvoyServer
from editjudge_services.front.values import FrontValues

TEAMS = [f"team-{number}" for number in range(12)]
"""Of whom one is hostile and three are honest, by the replicas that the door gives them."""
CALLERS = 2
"""How many calls of an honest team are in flight."""
LOST_SECONDS = 60.0
TASK = "count_change"
MIB = 1024 * 1024
LARGE = 60 * MIB
_numbers = itertools.count()


def make_png(side: int, seed: int) -> bytes:
    """A picture with some detail."""
    pixels = np.random.default_rng(seed).integers(0, 255, (64, 64, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).resize((side, side)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


PICTURES = make_png(512, 0), make_png(512, 1)


def make_request(instruction: str = "", **more: Any) -> pb.ScoreRequest:
    """A new edit, on one dimension that asks the judge once."""
    before, after = (pb.Picture(data=data) for data in PICTURES)
    edit = pb.Edit(instruction=instruction or EDIT.format(next(_numbers)), sources=[before], edited=after, task=TASK)
    fields = {"dimensions": ["kris.visual_consistency"], "protocol": pb.Protocol(benchmark="kris"), **more}
    return pb.ScoreRequest(edit=edit, **fields)


def serve_service(port: Connection, judge: str, folder: str) -> None:
    """The Judge service with a cache, in a process of its own."""
    from editjudge_services.gateway.http import serve_http
    from editjudge_services.gateway.options import ServiceOptions
    from editjudge_services.gateway.server import serve_grpc, set_up_interpreter
    from editjudge_services.gateway.service import JudgeService

    endpoint = JudgeEndpoint(url=f"{judge}/v1", model="judge")
    options = ServiceOptions(cache=Path(folder))

    async def run() -> None:
        async with (
            JudgeService(Settings(judges={"judge": endpoint}, concurrency=16), options) as service,
            serve_grpc(service, "127.0.0.1:0") as address,
            serve_http(service, "127.0.0.1", 0, 1.0) as web,
        ):
            set_up_interpreter()
            port.send((os.getpid(), address, web))
            await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def open_service(judge: str, folder: Path) -> Iterator[tuple[int, str, str]]:
    """The Judge service; gives its process, and its addresses for gRPC and JSON."""
    spawn = get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=serve_service, args=(theirs, judge, str(folder)), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


@contextmanager
def open_door(services: list[str], webs: list[str], folder: Path) -> Iterator[tuple[EnvoyServer, TeamKeys]]:
    """The front door before them, with default limits."""
    keys, authority = TeamKeys(folder), Authority(folder)
    authority.renew_certificate(("localhost", "127.0.0.1"))
    keys.publish()
    values = FrontValues.model_validate(
        {
            "listen": "127.0.0.1:0",
            "metrics": "127.0.0.1:0",
            "admin_port": 0,
            "certificate": authority.server,
            "private_key": authority.server_key,
            "tokens": {"keys": keys.public},
            "gateway": {"addresses": services, "json_addresses": [web.removeprefix("http://") for web in webs]},
            "drain_seconds": 1,
        }
    )
    for team in TEAMS:
        keys.issue_token(team, 1, "batch", values.tokens)
    envoy = EnvoyServer(folder / "front.log", values, folder, authority.certificate)
    envoy.start()
    try:
        yield envoy, keys
    finally:
        envoy.stop()


class Caller:
    """A team's way to the door."""

    def __init__(self, target: str, ca: bytes, token: str) -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
        self.channel = grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(ca), options)
        self.stub = judge_pb2_grpc.JudgeServiceStub(self.channel)
        self.metadata = (("authorization", f"Bearer {token}"),)
        self.target, self.ca = target, ca

    def send(self, method: str, data: bytes) -> Any:
        """A call with bytes that protobuf did not make."""
        return self.channel.unary_unary(f"/editjudge.v1.JudgeService/{method}")(
            data, metadata=self.metadata, timeout=60
        )


async def score_honestly(caller: Caller, seconds: float, answers: Counter[str]) -> list[float]:
    """Seconds of each call of a team that asks again what was refused for want of room.

    A call that has no answer after a minute is lost, and counts as a minute.
    """
    waits: list[float] = []
    end = time.monotonic() + seconds

    async def score(request: pb.ScoreRequest) -> None:
        while True:
            try:
                reply = await caller.stub.Score(request, metadata=caller.metadata)
            except grpc.aio.AioRpcError as error:
                answers[error.code().name] += 1
                await asyncio.sleep(0.2)
                continue
            answers["scored" if reply.outcomes[0].HasField("value") else "no number"] += 1
            return

    async def ask() -> None:
        while time.monotonic() < end:
            began = time.monotonic()
            try:
                async with asyncio.timeout(LOST_SECONDS):
                    await score(make_request())
            except TimeoutError:
                answers["lost"] += 1
            waits.append(time.monotonic() - began)
            await asyncio.sleep(0.1)

    await asyncio.gather(*(ask() for _ in range(CALLERS)))
    return waits


def make_field(number: int, data: bytes) -> bytes:
    """A field of a message, by its number and bytes."""
    length, size = bytearray(), len(data)
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes((number << 3 | 2,)) + bytes(length) + bytes((size,)) + data


class Hostile:
    """The deeds of a hostile team; each is done again and again."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.answers: Counter[str] = Counter()

    async def count(self, deed: str, call: Any) -> None:
        """Wait for a call and count its status."""
        with contextlib.suppress(asyncio.CancelledError):
            self.answers[f"{deed}: {(await call.code()).name}"] += 1

    def score(self, request: pb.ScoreRequest) -> Any:
        """One edit."""
        return self.caller.stub.Score(request, metadata=self.caller.metadata, timeout=60)

    async def template(self) -> None:
        """A small template that repeats a long instruction."""
        text = 'user = """{source}{edited}' + "{instruction}" * 1800 + '"""\n'
        protocol = pb.Protocol(benchmark="kris", prompts={"kris/consistency.toml": text})
        request = make_request("a long text " * 8000, protocol=protocol)
        await self.count("a prompt of 180 MB", self.score(request))

    async def parts(self) -> None:
        """A message of thirty million empty parts."""
        edit = make_field(2, b"\x22\x00" * (LARGE // 2))
        await self.count("empty parts", self.caller.send("Score", edit))

    async def heads(self) -> None:
        """A picture whose head does not end."""
        data = b"P6" + b" " * (16 * MIB) + b"8 8 255\n" + bytes(192)
        picture = pb.Picture(data=data)
        edit = pb.Edit(instruction="x", sources=[picture], edited=picture)
        request = pb.ScoreRequest(edit=edit, dimensions=["core.psnr.*"])
        await self.count("an endless head", self.score(request))

    async def streams(self) -> None:
        """Eight streams of the largest messages."""
        picture = pb.Picture(data=os.urandom(28 * MIB))
        edit = pb.Edit(instruction="x", sources=[picture], edited=picture)
        message = pb.ScoreStreamRequest(request=pb.ScoreRequest(edit=edit))

        async def messages() -> AsyncIterator[pb.ScoreStreamRequest]:
            for _ in range(16):
                yield message

        async def stream() -> None:
            call = self.caller.stub.ScoreStream(messages(), metadata=self.caller.metadata, timeout=60)
            with contextlib.suppress(grpc.aio.AioRpcError):
                async for _ in call:
                    pass
            await self.count("large streams", call)

        await asyncio.gather(*(stream() for _ in range(8)))

    async def hog(self) -> None:
        """Thirty edits of 121 calls each."""
        protocol = pb.Protocol(benchmark="kris", rounds=121)
        calls = [self.score(make_request(protocol=protocol)) for _ in range(30)]
        await asyncio.gather(*(self.count("121 calls an edit", call) for call in calls))

    async def crowd(self) -> None:
        """Far more calls at a time than there are places."""
        calls = [self.score(make_request()) for _ in range(400)]
        await asyncio.gather(*(self.count("400 at a time", call) for call in calls))

    async def hurry(self) -> None:
        """Deadlines so short that none is met."""
        stub, metadata = self.caller.stub, self.caller.metadata
        calls = [stub.Score(make_request(), metadata=metadata, timeout=0.03) for _ in range(10)]
        await asyncio.gather(*(self.count("a deadline of 30 ms", call) for call in calls))

    async def departure(self) -> None:
        """Calls whose caller does not wait for the answer."""
        calls = [self.score(make_request()) for _ in range(8)]
        await asyncio.sleep(0.06)
        for call in calls:
            call.cancel()
        self.answers["broken off"] += len(calls)

    async def pictures(self) -> None:
        """The largest pictures, which pack well."""
        buffer = io.BytesIO()
        Image.new("RGB", (8000, 8000)).save(buffer, "PNG", compress_level=1)
        picture = pb.Picture(data=buffer.getvalue())
        edit = pb.Edit(instruction="x", sources=[picture], edited=picture)
        calls = [self.score(pb.ScoreRequest(edit=edit, dimensions=["core.ssim.*"])) for _ in range(4)]
        await asyncio.gather(*(self.count("64 megapixels", call) for call in calls))

    async def flood(self) -> None:
        """Lists of all dimensions."""
        request, metadata = pb.ListDimensionsRequest(), self.caller.metadata
        calls = [self.caller.stub.ListDimensions(request, metadata=metadata) for _ in range(50)]
        await asyncio.gather(*(self.count("lists", call) for call in calls))

    async def signatures(self) -> None:
        """Signatures of as many dimensions as a protocol may have, each time others."""
        prompts = {"kris/system.txt": f"{time.monotonic()}"}
        protocol = pb.Protocol(benchmark="kris", rounds=130, prompts=prompts)
        request = pb.GetPanelRequest(protocol=protocol, dimensions=["*"])
        call = self.caller.stub.GetPanel(request, metadata=self.caller.metadata, timeout=60)
        await self.count("signatures", call)

    async def json(self) -> None:
        """JSON that is nothing but brackets."""
        tls = ssl.create_default_context(cadata=self.caller.ca.decode())
        headers = dict(self.caller.metadata) | {"content-type": "application/json"}
        body = b'{"requests": [' + b"[]," * (LARGE // 3 - 8) + b"[]]}"
        url = f"https://{self.caller.target}/v1/score:batch"
        async with aiohttp.ClientSession(headers=headers) as session:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                timeout = aiohttp.ClientTimeout(60)
                async with session.post(url, data=body, ssl=tls, timeout=timeout) as reply:
                    self.answers[f"brackets: {reply.status}"] += 1

    async def act(self) -> None:
        """All deeds side by side, for ever."""
        deeds: list[Callable[[], Awaitable[None]]] = [
            self.template,
            self.parts,
            self.heads,
            self.streams,
            self.hog,
            self.crowd,
            self.hurry,
            self.departure,
            self.pictures,
            self.flood,
            self.signatures,
            self.json,
        ]

        async def repeat(deed: Callable[[], Awaitable[None]]) -> None:
            while True:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    await deed()
                await asyncio.sleep(0.05)

        await asyncio.gather(*map(repeat, deeds))


def _attack(results: Connection, seconds: float, *way: Any) -> None:
    os.nice(19)

    async def run() -> None:
        hostile = Hostile(Caller(*way))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await hostile.act()
        results.send(dict(hostile.answers))

    asyncio.run(run())


class Memory:
    """The largest resident memory of a process, by looking now and then."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self.most_mib = 0.0

    async def watch(self) -> None:
        """Look ten times a second."""
        while True:
            for line in self._status.read_text().splitlines():
                if line.startswith("VmRSS:"):
                    self.most_mib = max(self.most_mib, int(line.split()[1]) / 1024)
            await asyncio.sleep(0.1)


async def find_replicas(envoy: EnvoyServer, callers: dict[str, Caller]) -> dict[str, list[str]]:
    """The teams of each replica, by the door's log."""
    for caller in callers.values():
        await caller.stub.ListDimensions(
            pb.ListDimensionsRequest(patterns=["core.psnr.*"]), metadata=caller.metadata, wait_for_ready=True
        )
    replicas: dict[str, list[str]] = {}
    while sum(map(len, replicas.values())) < len(callers):
        await asyncio.sleep(0.2)
        lines = envoy.calls.read_text().splitlines()
        replicas = {}
        for call in map(json.loads, lines):
            replicas.setdefault(call["server"], []).append(call["team"])
    return replicas


async def measure(seconds: float, folder: Path) -> tuple[Table, dict[str, int], str]:
    """Honest teams alone, then beside the hostile one."""
    table = Table("honest teams", "calls", "p50 ms", "p99 ms", "over alone", "lost", "asked again")
    with (
        serve_script(Script(latency=0.05)) as judge,
        open_service(judge, folder / "first") as first,
        open_service(judge, folder / "second") as second,
        open_door([first[1], second[1]], [first[2], second[2]], folder) as (envoy, keys),
    ):
        target, ca = envoy.url.removeprefix("grpcs://"), envoy.state.ca.read_bytes()

        def make_way(team: str) -> tuple[str, bytes, str]:
            token = keys.issue_token(team, 1, "batch", envoy.values.tokens)
            return target, ca, token

        all_callers = {team: Caller(*make_way(team)) for team in TEAMS}
        replicas = await find_replicas(envoy, all_callers)
        theirs_teams, others = sorted(replicas.values(), key=len, reverse=True)
        hostile = theirs_teams[0]
        places = {
            f"{others[0]}, another replica": others[0],
            f"{others[1]}, another replica": others[1],
            f"{theirs_teams[1]}, the same replica": theirs_teams[1],
        }
        callers = [all_callers[team] for team in places.values()]
        memories = [Memory(pid) for pid in (first[0], second[0], envoy.pid)]
        watches = [asyncio.create_task(each.watch()) for each in memories]
        spawn = get_context("spawn")
        ours, theirs = spawn.Pipe()
        alone: dict[str, tuple[float, float]] = {}
        attack_answers: dict[str, int] = {}
        await asyncio.gather(*(score_honestly(each, 3, Counter()) for each in callers))
        for name in ("alone", "beside"):
            process = None
            if attacks := name != "alone":
                arguments = (theirs, seconds + 5, *make_way(hostile))
                process = spawn.Process(target=_attack, args=arguments, daemon=True)
                process.start()
                await asyncio.sleep(4)
            counts = [Counter[str]() for _ in callers]
            parts = await asyncio.gather(
                *(
                    score_honestly(c, seconds if attacks else seconds / 3, count)
                    for c, count in zip(callers, counts, strict=True)
                )
            )
            if process is not None:
                while process.is_alive() and not ours.poll():
                    await asyncio.sleep(0.2)
                attack_answers = ours.recv() if ours.poll() else {}
                process.kill()
            for team, waits, count in zip(places, parts, counts, strict=True):
                p50, p99 = (1e3 * float(each) for each in np.percentile(waits, [50, 99]))
                before = alone.setdefault(team, (p50, p99))
                lost_count = count["lost"] + count["no number"]
                again = sum(count.values()) - count["scored"] - lost_count
                ratio = f"{p50 / before[0]:.2f}, {p99 / before[1]:.2f}"
                figures = f"{len(waits)}", f"{p50:.0f}", f"{p99:.0f}", ratio
                table.add_row(f"{team}, {name}", *figures, str(lost_count), str(again))
        for each in watches:
            each.cancel()
        most = [f"{each.most_mib:.0f}" for each in memories]
        memory = f"most memory: replicas {most[0]} and {most[1]} MiB, door {most[2]} MiB"
    return table, attack_answers, memory


@click.command()
@click.option("--seconds", default=60.0, help="How long the attack lasts.")
def main(seconds: float) -> None:
    """Measure what a hostile team costs the others."""
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        table, answers, memory = asyncio.run(measure(seconds, Path(name)))
    console.print(table)
    console.print(memory)
    deeds = Table("what the hostile team got", "times")
    for deed, times in sorted(answers.items()):
        deeds.add_row(deed, str(times))
    console.print(deeds)


if __name__ == "__main__":
    main()
