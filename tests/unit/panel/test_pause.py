"""Calls that wait to be tried again keep their places; their time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editjudge.base.errors import Overload, ServiceError, Unreachable
from editjudge.panel.pool import EndpointPool
from editjudge.panel.replica import Replica
from editjudge.panel.retry import RetryPolicy, call_with_retries

from ...fakes.virtual_time import VirtualLoop, now

LOOP = VirtualLoop
Attempt = Callable[[float], Awaitable[str]]


class Endpoint:
    """A server whose calls are retried by a policy, with so many places."""

    def __init__(self, places: int, **numbers: float) -> None:
        self.policy = RetryPolicy(**{"first_wait": 2.0, "attempts": 4, **numbers})  # type: ignore[arg-type]
        self.replica: Replica[RetryPolicy] = Replica("s", self._connect, places)
        self.pool = EndpointPool([self.replica])

    def _connect(self, server: Replica[RetryPolicy]) -> RetryPolicy:
        return replace(self.policy, note_retry=server.note_retry)

    @property
    def load(self) -> tuple[int, int]:
        gauge = self.replica.measure_load()
        return gauge.in_flight, gauge.waiting

    def start(self, attempt: Attempt) -> asyncio.Task[str]:
        return asyncio.create_task(self.pool.run(lambda policy: call_with_retries(attempt, policy)))


def make_attempt(order: list[str], name: str, seconds: float, *failures: ServiceError) -> Attempt:
    """Attempts of so many seconds; first those that fail."""
    script = list(failures)

    async def attempt(_: float) -> str:
        await asyncio.sleep(seconds)
        if script:
            raise script.pop(0)
        order.append(name)
        return name

    return attempt


def make_error() -> ServiceError:
    return Unreachable("HTTP 500", service="s")


async def test_a_call_that_waits_keeps_its_place() -> None:
    it, order = Endpoint(1), list[str]()
    first = it.start(make_attempt(order, "a", 1, make_error()))
    others = [it.start(make_attempt(order, name, 5)) for name in "bc"]
    await asyncio.sleep(1.5)
    assert it.load == (1, 2)
    await asyncio.gather(first, *others)
    assert (order, it.load, it.replica.retry_count) == (["a", "b", "c"], (0, 0), 1)


async def test_the_deadline_counts_the_waits_between_attempts() -> None:
    it, order = Endpoint(1, deadline=5.0), list[str]()
    with pytest.raises(Unreachable) as caught:
        await it.start(make_attempt(order, "a", 2, make_error(), make_error()))
    assert caught.value.attempts < 3
    assert now() < 7.1


SECONDS = st.floats(0, 9)


@settings(max_examples=60)
@given(st.lists(st.tuples(SECONDS, SECONDS, st.integers(0, 3)), min_size=1, max_size=40))
async def test_cancelling_what_waits_loses_no_place(calls: list[tuple[float, float, int]]) -> None:
    it, order = Endpoint(2, first_wait=0.3), list[str]()

    async def starting(start: float, failures: int) -> None:
        await asyncio.sleep(start)
        await it.start(make_attempt(order, "x", 1, *(make_error() for _ in range(failures))))

    tasks = [asyncio.create_task(starting(start, failures)) for start, _, failures in calls]
    loop = asyncio.get_running_loop()
    for task, (_, stop, _) in zip(tasks, calls, strict=True):
        loop.call_later(stop, task.cancel)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert it.load == (0, 0)
    await asyncio.wait_for(it.start(make_attempt(order, "last", 1)), 10)


@pytest.mark.parametrize("seed", range(3))
async def test_rare_faults_cost_little(seed: int) -> None:
    """2 % are refused and 2 % break; what they cost at the least is 2 % of work done twice."""
    dice = random.Random(seed)
    random.seed(seed)

    async def attempt(_: float) -> str:
        chance = dice.random()
        if chance < 0.02:
            raise Overload("HTTP 429", service="s")
        await asyncio.sleep(dice.uniform(0.1, 0.3))
        if chance < 0.04:
            raise make_error()
        return "done"

    it = Endpoint(32, first_wait=0.1, attempts=6)
    await asyncio.gather(*(it.start(attempt) for _ in range(3000)))
    assert now() < 1.15 * 3000 * 0.2 / 32
