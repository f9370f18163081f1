"""Admission control: a limit on what all callers use at once, and a lower one on each caller."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from .errors import NoCapacity
from .schemas import InvalidRequest


class SharedLimit:
    """A limited resource of the server that callers share, such as edits in flight or bytes held.

    Under overload a caller at its own limit is refused while others are still admitted. What a
    block has acquired is returned when the block is left, also by an error or a cancellation. Among
    calls that wait, a small one may overtake a large one.

    Args:
        limit: How much all callers together may use.
        caller_limit: How much one caller may use; never more than `limit`.
        unit: The unit as messages call it, for example `edits`.
        field: The request's field that errors name when one request needs more than
            `caller_limit`.

    Attributes:
        in_use: How much each caller uses now.
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
        """Use an amount of the resource until the block is left.

        Args:
            may_wait: Whether the call waits for capacity. Otherwise it is refused.

        Raises:
            InvalidRequest: the amount is above the limit of one caller, so waiting cannot help.
            NoCapacity: there is no capacity now, and the call may not wait.
        """
        if amount > self._caller_limit:
            mend = f"send at most {self._caller_limit:,} at a time"
            raise InvalidRequest(self._field, f"{amount:,} {self._unit}", mend)
        while reason := self._find_obstacle(caller, amount):
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

    def _find_obstacle(self, caller: str, amount: int) -> str:
        """Say which limit the amount would exceed now; "" where it fits."""
        if sum(self.in_use.values()) + amount > self._limit:
            return f"{self._limit:,} {self._unit} are in use now"
        if self.in_use.get(caller, 0) + amount > self._caller_limit:
            return f"{self._caller_limit:,} {self._unit} of yours are in use now"
        return ""
