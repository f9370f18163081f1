"""Frames and calls that cost their sender nothing, through the real Envoy."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from pathlib import Path

import aiohttp
import grpc
import pytest

from editjudge.v1 import judge_pb2 as pb
from editjudge.v1 import judge_pb2_grpc

from ..fakes.grpc_server import Failure
from ..fakes.judge import ScriptedJudge
from ..fakes.openai import ScriptedOpenAi
from ..patience import patience, until
from .door import MANY_TEAMS, OK, WIDE, Door, open_door, open_judged_door, score

AT_ONCE = 20
DATA, HEADERS, RESET, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
END_STREAM, END_HEADERS = 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int = 0, stream: int = 0, data: bytes = b"") -> bytes:
    """A frame, RFC 9113 section 4.1."""
    return len(data).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + data


def pack(headers: Mapping[str, str]) -> bytes:
    """Headers as literals that no table holds, RFC 7541 section 6.2.2."""
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in headers.items())


def _text(text: str) -> bytes:
    """A text with its length, which has a prefix of seven bits."""
    size, head = len(text), bytearray()
    if size < 127:
        return bytes((size,)) + text.encode()
    head.append(127)
    size -= 127
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes(head) + bytes((size,)) + text.encode()


def call(door: Door) -> dict[str, str]:
    """The headers of a call by a team with a token."""
    return {
        ":method": "POST",
        ":scheme": "https",
        ":path": "/editjudge.v1.JudgeService/Score",
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
        **dict(door.metadata("hostile")),
    }


def pings(_: Door) -> Iterator[bytes]:
    """Pings, whose answers nobody reads."""
    return (frame(PING, data=bytes(8)) for _ in count())


def settings(_: Door) -> Iterator[bytes]:
    """Settings, each of which is to be answered."""
    return (frame(SETTINGS) for _ in count())


def resets(door: Door) -> Iterator[bytes]:
    """Calls that are broken off at once."""
    block = pack(call(door))
    return (
        frame(HEADERS, END_HEADERS, stream, block) + frame(RESET, 0, stream, (8).to_bytes(4)) for stream in count(1, 2)
    )


def continuations(door: Door) -> Iterator[bytes]:
    """Headers that do not end."""
    yield frame(HEADERS, 0, 1, pack(call(door)))
    yield from (frame(CONTINUATION, 0, 1, pack({f"x-{n}": "x" * 1000})) for n in count())


def bombs(door: Door) -> Iterator[bytes]:
    """Headers that name a long entry of the table again and again: a byte for four thousand."""
    entry = b"\x40" + _text("x") + _text("y" * 4000)
    yield frame(HEADERS, END_HEADERS | END_STREAM, 1, pack(call(door)) + entry)
    again = pack(call(door)) + b"\xbe" * 16_000
    yield from (frame(HEADERS, END_HEADERS | END_STREAM, n, again) for n in count(3, 2))


def empties(door: Door) -> Iterator[bytes]:
    """Data without data."""
    yield frame(HEADERS, END_HEADERS, 1, pack(call(door)))
    yield from (frame(DATA, 0, 1) for _ in count())


async def send(door: Door, flood: Callable[[Door], Iterator[bytes]]) -> int:
    """Send a flood on a connection that reads little, until the door ends it; how many frames."""
    tls, frames, sent = door.tls, flood(door), 0
    tls.set_alpn_protocols(["h2"])
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    own.setblocking(False)
    await asyncio.get_running_loop().sock_connect(own, door.address)
    host, most = "localhost", 16
    _, writer = await asyncio.open_connection(sock=own, ssl=tls, server_hostname=host, limit=most)
    writer.write(PREFACE + frame(SETTINGS))
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(b"".join(islice(frames, AT_ONCE)))
            sent += AT_ONCE
            await writer.drain()
            await asyncio.sleep(0)
    return sent


@pytest.mark.parametrize("flood", [pings, settings, resets, continuations, bombs, empties])
async def test_a_flood_of_frames_ends_its_connection_and_others_go_on(
    tmp_path: Path, flood: Callable[[Door], Iterator[bytes]]
) -> None:
    async with open_judged_door(tmp_path, teams=("vision", "hostile"), rate=WIDE) as (door, judge):
        sending = asyncio.create_task(asyncio.wait_for(send(door, flood), patience(120)))
        async with door.channel() as channel:
            while not sending.done():
                assert await score(channel, door.metadata("vision")) is OK
        await sending
        assert {*judge.teams} == {"vision"}


STORM = 60
"""Calls of one team, one after another; ten errors once put a server out."""


@pytest.mark.parametrize("way", ["errors", "late answers", "calls taken back", "deadlines"])
async def test_calls_of_one_team_put_no_server_out_for_others(tmp_path: Path, way: str) -> None:
    code = {"errors": grpc.StatusCode.INTERNAL, "late answers": grpc.StatusCode.DEADLINE_EXCEEDED}
    judges = [ScriptedJudge(Failure(code[way], "x") if way in code else 3600.0) for _ in range(2)]
    async with contextlib.AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(judge.serving()) for judge in judges]
        gateway = {"addresses": [url.removeprefix("grpc://") for url in urls]}
        door = await stack.enter_async_context(open_door(tmp_path, teams=["hostile", *MANY_TEAMS], gateway=gateway))
        channel = await stack.enter_async_context(door.channel())
        stub, theirs = judge_pb2_grpc.JudgeServiceStub(channel), door.metadata("hostile")
        for number in range(1, STORM + 1):
            seconds = 0.1 if way == "deadlines" else 60
            call = stub.Score(pb.ScoreRequest(), metadata=theirs, timeout=seconds)
            if way == "calls taken back":
                await until(lambda: sum(len(judge.teams) for judge in judges) == number)  # noqa: B023
                call.cancel()
            else:
                assert await call.code() is not OK
        async with aiohttp.ClientSession() as session, session.get(door.server.metrics_url) as got:
            ejections = re.findall(r"ejections_enforced_total{.*} (\d+)", await got.text())
        assert {*ejections} == {"0"}
        if way not in code:
            # On a busy machine a deadline may pass before the call has reached a server.
            await until(
                lambda: 0 < sum(len(judge.teams) for judge in judges) == sum(judge.cancelled for judge in judges)
            )
        for judge in judges:
            judge.script = [None]
            judge.requests.clear()
        for team in MANY_TEAMS:
            assert await score(channel, door.metadata(team)) is OK
        assert all(judge.teams for judge in judges)


LARGE, LARGE_AT_ONCE, MIB = 63, 8, 1024 * 1024
"""MiB of a body that the door looks through, just below its limit."""


async def test_large_bodies_that_are_looked_through_cost_others_no_call_and_the_door_bounded_memory(
    tmp_path: Path,
) -> None:
    """The field that is closed stands at the end. Each of the other team's calls has a connection of its own."""
    judge = ScriptedOpenAi(owner="vllm")
    question = b'{"model":"judge","messages":[{"role":"user","content":"%s"}]%s}'
    large, small = question % (b"A" * (LARGE * MIB), b',"uuid":"1"'), question % (b"Is it red?", b"")
    async with judge.serving() as url, aiohttp.ClientSession() as session:
        judges = {"judge": {"addresses": [url.removeprefix("http://").removesuffix("/v1")]}}
        teams, limits = ("vision", "hostile"), {"request_bytes": (LARGE + 1) * MIB}
        async with open_door(tmp_path, judges=judges, teams=teams, limits=limits) as door:

            def measure(name: str) -> int:
                """A line of the memory of its process, in MiB."""
                text = Path(f"/proc/{door.server.pid}/status").read_text()
                return int(re.findall(rf"{name}:\s+(\d+)", text)[0]) // 1024

            async def ask(team: str, body: bytes) -> tuple[int, str]:
                headers = {**dict(door.metadata(team)), "content-type": "application/json", "connection": "close"}
                address = f"https://{door.target}/judges/judge/v1/chat/completions"
                async with session.post(address, data=io.BytesIO(body), headers=headers, ssl=door.tls) as reply:
                    return reply.status, await reply.text()

            before, answers = measure("VmRSS"), set()
            sending = asyncio.gather(*(ask("hostile", large) for _ in range(LARGE_AT_ONCE)))
            while not sending.done():
                answers.add((await ask("vision", small))[0])
            assert answers == {200}
            for status, text in await sending:
                assert (status, "uuid: this field is closed" in text) == (400, True), text
            assert measure("VmHWM") < before + LARGE_AT_ONCE * (LARGE + 1) + 64
