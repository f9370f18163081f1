from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from editjudge.base.errors import (
    DeadlineExceeded,
    NoConnection,
    Overload,
    Rejection,
    Unreachable,
)
from editjudge.panel.pool import EndpointPool
from editjudge.panel.replica import PoolPolicy, Replica, State

from ...fakes.virtual_time import Server, run


def pool_of(*servers: Server, patience: float = 0.0, most: int = 16) -> EndpointPool[Server]:
    policy = PoolPolicy(patience, first_pause=1.0, longest_pause=8.0)
    return EndpointPool(
        [replica_of(f"s{number}", server, most, policy) for number, server in enumerate(servers)],
        policy,
    )


def replica_of(url: str, server: Server, most: int, policy: PoolPolicy) -> Replica[Server]:
    return Replica(url, lambda _: server, most, policy)


def now() -> float:
    return asyncio.get_running_loop().time()


def asking(who: Any = None) -> Callable[[Server], Awaitable[Any]]:
    return lambda server: server.call(who)


async def many(pool: EndpointPool[Server], count: int) -> list[Any]:
    return await asyncio.gather(
        *(pool.run(asking(n)) for n in range(count)), return_exceptions=True
    )


def test_an_outage_loses_nothing() -> None:
    async def main() -> None:
        server = Server(64)
        pool = pool_of(server, patience=300)

        async def outage() -> None:
            await asyncio.sleep(5.5)
            server.up = False
            await asyncio.sleep(120)
            server.up = True

        failing = asyncio.create_task(outage())
        assert await many(pool, 400) == list(range(400))
        assert 125 < now() < 170
        await failing

    run(main)


def test_patience_counts_from_when_it_was_lost() -> None:
    async def main() -> None:
        server = Server(64)
        server.up = False
        results = await many(pool_of(server, patience=60), 100)
        assert all(isinstance(one, Unreachable) for one in results)
        assert 60 <= now() < 62
        assert "connection refused (lost 60 s ago, not back since)" in str(results[50])

    run(main)


def test_without_patience_nothing_waits() -> None:
    async def main() -> None:
        server = Server(64)
        server.up = False
        pool = pool_of(server)
        assert {type(one) for one in await many(pool, 100)} == {Unreachable}
        assert now() < 0.1
        await asyncio.sleep(2)
        server.up = True
        assert await pool.run(asking("back")) == "back"

    run(main)


def test_one_call_that_breaks_its_server_does_not_stop_the_others() -> None:
    async def main() -> None:
        server = Server(64, seconds=0.1)
        pool = pool_of(server, patience=300)
        made = 0

        async def breaks(_: Server) -> None:
            nonlocal made
            made += 1
            await asyncio.sleep(0.25)
            raise Unreachable("HTTP 500", service="s")

        poison = asyncio.create_task(pool.run(breaks))
        assert await many(pool, 200) == list(range(200))
        with pytest.raises(Unreachable, match="HTTP 500"):
            await poison
        assert made < 3
        assert pool.replicas[0].state is State.SERVING

    run(main)


def test_a_call_that_reached_nobody_goes_on_though_others_are_answered() -> None:
    """Between two outages others got through, as on a busy machine."""

    async def main() -> None:
        server = Server(64, seconds=0.1)
        pool = pool_of(server, patience=300)
        made = 0

        async def unlucky(_: Server) -> str:
            nonlocal made
            made += 1
            began = now()
            await asyncio.sleep(0.25)
            if made < 9:
                error = NoConnection("connection refused", service="s")
                error.gave_up(6, began)
                raise error
            return "done"

        call = asyncio.create_task(pool.run(unlucky))
        assert await many(pool, 200) == list(range(200))
        assert await call == "done"

    run(main)


def test_a_server_that_has_no_room_for_a_while_loses_nothing() -> None:
    async def main() -> None:
        server = Server(0)
        pool = pool_of(server, patience=60)

        async def makes_room() -> None:
            await asyncio.sleep(40)
            server.resize(8)

        room = asyncio.create_task(makes_room())
        assert await many(pool, 30) == list(range(30))
        assert 40 < now() < 60
        assert server.refused <= 30 * 9, "it is not asked all the time"
        await room

    run(main)


