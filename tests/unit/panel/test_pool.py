from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from editjudge.base import errors
from editjudge.panel.pool import EndpointPool
from editjudge.panel.replica import PoolPolicy, Replica, State

from ...fakes.virtual_time import Server, VirtualLoop, now

LOOP = VirtualLoop


def pool_of(*servers: Server, patience: float = 0.0, most: int = 16) -> EndpointPool[Server]:
    policy = PoolPolicy(patience, first_pause=1.0, longest_pause=8.0)
    of = [Replica(f"s{n}", lambda _, one=one: one, most, policy) for n, one in enumerate(servers)]
    return EndpointPool(of, policy)


def make_call(who: Any = None) -> Callable[[Server], Awaitable[Any]]:
    return lambda server: server.call(who)


async def many(pool: EndpointPool[Server], count: int) -> list[Any]:
    calls = (pool.run(make_call(number)) for number in range(count))
    return await asyncio.gather(*calls, return_exceptions=True)


async def outage(server: Server, after: float, seconds: float) -> None:
    await asyncio.sleep(after)
    server.up = False
    await asyncio.sleep(seconds)
    server.up = True


class Failing:
    """Calls that take so long and fail; when each was made."""

    def __init__(self, error: errors.ServiceError, seconds: float = 0.0) -> None:
        self.error, self.seconds = error, seconds
        self.made: list[float] = []

    async def __call__(self, _: Server) -> None:
        self.made.append(now())
        await asyncio.sleep(self.seconds)
        raise self.error


async def test_an_outage_loses_nothing() -> None:
    pool = pool_of(server := Server(64), patience=300)
    failing = asyncio.create_task(outage(server, 5.5, 120))
    assert await many(pool, 400) == list(range(400))
    assert 125 < now() < 170
    await failing


async def test_patience_counts_from_when_it_was_lost() -> None:
    server = Server(64)
    server.up = False
    results = await many(pool_of(server, patience=60), 100)
    assert {type(one) for one in results} == {errors.Unreachable}
    assert 60 <= now() < 62
    assert "connection refused (lost 60 s ago, not back since)" in str(results[50])


async def test_without_patience_nothing_waits() -> None:
    server = Server(64)
    server.up = False
    pool = pool_of(server)
    assert {type(one) for one in await many(pool, 100)} == {errors.Unreachable}
    assert now() < 0.1
    await asyncio.sleep(2)
    server.up = True
    assert await pool.run(make_call("back")) == "back"


async def test_one_call_that_breaks_its_server_does_not_stop_the_others() -> None:
    pool = pool_of(Server(64, seconds=0.1), patience=300)
    breaks = Failing(errors.Unreachable("HTTP 500", service="s"), 0.25)
    poison = asyncio.create_task(pool.run(breaks))
    assert await many(pool, 200) == list(range(200))
    with pytest.raises(errors.Unreachable, match="HTTP 500"):
        await poison
    assert len(breaks.made) < 3
    assert pool.replicas[0].state is State.SERVING


async def test_a_call_that_reached_nobody_goes_on_though_others_are_answered() -> None:
    """Between two outages others got through, as on a busy machine."""
    pool = pool_of(Server(64, seconds=0.1), patience=300)
    made: list[float] = []

    async def unlucky(_: Server) -> str:
        made.append(now())
        await asyncio.sleep(0.25)
        if len(made) < 9:
            error = errors.NoConnection("connection refused", service="s")
            error.gave_up(6, made[-1])
            raise error
        return "done"

    call = asyncio.create_task(pool.run(unlucky))
    assert await many(pool, 200) == list(range(200))
    assert await call == "done"


async def test_a_server_that_has_no_room_for_a_while_loses_nothing() -> None:
    pool = pool_of(server := Server(0), patience=60)
    asyncio.get_running_loop().call_later(40, server.resize, 8)
    assert await many(pool, 30) == list(range(30))
    assert 40 < now() < 60
    assert server.refused <= 30 * 9, "it is not asked all the time"


async def test_patience_with_a_full_server_ends() -> None:
    pool = pool_of(Server(0), patience=60)
    assert {type(one) for one in await many(pool, 30)} == {errors.Overload}
    assert 40 < now() < 70
    assert {type(one) for one in await many(pool_of(Server(0)), 30)} == {errors.Overload}


async def test_a_call_that_there_is_never_room_for_does_not_wait_for_ever() -> None:
    pool = pool_of(Server(64), patience=60)
    too_large = Failing(errors.Overload("too large for the tokens of a minute", service="s"))
    poison = asyncio.create_task(pool.run(too_large))
    assert await many(pool, 800) == list(range(800))
    with pytest.raises(errors.Overload):
        await poison
    assert too_large.made[-1] < 61
    assert len(too_large.made) < 12


