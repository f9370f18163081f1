"""Work is let in while it fits a budget: in its order, across loops, whoever gives up."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from editjudge.scorers.turns import Turns

from ...patience import patience


class Work:
    """What has begun, until it is told to end."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.begun: list[int] = []
        self.most = self.at_once = 0

    async def do(self, size: int, end: asyncio.Event | None = None) -> None:
        async with self.turns.of(size):
            self.begun.append(size)
            self.at_once += size
            self.most = max(self.most, self.at_once)
            await (asyncio.sleep(0.001) if end is None else end.wait())
            self.at_once -= size


async def begun(work: Work, count: int) -> None:
    async with asyncio.timeout(patience(5)):
        while len(work.begun) < count:
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.005)


async def test_what_fits_is_let_in_and_the_rest_in_its_order() -> None:
    work = Work(Turns(10))
    ends = [asyncio.Event() for _ in range(5)]
    sizes = (6, 4, 9, 1, 99)
    tasks = [asyncio.create_task(work.do(s, e)) for s, e in zip(sizes, ends, strict=True)]
    await begun(work, 2)
    assert work.begun == [6, 4], "the small one behind does not overtake"
    ends[0].set()
    ends[1].set()
    await begun(work, 4)
    assert work.begun == [6, 4, 9, 1], "more than there is waits until it is alone"
    ends[2].set()
    ends[3].set()
    await begun(work, 5)
    ends[4].set()
    await asyncio.gather(*tasks)


async def test_who_gives_up_holds_up_nobody() -> None:
    work = Work(Turns(10))
    end = asyncio.Event()
    first, waits, behind = (
        asyncio.create_task(work.do(size, event))
        for size, event in ((8, end), (5, None), (2, None))
    )
    await begun(work, 1)
    waits.cancel()
    await begun(work, 2)
    assert work.begun == [8, 2]
    first.cancel()
    await behind
    await work.do(10)
    with pytest.raises(asyncio.CancelledError):
        await waits


async def test_one_that_fails_gives_its_turn_back() -> None:
    turns = Turns(10)
    with pytest.raises(RuntimeError, match="no"):
        async with turns.of(10):
            raise RuntimeError("no")
    async with asyncio.timeout(patience(5)), turns.of(10):
        pass


def test_loops_of_several_threads_share_a_budget() -> None:
    work = Work(Turns(10))

    async def many(seed: int) -> None:
        sizes = random.Random(seed).choices(range(1, 12), k=60)
        tasks = [asyncio.create_task(work.do(size)) for size in sizes]
        for task in tasks[::7]:
            await asyncio.sleep(0.001)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def loop(seed: int) -> None:
        asyncio.run(asyncio.wait_for(many(seed), patience(20)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(loop, range(4)))
    asyncio.run(asyncio.wait_for(work.do(10), patience(5)))
