"""Deadlines and classes of callers: what they decide, and what they do not."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from editjudge.base.errors import DeadlineExceeded, OutOfTime, ServiceError, Unreachable
from editjudge.base.fair_queue import TEAM
from editjudge.panel.coalesce import Coalescer
from editjudge.panel.context import CallTerms, SharedTerms
from editjudge.panel.openai.completions import Capabilities
from editjudge.panel.openai.http import HttpReply
from editjudge.panel.pool import EndpointPool
from editjudge.panel.replica import Replica, State, take_first_free
from editjudge.panel.retry import RetryPolicy, call_with_retries

from ...fakes.virtual_time import VirtualLoop, now

LOOP = VirtualLoop


async def test_a_shared_call_goes_on_for_the_most_patient_who_still_waits() -> None:
    seen: list[CallTerms] = []

    async def make(joint: SharedTerms) -> str:
        for seconds in (1, 0):
            seen.append(CallTerms(joint.deadline, joint.urgent))
            await asyncio.sleep(seconds)
        return "done"

    calls: Coalescer[str] = Coalescer()
    first = asyncio.create_task(calls("a", make, CallTerms(5.0)))
    await asyncio.sleep(0.5)
    first.get_loop().call_soon(first.cancel)
    others = [calls("a", make, CallTerms(9.0)), calls("a", make, CallTerms(7.0, urgent=True))]
    assert await asyncio.gather(*others) == ["done"] * 2
    assert first.cancelled()
    assert seen == [CallTerms(5.0), CallTerms(9.0, urgent=True)]


async def test_who_asks_while_a_call_is_being_cancelled_gets_one_of_its_own() -> None:
    made: list[float] = []

    async def make(_: SharedTerms) -> int:
        made.append(now())
        mine = len(made)
        try:
            await asyncio.sleep(60 if mine == 1 else 0)
        finally:
            await asyncio.sleep(0.02)  # its connection takes a while to close
        return mine

    calls: Coalescer[int] = Coalescer()
    gone = asyncio.create_task(calls("a", make))
    await asyncio.sleep(1)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    assert await calls("a", make) == 2
    assert now() < 2


async def late(left: float) -> Any:
    await asyncio.sleep(left)
    raise DeadlineExceeded(f"{left:.3f} s", service="quality.piqe")


async def test_no_attempt_gets_more_time_than_the_caller_waits() -> None:
    limits: list[float] = []

    async def call(left: float) -> None:
        limits.append(left)
        raise Unreachable("lost", service="x")

    policy = RetryPolicy(attempts=2, deadline=50.0, first_wait=0.001)
    with pytest.raises(Unreachable):
        await call_with_retries(call, policy, terms=CallTerms(now() + 3.0))
    assert limits == [3.0, pytest.approx(3.0, abs=0.01)]


async def test_a_caller_s_deadline_says_nothing_of_the_server() -> None:
    observed: list[ServiceError] = []
    policy = RetryPolicy(deadline=50.0, note_retry=lambda error, _: observed.append(error))
    replica: Replica[Any] = Replica("here", lambda _: None, 4)
    pool = EndpointPool([replica])

    async def call(_: Any) -> None:
        await call_with_retries(late, policy, terms=CallTerms(now() + 0.003))

    for _ in range(20):
        with pytest.raises(OutOfTime):
            await pool.run(call)
    assert replica.state is State.SERVING
    assert (replica.measure_load().limit, replica.measure_load().in_flight) == (4, 0)
    assert not observed


async def test_an_attempt_cut_for_one_caller_is_made_again_for_another() -> None:
    made: list[float] = []

    async def make(joint: SharedTerms) -> str:
        async def attempt(left: float) -> str:
            made.append(left)
            return await late(left) if len(made) == 1 else "done"

        return await call_with_retries(attempt, RetryPolicy(attempts=1, deadline=50.0), terms=joint)

    calls: Coalescer[str] = Coalescer()
    hasty = asyncio.create_task(calls("a", make, CallTerms(5.0)))
    await asyncio.sleep(1)
    assert await calls("a", make, CallTerms(20.0)) == await hasty == "done"
    assert made == [5.0, 15.0]


async def test_urgent_calls_get_the_next_place() -> None:
    replica: Replica[Any] = Replica("here", lambda _: None, 1)
    place = replica.take()
    order: list[str] = []

    async def call(name: str) -> None:
        place = await take_first_free([replica], urgent=name in "uv")
        order.append(name)
        replica.release_after_answer(place)

    calls = [asyncio.create_task(call(name)) for name in "abuvc"]
    await asyncio.sleep(0)
    assert replica.queue_length == 5
    replica.release_after_answer(place)
    await asyncio.gather(*calls)
    assert order == ["u", "v", "a", "b", "c"]


@pytest.mark.parametrize(
    ("arrivals", "order"), [("a a a a b b c", "a b c a b a a"), ("a a B b A a A", "B A A a b a a")]
)
async def test_teams_take_turns_within_a_class(arrivals: str, order: str) -> None:
    """Calls in capitals are urgent; they are charged apart from others."""
    replica: Replica[Any] = Replica("here", lambda _: None, 1)
    place = replica.take("busy")
    began: list[str] = []

    async def call(name: str) -> None:
        TEAM.set(name.lower())
        place = await take_first_free([replica], urgent=name.isupper())
        began.append(name)
        await asyncio.sleep(0.01)
        replica.release_after_answer(place)

    calls = [asyncio.create_task(call(name)) for name in arrivals.split()]
    await asyncio.sleep(0)
    replica.release_after_answer(place)
    await asyncio.gather(*calls)
    assert " ".join(began) == order


@pytest.mark.parametrize(
    ("status", "words", "again"),
    [
        (400, "Got priority -1 but Priority scheduling is not enabled.", True),
        (422, "body.priority: Extra inputs are not permitted", True),
        (400, "the prompt is too long", False),
        (500, "priority", False),
    ],
)
def test_a_server_that_takes_no_priority_is_asked_without(status: int, words: str, again: bool) -> None:
    habits = Capabilities()
    assert habits.learn(HttpReply(status, words=words), {"priority": -1}) is again
    assert habits.priority is not again
    assert not habits.learn(HttpReply(status, words=words), {})


@pytest.mark.parametrize("kind", [DeadlineExceeded, Unreachable])
async def test_nothing_is_asked_again_where_nobody_waits_any_more(kind: type[ServiceError]) -> None:
    limits: list[float] = []

    async def attempt(left: float) -> str:
        limits.append(left)
        # A transport whose own limit is reached at the same moment takes the one for the other.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(5.0 - now())
        raise kind("late", service="generalist.judge")

    ends: list[ServiceError] = []

    async def make(joint: SharedTerms) -> None:
        try:
            await call_with_retries(attempt, RetryPolicy(attempts=2, first_wait=0.001), terms=joint)
        except ServiceError as error:
            ends.append(error)

    calls: Coalescer[None] = Coalescer()
    caller = asyncio.create_task(calls("a", make, CallTerms(5.0)))
    await asyncio.sleep(1)
    caller.cancel()
    await asyncio.sleep(10)
    assert ([type(end) for end in ends], limits) == ([OutOfTime], [5.0])
