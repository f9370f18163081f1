"""Connections that are made anew: when, and what becomes of the old ones."""

from __future__ import annotations

import asyncio

from editjudge.panel.renewal import RenewableConnection
from editjudge.panel.retry import RetryPolicy

from ...fakes.virtual_time import VirtualLoop, now

LOOP = VirtualLoop
DEADLINE = 60.0
Ends = list[tuple[int, float, float]]


def make_connection(ends: Ends, age: float = 300.0) -> RenewableConnection[int]:
    """Connections are numbers; notes which were closed when, and the seconds that calls had."""
    made = iter(range(99))

    async def disconnect(connection: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        ends.append((connection, now(), seconds))

    policy = RetryPolicy(deadline=DEADLINE, connection_age=age)
    return RenewableConnection(lambda: next(made), disconnect, policy)


async def test_a_connection_lasts_for_its_age_and_its_calls_for_their_deadline() -> None:
    ends: Ends = []
    renewed = make_connection(ends)
    assert renewed.get() == 0
    await asyncio.sleep(269)
    assert renewed.get() == 0, "10 % less than its age at least"
    await asyncio.sleep(62)
    assert renewed.get() == 1, "10 % more at most"
    assert not ends
    await asyncio.sleep(200)
    ((closed, _, seconds),) = ends
    assert (closed, renewed.get()) == (0, 1)
    assert seconds > DEADLINE
    await renewed.close()


async def test_ages_are_not_all_the_same() -> None:
    many = [make_connection([]) for _ in range(50)]
    assert {one.get() for one in many} == {0}
    await asyncio.sleep(300)
    assert {one.get() for one in many} == {0, 1}


async def test_failures_of_one_connection_renew_it_once() -> None:
    renewed = make_connection([])
    renewed.get()
    began = now()
    await asyncio.sleep(0.01)
    for _ in range(5):
        renewed.renew_after_failure(began)
    assert renewed.get() == 1
    renewed.renew_after_failure(now())
    assert renewed.get() == 1, "a moment later: the name has hardly changed"
    await asyncio.sleep(1)
    renewed.renew_after_failure(began)
    assert renewed.get() == 1, "a call that began on the connection before"
    renewed.renew_after_failure(now())
    assert renewed.get() == 2
    await renewed.close()


async def test_closing_waits_for_none_of_them() -> None:
    ends: Ends = []
    renewed = make_connection(ends)
    await renewed.close()
    assert not ends, "none was ever opened"
    renewed.get()
    renewed.renew()
    await asyncio.sleep(0)
    began = now()
    await renewed.close()
    assert [connection for connection, *_ in ends] == [0, 1]
    assert now() == began