@pytest.mark.parametrize(("asked", "waits"), [(20.0, True), (120.0, False)])
async def test_a_wait_that_is_asked_for_is_heeded_within_patience(asked: float, waits: bool) -> None:
    pool = pool_of(Server(8), patience=60)

    async def later(_: Server) -> float:
        if now() < asked:
            raise errors.Overload("later", service="s", retry_after=asked)
        return now()

    with contextlib.nullcontext() if waits else pytest.raises(errors.Overload):
        assert await pool.run(later) == asked
    assert now() == (asked if waits else 0)


async def test_refusals_are_answers() -> None:
    pool = pool_of(Server(8))
    for _ in range(20):
        with pytest.raises(errors.Rejection):
            await pool.run(Failing(errors.Rejection("no", service="s")))
    assert pool.replicas[0].state is State.SERVING


async def test_a_call_whose_time_is_up_is_made_once_more() -> None:
    late = Failing(errors.DeadlineExceeded("late", service="s"), 10)
    with pytest.raises(errors.DeadlineExceeded):
        await pool_of(Server(8), Server(8), patience=300).run(late)
    assert len(late.made) == 2


async def test_few_calls_lost_without_a_word_are_made_again() -> None:
    pool = pool_of(Server(8), patience=300)
    made: list[int] = []

    def losing(number: int) -> Any:
        async def ask(_: Server) -> int:
            made.append(number)
            await asyncio.sleep(10 if now() < 5 else 1)
            if now() == 10:
                raise errors.DeadlineExceeded("late", service="s")
            return number

        return ask

    results = await asyncio.gather(*(pool.run(losing(n)) for n in range(3)))
    assert results == [0, 1, 2]
    assert sorted(made) == [0, 0, 1, 1, 2, 2], "each once more"
    assert pool.replicas[0].state is State.SERVING


async def test_a_slow_replica_gets_fewer_calls() -> None:
    fast, slow = Server(64, seconds=0.1), Server(64, seconds=1.0)
    await many(pool_of(fast, slow), 1000)
    assert len(fast.served) > 4 * len(slow.served)


async def test_those_who_wait_are_told_when_it_is_closed() -> None:
    pool = pool_of(Server(64, seconds=5), patience=300, most=1)
    tasks = [asyncio.create_task(pool.run(make_call(n))) for n in range(3)]
    await asyncio.sleep(1)
    pool.replicas[0].close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[0] == 0
    assert all("closed" in str(one) for one in results[1:])
    assert now() == 5


async def test_a_preferred_replica_keeps_its_calls_until_it_is_much_busier() -> None:
    servers = [Server(64), Server(64), Server(64)]
    pool = pool_of(*servers, most=4)
    for number in range(12):
        await pool.run(make_call(number), prefer=f"prefix {number % 4}")
    for server in servers:
        prefixes = [number % 4 for number in server.served]
        assert all(prefixes.count(prefix) in {0, 3} for prefix in range(4))
    await asyncio.gather(*(pool.run(make_call(n), prefer="prefix 0") for n in range(9)))
    assert all(server.most > 1 for server in servers)


async def test_a_greedy_source_has_no_more_of_a_replica_than_a_bound() -> None:
    servers = [Server(64, seconds=5) for _ in range(4)]
    pool = pool_of(*servers, most=16)
    tasks = [asyncio.create_task(pool.run(make_call(n), prefer="greedy")) for n in range(4)]
    await asyncio.sleep(1)
    assert sorted(server.most for server in servers) == [0, 0, 0, 4], "while there is room"
    tasks += [asyncio.create_task(pool.run(make_call(n), prefer="greedy")) for n in range(4, 40)]
    await asyncio.sleep(1)
    assert max(server.most for server in servers) <= 1.25 * 40 / 4 + 1
    await asyncio.gather(*tasks)


async def test_a_replica_that_is_lost_or_added_moves_only_sources_of_its_own() -> None:
    pool = pool_of(*(Server(64) for _ in range(4)), most=4)

    async def find_homes(some: EndpointPool[Server]) -> list[Server]:
        homes: list[Server] = []
        for number in range(40):

            async def note(server: Server) -> None:
                homes.append(server)

            await some.run(note, prefer=f"source {number}")
        return homes

    before = await find_homes(pool)
    lost = pool.replicas[0].target
    after = await find_homes(EndpointPool(pool.replicas[1:]))
    assert [one for one in before if one is not lost] == [
        new for old, new in zip(before, after, strict=True) if old is not lost
    ]
    assert lost in before
    assert await find_homes(pool) == before, "it is back"
