"""Work that takes turns, so that what runs side by side fits a budget of memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from threading import Lock


class Turns:
    """Lets work in while what it takes fits a budget, first come, first served.

    What takes more than the whole budget is let in alone. It holds for all event loops of the
    process, and whoever waits holds up neither a loop nor a thread.

    Args:
        budget: How much may be taken at once, for example bytes.
    """

    def __init__(self, budget: int) -> None:
        self._budget = self._free = budget
        self._waiting: deque[tuple[Future[None], int]] = deque()
        self._lock = Lock()

    @asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        """Wait for a turn, and have it until the block ends.

        Args:
            size: How much the work takes.
        """
        size = min(size, self._budget)
        turn: Future[None] = Future()
        with self._lock:
            self._waiting.append((turn, size))
            self._let_in()
        try:
            await asyncio.wrap_future(turn)
            yield
        finally:
            with self._lock:
                if not turn.cancel():  # it was let in, be it after whoever waited had given up
                    self._free += size
                self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            turn, size = self._waiting[0]
            if size > self._free and not turn.cancelled():
                return
            self._waiting.popleft()
            if turn.set_running_or_notify_cancel():
                self._free -= size
                turn.set_result(None)
