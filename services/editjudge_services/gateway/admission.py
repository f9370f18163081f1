"""What callers share: a bound on all of them, and one on each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from .errors import NoCapacity
from .schemas import InvalidRequest


class SharedLimit:
    """Something of which there is so much for all callers, and so much for each.

    Args:
        most: Of all callers.
        of_one: Of one.
        named: How people read it, as in `64 edits`.
        field: Of a request that alone is more than one caller can have.

    Attributes:
        taken: What each caller has now.
    """

    def __init__(self, limit: int, caller_limit: int, unit: str, field: str = "edit") -> None:
        self._limit = limit
        self._caller_limit = min(limit, caller_limit)
        self._unit = unit
        self._field = field
        self._released = asyncio.Event()
        self.in_use: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def acquire(self, caller: str, amount: int, *, may_wait: bool) -> AsyncIterator[None]:
        """Have so much of it until the block is left.

        Args:
            may_wait: Until there is room, instead of being refused.

        Raises:
            InvalidRequest: it is more than one caller can ever have.
            Busy: there is no room now.
        """
        if amount > self._caller_limit:
            limit = f"at most {self._caller_limit:,}"
            raise InvalidRequest(self._field, f"{amount:,} {self._unit}", f"send {limit} at a time")
        while told := self._full(caller, amount):
            if not may_wait:
                raise NoCapacity(told, "ask again in a second")
            self._released.clear()
            await self._released.wait()
        self.in_use[caller] = self.in_use.get(caller, 0) + amount
        try:
            yield
        finally:
            self.in_use[caller] -= amount
            if not self.in_use[caller]:
                del self.in_use[caller]
            self._released.set()

    def _full(self, caller: str, amount: int) -> str:
        if sum(self.in_use.values()) + amount > self._limit:
            return f"{self._limit:,} {self._unit} are in hand now"
        if self.in_use.get(caller, 0) + amount > self._caller_limit:
            return f"{self._caller_limit:,} {self._unit} of yours are in hand now"
        return ""
