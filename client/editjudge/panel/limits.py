"""How many calls an endpoint gets at once, and when it gets none.

All times are of the event loop's clock, which is monotonic.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ..errors import DeadlineExceeded, Overloaded, ServiceError, Unreachable

_START = 4
_PAUSES = (1.0, 15.0)


@dataclass(frozen=True, slots=True)
class Gauge:
    """An endpoint's load at one moment.

    Attributes:
        limit: Calls that it gets at once.
        in_flight: Calls that it has.
        waiting: Calls that wait for a place; one that several endpoints can take counts at each.
        busy_seconds: Of all calls together; by the time gone it is the mean number in flight.
        open: Whether the breaker is open: it could not be reached, and gets no calls.
    """

    limit: int
    in_flight: int
    waiting: int
    busy_seconds: float
    open: bool = False


@dataclass(frozen=True, slots=True)
class Slot:
    """A place among the calls in flight.

    Attributes:
        limit: Whose.
        began: When it was taken.
        probe: Whether its call shall find out if the endpoint is back.
    """

    limit: AdaptiveLimit
    began: float
    probe: bool = False


class AdaptiveLimit:
    """Finds how many calls an endpoint takes at once.

    The limit doubles per round of calls that were answered, and after the first overload grows
    by one per round; it grows only while all of it is used. Overload halves it, once per
    episode: calls that began before the cut do not cut again. Whoever waits longest is next.

    Args:
        most: The limit's upper bound; the lower one is 1.
        start: The limit at first.
        breaker: While it is open, places are given to its probes only.
    """

    def __init__(self, most: int, *, start: int = _START, breaker: Breaker | None = None) -> None:
        self.most = most
        self.limit = min(start, most)
        self.in_flight = 0
        self.breaker = breaker
        self._slow_start = True
        self._round = 0
        self._cut = self._full = float("-inf")
        self._queue: OrderedDict[asyncio.Future[Slot | None], None] = OrderedDict()
        self._busy = 0.0
        self._since = 0.0
        if breaker is not None:
            breaker.changed = self.changed

    @property
    def waiting(self) -> int:
        """Calls that wait for a place."""
        return len(self._queue)

    @property
    def share(self) -> float:
        """Share of the limit that is in use or asked for; above 1 calls wait."""
        return (self.in_flight + len(self._queue)) / self.limit

    @property
    def free(self) -> bool:
        """Whether a call would get a place at once."""
        if self.breaker is not None and self.breaker.open:
            return self.breaker.probe_due
        return self.in_flight < self.limit

    def gauge(self) -> Gauge:
        """The load now."""
        self._count(0)
        opened = self.breaker is not None and self.breaker.open
        return Gauge(self.limit, self.in_flight, len(self._queue), self._busy, opened)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        """Make one call inside; a `ServiceError` that leaves it is looked at for overload."""
        slot = await first_free([self])
        while slot is None:  # the breaker opened meanwhile
            slot = await first_free([self])
        try:
            yield slot
        except ServiceError as error:
            self.release(slot, error)
            raise
        except asyncio.CancelledError:
            self.release(slot, answered=False)
            raise
        except BaseException:  # whatever it is, the place is given back
            self.release(slot)
            raise
        self.release(slot)

    def observe(self, error: ServiceError, began: float) -> None:
        """Take note of a failed attempt of a call; see `RetryPolicy.observe`."""
        lost = self.breaker is not None and self.breaker.open
        if not isinstance(error, Overloaded | DeadlineExceeded | Unreachable) or lost:
            return
        self._slow_start = False
        if began >= self._cut:
            self._cut = asyncio.get_running_loop().time()
            self.limit = max(1, self.limit // 2)
            self._round = 0

    def take(self) -> Slot:
        """Take a place that is free."""
        probe = self.breaker is not None and self.breaker.open
        if probe and self.breaker is not None:
            self.breaker.begin_probe()
        self._count(1)
        return Slot(self, self._since, probe)

    def release(
        self, slot: Slot, error: ServiceError | None = None, *, answered: bool = True
    ) -> None:
        """Give a place back.

        Args:
            error: What the call ended with.
            answered: False where it was cancelled, which says nothing of the endpoint.
        """
        if error is not None:
            self.observe(error, slot.began)
        elif answered and slot.began >= self._cut and slot.began <= self._full:
            self._grow()
        self._count(-1)
        if slot.probe and not answered and self.breaker is not None:
            self.breaker.probe_given_up()
        self.pump()

    def pump(self) -> None:
        """Give free places to those who wait longest."""
        while self._queue and self.free:
            future, _ = self._queue.popitem(last=False)
            if not future.done():
                future.set_result(self.take())

    def enqueue(self, future: asyncio.Future[Slot | None]) -> None:
        """Let somebody wait for a place."""
        self._queue[future] = None

    def leave(self, future: asyncio.Future[Slot | None]) -> None:
        """Somebody waits no more."""
        self._queue.pop(future, None)

    def changed(self) -> None:
        """Take note that the breaker opened, closed or lets a probe go."""
        if self.breaker is not None and self.breaker.open and not self.breaker.probe_due:
            self.send_away()
        self.pump()

    def send_away(self) -> None:
        """Let all who wait look elsewhere."""
        for future in self._queue:
            if not future.done():
                future.set_result(None)
        self._queue.clear()

    def _grow(self) -> None:
        if self._slow_start:
            self.limit = min(self.limit + 1, self.most)
            return
        self._round += 1
        if self._round >= self.limit:
            self._round = 0
            self.limit = min(self.limit + 1, self.most)

    def _count(self, more: int) -> None:
        now = asyncio.get_running_loop().time()
        self._busy += self.in_flight * (now - self._since)
        self._since = now
        if self.in_flight + max(more, 0) >= self.limit:
            self._full = now
        self.in_flight += more


async def first_free(limits: list[AdaptiveLimit], seconds: float | None = None) -> Slot | None:
    """A place at the first of several endpoints that has one.

    Args:
        limits: Those that are free now are taken in this order.
        seconds: To wait at most.

    Returns:
        None where one of them has no places any more, or the time is up.
    """
    for limit in limits:
        if limit.free and not limit.waiting:
            return limit.take()
    future: asyncio.Future[Slot | None] = asyncio.get_running_loop().create_future()
    for limit in limits:
        limit.enqueue(future)
        limit.pump()
        if future.done():
            break
    try:
        if seconds is None:
            return await future
        await asyncio.wait([future], timeout=seconds)
        return future.result() if future.done() else None
    except asyncio.CancelledError:
        slot = future.result() if future.done() and not future.cancelled() else None
        if slot is not None:
            slot.limit.release(slot, answered=False)
        raise
    finally:
        for limit in limits:
            limit.leave(future)
        future.cancel()


class Breaker:
    """Keeps calls from an endpoint that cannot be reached.

    It opens after several calls in a row that did not reach it, whatever their retries did.
    While it is open one call at a time may go ahead, at growing intervals, to see whether the
    endpoint is back; the first answer closes it.

    Args:
        after: Calls in a row.
        pauses: Seconds before the first probe, and at most between two.

    Attributes:
        open: Whether it is open.
        opened: When it opened.
        last: What the latest call that did not reach it ended with.
        heard: When the latest of the calls began that were answered.
        changed: Called when it opens, closes or a probe may go.
    """

    def __init__(self, after: int = 5, pauses: tuple[float, float] = _PAUSES) -> None:
        self.open = False
        self.opened = 0.0
        self.heard = float("-inf")
        self.last: ServiceError | None = None
        self.changed: Callable[[], None] = lambda: None
        self._after = after
        self._pauses = pauses
        self._pause = pauses[0]
        self._in_a_row = 0
        self._due = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def probe_due(self) -> bool:
        """Whether a call may go ahead now although it is open."""
        return self.open and self._due

    def begin_probe(self) -> None:
        """A call goes ahead."""
        self._due = False

    def probe_given_up(self) -> None:
        """The call that went ahead was cancelled: another may go."""
        self._due = self.open

    def answered(self, slot: Slot) -> None:
        """The endpoint answered a call, be it with a refusal."""
        self.heard = max(self.heard, slot.began)
        self._in_a_row = 0
        if self.open:
            self.open = self._due = False
            self._pause = self._pauses[0]
            self.close()
            self.changed()

    def lost(self, error: ServiceError, slot: Slot, since: float) -> bool:
        """A call did not reach it.

        Args:
            since: When that began to show.

        Returns:
            Whether it has answered no call that began after that.
        """
        self.last = error
        if self.open:
            if slot.probe:
                self._pause = min(2 * self._pause, self._pauses[1])
                self._wait()
            return True
        if since < self.heard:
            return False
        self._in_a_row += 1
        if self._in_a_row >= self._after:
            self.open, self.opened = True, _now()
            self._wait()
            self.changed()
        return True

    def close(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self.close()
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._let_one_go)

    def _let_one_go(self) -> None:
        self._due = True
        self.changed()


def _now() -> float:
    return asyncio.get_running_loop().time()
