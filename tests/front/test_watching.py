"""What the front door tells those who watch it, and how much it holds."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from pathlib import Path
from typing import Any

import grpc

from editjudge.v1 import judge_pb2 as pb

from ..fakes.otlp import Spans
from ..patience import patience, until
from .door import OK, Door, open_judged_door, score

MB = 1024 * 1024
HEAP = 128 * MB
SENT_AT_ONCE = 16 * MB
PICTURE, INSTRUCTION = b"a picture of nobody", "paint the fence green"


TEAMS = ("vision", "audio", "hostile")


def edit(size: int = 0) -> pb.ScoreRequest:
    picture = pb.Picture(data=PICTURE + bytes(size))
    sent = pb.Edit(instruction=INSTRUCTION, sources=[picture], edited=picture)
    return pb.ScoreRequest(request_id="0", edit=sent)


async def test_spans_have_the_team_and_no_token_picture_or_instruction(tmp_path: Path) -> None:
    received = Spans()
    async with (
        received.serving() as at,
        open_judged_door(tmp_path, otlp=at, trace_percent=100) as (door, _),
        door.channel() as channel,
    ):
        assert await score(channel, door.metadata("vision"), edit()) == OK
        await until(lambda: len(received.spans) >= 2)
    calls = [span for span in received.spans if any(_is_team(a, "vision") for a in span.attributes)]
    assert calls
    assert {span.parent_span_id for span in received.spans} & {span.span_id for span in calls}
    told = b"".join(each.SerializeToString() for each in received.requests)
    assert b"JudgeService/Score" in told
    secrets = (PICTURE, INSTRUCTION.encode(), door.token("vision").split(".")[0].encode())
    assert not [secret for secret in secrets if secret in told]


def _is_team(attribute: Any, team: str) -> bool:
    return (attribute.key, attribute.value.string_value) == ("editjudge.team", team)


def resident(pid: int) -> int:
    """Bytes of memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


class Hoarder:
    """A team that sends large bodies all the time and never their end."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.answers: Counter[str] = Counter()

    async def act(self) -> None:
        """On several connections, several bodies on each."""
        await asyncio.gather(*(self._connection() for _ in range(4)))

    async def _connection(self) -> None:
        # The Judge service reads a request when it has room. For others the door holds it.
        path = "/inference.GRPCInferenceService/ModelInfer"
        metadata = self._door.metadata("hostile")
        async with self._door.channel() as channel:

            async def body() -> None:
                call = channel.stream_unary(path)(metadata=metadata, timeout=60)
                with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    for _ in range(2):
                        await call.write(bytes(SENT_AT_ONCE))
                    await asyncio.sleep(60)
                self.answers[(await call.code()).name] += 1

            while True:
                await asyncio.gather(*(body() for _ in range(4)))


async def test_a_team_that_fills_the_door_is_cut_and_the_others_go_on(tmp_path: Path) -> None:
    # Now and then a door's heap stays full while it is attacked. Another door then decides.
    for name in ("first", "second"):
        try:
            await _fill(tmp_path / name)
        except TimeoutError:
            if name == "second":
                raise
        else:
            break


async def _fill(folder: Path) -> None:
    limits = {"request_bytes": 64 * MB, "heap_bytes": HEAP}
    triton = {"none": {"addresses": ["127.0.0.1:1"]}}
    async with open_judged_door(folder, teams=TEAMS, limits=limits, triton=triton) as (door, _):
        before = resident(door.server.pid)
        hoarder = Hoarder(door)
        attack = asyncio.create_task(hoarder.act())
        largest = 0
        async with door.channel() as ours, door.channel() as theirs:
            asking = (ours, door.metadata("vision")), (theirs, door.metadata("audio"))
            await until(lambda: hoarder.answers)
            for _ in range(30):
                for channel, metadata in asking:
                    await _ask_until_answered(channel, metadata)
                largest = max(largest, resident(door.server.pid))
        attack.cancel()
        await asyncio.gather(attack, return_exceptions=True)
        assert door.server.is_healthy()
    # The hoarder sends four times the heap at a time, all of which is held where none is cut. How
    # much comes between two looks at the heap, ten a second, is for the machine to say.
    assert largest < before + 3 * HEAP
    reached = {call["team"] for call in door.read_calls() if call["server"]}
    assert reached == {"vision", "audio"}


async def _ask_until_answered(channel: Any, metadata: Any) -> None:
    """Asked again as every client does; what is full now is not full for long."""
    began = time.monotonic()
    while await score(channel, metadata, edit(MB)) != OK:
        if time.monotonic() - began > patience(60):
            raise TimeoutError("never answered")
        await asyncio.sleep(0.1)
