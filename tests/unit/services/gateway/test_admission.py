"""Who gets how much of what is shared, and who is next."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editjudge.base.fair_queue import TEAM
from editjudge_services.gateway.admission import FairLock, SharedLimit, SharedRate
from editjudge_services.gateway.errors import NoCapacity
from editjudge_services.gateway.schemas import InvalidRequest


class Room:
    """A limit, and requests that hold an amount until they are told to end."""

    def __init__(self, limit: int) -> None:
        self.limit = SharedLimit(limit, "edits", "edits")
        self.begun: list[str] = []
        self.held: list[tuple[str, asyncio.Event, asyncio.Task[None]]] = []

    async def ask(self, *callers: str, amount: int = 1) -> None:
        for caller in callers:
            end = asyncio.Event()
            task = asyncio.create_task(self._hold(caller, amount, end))
            self.held.append((caller, end, task))
        await self.settle()

    async def _hold(self, caller: str, amount: int, end: asyncio.Event) -> None:
        async with self.limit.acquire(caller, amount):
            self.begun.append(caller)
            await end.wait()

    async def settle(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    async def end(self, caller: str) -> None:
        """End the oldest request of a caller."""
        index = next(i for i, each in enumerate(self.held) if each[0] == caller)
        _, end, task = self.held.pop(index)
        end.set()
        await task
        await self.settle()

    async def close(self) -> None:
        for _, _, task in self.held:
            task.cancel()
        await asyncio.gather(*(task for _, _, task in self.held), return_exceptions=True)
        assert not self.limit.in_use
        assert not self.limit._rows


@pytest.mark.parametrize(("greedy", "share"), [(1, 12), (2, 8), (3, 6), (5, 4)])
async def test_greedy_callers_have_equal_parts_and_leave_one(greedy: int, share: int) -> None:
    room = Room(24)
    names = [f"greedy {n}" for n in range(greedy)]
    await room.ask(*names * 30)
    for _ in range(15):
        for name in names:
            await room.end(name)
    assert [room.limit.in_use[name] for name in names] == [share] * greedy
    await room.ask(*["new"] * share)
    assert room.limit.in_use["new"] >= share // 2
    await room.close()


async def test_the_smallest_holder_is_next_and_a_row_keeps_its_order() -> None:
    room = Room(8)
    await room.ask(*"aaaa", *"bbbb", *"cccc")
    assert room.limit.in_use == {"a": 4, "b": 2, "c": 1}
    await room.end("a")
    assert room.begun[-1:] == ["c"]
    await room.close()


async def test_small_requests_do_not_keep_out_a_large_one() -> None:
    """Those of others; who holds nothing still gets what is free."""
    room = Room(20)
    await room.ask(*"aaaaaa", *"bbbbb")
    await room.ask("c", amount=10)
    await room.ask(*"bbbb", "d", *"aa")
    assert "".join(room.begun[11:]) == "d"
    await room.end("a")
    assert "".join(room.begun[12:]) == ""
    await room.end("b")
    assert "".join(room.begun[12:]) == "c"
    await room.close()


@pytest.mark.parametrize(("limit", "amount"), [(1, 1), (20, 10)])
async def test_callers_whose_requests_take_all_have_turns(limit: int, amount: int) -> None:
    room = Room(limit)
    await room.ask(*"aaaaabbccc", amount=amount)
    for _ in range(9):
        await room.end(room.begun[len(room.begun) - limit // amount])
    assert set(room.begun[:5]) == {*"abc"}, "nobody is passed for ever"
    assert sorted(room.begun) == [*"aaaaabbccc"]
    await room.close()


async def test_a_callers_own_small_requests_do_not_pass_its_large_one() -> None:
    room = Room(20)
    await room.ask(*"aaaa")
    await room.ask("a", amount=9)
    await room.ask(*"aaa")
    for amount in (3, 2, 9 + 1):
        await room.end("a")
        assert room.limit.in_use == {"a": amount}
    await room.close()


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 10)), max_size=60))
async def test_it_never_gives_too_much_and_loses_nothing(steps: list[tuple[str, int]]) -> None:
    room = Room(20)
    for caller, amount in steps:
        if amount:
            await room.ask(caller, amount=amount)
        elif ours := [each for each in room.held if each[0] == caller]:
            ours[-1][2].cancel()
            await room.settle()
            room.held.remove(ours[-1])
        assert sum(room.limit.in_use.values()) <= 20
        assert room.limit.in_use or not room.limit._rows, "something waits though all is free"
    await room.close()


async def test_what_is_given_back_early_lets_others_in() -> None:
    room = Room(20)
    async with room.limit.acquire("a", 10) as hold, room.limit.acquire("b", 10):
        await room.ask("c", amount=8)
        hold.shrink(2)
        hold.shrink(5)
        await room.settle()
        assert room.limit.in_use == {"a": 2, "b": 10, "c": 8}
    await room.close()


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.01])
async def test_who_waited_long_enough_is_refused(seconds: float) -> None:
    limit = SharedLimit(4, "edits")
    until = asyncio.get_running_loop().time() + seconds
    async with limit.acquire("a", 2, until), limit.acquire("b", 2, until):
        for caller, own in (("a", 2), ("c", 0)):
            with pytest.raises(NoCapacity, match=f"4 of 4 edits are in use, {own} of them yours"):
                async with limit.acquire(caller, 1, until):
                    pass
    assert not limit.in_use


@pytest.mark.parametrize("amount", [3, 4, 5])
async def test_what_there_is_never_room_for_is_refused_at_once(amount: int) -> None:
    """Though nobody else is there, and though it would fit if one caller had everything."""
    limit = SharedLimit(4, "edits", "edits")
    with pytest.raises(InvalidRequest, match=f"{amount} edits.*send at most 2 at a time"):
        async with limit.acquire("a", amount):
            pass
    assert not limit.in_use


async def test_a_lock_that_a_team_waits_for_a_hundred_times_is_anothers_next() -> None:
    """One of those that wait is cancelled, and loses nobody the lock."""
    lock, order = FairLock(), list[str]()

    async def use(team: str) -> None:
        TEAM.set(team)
        async with lock:
            order.append(team)
            await asyncio.sleep(0.001)

    busy = [asyncio.create_task(use("busy")) for _ in range(100)]
    await asyncio.sleep(0)
    quick = asyncio.create_task(use("quick"))
    await asyncio.sleep(0)
    busy[50].cancel()
    await quick
    assert len(order) <= 3
    await asyncio.gather(*busy, return_exceptions=True)
    assert order.count("busy") == 99


async def test_who_waited_while_nothing_moved_owes_no_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop stood still while one team had the lock; all of its time would be nobody's fault but others'."""
    now = [0.0]
    monkeypatch.setattr("editjudge_services.gateway.admission.time.monotonic", lambda: now[0])
    ahead = dict[bool, int]()
    for by_time in (True, False):
        lock, order = FairLock(by_time=by_time), list[str]()

        async def use(team: str, seconds: float, lock: FairLock = lock, order: list[str] = order) -> None:
            TEAM.set(team)
            async with lock:
                order.append(team)
                now[0] += seconds
                await asyncio.sleep(0)

        many = [asyncio.create_task(use("many", 0.001)) for _ in range(500)]
        await asyncio.create_task(use("few", 0.3))
        before = len(order)
        await asyncio.create_task(use("few", 0.001))
        ahead[by_time] = len(order) - before - 1
        await asyncio.gather(*many)
    assert ahead[True] > 100, "by time it owes what the others then use"
    assert ahead[False] <= 2


async def test_who_asks_too_often_waits_in_order_and_nobody_waits_for_him(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock of its own: 10 at once, then one each tenth of a second."""
    loop, pauses = asyncio.get_running_loop(), list[float]()

    async def pause(seconds: float) -> None:
        pauses.append(round(seconds, 6))

    monkeypatch.setattr(loop, "time", lambda: 100.0)
    monkeypatch.setattr("editjudge_services.gateway.admission.asyncio.sleep", pause)
    rate = SharedRate(10, 10, "requests")
    for _ in range(12):
        await rate.wait("a", until=101.0)
    assert pauses == [0.1, 0.2]
    await rate.wait("b", 10, until=0.0)
    assert pauses == [0.1, 0.2]
    for _ in range(2):  # what is refused is not taken
        with pytest.raises(NoCapacity, match="more than 10 requests a second; ask again in 1 s"):
            await rate.wait("a", until=100.25)
    assert rate.charge("a", 0) == pytest.approx(100.2)
    monkeypatch.setattr(loop, "time", lambda: 101.1)
    rate.forget()
    assert rate._full_at.keys() == {"a"}
    monkeypatch.setattr(loop, "time", lambda: 101.3)
    rate.forget()
    assert not rate._full_at
