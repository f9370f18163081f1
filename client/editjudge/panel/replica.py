"""One server with what regulates the calls to it: its state, its limit and who waits for it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from ..base.errors import DeadlineExceeded, Overloaded, ServiceError
from .concurrency import AdaptiveLimit, FailureRate
from .retry import LOOP_CLOCK, Clock

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """The numbers by which a pool regulates its calls.

    Attributes:
        patience: Seconds that calls wait for servers that are all lost; 0 fails at once.
        lost_after: Calls in a row that do not reach a server before it counts as lost.
        first_pause: Seconds before the first call to a lost server; doubled after each.
        longest_pause: Seconds.
        preference: Share of its limit by which a preferred server may be busier than others.
    """

    patience: float = 0.0
    lost_after: int = 5
    first_pause: float = 1.0
    longest_pause: float = 15.0
    preference: float = 0.5


DEFAULT_POLICY = PoolPolicy()


_TOLD = 5.0
"""Seconds for which a failed attempt is said to be waited for."""


class State(Enum):
    """Whether a server gets calls.

    ======== ============================================ =========================
    state    event                                        next state
    ======== ============================================ =========================
    SERVING  `lost_after` calls in a row did not reach it LOST; those waiting leave
    LOST     the pause is over                            DUE
    DUE      a call takes the place                       PROBING
    PROBING  that call does not reach it                  LOST; the pause doubles
    PROBING  that call was cancelled, or asked nothing    DUE
    LOST     a call that began earlier is answered        SERVING
    DUE      a call that began earlier is answered        SERVING
    PROBING  any call is answered                         SERVING
    any      `close`                                      CLOSED; those waiting leave
    ======== ============================================ =========================

    Attributes:
        SERVING: It gets as many calls as its limit allows.
        LOST: It could not be reached, and gets no calls for a while.
        DUE: It could not be reached; the next call shall find out whether it is back.
        PROBING: That call is in flight, and no other one may begin.
        CLOSED: Its connection is closed for good.
    """

    SERVING = "serving"
    LOST = "lost"
    DUE = "due"
    PROBING = "probing"
    CLOSED = "closed"

    @property
    def is_lost(self) -> bool:
        """Whether the server could not be reached and has not answered since."""
        return self in {State.LOST, State.DUE, State.PROBING}


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """A server's load at one moment.

    Attributes:
        limit: Calls that it gets at once.
        in_flight: Calls that it has.
        waiting: Calls that wait for a place; one that several servers can take counts at each.
        busy_seconds: Of all calls together; by the time gone it is the mean number in flight.
        open: Whether its breaker is open: it could not be reached, and gets no calls.
        waits_for: Why calls wait or are fewer than they could be, in the server's words; empty
            where nothing is wrong.
        again: How often a call was made again, since it failed.
    """

    limit: int
    in_flight: int
    queue_length: int
    busy_seconds: float
    is_lost: bool = False
    wait_reason: str = ""
    retry_count: int = 0


@dataclass(slots=True, eq=False)
class Place(Generic[E]):
    """A call's place at a server, until the call has ended.

    Attributes:
        replica: The server.
        began: When it was taken.
        probe: Whether its call shall find out if the server is back.
        held: Whether it counts among the calls in flight; not while it is given back for a time.
        task: That makes the call, once it does.
    """

    replica: Replica[E]
    began: float
    is_probe: bool
    is_counted: bool = True
    task: asyncio.Task[Any] | None = None


class Replica(Generic[E]):
    """One server, which may serve several services.

    Every `take` is followed by exactly one of `answered`, `lost` and `unasked`. Whoever waits
    longest for a place is next, urgent calls before others; calls that gave theirs back come before
    those that have not begun.

    Args:
        url: Its address.
        connect: Makes the client that calls go through. It gets this server: its `observe` and
            `pause` are for the client's `RetryPolicy`.
        most: Calls that it gets at once at most.

    Attributes:
        target: The client.
        state: See `State`.
        lost_at: When it was lost the latest time.
        last_error: What the latest call that did not reach it ended with.
        full_since: When it first had no room for a call since it served one; infinity before.
        again: How often a call was made again that had failed here.
    """

    def __init__(
        self,
        url: str,
        connect: Callable[[Replica[E]], E],
        most: int,
        policy: PoolPolicy = DEFAULT_POLICY,
        clock: Clock = LOOP_CLOCK,
    ) -> None:
        self.url = url
        self.state = State.SERVING
        self.lost_at = 0.0
        self.last_error: ServiceError | None = None
        self.full_since = float("inf")
        self.retry_count = 0
        self._policy = policy
        self._clock = clock
        self._limit = AdaptiveLimit(most)
        self._latest_failure: tuple[str, float] = ("", float("-inf"))
        self._failures = FailureRate()
        self._calls: dict[asyncio.Task[Any], Place[E]] = {}
        self._returning_calls: OrderedDict[asyncio.Future[None], Place[E]] = OrderedDict()
        self._urgent_queue: OrderedDict[asyncio.Future[Place[E] | None], None] = OrderedDict()
        self._queue: OrderedDict[asyncio.Future[Place[E] | None], None] = OrderedDict()
        self._answered_until = float("-inf")
        self._lost_in_a_row = 0
        self._pause = policy.first_pause
        self._cancel_timer: Callable[[], None] | None = None
        self.target = connect(self)

    @property
    def queue_length(self) -> int:
        """Calls that wait for a place."""
        return len(self._urgent_queue) + len(self._queue) + len(self._returning_calls)

    @property
    def utilisation(self) -> float:
        """Share of the limit that is in use or asked for; above 1 calls wait."""
        return (self._limit.in_flight + self.queue_length) / self._limit.size

    @property
    def has_room(self) -> bool:
        """Whether a call may begin now."""
        return self.state is State.DUE or (self.state is State.SERVING and self._limit.has_room)

    def measure_load(self) -> ServerLoad:
        """The load now."""
        busy = self._limit.busy_seconds(self._clock.now())
        limit, in_flight = self._limit.size, self._limit.in_flight
        is_lost = self.state.is_lost
        reason, retries = self._wait_reason(is_lost), self.retry_count
        return ServerLoad(limit, in_flight, self.queue_length, busy, is_lost, reason, retries)

    def _wait_reason(self, is_lost: bool) -> str:
        if is_lost and self.last_error is not None:
            return f"an answer: {self.last_error.detail}"
        what, until = self._latest_failure
        return what if self._clock.now() < until else ""

    def take(self) -> Place[E]:
        """Take a place where `free` says that there is one."""
        now = self._clock.now()
        probe = self.state is State.DUE
        if probe:
            self._enter(State.PROBING)
        self._limit.begin(now)
        return Place(self, now, probe)

    def release_after_answer(self, place: Place[E], error: ServiceError | None = None) -> None:
        """Give a place back after an answer.

        Args:
            error: What the server answered, where that was a failure.
        """
        self._answered_until = max(self._answered_until, place.began)
        self._lost_in_a_row = 0
        if self.state.is_lost:
            self._enter(State.SERVING)
        if isinstance(error, Overloaded):
            self.full_since = min(self.full_since, self._clock.now())
        if error is None:
            self.full_since = float("inf")
            self._failures.add_answer()
            self._limit.on_answer(place.began)
        else:
            self.observe(error, place.began)
        self._give_back(place)

    def release_after_loss(self, place: Place[E], error: ServiceError, since: float) -> bool:
        """Give a place back after a call that did not reach the server.

        Args:
            since: When that began to show.

        Returns:
            Whether the server is to blame. It is not where it has answered a call that began
            later than `since`.
        """
        self.last_error = error
        is_blamed = self.state.is_lost or since >= self._answered_until
        if self.state is State.PROBING and place.is_probe:
            self._pause = min(2 * self._pause, self._policy.longest_pause)
            self._enter(State.LOST)
        elif self.state is State.SERVING and is_blamed:
            self._lost_in_a_row += 1
            if self._lost_in_a_row >= self._policy.lost_after:
                self.lost_at = self._clock.now()
                self._enter(State.LOST)
        self.observe(error, place.began)
        self._give_back(place)
        return is_blamed

    def release_inconclusive(self, place: Place[E]) -> None:
        """Give a place back after a call that says nothing of the server."""
        self._give_back(place)
        if self.state is State.PROBING and place.is_probe:
            self._enter(State.DUE)

    def observe(self, error: ServiceError, began: float) -> None:
        """Take note of a failed attempt; a server that is lost is not overloaded.

        Args:
            began: When its call began.
        """
        now = self._clock.now()
        heavy = isinstance(error, Overloaded | DeadlineExceeded)
        if heavy and not self.state.is_lost:
            self._limit.on_overload(began, now)
        if heavy or error.retryable:
            self._failures.add_failure(self._limit.size)
            what = "room" if heavy else "another attempt"
            self._latest_failure = (
                f"{what}: {error.detail}",
                now + max(_TOLD, error.retry_after or 0.0),
            )

    def assign(self, place: Place[E], task: asyncio.Task[Any] | None) -> None:
        """Take note that a task makes the call of a place, so that `pause` knows it."""
        if task is not None:
            place.task = task
            self._calls[task] = place

    async def pause(self, seconds: float) -> float:
        """Wait before a call is tried again; see `RetryPolicy.pause`.

        While failures are rare the call of the task that waits gives its place back meanwhile.
        Where they are not it stays in its place: a server in trouble gets no further calls. So
        does what several calls share, since it is no task's own call.

        Returns:
            Seconds that it waited for a place after these.
        """
        self.retry_count += 1
        task = asyncio.current_task()
        place = self._calls.get(task) if task else None
        rare = self._failures.is_rare(self._limit.size)
        if place is None or self.state is not State.SERVING or not rare:
            await self._clock.sleep(seconds)
            return 0.0
        self._free_place(place)
        await self._clock.sleep(seconds)
        ready = self._clock.now()
        future = asyncio.get_running_loop().create_future()
        self._returning_calls[future] = place
        self._hand_out()
        try:
            await future
        finally:
            self._returning_calls.pop(future, None)
        return self._clock.now() - ready

    def enqueue(self, future: asyncio.Future[Place[E] | None], *, urgent: bool = False) -> None:
        """Promise the next free place; None means: look elsewhere."""
        (self._urgent_queue if urgent else self._queue)[future] = None
        self._hand_out()

    def leave(self, future: asyncio.Future[Place[E] | None]) -> None:
        """Wait no more."""
        self._urgent_queue.pop(future, None)
        self._queue.pop(future, None)

    def close(self) -> None:
        """Let no further call begin."""
        self._enter(State.CLOSED)

    def _enter(self, state: State) -> None:
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None
        before, self.state = self.state, state
        if state is State.LOST:
            due = self._clock.call_later(self._pause, lambda: self._enter(State.DUE))
            self._cancel_timer = due
        elif state is State.SERVING:
            self._pause = self._policy.first_pause
        if before is State.SERVING or state is State.CLOSED:
            self._send_away()
        self._hand_out()

    def _give_back(self, place: Place[E]) -> None:
        if place.task is not None:
            self._calls.pop(place.task, None)
        if place.is_counted:
            self._free_place(place)

    def _free_place(self, place: Place[E]) -> None:
        place.is_counted = False
        self._limit.end(self._clock.now())
        self._hand_out()

    def _hand_out(self) -> None:
        # A server that is lost or closed has no places to wait for: its retries find that out.
        while self._returning_calls and (self._limit.has_room or self.state is not State.SERVING):
            back, place = self._returning_calls.popitem(last=False)
            if not back.done():
                place.is_counted = True
                self._limit.begin(self._clock.now())
                back.set_result(None)
        while (queue := self._urgent_queue or self._queue) and self.has_room:
            future, _ = queue.popitem(last=False)
            if not future.done():
                future.set_result(self.take())

    def _send_away(self) -> None:
        for queue in (self._urgent_queue, self._queue):
            for future in queue:
                _release(future)
            queue.clear()


async def take_first_free(
    replicas: Sequence[Replica[E]],
    seconds: float | None = None,
    clock: Clock = LOOP_CLOCK,
    *,
    urgent: bool = False,
) -> Place[E] | None:
    """Take a place at the first of several servers that has one.

    Args:
        replicas: Of those that are free now, the first is taken.
        seconds: The longest wait.
        urgent: Whether the call goes before others.

    Returns:
        None where one of the servers was lost or closed meanwhile, or the time is up.
    """
    for replica in replicas:
        if replica.has_room and not replica.queue_length:
            return replica.take()
    future: asyncio.Future[Place[E] | None] = asyncio.get_running_loop().create_future()
    for replica in replicas:
        replica.enqueue(future, urgent=urgent)
        if future.done():
            break
    cancel = None if seconds is None else clock.call_later(seconds, lambda: _release(future))
    try:
        return await future
    except asyncio.CancelledError:
        place = future.result() if future.done() and not future.cancelled() else None
        if place is not None:
            place.replica.release_inconclusive(place)
        raise
    finally:
        if cancel is not None:
            cancel()
        for replica in replicas:
            replica.leave(future)
        future.cancel()


def _release(future: asyncio.Future[Place[E] | None]) -> None:
    """Give nothing to whoever waits still."""
    if not future.done():
        future.set_result(None)
