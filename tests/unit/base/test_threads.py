"""Threads of a request are waited for, whatever becomes of the request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from editjudge.base.threads import in_thread, through
from editjudge.panel.coalesce import Coalesced, Shared

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
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


async def test_who_is_cancelled_leaves_when_what_began_is_through(
    threads: ThreadPoolExecutor,
) -> None:
    work = Work()

    async def request() -> None:
        async with through():
            await asyncio.gather(*(in_thread(work, executor=threads) for _ in range(3)))

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


async def test_one_that_fails_waits_for_the_others(threads: ThreadPoolExecutor) -> None:
    work = Work()

    async def fail() -> None:
        await until(lambda: work.begun)
        threading.Timer(0.05, work.go_on.set).start()
        raise ValueError("no")

    async def request() -> None:
        async with through():
            await asyncio.gather(in_thread(work, executor=threads), fail())

    with pytest.raises(ValueError, match="no"):
        await request()
    assert work.ended == 1


async def test_a_request_waits_for_its_own_threads_alone() -> None:
    with ThreadPoolExecutor(2) as threads:
        slow = Work()
        other = asyncio.create_task(in_thread(slow, executor=threads))
        await until(lambda: slow.begun)
        async with through():
            assert await in_thread(int, "7", executor=threads) == 7
        assert not slow.ended
        slow.go_on.set()
        assert await other == 1


async def test_what_is_cancelled_while_it_waits_for_threads_is_cancelled() -> None:
    with ThreadPoolExecutor(1) as threads:
        work = Work()

        async def request() -> None:
            async with through():
                doing.append(asyncio.create_task(in_thread(work, executor=threads)))
                await until(lambda: work.begun)

        doing: list[asyncio.Task[int]] = []
        task = asyncio.create_task(request())
        await until(lambda: work.begun)
        await asyncio.sleep(0.1)
        task.cancel()
        work.go_on.set()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert work.ended == 1


async def test_what_others_wait_for_too_is_not_given_up_with_who_asked_first() -> None:
    def seven(*_: object) -> int:
        return 7

    with ThreadPoolExecutor(1) as threads:
        busy = Work()
        coalesced: Coalesced[int] = Coalesced()
        shared: Shared[str, int] = Shared()
        lookups: dict[str, asyncio.Task[int]] = {}

        async def looks_up() -> int:
            """As a library does that knows nothing of requests."""
            if "host" not in lookups:
                loop = asyncio.get_running_loop()
                lookups["host"] = asyncio.ensure_future(
                    asyncio.wait_for(loop.run_in_executor(threads, seven), None)
                )
            return await asyncio.shield(lookups["host"])

        async def asks() -> list[int]:
            async with through():
                several = (
                    coalesced("key", lambda _: in_thread(seven, executor=threads)),
                    shared.get("key", lambda: in_thread(seven, executor=threads)),
                    looks_up(),
                )
                return [*await asyncio.gather(*several)]

        blocking = asyncio.create_task(in_thread(busy, executor=threads))
        await until(lambda: busy.begun)
        first, second = asyncio.create_task(asks()), asyncio.create_task(asks())
        for _ in range(20):
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert first.cancelled()
        busy.go_on.set()
        assert await second == [7, 7, 7]
        await blocking
