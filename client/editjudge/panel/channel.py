"""A gRPC channel that is opened anew when nothing comes over it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

_MORE = 5.0
"""Seconds for which an old channel outlives the deadline of its calls. It cancels what is left, and
that must not be a call whose time is just up: it would seem cancelled by its caller."""


class Channel:
    """A channel and its successors.

    A connection whose other end is gone without a word stays open for minutes. So when a call
    got no reply in time, and nothing else came either since it began, later calls get a new
    connection; those in flight keep theirs until they end.

    Args:
        make: Opens a channel. Its options must include a subchannel pool of its own, or the
            new channel gets the old connection.
        use: Told of each channel, to make stubs of it.
        grace: Seconds that a call on an old channel may have left.
    """

    def __init__(self, make: Callable[[], Any], use: Callable[[Any], None], grace: float) -> None:
        self._make = make
        self._use = use
        self._grace = grace
        self._channel = make()
        self._opened = self._heard = float("-inf")
        self._old: dict[asyncio.Task[None], Any] = {}
        use(self._channel)

    def heard(self) -> None:
        """Something came over it."""
        self._heard = asyncio.get_running_loop().time()

    def late(self, began: float) -> None:
        """A call that began then, by the event loop's clock, got no reply in time."""
        if began < max(self._opened, self._heard):
            return
        self._opened = asyncio.get_running_loop().time()
        old, self._channel = self._channel, self._make()
        self._use(self._channel)
        task = asyncio.create_task(old.close(self._grace + _MORE))
        self._old[task] = old
        task.add_done_callback(self._old.pop)

    async def close(self) -> None:
        """Close all of them; calls in flight are cancelled."""
        await self._channel.close()
        for task, channel in list(self._old.items()):
            task.cancel()
            await channel.close()
        await asyncio.gather(*self._old, return_exceptions=True)
