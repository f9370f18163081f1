from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editjudge.base import errors
from editjudge.panel.pool import EndpointPool
from editjudge.panel.replica import Place, PoolPolicy, Replica, State, take_first_free
from editjudge.panel.retry import RetryPolicy, call_with_retries

from ...fakes.transport import pool_of
from ...fakes.virtual_time import ManualClock, Server, VirtualLoop, insist

LOOP = VirtualLoop
FULL = errors.Overload("full", service="s")
GONE = errors.Unreachable("gone", service="s")


def replica_of(most: int, **numbers: Any) -> Replica[None]:
    return Replica("s", lambda _: None, most, PoolPolicy(**numbers))


async def call(replica: Replica[None], error: errors.ServiceError | None = None) -> None:
    """A call of a second."""

    async def ask(_: None) -> None:
        await asyncio.sleep(1)
        if error is not None:
            raise error

    await EndpointPool([replica]).run(ask)


def limit(replica: Replica[None]) -> int:
    return replica.measure_load().limit


async def together(replica: Replica[None], count: int, error: errors.ServiceError | None = None) -> None:
    """So many calls of a second at once, all with the same end."""
    calls = (call(replica, error) for _ in range(count))
    await asyncio.gather(*calls, return_exceptions=True)


async def test_one_cut_per_episode() -> None:
    replica = replica_of(64)
    await together(replica, 64, FULL)
    assert limit(replica) == 32
    await together(replica, 10, FULL)
    assert limit(replica) == 22, "these began after the cut"


@pytest.mark.parametrize("kind", [errors.Rejection, errors.BadReply])
async def test_refusals_say_nothing_of_the_load(kind: type[errors.ServiceError]) -> None:
    replica = replica_of(8)
    await together(replica, 8, kind("no", service="s"))
    assert limit(replica) == 8


@pytest.mark.parametrize("kind", [errors.Overload, errors.DeadlineExceeded, errors.Unreachable, errors.NoConnection])
async def test_attempts_count_that_a_retry_fixes(kind: type[errors.ServiceError]) -> None:
    replica = replica_of(8)
    policy = RetryPolicy(first_wait=0.001, note_retry=replica.note_retry)
    script = [kind("x", service="s")]

    async def attempt(_: float) -> None:
        await asyncio.sleep(0.01)
        if script:
            raise script.pop()

    late = kind is errors.DeadlineExceeded
    with pytest.raises(kind) if late else contextlib.nullcontext():
        await EndpointPool([replica]).run(lambda _: call_with_retries(attempt, policy))
    heavy = kind in {errors.Overload, errors.DeadlineExceeded}
    assert (limit(replica) < 8) == heavy, "what is lost or broken is no overload"
    assert replica.measure_load().waits_for == ("room: x" if heavy else "another attempt: x")
    await asyncio.sleep(10)
    assert replica.measure_load().waits_for == ""


async def test_retries_of_calls_from_before_the_cut_do_not_cut_again() -> None:
    replica = replica_of(32)
    policy = RetryPolicy(attempts=4, first_wait=0.5, note_retry=replica.note_retry)
    pool = EndpointPool([replica])

    async def attempt(left: float) -> None:
        await asyncio.sleep(0.01)
        raise FULL

    calls = (pool.run(lambda _: call_with_retries(attempt, policy)) for _ in range(32))
    await asyncio.gather(*calls, return_exceptions=True)
    assert limit(replica) == 16


