"""Threads of a request are waited for, whatever becomes of the request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from editjudge.base.fair_queue import TEAM
from editjudge.base.threads import FairThreads, in_thread
from editjudge.panel.coalesce import Coalescer

from ...patience import patience, until


class Work:
    """Something that a thread does until it is let go on."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0
        self.go_on = threading.Event()

    def __call__(self) -> int:
        self.begun += 1
        self.go_on.wait(60)
        self.ended += 1
        return self.ended


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with FairThreads(1) as threads:
        yield threads


async def test_who_is_cancelled_leaves_when_what_began_is_through(threads: ThreadPoolExecutor) -> None:
    work = Work()

    async def request() -> None:
        jobs = (in_thread(work, executor=threads) for _ in range(3))
        await asyncio.gather(*jobs, return_exceptions=True)

    task = asyncio.create_task(request())
    await until(lambda: work.begun)
    for _ in range(3):  # however often it is told
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
    work.go_on.set()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert (work.begun, work.ended) == (1, 1)  # the others had not begun


async def test_teams_take_turns_at_threads_by_the_time_that_their_work_takes(threads: ThreadPoolExecutor) -> None:
    blocking = {team: Work() for team in ("slow", "quick")}
    began: list[str] = []

    def work(team: str, seconds: float) -> None:
        began.append(team)
        time.sleep(seconds)

    async def request(team: str, work: Callable[..., object], *args: object) -> None:
        TEAM.set(team)
        await in_thread(work, *args, executor=threads)

    first = [asyncio.create_task(request(team, each)) for team, each in blocking.items()]
    await until(lambda: all(each.begun for each in blocking.values()))
    # A thread of the quick team that has to wait for a processor is charged for that.
    asked = [("slow", patience(0.2))] * 4 + [("quick", 0.001)] * 4
    requests = [asyncio.create_task(request(each[0], work, *each)) for each in asked]
    await asyncio.sleep(0)
    await asyncio.wait_for(request("small", work, "small", 0.0), patience(10))
    assert began == ["small"], "it has a thread beside those that are busy"
    for each in blocking.values():
        each.go_on.set()
    await asyncio.gather(*first, *requests)
    assert began[-3:] == ["slow"] * 3, "what takes long is charged"


async def test_a_failure_comes_to_who_asked(threads: ThreadPoolExecutor) -> None:
    with pytest.raises(ValueError, match="seven"):
        await in_thread(int, "seven", executor=threads)


async def test_what_others_wait_for_too_is_not_given_up_with_who_asked_first(threads: ThreadPoolExecutor) -> None:
    busy = Work()
    coalesced: Coalescer[int] = Coalescer()

    async def asks() -> int:
        return await coalesced("key", lambda _: in_thread(int, "7", executor=threads))

    blocking = asyncio.create_task(in_thread(busy, executor=threads))
    await until(lambda: busy.begun)
    first, second = asyncio.create_task(asks()), asyncio.create_task(asks())
    for _ in range(20):
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert first.cancelled()
    busy.go_on.set()
    assert await second == 7
    await blocking
