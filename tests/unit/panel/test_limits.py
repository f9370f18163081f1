from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editjudge.errors import (
    BadReply,
    DeadlineExceeded,
    Overloaded,
    Refused,
    ServiceError,
    Unreachable,
)
from editjudge.panel.limits import AdaptiveLimit, Breaker, first_free
from editjudge.panel.retry import RetryPolicy, with_retries

from .virtual_time import Server, insist, run

FULL = Overloaded("full", service="s")


async def together(limit: AdaptiveLimit, count: int, error: ServiceError | None = None) -> None:
    """So many calls of a second at once, all with the same end."""

    async def one() -> None:
        async with limit.slot():
            await asyncio.sleep(1)
            if error is not None:
                raise error

    await asyncio.gather(*(one() for _ in range(count)), return_exceptions=True)


def test_it_doubles_per_round_until_the_first_overload() -> None:
    async def main() -> None:
        limit = AdaptiveLimit(1000)
        seen = []
        for _ in range(5):
            seen.append(limit.limit)
            await together(limit, limit.limit)
        assert seen == [4, 8, 16, 32, 64]
        await together(limit, 1, FULL)
        assert limit.limit == 64
        await together(limit, limit.limit)
        assert limit.limit == 65, "one more per round"
        await together(limit, limit.limit)
        assert limit.limit == 66

    run(main)


def test_one_cut_per_episode() -> None:
    async def main() -> None:
        limit = AdaptiveLimit(64, start=64)
        await together(limit, 64, FULL)
        assert limit.limit == 32
        await together(limit, 10, FULL)
        assert limit.limit == 16, "these began after the cut"

    run(main)


@pytest.mark.parametrize("kind", [Refused, BadReply])
def test_refusals_say_nothing_of_the_load(kind: type[ServiceError]) -> None:
    async def main() -> None:
        limit = AdaptiveLimit(64, start=8)
        await together(limit, 8, kind("no", service="s"))
        assert limit.limit == 8

    run(main)


@pytest.mark.parametrize("kind", [Overloaded, DeadlineExceeded, Unreachable])
def test_attempts_count_that_a_retry_mends(kind: type[ServiceError]) -> None:
    async def main() -> None:
        limit = AdaptiveLimit(64, start=8)
        policy = RetryPolicy(first_wait=0.001, observe=limit.observe)
        script = [kind("x", service="s"), None]

        async def attempt(left: float) -> str:
            if (error := script.pop(0)) is not None:
                raise error
            return "done"

        async with limit.slot():
            try:
                assert await with_retries(attempt, policy) == "done"
            except DeadlineExceeded:
                assert kind is DeadlineExceeded
        assert limit.limit == 4

    run(main)


def test_retries_of_calls_from_before_the_cut_do_not_cut_again() -> None:
    async def main() -> None:
        limit = AdaptiveLimit(64, start=32)
        policy = RetryPolicy(attempts=4, first_wait=0.5, observe=limit.observe)

        async def attempt(left: float) -> None:
            await asyncio.sleep(0.01)
            raise FULL

        async def one() -> None:
            async with limit.slot():
                await with_retries(attempt, policy)

        await asyncio.gather(*(one() for _ in range(32)), return_exceptions=True)
        assert limit.limit == 16

    run(main)


def test_it_grows_only_while_it_is_used() -> None:
    async def main() -> None:
        limit = AdaptiveLimit(64)
        for _ in range(50):
            await together(limit, 3)
        assert limit.limit == 4

    run(main)


@settings(max_examples=40, deadline=None)
@given(
    capacity=st.integers(1, 60),
    queue=st.integers(0, 30),
    most=st.integers(1, 64),
    seed=st.integers(0, 2**16),
)
def test_it_stays_in_its_bounds_and_near_the_capacity(
    capacity: int, queue: int, most: int, seed: int
) -> None:
    async def main() -> None:
        dice = random.Random(seed)
        limit = AdaptiveLimit(most)
        server = Server(capacity, queue=queue)
        seen = []

        async def one(number: int) -> None:
            server.seconds = dice.uniform(0.5, 1.5)
            await insist(limit, server, number)
            seen.append(limit.limit)
            assert 1 <= limit.limit <= most
            assert limit.in_flight <= most

        count = 40 * min(most, capacity + queue)
        await asyncio.gather(*(one(n) for n in range(count)))
        assert sorted(server.served) == list(range(count)), "none lost, none twice"
        # Towards the end there are too few to fill it.
        steady = seen[count // 2 : -count // 5]
        room = capacity + queue
        assert max(steady) <= min(most, room + 1)
        assert sum(steady) / len(steady) >= 0.6 * min(most, room) - 1
        assert limit.in_flight == 0

    run(main)


def test_it_recovers() -> None:
    async def main() -> None:
        limit = AdaptiveLimit(64)
        server = Server(32)

        async def load(count: int) -> None:
            await asyncio.gather(*(insist(limit, server) for _ in range(count)))

        await load(1000)
        assert limit.limit > 15
        server.capacity = 4
        server._places = asyncio.Semaphore(4)
        await load(300)
        assert limit.limit <= 5
        server.capacity = 32
        server._places = asyncio.Semaphore(32)
        await load(2000)
        assert limit.limit > 15

    run(main)


def test_whoever_waits_longest_is_next() -> None:
    async def main() -> None:
        limit = AdaptiveLimit(3)
        server = Server(3)
        await asyncio.gather(*(insist(limit, server, n) for n in range(50)))
        assert server.served == list(range(50))

    run(main)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=40))
