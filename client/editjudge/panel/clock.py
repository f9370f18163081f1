"""The time that limits, pools and retries go by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """Something that will be done later."""

    def cancel(self) -> None:
        """Do not do it."""


class Clock(Protocol):
    """Monotonic time, in seconds since any moment. Times are compared within one clock only."""

    def now(self) -> float:
        """The time now."""

    def call_later(self, seconds: float, do: Callable[[], None]) -> Timer:
        """Do something once after some time."""

    async def sleep(self, seconds: float) -> None:
        """Return after some time."""


class LoopClock:
    """The clock of the event loop that runs."""

    def now(self) -> float:
        """The time now."""
        return asyncio.get_running_loop().time()

    def call_later(self, seconds: float, do: Callable[[], None]) -> Timer:
        """Do something once after some time."""
        return asyncio.get_running_loop().call_later(seconds, do)

    async def sleep(self, seconds: float) -> None:
        """Return after some time."""
        await asyncio.sleep(seconds)


LOOP_CLOCK = LoopClock()
