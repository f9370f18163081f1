"""What callers share: a bound on all of them, and one on each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from .errors import Busy
from .schemas import Unusable


class Shared:
    """Something of which there is so much for all callers, and so much for each.

    Args:
        most: Of all callers.
        of_one: Of one.
        named: How people read it, as in `64 edits`.
        field: Of a request that alone is more than one caller can have.

    Attributes:
        taken: What each caller has now.
    """

    def __init__(self, most: int, of_one: int, named: str, field: str = "edit") -> None:
        self._most = most
        self._of_one = min(most, of_one)
        self._named = named
        self._field = field
        self._freed = asyncio.Event()
        self.taken: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def taking(self, caller: str, amount: int, *, waits: bool) -> AsyncIterator[None]:
        """Have so much of it until the block is left.

        Args:
            waits: Until there is room, instead of being refused.

        Raises:
            Unusable: it is more than one caller can ever have.
            Busy: there is no room now.
        """
        if amount > self._of_one:
            most = f"at most {self._of_one:,}"
            raise Unusable(self._field, f"{amount:,} {self._named}", f"send {most} at a time")
        while told := self._full(caller, amount):
            if not waits:
                raise Busy(told, "ask again in a second")
            self._freed.clear()
            await self._freed.wait()
        self.taken[caller] = self.taken.get(caller, 0) + amount
        try:
            yield
        finally:
            self.taken[caller] -= amount
            if not self.taken[caller]:
                del self.taken[caller]
            self._freed.set()

    def _full(self, caller: str, amount: int) -> str:
        if sum(self.taken.values()) + amount > self._most:
            return f"{self._most:,} {self._named} are in hand now"
        if self.taken.get(caller, 0) + amount > self._of_one:
            return f"{self._of_one:,} {self._named} of yours are in hand now"
        return ""