def test_cancelling_loses_no_place(times: list[tuple[float, float]]) -> None:
    async def main() -> None:
        limit = AdaptiveLimit(2)

        async def one(start: float) -> None:
            await asyncio.sleep(start)
            async with limit.slot():
                await asyncio.sleep(1)

        tasks = [asyncio.create_task(one(start)) for start, _ in times]
        loop = asyncio.get_running_loop()
        for task, (_, stop) in zip(tasks, times, strict=True):
            loop.call_later(stop, task.cancel)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (limit.in_flight, limit.waiting) == (0, 0)
        await asyncio.wait_for(together(limit, 4), 10)

    run(main)


def test_a_place_given_to_somebody_just_cancelled_goes_on() -> None:
    async def main() -> None:
        limit = AdaptiveLimit(1)
        order: list[str] = []

        async def one(name: str) -> None:
            async with limit.slot():
                order.append(name)
                await asyncio.sleep(1)

        first, second, third = (asyncio.create_task(one(name)) for name in "abc")
        await asyncio.sleep(0.5)
        # In the same step in which `a` ends: `b` was given the place, and is cancelled.
        first.add_done_callback(lambda _: second.cancel())
        await asyncio.gather(first, second, third, return_exceptions=True)
        assert order in (["a", "c"], ["a", "b", "c"])
        assert limit.in_flight == 0

    run(main)


def test_gauges() -> None:
    async def main() -> None:
        limit = AdaptiveLimit(2)
        task = asyncio.create_task(together(limit, 5))
        await asyncio.sleep(0.5)
        gauge = limit.gauge()
        assert (gauge.limit, gauge.in_flight, gauge.waiting) == (2, 2, 3)
        assert gauge.busy_seconds == pytest.approx(1.0)
        await task
        assert limit.gauge().busy_seconds == pytest.approx(5.0)

    run(main)


def test_waiting_for_several_takes_the_first_that_is_free() -> None:
    async def main() -> None:
        slow, fast = AdaptiveLimit(1), AdaptiveLimit(1)
        held = slow.take(), fast.take()
        waiting = asyncio.create_task(first_free([slow, fast]))
        await asyncio.sleep(1)
        assert (slow.waiting, fast.waiting) == (1, 1)
        fast.release(held[1])
        slot = await waiting
        assert slot is not None
        assert slot.limit is fast
        assert (slow.waiting, slow.in_flight, fast.in_flight) == (0, 1, 1)
        assert await first_free([slow, fast], 0.5) is None

    run(main)


def lost(breaker: Breaker, limit: AdaptiveLimit, times: int = 5) -> None:
    for _ in range(times):
        slot = limit.take()
        breaker.lost(Unreachable("gone", service="s"), slot, slot.began)
        limit.release(slot)


def test_a_breaker_lets_one_go_at_growing_intervals() -> None:
    async def main() -> None:
        breaker = Breaker(after=5, pauses=(1.0, 4.0))
        limit = AdaptiveLimit(8, start=8, breaker=breaker)
        lost(breaker, limit, 4)
        assert not breaker.open
        lost(breaker, limit, 1)
        assert breaker.open
        assert not limit.free
        times: list[float] = []

        async def wait() -> Any:
            slot = await first_free([limit])
            assert slot is not None
            times.append(asyncio.get_running_loop().time())
            return slot

        waiting = [asyncio.create_task(wait()) for _ in range(8)]
        for _ in range(5):
            before = len(times)
            while len(times) == before:
                await asyncio.sleep(0.01)
            probe = next(task.result() for task in waiting if task.done())
            waiting = [task for task in waiting if not task.done()]
            assert probe.probe
            breaker.lost(Unreachable("gone", service="s"), probe, probe.began)
            limit.release(probe)
        gaps = [b - a for a, b in pairwise(times)]
        assert gaps == pytest.approx([2, 4, 4, 4], abs=0.05)
        while len(times) < 6:
            await asyncio.sleep(0.01)
        breaker.answered(probe)
        await asyncio.gather(*waiting)
        assert not breaker.open
        assert limit.limit == 8, "an endpoint that is gone is not overloaded"

    run(main)


def test_a_probe_that_is_cancelled_lets_another_go() -> None:
    async def main() -> None:
        breaker = Breaker(pauses=(1.0, 1.0))
        limit = AdaptiveLimit(8, breaker=breaker)
        lost(breaker, limit)
        await asyncio.sleep(1.1)
        slot = limit.take()
        assert slot.probe
        assert not limit.free
        limit.release(slot, answered=False)
        assert limit.free

    run(main)


def test_calls_that_others_outlived_do_not_count() -> None:
    async def main() -> None:
        breaker = Breaker()
        limit = AdaptiveLimit(8, start=8, breaker=breaker)
        old = [limit.take() for _ in range(7)]
        await asyncio.sleep(1)
        breaker.answered(limit.take())
        for slot in old:
            assert not breaker.lost(DeadlineExceeded("late", service="s"), slot, slot.began)
        assert not breaker.open

    run(main)
