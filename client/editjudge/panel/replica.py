"""One server with what controls the calls to it: circuit breaker, concurrency limit and queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from pydantic.dataclasses import dataclass as result

from ..base.errors import DeadlineExceeded, Overload, ServiceError
from ..base.fair_queue import TEAM, FairQueue, Turn
from ..base.strict import STRICT
from .concurrency import AdaptiveLimit
from .retry import read_clock

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """The numbers that control the calls of a pool.

    Attributes:
        patience: Seconds that calls wait when all servers are lost; 0 fails at once.
        lost_after: A server counts as lost after so many calls in a row that did not reach it.
        first_pause: Seconds from the loss of a server to the first call that probes it; doubled
            after each probe that fails.
        longest_pause: Seconds that this pause takes at most.
        preference: A preferred server is taken while its utilisation is at most this (0..1 without
            a queue).
        balance: Beyond that it is taken while its utilisation is at most so many times the mean.
    """

    patience: float = 0.0
    lost_after: int = 5
    first_pause: float = 1.0
    longest_pause: float = 15.0
    preference: float = 0.25
    balance: float = 1.25


DEFAULT_POLICY = PoolPolicy()


_REASON_SECONDS = 5.0
"""Seconds for which the last failed attempt counts as the reason why calls wait."""


class State(Enum):
    """Whether a server gets calls: the states of a circuit breaker.

    =========== ============================================ ===================================
    state       event                                        next state
    =========== ============================================ ===================================
    SERVING     `lost_after` calls in a row did not reach it UNREACHABLE; the queue is sent away
    UNREACHABLE the pause is over                            DUE
    DUE         a call takes the place                       PROBING
    PROBING     that call does not reach it                  UNREACHABLE; the pause doubles
    PROBING     that call ends without telling anything      DUE
    UNREACHABLE a call that began earlier is answered        SERVING
    DUE         a call that began earlier is answered        SERVING
    PROBING     any call is answered                         SERVING
    any         `close`                                      SHUT_DOWN; the queue is sent away
    =========== ============================================ ===================================

    Attributes:
        SERVING: It gets as many calls as its concurrency limit allows.
        UNREACHABLE: It could not be reached, and gets no calls until its pause is over.
        DUE: It could not be reached; the next call probes whether it is back.
        PROBING: The probing call is in flight; no other call may begin.
        SHUT_DOWN: Its connection is closed for good.
    """

    SERVING = "serving"
    UNREACHABLE = "unreachable"
    DUE = "due"
    PROBING = "probing"
    SHUT_DOWN = "shut_down"

    @property
    def is_lost(self) -> bool:
        """Whether the server could not be reached and has not answered since."""
        return self in {State.UNREACHABLE, State.DUE, State.PROBING}


@result(frozen=True, slots=True, config=STRICT)
class ServerLoad:
    """The load of a server at one moment, as the events of a run show it.

    Attributes:
        limit: How many calls it gets at once now.
        in_flight: How many calls it has.
        waiting: How many calls wait for a place. A call that several servers can take counts at
            each.
        open: Whether its breaker is open: it could not be reached, and gets no calls.
        waits_for: Why calls wait or are fewer than they could be, in the server's words; empty
            where nothing is wrong.
        again: How often a call was made again after a failure.
        lost_seconds: For how long a server that is `open` has not been reached.
        seconds_to_end: In how many seconds the calls that wait for it fail.
    """

    limit: int
    in_flight: int
    waiting: int
    open: bool = False
    waits_for: str = ""
    again: int = 0
    lost_seconds: float = 0.0
    seconds_to_end: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Place(Generic[E]):
    """The place of one call at a server, from `take` until it is released.

    Attributes:
        replica: The server.
        queue: The queue of the call's class.
        turn: What is charged to the call's team.
        began: When the place was taken.
        is_probe: Whether the call probes if the server is back.
    """

    replica: Replica[E]
    queue: FairQueue[asyncio.Future[Place[E] | None]]
    turn: Turn
    began: float
    is_probe: bool


class Replica(Generic[E]):
    """One server, which may serve several services, and the queue of calls to it.

    - Each `take` is followed by exactly one of `release_after_answer`, `release_after_loss` and
      `release_inconclusive`, also when the call is cancelled. Otherwise the limit would lose a
      place for ever.
    - Urgent calls go before others. Among the calls of a class teams take turns (`FairQueue`);
      those of one team get places in the order in which they wait.
    - A call keeps its place while it waits for its next attempt.
    - When the server is lost or closed, the calls in its queue are sent away to look elsewhere.
    - While the server is lost, at most one call is in flight that began after the loss: the probe.

    All methods belong to one event loop; between two awaits nothing else runs, so no lock is
    needed.

    Args:
        url: Its address.
        connect: Makes the client that calls go through. It gets this replica, whose `note_retry`
            belongs into the client's `RetryPolicy`.
        most: Upper bound of the concurrency limit.

    Attributes:
        target: The client.
        state: See `State`.
        lost_at: When the server was lost the last time.
        last_error: Error of the last call that did not reach it.
        full_since: When it first had no room for a call since its last success; infinity before.
        retry_count: How often a call that had failed here was made again.
    """

    def __init__(
        self, url: str, connect: Callable[[Replica[E]], E], most: int, policy: PoolPolicy = DEFAULT_POLICY
    ) -> None:
        self.url = url
        self.state = State.SERVING
        self.lost_at = 0.0
        self.last_error: ServiceError | None = None
        self.full_since = float("inf")
        self.retry_count = 0
        self._policy = policy
        self._limit = AdaptiveLimit(most)
        self._latest_failure: tuple[str, float] = ("", float("-inf"))
        self._queues: dict[bool, FairQueue[asyncio.Future[Place[E] | None]]] = {
            urgent: FairQueue(read_clock) for urgent in (True, False)
        }
        self._answered_until = float("-inf")
        self._lost_in_a_row = 0
        self._pause = policy.first_pause
        self._timer: asyncio.TimerHandle | None = None
        self.target = connect(self)

    @property
    def queue_length(self) -> int:
        """Calls that wait for a place."""
        return sum(map(len, self._queues.values()))

    @property
    def utilisation(self) -> float:
        """Calls in flight and waiting, divided by the limit; above 1 calls wait."""
        return (self._limit.in_flight + self.queue_length) / self._limit.size

    @property
    def has_room(self) -> bool:
        """Whether a call may begin now."""
        return self.state is State.DUE or (self.state is State.SERVING and self._limit.has_room)

    def measure_load(self) -> ServerLoad:
        """The load now."""
        now, is_lost = read_clock(), self.state.is_lost
        what, until = self._latest_failure
        reason = what if now < until else ""
        lost_seconds = left = 0.0
        if is_lost:
            lost_seconds = now - self.lost_at
            left = max(self._policy.patience - lost_seconds, 0.0)
            reason = f"an answer: {self.last_error.detail}" if self.last_error else reason
        limit = self._limit
        times = round(lost_seconds, 1), round(left, 1)
        return ServerLoad(limit.size, limit.in_flight, self.queue_length, is_lost, reason, self.retry_count, *times)

    def take(self, team: str = "", *, urgent: bool = False) -> Place[E]:
        """Take a place for a team's call; only where `has_room` is true."""
        now, queue = read_clock(), self._queues[urgent]
        probe = self.state is State.DUE
        if probe:
            self._enter(State.PROBING)
        self._limit.begin(now)
        return Place(self, queue, queue.begin(team), now, probe)

    def release_after_answer(self, place: Place[E], error: ServiceError | None = None) -> None:
        """Release a place after the server has answered, with a result or an error.

        The server is serving again if it was lost. An answer raises the limit and an `Overload`
        lowers it.

        Args:
            error: The error that the server answered with; None for a result.
        """
        self._answered_until = max(self._answered_until, place.began)
        self._lost_in_a_row = 0
        if self.state.is_lost:
            self._enter(State.SERVING)
        if isinstance(error, Overload):
            self.full_since = min(self.full_since, read_clock())
        if error is None:
            self.full_since = float("inf")
            self._limit.on_answer(place.began)
        else:
            self._observe(error, place.began)
        self._give_back(place)

    def release_after_loss(self, place: Place[E], error: ServiceError, since: float) -> bool:
        """Release a place after a call that did not reach the server, or got no reply in time.

        Args:
            error: How the call ended.
            since: When this began to show.

        Returns:
            Whether the server is to blame. It is not if it has answered a call that began later
            than
            `since`: then this call alone was lost.
        """
        self.last_error = error
        is_blamed = self.state.is_lost or since >= self._answered_until
        if self.state is State.PROBING and place.is_probe:
            self._pause = min(2 * self._pause, self._policy.longest_pause)
            self._enter(State.UNREACHABLE)
        elif self.state is State.SERVING and is_blamed:
            self._lost_in_a_row += 1
            if self._lost_in_a_row >= self._policy.lost_after:
                self.lost_at = read_clock()
                self._enter(State.UNREACHABLE)
        self._observe(error, place.began)
        self._give_back(place)
        return is_blamed

    def release_inconclusive(self, place: Place[E]) -> None:
        """Release a place after a call that tells nothing about the server, or was cancelled.

        If it was the probe, the next call probes.
        """
        self._give_back(place)
        if self.state is State.PROBING and place.is_probe:
            self._enter(State.DUE)

    def note_retry(self, error: ServiceError, began: float) -> None:
        """Take note of an attempt that failed and is made again; see `RetryPolicy`."""
        self.retry_count += 1
        self._observe(error, began)

    def _observe(self, error: ServiceError, began: float) -> None:
        """Take note of a failed attempt; overload lowers the limit, unless the server is lost."""
        now = read_clock()
        heavy = isinstance(error, Overload | DeadlineExceeded)
        if heavy and not self.state.is_lost:
            self._limit.on_overload(began, now)
        if heavy or error.retryable:
            what = "room" if heavy else "another attempt"
            end = now + max(_REASON_SECONDS, error.retry_after or 0.0)
            self._latest_failure = f"{what}: {error.detail}", end

    def enqueue(self, future: asyncio.Future[Place[E] | None], team: str, urgent: bool) -> None:
        """Queue a future for the team's next place. It gets None if the queue is sent away."""
        self._queues[urgent].push(team, future)
        self._hand_out()

    def leave(self, future: asyncio.Future[Place[E] | None], team: str, urgent: bool) -> None:
        """Remove a future from the queue."""
        self._queues[urgent].remove(team, future)

    def close(self) -> None:
        """Let no further call begin."""
        self._enter(State.SHUT_DOWN)

    def _enter(self, state: State) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        before, self.state = self.state, state
        if state is State.UNREACHABLE:
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._enter, State.DUE)
        elif state is State.SERVING:
            self._pause = self._policy.first_pause
        if before is State.SERVING or state is State.SHUT_DOWN:
            self._send_away()
        self._hand_out()

    def _give_back(self, place: Place[E]) -> None:
        place.queue.end(place.turn)
        self._limit.end(read_clock())
        self._hand_out()

    def _hand_out(self) -> None:
        for urgent, queue in self._queues.items():
            while self.has_room and (item := queue.pop()) is not None:
                team, future = item
                if not future.done():
                    future.set_result(self.take(team, urgent=urgent))

    def _send_away(self) -> None:
        for queue in self._queues.values():
            while (item := queue.pop()) is not None:
                _release(item[1])


