"""Clocks that jump to the next timer: minutes are simulated in milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from editjudge.base.errors import Overload, Unreachable
from editjudge.panel.pool import EndpointPool


class _Selector(selectors.SelectSelector):
    """Waits for nothing, and lets the time pass."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock starts at 0 and jumps; a module of tests has it as its `LOOP`."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def now() -> float:
    return asyncio.get_running_loop().time()


class ManualClock:
    """The clock of an event loop that only a test moves; patch `asyncio.get_running_loop` with it.

    Attributes:
        now: Seconds.
        slept: The waits, in order.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._timers: list[ManualTimer] = []

    def __call__(self) -> ManualClock:
        return self

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, do: Callable[..., None], *args: Any) -> ManualTimer:
        timer = ManualTimer(self.now + seconds, partial(do, *args))
        self._timers.append(timer)
        return timer

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.forward(seconds)

    def forward(self, seconds: float) -> None:
        """Let time pass, and do what is due by then, in the order of time."""
        end = self.now + seconds
        while due := [timer for timer in self._timers if not timer.done and timer.at <= end]:
            timer = min(due, key=lambda each: each.at)
            self.now, timer.done = timer.at, True
            timer.do()
        self.now = end


@dataclass
class ManualTimer:
    at: float
    do: Callable[[], None]
    done: bool = False

    def cancel(self) -> None:
        self.done = True


class Server:
    """Serves `capacity` calls at once, in `seconds` each; refuses more than `queue` besides.

    Attributes:
        up: Whether it can be reached.
        refused: Calls that it had no room for.
        served: Who was served, in order.
    """

    def __init__(self, capacity: int, seconds: float = 1.0, queue: int = 0) -> None:
        self.capacity = capacity
        self.seconds = seconds
        self.queue = queue
        self.up = True
        self.inside = 0
        self.most = 0
        self.refused = 0
        self.served: list[Any] = []
        self._places = asyncio.Semaphore(capacity)

    def resize(self, capacity: int) -> None:
        """Serve another number of calls at once from now on."""
        self.capacity = capacity
        self._places = asyncio.Semaphore(capacity)

    async def call(self, who: Any = None) -> Any:
        if not self.up:
            await asyncio.sleep(0.01)
            raise Unreachable("connection refused", service="s")
        if self.inside >= self.capacity + self.queue:
            self.refused += 1
            await asyncio.sleep(0.01)
            raise Overload("queue full", service="s")
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            async with self._places:
                await asyncio.sleep(self.seconds)
        finally:
            self.inside -= 1
        self.served.append(who)
        return who


async def insist(pool: EndpointPool[Server], who: Any = None) -> None:
    """A call that is made until it succeeds."""
    while True:
        try:
            await pool.run(lambda server: server.call(who))
        except Overload:
            continue
        return
