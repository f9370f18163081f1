"""Connections that are made anew now and then.

A name may stand for several servers, which come and go. Only a new connection finds out which they
are now; one that lasts stays with the server that it was made to.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .retry import RetryPolicy, read_clock

C = TypeVar("C")
_MORE = 5.0
"""Seconds for which an old connection outlives the deadline of its calls. It cancels what is left,
but not a call whose deadline has just passed, which would seem cancelled by its caller."""
_PAUSE = 1.0
"""Seconds at least between two renewals after failures."""


@dataclass(slots=True)
class RenewableConnection(Generic[C]):
    """The connection of a client, renewed when it is as old as the policy says, or has failed.

    Calls in flight keep the connection on which they began until they end.

    Attributes:
        connect: Opens a connection.
        disconnect: Closes one, when its calls have ended or after some seconds.
        policy: The age, and the deadline of calls.
        is_closed: Whether it was closed for good.
    """

    connect: Callable[[], C]
    disconnect: Callable[[C, float], Awaitable[object]]
    policy: RetryPolicy
    is_closed: bool = False
    _current: Any = None
    _opened_at: float = float("-inf")
    _expires_at: float = float("-inf")
    _failed_at: float = float("-inf")
    _old: dict[asyncio.Future[object], C] = field(default_factory=dict)

    def get(self) -> C:
        """The connection for a call that begins now."""
        if read_clock() >= self._expires_at:
            self.renew()
        current: C = self._current
        return current

    def renew(self) -> None:
        """Open a new connection for all calls from now on."""
        if self._current is not None:
            seconds = self.policy.deadline + _MORE
            task = asyncio.ensure_future(self.disconnect(self._current, seconds))
            self._old[task] = self._current
            task.add_done_callback(self._old.pop)
        self._current, self._opened_at = self.connect(), read_clock()
        # At random, so that the callers of a server do not come back all at once.
        self._expires_at = self._opened_at + self.policy.connection_age * random.uniform(0.9, 1.1)

    def renew_after_failure(self, began: float) -> None:
        """Open a new connection, unless there is one since a call began, or since a moment ago.

        Args:
            began: When the call that failed began, by the event loop's clock.
        """
        now = read_clock()
        if began >= self._opened_at and now >= self._failed_at + _PAUSE:
            self._failed_at = now
            self.renew()

    async def close(self) -> None:
        """Close all connections at once; calls in flight fail."""
        self.is_closed = True
        for task in (old := dict(self._old)):
            task.cancel()
        await asyncio.gather(*old, return_exceptions=True)
        for connection in (*old.values(), *filter(None, [self._current])):
            await self.disconnect(connection, 0.0)
