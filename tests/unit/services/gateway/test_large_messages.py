"""Large messages of one team, which gRPC copies in the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter

import grpc
import pytest

from editjudge_services.gateway import interceptor
from editjudge_services.gateway.interceptor import LargeMessages

from ....patience import until

LARGE, SMALL = bytes(1 + interceptor._LARGE_BYTES), b"small"


class Line:
    """Counts the reads that run side by side; each takes a while."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    def make_read(self, team: str, data: bytes, seconds: float = 0.01) -> asyncio.Task[bytes]:
        async def read() -> bytes:
            self.now[team] += 1
            self.most[team] = max(self.most[team], self.now[team])
            try:
                await asyncio.sleep(seconds)
            finally:
                self.now[team] -= 1
            return data

        return asyncio.ensure_future(self.messages.read(team, read))

    messages: LargeMessages


@pytest.fixture
async def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    monkeypatch.setattr(interceptor, "_TURN_SECONDS", 3600.0)
    line = Line()
    line.messages = LargeMessages()
    return line


async def test_a_team_s_large_messages_are_read_one_after_another_and_others_side_by_side(line: Line) -> None:
    assert await line.make_read("hostile", LARGE) == LARGE
    line.most.clear()
    reads = [line.make_read(team, LARGE if team == "hostile" else SMALL) for team in ("hostile", "vision") * 8]
    assert {*await asyncio.gather(*reads)} == {LARGE, SMALL}
    assert line.most == {"hostile": 1, "vision": 8}


async def test_who_sends_small_messages_and_ends_streams_waits_for_no_turn(line: Line) -> None:
    async def end() -> object:
        return grpc.aio.EOF

    assert await line.messages.read("vision", end) is grpc.aio.EOF
    assert await line.make_read("vision", SMALL) == SMALL
    reads = [line.make_read("vision", SMALL) for _ in range(8)]
    await asyncio.gather(*reads)
    assert line.most["vision"] == 8


async def test_a_message_that_does_not_arrive_or_whose_caller_goes_holds_up_no_other(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    await line.make_read("team", LARGE)
    leaving = line.make_read("team", SMALL, 3600.0)
    waiting = line.make_read("team", SMALL)
    await until(lambda: line.now["team"] == 1)
    leaving.cancel()
    assert await waiting == SMALL
    assert not line.now["team"]
    monkeypatch.setattr(interceptor, "_TURN_SECONDS", 0.01)
    idle = line.make_read("team", SMALL, 3600.0)
    await until(lambda: line.now["team"] == 1)
    assert await line.make_read("team", SMALL) == SMALL
    assert line.now["team"] == 1
    idle.cancel()


async def test_a_team_is_forgotten_after_a_time(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interceptor, "_LARGE_SECONDS", 0.0)
    await line.make_read("team", LARGE)
    await until(lambda: not line.messages._turns)
