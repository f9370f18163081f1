"""Calls that wait to be tried again: their places, their order, their time."""

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
from editjudge.panel.replica import Replica, State
from editjudge.panel.retry import RetryPolicy, call_with_retries

from ...fakes.virtual_time import VirtualLoop, now

LOOP = VirtualLoop
Attempt = Callable[[float], Awaitable[str]]


class Endpoint:
    """A server whose calls are retried by a policy, with so many places."""

    def __init__(self, places: int, **numbers: float) -> None:
        self.policy = RetryPolicy(**{"first_wait": 2.0, "attempts": 4, **numbers})  # type: ignore[arg-type]
        self.replica: Replica[RetryPolicy] = Replica("s", self._connected, places)
        self.pool = EndpointPool([self.replica])

    def _connected(self, server: Replica[RetryPolicy]) -> RetryPolicy:
        return replace(self.policy, observe=server.observe, pause=server.pause)

    @property
    def load(self) -> tuple[int, int]:
        gauge = self.replica.measure_load()
        return gauge.in_flight, gauge.queue_length

    def start(self, attempt: Attempt) -> asyncio.Task[str]:
        return asyncio.create_task(self.pool.run(lambda policy: call_with_retries(attempt, policy)))


def taking(order: list[str], name: str, seconds: float, *failures: ServiceError) -> Attempt:
    """Attempts of so many seconds; first those that fail."""
    script = list(failures)

    async def attempt(_: float) -> str:
        await asyncio.sleep(seconds)
        if script:
            raise script.pop(0)
        order.append(name)
        return name

    return attempt


def broken() -> ServiceError:
    return Unreachable("HTTP 500", service="s")


async def test_a_call_that_waits_gives_its_place_and_comes_before_new_ones() -> None:
    it, order = Endpoint(1), list[str]()
    first = it.start(taking(order, "a", 1, broken()))
    others = [it.start(taking(order, name, 5)) for name in "bcd"]
    await asyncio.sleep(1.5)
    assert it.load == (1, 2), "b has the place"
    await asyncio.gather(first, *others)
    assert (order, it.load) == (["b", "a", "c", "d"], (0, 0))


async def test_a_long_wait_that_a_server_asks_for_costs_the_others_nothing() -> None:
    it, order = Endpoint(4), list[str]()
    later = Overload("HTTP 429", service="s", retry_after=20.0)
    await asyncio.gather(
        it.start(taking(order, "late", 0.1, later)),
        *(it.start(taking(order, str(n), 1)) for n in range(40)),
    )
    assert order[-1] == "late"
    assert now() < 22


async def test_where_failures_are_not_rare_waiting_calls_stay_in_their_places() -> None:
    it, begun = Endpoint(8), set[int]()

    async def failing(number: int) -> str:
        begun.add(number)
        await asyncio.sleep(0.01)
        raise broken()

    calls = [it.start(lambda _, number=number: failing(number)) for number in range(60)]
    await asyncio.sleep(1.0)
    assert len(begun) <= 8 + 2, "two gave theirs back before it showed"
    await asyncio.gather(*calls, return_exceptions=True)
    assert it.load == (0, 0)


async def test_who_is_cancelled_while_its_place_comes_back_takes_none() -> None:
    it, order = Endpoint(1), list[str]()
    first = it.start(taking(order, "a", 1, broken()))
    second = it.start(taking(order, "b", 5))
    await asyncio.sleep(5)
    # In the same step in which `b` ends, and just after it.
    first.get_loop().call_at(6.0 + 5e-10, first.cancel)
    await asyncio.gather(first, second, return_exceptions=True)
    assert (order, it.load, now()) == (["b"], (0, 0), pytest.approx(6))


async def test_waiting_for_a_place_is_not_on_the_deadline() -> None:
    it, order = Endpoint(1, deadline=10.0), list[str]()
    first = it.start(taking(order, "a", 1, broken()))
    second = it.start(taking(order, "b", 9))
    assert await first == "a", "its second attempt began after 10 s"
    assert now() == pytest.approx(11)
    await second


async def test_the_deadline_counts_the_waits_between_attempts() -> None:
    it, order = Endpoint(1, deadline=5.0), list[str]()
    with pytest.raises(Unreachable) as caught:
        await it.start(taking(order, "a", 2, broken(), broken()))
    assert caught.value.attempts < 3
    assert now() < 7.1


async def test_what_waits_goes_on_at_once_when_its_server_is_lost() -> None:
    it, order = Endpoint(1), list[str]()
    first = it.start(taking(order, "a", 1, broken()))
    await asyncio.sleep(1.5)
    places = [it.replica.take()]
    while it.replica.state is State.SERVING:
        place = places.pop() if places else it.replica.take()
        it.replica.release_after_loss(place, broken(), place.began)
    assert await first == "a"
    assert it.replica.state is State.SERVING, "its answer found out"
    assert now() < 6


async def test_what_several_calls_share_keeps_its_place() -> None:
    """A task of its own asks for them, for example for the tokens of a label set."""
    it, order = Endpoint(1), list[str]()

    async def shared(policy: RetryPolicy) -> str:
        calling = call_with_retries(taking(order, "shared", 1, broken()), policy)
        return await asyncio.create_task(calling)

    first = asyncio.create_task(it.pool.run(shared))
    await asyncio.gather(first, it.start(taking(order, "b", 1)))
    assert order == ["shared", "b"]


SECONDS = st.floats(0, 9)


@settings(max_examples=60)
@given(st.lists(st.tuples(SECONDS, SECONDS, st.integers(0, 3)), min_size=1, max_size=40))
async def test_cancelling_what_waits_loses_no_place(calls: list[tuple[float, float, int]]) -> None:
    it, order = Endpoint(2, first_wait=0.3), list[str]()

    async def starting(start: float, failures: int) -> None:
        await asyncio.sleep(start)
        await it.start(taking(order, "x", 1, *(broken() for _ in range(failures))))

    tasks = [asyncio.create_task(starting(start, failures)) for start, _, failures in calls]
    loop = asyncio.get_running_loop()
    for task, (_, stop, _) in zip(tasks, calls, strict=True):
        loop.call_later(stop, task.cancel)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert it.load == (0, 0)
    await asyncio.wait_for(it.start(taking(order, "last", 1)), 10)


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
            raise broken()
        return "done"

    it = Endpoint(32, first_wait=0.1, attempts=6)
    await asyncio.gather(*(it.start(attempt) for _ in range(3000)))
    assert now() < 1.08 * 3000 * 0.2 / 32