@settings(max_examples=25)
@given(st.integers(1, 60), st.integers(0, 30), st.integers(1, 64), st.integers(0, 2**16))
async def test_it_stays_in_its_bounds_and_near_the_capacity(capacity: int, queue: int, most: int, seed: int) -> None:
    dice = random.Random(seed)
    server = Server(capacity, queue=queue)
    pool = pool_of(server, most)
    seen = []

    async def send_call(number: int) -> None:
        server.seconds = dice.uniform(0.5, 1.5)
        await insist(pool, number)
        gauge = pool.replicas[0].measure_load()
        seen.append(gauge.limit)
        assert 1 <= gauge.limit <= most
        assert gauge.in_flight <= most

    count = 40 * min(most, capacity + queue)
    await asyncio.gather(*(send_call(n) for n in range(count)))
    assert sorted(server.served) == list(range(count)), "none lost, none twice"
    # Towards the end there are too few to fill it.
    steady = seen[count // 2 : -count // 5]
    room = capacity + queue
    assert max(steady) <= min(most, room + 1)
    assert sum(steady) / len(steady) >= 0.6 * min(most, room) - 1
    assert pool.replicas[0].measure_load().in_flight == 0


async def test_it_recovers() -> None:
    pool = pool_of(server := Server(32), 64)

    async def limit_after(calls: int) -> int:
        await asyncio.gather(*(insist(pool) for _ in range(calls)))
        return pool.replicas[0].measure_load().limit

    assert await limit_after(1000) > 15
    server.resize(4)
    assert await limit_after(300) <= 6
    server.resize(32)
    assert await limit_after(2000) > 15


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=40))
async def test_cancelling_loses_no_place(times: list[tuple[float, float]]) -> None:
    replica = replica_of(2)

    async def starting(start: float) -> None:
        await asyncio.sleep(start)
        await call(replica)

    tasks = [asyncio.create_task(starting(start)) for start, _ in times]
    loop = asyncio.get_running_loop()
    for task, (_, stop) in zip(tasks, times, strict=True):
        loop.call_later(stop, task.cancel)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (replica.measure_load().in_flight, replica.queue_length) == (0, 0)
    await asyncio.wait_for(together(replica, 4), 10)


async def test_a_place_given_to_somebody_just_cancelled_goes_on() -> None:
    replica = replica_of(1)
    pool = EndpointPool([replica])
    order: list[str] = []

    async def ask(name: str) -> None:
        order.append(name)
        await asyncio.sleep(1)

    calls = (pool.run(lambda _, name=name: ask(name)) for name in "abc")
    first, second, third = map(asyncio.create_task, calls)
    await asyncio.sleep(0.5)
    # In the same step in which `a` ends: `b` was given the place, and is cancelled.
    first.add_done_callback(lambda _: second.cancel())
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert order in (["a", "c"], ["a", "b", "c"])
    assert replica.measure_load().in_flight == 0


async def test_a_lost_server_says_since_when_and_when_its_calls_fail() -> None:
    replica = replica_of(2, patience=30.0, lost_after=1)
    assert (replica.measure_load().lost_seconds, replica.measure_load().seconds_to_end) == (0, 0)
    task = asyncio.create_task(together(replica, 1, GONE))
    await asyncio.sleep(11)  # the call took a second
    load = replica.measure_load()
    assert load.open
    assert load.lost_seconds + load.seconds_to_end == pytest.approx(30)
    assert 0 < load.lost_seconds <= 10
    await task
    await asyncio.sleep(30)
    assert replica.measure_load().seconds_to_end == 0


async def test_waiting_for_several_takes_the_first_that_is_free() -> None:
    slow, fast = replica_of(1), replica_of(1)
    slow.take()
    taken = fast.take()
    waiting = asyncio.create_task(take_first_free([slow, fast]))
    await asyncio.sleep(1)
    assert (slow.queue_length, fast.queue_length) == (1, 1)
    fast.release_after_answer(taken)
    assert (await waiting).replica is fast
    assert [one.measure_load().in_flight for one in (slow, fast)] == [1, 1]
    assert await take_first_free([slow, fast], 0.5) is None
    assert (slow.queue_length, fast.queue_length) == (0, 0)


# States: no event loop is needed, a test moves the clock.


