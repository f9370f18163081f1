"""Deadlines and classes of callers: what they decide, and what they do not."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from editjudge.base.errors import DeadlineExceeded, OutOfTime, ServiceError, Unreachable
from editjudge.panel.coalesce import Coalescer
from editjudge.panel.context import CallTerms, SharedTerms
from editjudge.panel.openai.completions import Capabilities
from editjudge.panel.openai.http import HttpReply
from editjudge.panel.pool import EndpointPool
from editjudge.panel.replica import Replica, State, take_first_free
from editjudge.panel.retry import RetryPolicy, call_with_retries

from ...patience import until

URGENT = CallTerms(urgent=True)


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_shared_call_goes_on_for_the_most_patient_who_still_waits() -> None:
    seen: list[CallTerms] = []
    asked, told = asyncio.Event(), asyncio.Event()

    async def make(joint: SharedTerms) -> str:
        seen.append(CallTerms(joint.deadline, joint.urgent))
        asked.set()
        await told.wait()
        seen.append(CallTerms(joint.deadline, joint.urgent))
        return "done"

    calls: Coalescer[str] = Coalescer()

    async def call(terms: CallTerms) -> str:
        return await calls("a", make, terms)

    first = asyncio.create_task(call(CallTerms(5.0)))
    await asked.wait()
    others = [
        asyncio.create_task(call(terms)) for terms in (CallTerms(9.0), CallTerms(7.0, urgent=True))
    ]
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    told.set()
    assert await asyncio.gather(*others) == ["done"] * 2
    assert seen == [CallTerms(5.0), CallTerms(9.0, urgent=True)]


async def test_who_asks_while_a_call_is_being_cancelled_gets_one_of_its_own() -> None:
    made = 0
    hanging = asyncio.Event()

    async def make(_: SharedTerms) -> int:
        nonlocal made
        made += 1
        mine = made
        if mine == 1:
            try:
                await hanging.wait()
            finally:
                await asyncio.sleep(0.02)  # its connection takes a while to close
        return mine

    calls: Coalescer[int] = Coalescer()
    gone = asyncio.create_task(calls("a", make))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    assert await calls("a", make) == 2


async def late(left: float) -> Any:
    await asyncio.sleep(left)
    raise DeadlineExceeded(f"{left:.3f} s", service="quality.piqe")


async def test_no_attempt_gets_more_time_than_the_caller_waits() -> None:
    given: list[float] = []

    async def call(left: float) -> None:
        given.append(left)
        raise Unreachable("lost", service="x")

    policy = RetryPolicy(attempts=2, deadline=50.0, first_wait=0.001)
    with pytest.raises(Unreachable):
        await call_with_retries(call, policy, terms=CallTerms(now() + 3.0))
    assert len(given) == 2
    assert all(1.0 < left <= 3.0 for left in given)


async def test_a_caller_s_deadline_says_nothing_of_the_server() -> None:
    observed: list[ServiceError] = []
    policy = RetryPolicy(deadline=50.0, observe=lambda error, _: observed.append(error))
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

    async def call(terms: CallTerms) -> str:
        return await calls("a", make, terms)

    hasty = asyncio.create_task(call(CallTerms(now() + 0.05)))
    await until(lambda: made)
    assert await call(CallTerms(now() + 20.0)) == "done"
    assert await hasty == "done"
    assert made[0] < 1 < made[1]


async def test_a_server_that_is_late_is_told_from_a_caller_in_a_hurry() -> None:
    told: list[float] = []
    policy = RetryPolicy(attempts=1, deadline=0.05)
    with pytest.raises(OutOfTime):
        await call_with_retries(late, policy, terms=CallTerms(now() + 0.003), late=told.append)
    assert not told
    began = now()
    with pytest.raises(DeadlineExceeded):
        await call_with_retries(late, policy, terms=CallTerms(now() + 60.0), late=told.append)
    assert told == [pytest.approx(began, abs=0.01)]


async def test_urgent_calls_get_the_next_place() -> None:
    replica: Replica[Any] = Replica("here", lambda _: None, 1)
    held = replica.take()
    order: list[str] = []

    async def call(name: str, terms: CallTerms) -> None:
        place = await take_first_free([replica], urgent=terms.urgent)
        assert place is not None
        order.append(name)
        replica.release_after_answer(place)

    named = [
        ("a", CallTerms()),
        ("b", CallTerms()),
        ("u", URGENT),
        ("v", URGENT),
        ("c", CallTerms()),
    ]
    calls = [asyncio.create_task(call(*each)) for each in named]
    await asyncio.sleep(0)
    assert replica.queue_length == 5
    replica.release_after_answer(held)
    await asyncio.gather(*calls)
    assert order == ["u", "v", "a", "b", "c"]


@pytest.mark.parametrize(
    ("status", "words", "again"),
    [
        (400, "Got priority -1 but Priority scheduling is not enabled.", True),
        (422, "body.priority: Extra inputs are not permitted", True),
        (400, "the prompt is too long", False),
        (500, "priority", False),
    ],
)
def test_a_server_that_takes_no_priority_is_asked_without(
    status: int, words: str, again: bool
) -> None:
    habits = Capabilities()
    assert habits.learn(HttpReply(status, words=words), {"priority": -1}) is again
    assert habits.priority is not again
    assert not habits.learn(HttpReply(status, words=words), {})


@pytest.mark.parametrize("kind", [DeadlineExceeded, Unreachable])
async def test_nothing_is_asked_again_where_nobody_waits_any_more(
    kind: type[ServiceError],
) -> None:
    asked = asyncio.Event()
    given: list[float] = []

    async def attempt(left: float) -> str:
        given.append(left)
        asked.set()
        # A transport whose own limit is reached at the same moment takes the one for the other.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60 if len(given) == 1 else 0)
        await asyncio.sleep(end - now())
        raise kind("late", service="generalist.judge")

    ended: list[BaseException] = []

    async def make(joint: SharedTerms) -> str:
        policy = RetryPolicy(attempts=2, first_wait=0.001)
        try:
            return await call_with_retries(attempt, policy, terms=joint)
        except ServiceError as error:
            ended.append(error)
            raise

    calls: Coalescer[str] = Coalescer()
    end = now() + 0.05
    caller = asyncio.create_task(calls("a", make, CallTerms(end)))
    await asked.wait()
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    await until(lambda: ended)
    assert len(given) == 1
    assert isinstance(ended[0], OutOfTime)