def test_patience_with_a_full_server_ends() -> None:
    async def main() -> None:
        pool = pool_of(Server(0), patience=60)
        results = await many(pool, 30)
        assert {type(one) for one in results} == {Overload}
        assert 40 < now() < 70
        results = await many(pool_of(Server(0)), 30)
        assert {type(one) for one in results} == {Overload}

    run(main)


def test_a_call_that_there_is_never_room_for_does_not_wait_for_ever() -> None:
    async def main() -> None:
        pool = pool_of(Server(64), patience=60)
        made: list[float] = []

        async def too_large(_: Server) -> None:
            made.append(now())
            raise Overload("too large for the tokens of a minute", service="s")

        poison = asyncio.create_task(pool.run(too_large))
        assert await many(pool, 800) == list(range(800))
        with pytest.raises(Overload):
            await poison
        assert made[-1] < 61
        assert len(made) < 12

    run(main)


@pytest.mark.parametrize(("asked", "waits"), [(20.0, True), (120.0, False)])
def test_a_wait_that_is_asked_for_is_heeded_within_patience(asked: float, waits: bool) -> None:
    async def main() -> None:
        pool = pool_of(Server(8), patience=60)

        async def later(_: Server) -> float:
            if now() < asked:
                raise Overload("later", service="s", retry_after=asked)
            return now()

        if waits:
            assert await pool.run(later) == asked
            return
        with pytest.raises(Overload):
            await pool.run(later)
        assert now() == 0

    run(main)


def test_refusals_are_answers() -> None:
    async def main() -> None:
        pool = pool_of(Server(8))

        async def refuses(_: Server) -> None:
            raise Rejection("no", service="s")

        for _ in range(20):
            with pytest.raises(Rejection):
                await pool.run(refuses)
        assert pool.replicas[0].state is State.SERVING

    run(main)


def test_a_call_whose_time_is_up_is_made_once_more() -> None:
    async def main() -> None:
        pool = pool_of(Server(8), Server(8), patience=300)
        made = 0

        async def late(_: Server) -> None:
            nonlocal made
            made += 1
            await asyncio.sleep(10)
            raise DeadlineExceeded("late", service="s")

        with pytest.raises(DeadlineExceeded):
            await pool.run(late)
        assert made == 2

    run(main)


def test_few_calls_lost_without_a_word_are_made_again() -> None:
    async def main() -> None:
        pool = pool_of(Server(8), patience=300)
        made: list[int] = []

        def losing(number: int) -> Any:
            async def ask(_: Server) -> int:
                made.append(number)
                await asyncio.sleep(10 if now() < 5 else 1)
                if now() == 10:
                    raise DeadlineExceeded("late", service="s")
                return number

            return ask

        results = await asyncio.gather(*(pool.run(losing(n)) for n in range(3)))
        assert results == [0, 1, 2]
        assert sorted(made) == [0, 0, 1, 1, 2, 2], "each once more"
        assert pool.replicas[0].state is State.SERVING

    run(main)


def test_a_slow_replica_gets_fewer_calls() -> None:
    async def main() -> None:
        fast, slow = Server(64, seconds=0.1), Server(64, seconds=1.0)
        await many(pool_of(fast, slow), 1000)
        assert len(fast.served) > 4 * len(slow.served)

    run(main)


def test_those_who_wait_are_told_when_it_is_closed() -> None:
    async def main() -> None:
        pool = pool_of(Server(64, seconds=5), patience=300, most=1)
        tasks = [asyncio.create_task(pool.run(asking(n))) for n in range(3)]
        await asyncio.sleep(1)
        pool.replicas[0].close()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert results[0] == 0
        assert all("closed" in str(one) for one in results[1:])
        assert now() == 5

    run(main)


def test_a_preferred_replica_keeps_its_calls_until_it_is_much_busier() -> None:
    async def main() -> None:
        servers = [Server(64), Server(64), Server(64)]
        pool = pool_of(*servers, most=4)
        for number in range(12):
            await pool.run(asking(number), prefer=f"prefix {number % 4}")
        for server in servers:
            prefixes = [number % 4 for number in server.served]
            assert all(prefixes.count(prefix) in {0, 3} for prefix in range(4))
        await asyncio.gather(*(pool.run(asking(n), prefer="prefix 0") for n in range(9)))
        assert all(server.most > 1 for server in servers)

    run(main)
