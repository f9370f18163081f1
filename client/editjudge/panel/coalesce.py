"""Sharing work between calls that run side by side."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from ..base.errors import Abstained
from .context import DEFAULT_TERMS, AnyTerms, SharedTerms

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
V = TypeVar("V")
_REMEMBERED = 4096
_CLOSING_SECONDS = 1.0
"""How long a call that is cancelled may take to close its connection."""


class Coalescer(Generic[T]):
    """Makes identical calls once: whoever asks while one runs gets its result.

    The shared call is cancelled when everybody who waits for it is, and is made on the terms of
    all of them.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, tuple[asyncio.Task[T], SharedTerms]] = {}

    async def __call__(
        self,
        key: Hashable,
        make: Callable[[SharedTerms], Awaitable[T]],
        terms: AnyTerms = DEFAULT_TERMS,
    ) -> T:
        """The result of `make`, shared with all who ask for the same key meanwhile.

        Args:
            make: Takes the terms of all who wait.
            terms: Of this caller.
        """
        if key not in self._running:
            joint = SharedTerms()
            task: asyncio.Task[T] = asyncio.ensure_future(_run(make, joint))
            self._running[key] = (task, joint)
            task.add_done_callback(lambda ended_task: self._forget(key, ended_task))
        task, joint = self._running[key]
        try:
            with joint.join(terms):
                return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not joint.caller_count and not task.done():
                self._forget(key, task)  # who asks from now on is not cancelled with it
                task.cancel()
                # So that what it took is noted before its caller is done with.
                await asyncio.wait([task], timeout=_CLOSING_SECONDS)
            raise

    def _forget(self, key: Hashable, task: asyncio.Task[T]) -> None:
        if key in self._running and self._running[key][0] is task:
            del self._running[key]


class PrefixLeaders:
    """Lets the first of the calls with a common prefix go ahead.

    A provider's cache holds a prefix once a request with it is through, and replicas have caches
    of their own, so the others wait for the first one, whatever became of it. A single vLLM needs
    no such thing: it counts a prefix as cached as soon as it is scheduled.

    Args:
        enabled: False lets everybody go at once.
    """

    def __init__(self, *, is_enabled: bool = True) -> None:
        self._is_enabled = is_enabled
        self._ahead: dict[str, asyncio.Event] = {}
        self._through: OrderedDict[str, None] = OrderedDict()

    @asynccontextmanager
    async def turn(self, prefix: str) -> AsyncIterator[None]:
        """Wait for the leader of a prefix, or be it."""
        if not self._is_enabled or prefix in self._through:
            yield
            return
        if prefix in self._ahead:
            await self._ahead[prefix].wait()
            yield
            return
        is_through = self._ahead[prefix] = asyncio.Event()
        try:
            yield
        finally:
            self._through[prefix] = None
            if len(self._through) > _REMEMBERED:
                self._through.popitem(last=False)
            del self._ahead[prefix]
            is_through.set()


async def _run(make: Callable[[SharedTerms], Awaitable[T]], joint: SharedTerms) -> T:
    return await make(joint)


async def gather_all(*work: Awaitable[T]) -> list[T]:
    """What calls side by side give, in order; all of them are waited for.

    So it is the same failure every time, whichever call is the fastest, and what has no number
    names every reply that could not be read: all are asked anew together.

    Raises:
        Abstained: no call failed, but some have no value: the first says why, with the calls of
            all of them.
        Exception: the first failure.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    values: list[T] = []
    abstentions: list[Abstained] = []
    for result in results:
        if isinstance(result, Abstained):
            abstentions.append(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            values.append(result)
    if abstentions:
        first = abstentions[0]
        calls = dict.fromkeys(key for each in abstentions for key in each.calls)
        raise Abstained(first.kind, first.reason, first.evidence, tuple(calls)) from first
    return values
