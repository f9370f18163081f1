"""Threads of a request are waited for, whatever becomes of the request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from editjudge.base.threads import Threads, through

from ...patience import until


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
def threads() -> Iterator[Threads]:
    with Threads(1) as threads:
        yield threads


async def test_who_is_cancelled_leaves_when_what_began_is_through(threads: Threads) -> None:
    work = Work()

    async def request() -> None:
        async with through():
            loop = asyncio.get_running_loop()
            await asyncio.gather(*(loop.run_in_executor(threads, work) for _ in range(3)))

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


async def test_one_that_fails_waits_for_the_others(threads: Threads) -> None:
    work = Work()

    async def fail() -> None:
        await until(lambda: work.begun)
        threading.Timer(0.05, work.go_on.set).start()
        raise ValueError("no")

    async def request() -> None:
        async with through():
            loop = asyncio.get_running_loop()
            await asyncio.gather(loop.run_in_executor(threads, work), fail())

    with pytest.raises(ValueError, match="no"):
        await request()
    assert work.ended == 1


async def test_a_request_waits_for_its_own_threads_alone() -> None:
    with Threads(2) as threads:
        slow = Work()
        loop = asyncio.get_running_loop()
        other = loop.run_in_executor(threads, slow)
        async with through():
            assert await loop.run_in_executor(threads, int, "7") == 7
        assert not slow.ended
        slow.go_on.set()
        assert await other == 1


async def test_what_is_cancelled_while_it_waits_for_threads_is_cancelled() -> None:
    with Threads(1) as threads:
        work = Work()

        async def request() -> None:
            async with through():
                threads.submit(work)
                await until(lambda: work.begun)

        task = asyncio.create_task(request())
        await until(lambda: work.begun)
        await asyncio.sleep(0.1)
        task.cancel()
        work.go_on.set()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert work.ended == 1