class ClockedReplica:
    """A replica on a clock that the test moves."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        policy = PoolPolicy(lost_after=5, first_pause=1.0, longest_pause=4.0)
        self.replica: Replica[None] = Replica("s", lambda _: None, 8, policy)

    @property
    def state(self) -> State:
        return self.replica.state

    def lose(self, place: Place[None] | None = None) -> bool:
        place = place or self.replica.take()
        return self.replica.release_after_loss(place, GONE, place.began)

    def answer(self, place: Place[None] | None = None) -> None:
        self.replica.release_after_answer(place or self.replica.take())

    def bring_to(self, state: State) -> Any:
        """Walk to a state; returns the place of the call that finds out."""
        if state is State.SHUT_DOWN:
            self.replica.close()
        if state in {State.UNREACHABLE, State.DUE, State.PROBING}:
            for _ in range(5):
                self.lose()
        if state in {State.DUE, State.PROBING}:
            self.clock.forward(1.0)
        return self.replica.take() if state is State.PROBING else None


@pytest.fixture
def it(monkeypatch: pytest.MonkeyPatch) -> ClockedReplica:
    clock = ManualClock()
    monkeypatch.setattr(asyncio, "get_running_loop", clock)
    return ClockedReplica(clock)


def test_five_calls_in_a_row_open_the_breaker(it: ClockedReplica) -> None:
    for _ in range(4):
        it.lose()
    it.answer()
    for _ in range(4):
        assert it.state is State.SERVING
        it.lose()
    it.lose()
    assert (it.state, it.replica.has_room) == (State.UNREACHABLE, False)
    assert it.replica.measure_load().open


def test_one_call_goes_ahead_at_growing_intervals(it: ClockedReplica) -> None:
    it.bring_to(State.UNREACHABLE)
    before = limit(it.replica)
    for pause in (1.0, 2.0, 4.0, 4.0):
        it.clock.forward(pause - 0.01)
        assert it.state is State.UNREACHABLE
        it.clock.forward(0.01)
        assert it.state is State.DUE
        place = it.replica.take()
        assert (place.is_probe, it.state) == (True, State.PROBING)
        assert not it.replica.has_room, "one at a time"
        assert it.lose(place)
    assert limit(it.replica) == before, "an endpoint that is gone is not overloaded"
    it.clock.forward(4.0)
    it.answer()
    assert it.state is State.SERVING
    assert not it.replica.take().is_probe
    for _ in range(5):
        it.lose()
    it.clock.forward(1.0)
    assert it.state is State.DUE, "the pause begins anew"


@pytest.mark.parametrize("state", [State.UNREACHABLE, State.DUE, State.PROBING])
def test_an_answer_to_an_earlier_call_closes_the_breaker(it: ClockedReplica, state: State) -> None:
    earlier = it.replica.take()
    it.bring_to(state)
    assert it.state is state
    it.answer(earlier)
    assert it.state is State.SERVING
    it.clock.forward(100.0)
    assert it.state is State.SERVING, "no timer is left"


def test_an_earlier_call_that_is_lost_changes_nothing(it: ClockedReplica) -> None:
    earlier = it.replica.take()
    it.bring_to(State.PROBING)
    assert it.lose(earlier)
    assert it.state is State.PROBING


def test_a_probe_that_is_cancelled_lets_another_go(it: ClockedReplica) -> None:
    it.replica.release_inconclusive(it.bring_to(State.PROBING))
    assert it.state is State.DUE
    assert it.replica.has_room


@pytest.mark.parametrize("state", [each for each in State if each is not State.SHUT_DOWN])
def test_what_is_closed_stays_closed(it: ClockedReplica, state: State) -> None:
    places = [it.replica.take() for _ in range(7)]
    it.bring_to(state)
    it.replica.close()
    for place in places[:6]:
        it.lose(place)
    it.answer(places[6])
    it.clock.forward(100.0)
    assert it.state is State.SHUT_DOWN
    assert not it.replica.has_room


def test_calls_that_others_outlived_do_not_count(it: ClockedReplica) -> None:
    earlier = [it.replica.take() for _ in range(7)]
    it.clock.forward(1.0)
    it.answer()
    assert not any(it.lose(place) for place in earlier)
    assert it.state is State.SERVING


async def test_those_who_wait_look_elsewhere_when_it_is_lost_and_stay_while_it_is() -> None:
    replica = replica_of(8, first_pause=1.0, longest_pause=4.0)
    places = [replica.take() for _ in range(8)]
    before = [asyncio.create_task(take_first_free([replica])) for _ in range(6)]
    await asyncio.sleep(0.5)
    for place in places[:5]:
        replica.release_after_loss(place, GONE, place.began)
    taken = await asyncio.gather(*before)
    assert [place is None for place in taken] == [False] * 4 + [True] * 2
    waiting = [asyncio.create_task(take_first_free([replica])) for _ in range(3)]
    await asyncio.sleep(1.5)
    (probe,) = (task.result() for task in waiting if task.done())
    replica.release_after_loss(probe, GONE, probe.began)
    assert replica.queue_length == 2
    await asyncio.sleep(2.5)
    (probe,) = (task.result() for task in waiting[1:] if task.done())
    assert probe.is_probe
    replica.release_after_answer(probe)
    assert not (await waiting[2]).is_probe