async def take_first_free(
    replicas: Sequence[Replica[E]], seconds: float | None = None, *, urgent: bool = False
) -> Place[E] | None:
    """Take a place at the first of several servers that has one, for the team of this task.

    If the call is cancelled in the moment in which it gets a place, the place is released.

    Args:
        replicas: In order of preference: of several servers with room the first is taken.
        seconds: The longest wait; None for no limit.
        urgent: Whether the call goes before others in the queues.

    Returns:
        The place; None if a server was lost or closed meanwhile, or the time is up.
    """
    team = TEAM.get()
    for replica in replicas:
        if replica.has_room and not replica.queue_length:
            return replica.take(team, urgent=urgent)
    future: asyncio.Future[Place[E] | None] = asyncio.get_running_loop().create_future()
    for replica in replicas:
        replica.enqueue(future, team, urgent)
        if future.done():
            break
    timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, _release, future)
    try:
        return await future
    except asyncio.CancelledError:
        place = future.result() if future.done() and not future.cancelled() else None
        if place is not None:
            place.replica.release_inconclusive(place)
        raise
    finally:
        if timer is not None:
            timer.cancel()
        for replica in replicas:
            replica.leave(future, team, urgent)
        future.cancel()


def _release(future: asyncio.Future[Place[E] | None]) -> None:
    """Resolve a future with None, if it still waits."""
    if not future.done():
        future.set_result(None)
