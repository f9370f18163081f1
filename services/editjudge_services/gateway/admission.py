"""Admission control: limits on concurrent use, for all callers together and for each caller."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from .errors import NoCapacity
from .schemas import InvalidRequest


class SharedLimit:
    """A weighted semaphore with one limit for all callers together and a lower one for each caller.

    It limits a resource of the server, such as edits in flight or bytes in memory. Under overload a
    caller at its own limit is refused while others are still admitted. An amount is released when
    its block is left, also by an error or a cancellation. There is no queue: a small request that
    waits may be admitted before a larger one that waits longer.

    Args:
        limit: How much all callers together may use.
        caller_limit: How much one caller may use; never more than `limit`.
        unit: The unit in error messages, for example `edits`.
        field: The field of the request that is named in the error for a single request above
            `caller_limit`.

    Attributes:
        in_use: The amount in use by each caller.
    """

    def __init__(self, limit: int, caller_limit: int, unit: str, field: str = "edit") -> None:
        self._limit = limit
        self._caller_limit = min(limit, caller_limit)
        self._unit = unit
        self._field = field
        self._release_event = asyncio.Event()
        self.in_use: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def acquire(self, caller: str, amount: int, *, may_wait: bool) -> AsyncIterator[None]:
        """Hold an amount of the resource until the block is left.

        Args:
            may_wait: Whether to wait for capacity; otherwise a lack of it raises `NoCapacity`.

        Raises:
            InvalidRequest: the amount exceeds the limit of one caller, so waiting would not help.
            NoCapacity: there is no capacity now, and `may_wait` is false.
        """
        if amount > self._caller_limit:
            fix = f"send at most {self._caller_limit:,} at a time"
            raise InvalidRequest(self._field, f"{amount:,} {self._unit}", fix)
        while reason := self._find_exceeded_limit(caller, amount):
            if not may_wait:
                raise NoCapacity(reason, "ask again in a second")
            self._release_event.clear()
            await self._release_event.wait()
        self.in_use[caller] = self.in_use.get(caller, 0) + amount
        try:
            yield
        finally:
            self.in_use[caller] -= amount
            if not self.in_use[caller]:
                del self.in_use[caller]
            self._release_event.set()

    def _find_exceeded_limit(self, caller: str, amount: int) -> str:
        """Return a message about the limit that the amount would exceed now; "" if it fits."""
        if sum(self.in_use.values()) + amount > self._limit:
            return f"{self._limit:,} {self._unit} are in use now"
        if self.in_use.get(caller, 0) + amount > self._caller_limit:
            return f"{self._caller_limit:,} {self._unit} of yours are in use now"
        return ""
