"""Admission control: limits on concurrent use that callers share, so that none can take it all."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator

from editjudge.base.fair_queue import TEAM, FairQueue, Turn
from editjudge.base.images import MAX_BYTES

from .bounds import MAX_TEXT_BYTES
from .errors import NoCapacity
from .schemas import InvalidRequest

MAX_REQUEST_BYTES = 2 * (MAX_BYTES + MAX_TEXT_BYTES)
"""The largest request, over gRPC and as JSON: room for two pictures of the largest size."""


INVALID_REQUESTS = 8
"""As how many requests one counts that is refused as invalid: no honest caller sends many."""
LISTED_OF_REQUEST, PARTS_OF_REQUEST, NEW_OF_REQUEST = 64, 8, 4
"""How many dimensions count as a request: of a list, of those that an edit is judged on with all that they derive from,
and of a new protocol."""
MAX_CALLS = 1024
"""How many calls are open at most, of all callers. One that waits for room is not read yet."""


class FairLock:
    """A lock at which teams take turns (`FairQueue`).

    Args:
        by_time: Whether who has held it long has fewer turns. Where turns are all short, one in which the event loop
            stood still would put its team in debt for what others did.
    """

    def __init__(self, *, by_time: bool = True) -> None:
        self._count = 0
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue(time.monotonic if by_time else lambda: self._count)
        self._turn: Turn | None = None

    async def __aenter__(self) -> None:
        future, team = asyncio.get_running_loop().create_future(), TEAM.get()
        self._queue.push(team, future)
        self._begin_turn()
        try:
            await future
        except asyncio.CancelledError:
            self._queue.remove(team, future)
            if not future.cancelled():  # it had the lock already
                self._end_turn()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._end_turn()

    def _begin_turn(self) -> None:
        while self._turn is None and (item := self._queue.pop()) is not None:
            team, future = item
            if not future.cancelled():
                self._turn = self._queue.begin(team)
                future.set_result(None)

    def _end_turn(self) -> None:
        self._count += 1
        if self._turn is not None:
            self._queue.end(self._turn)
        self._turn = None
        self._begin_turn()


class Hold:
    """An amount that a caller holds, or waits for."""

    def __init__(self, limit: SharedLimit, caller: str, amount: int) -> None:
        self.amount = amount
        self.caller = caller
        self.admission: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._limit = limit

    def shrink(self, amount: int) -> None:
        """Give back what is above an amount."""
        if amount < self.amount:
            self._limit.add(self.caller, amount - self.amount)
            self.amount = amount


class SharedLimit:
    """A weighted semaphore of which no caller can take all.

    It limits a resource of the server, such as edits in flight or bytes in memory. A caller that
    holds nothing takes what is free. One that holds something takes more only as long as there
    stays free as much as it then holds (dynamic thresholds: Choudhury, Hahne 1998). So one caller
    alone has half, n that want all they can get have 1/(n+1) each, and a further one finds room.

    What has no room waits. Next is the caller that holds the least; a caller's own requests stay in
    their order. A caller that holds something leaves room for what is next before it, so that small
    requests do not keep out a large one for ever.

    An amount is released when its block is left, also by an error or a cancellation.

    Args:
        limit: How much all callers together may use.
        unit: The unit in error messages, for example `edits`.
        field: The field of the request that is named in the error for a single request above half
            of the limit.

    Attributes:
        in_use: The amount in use by each caller.
        largest: The most that one caller may use.
    """

    def __init__(self, limit: int, unit: str, field: str = "edit") -> None:
        self._limit = limit
        self.largest = max(limit // 2, 1)
        self._unit = unit
        self._field = field
        self._rows: dict[str, deque[Hold]] = {}
        self.in_use: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def acquire(self, caller: str, amount: int, until: float = math.inf) -> AsyncIterator[Hold]:
        """Hold an amount of the resource until the block is left.

        Args:
            until: When to stop waiting, by the event loop's clock; 0 for not waiting at all.

        Raises:
            InvalidRequest: one caller never gets so much, so waiting would not help.
            NoCapacity: there was no room until then.
        """
        if amount > self.largest:
            fix = f"send at most {self.largest:,} at a time"
            raise InvalidRequest(self._field, f"{amount:,} {self._unit}", fix)
        hold = Hold(self, caller, amount)
        self._rows.setdefault(caller, deque()).append(hold)
        self._admit()
        try:
            if not hold.admission.done():
                await self._wait(hold, until)
            yield hold
        finally:
            if hold.admission.done() and not hold.admission.cancelled():
                self.add(caller, -hold.amount)
            else:
                self._rows[caller].remove(hold)
                self._admit()

    async def _wait(self, hold: Hold, until: float) -> None:
        try:
            async with asyncio.timeout_at(until if until < math.inf else None):
                await hold.admission
        except TimeoutError:
            total, own = sum(self.in_use.values()), self.in_use.get(hold.caller, 0)
            reason = f"{total:,} of {self._limit:,} {self._unit} are in use, {own:,} of them yours"
            raise NoCapacity(reason, "ask again in a second") from None

    def add(self, caller: str, amount: int) -> None:
        """Add to what a caller holds, or take from it, and let in what now has room."""
        self.in_use[caller] = self.in_use.get(caller, 0) + amount
        if not self.in_use[caller]:
            del self.in_use[caller]
        if amount < 0:
            self._admit()

    def _admit(self) -> None:
        """Let in all that has room."""
        while (hold := next(self._find_admissible(), None)) is not None:
            row = self._rows.pop(hold.caller)
            row.remove(hold)
            self._rows[hold.caller] = row  # behind those that hold as little
            self.add(hold.caller, hold.amount)
            hold.admission.set_result(None)
        self._rows = {caller: row for caller, row in self._rows.items() if row}

    def _find_admissible(self) -> Iterator[Hold]:
        """The requests that have room, each if it were the only one; the next one first."""
        free = self._limit - sum(self.in_use.values())
        ahead = 0
        for caller in sorted(self._rows, key=lambda each: self.in_use.get(each, 0)):
            first = next((each for each in self._rows[caller] if not each.admission.done()), None)
            if first is None:
                continue
            own = self.in_use.get(caller, 0)
            if (own + 2 * first.amount + ahead if own else first.amount) <= free:
                yield first
            ahead += first.amount


class SharedRate:
    """How often each caller may do something: a token bucket of its own for each.

    Who is over it waits for its time, in the order of arrival, and nobody waits for another.

    Args:
        per_second: How fast a bucket fills.
        burst: How much it holds: what may be done at once after a pause.
        unit: The unit in error messages, for example `requests`.
    """

    def __init__(self, per_second: float, burst: float, unit: str) -> None:
        self._per_second = per_second
        self._burst = burst
        self._unit = unit
        self._full_at: dict[str, float] = {}

    def charge(self, caller: str, amount: float = 1.0) -> float:
        """Take an amount, though the bucket may have less; returns when it is not in debt."""
        now = asyncio.get_running_loop().time()
        full_at = max(self._full_at.get(caller, 0.0), now) + amount / self._per_second
        self._full_at[caller] = full_at
        return full_at - self._burst / self._per_second

    async def wait(self, caller: str, amount: float = 1.0, until: float = math.inf) -> None:
        """Take an amount, and wait until the bucket has it.

        Args:
            until: When to stop waiting, by the event loop's clock.

        Raises:
            NoCapacity: it will not have it until then; nothing is taken.
        """
        now, ready_at = asyncio.get_running_loop().time(), self.charge(caller, amount)
        if ready_at > max(until, now):
            self.charge(caller, -amount)
            reason = f"these are more than {self._per_second:g} {self._unit} a second"
            raise NoCapacity(reason, f"ask again in {math.ceil(ready_at - now)} s")
        if ready_at > now:
            await asyncio.sleep(ready_at - now)

    def is_in_debt(self, caller: str) -> bool:
        """Whether more was taken than the bucket had."""
        return self.charge(caller, 0.0) > asyncio.get_running_loop().time()

    def forget(self) -> None:
        """Forget the callers whose buckets are full."""
        now = asyncio.get_running_loop().time()
        self._full_at = {caller: at for caller, at in self._full_at.items() if at > now}
