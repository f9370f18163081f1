"""Work shared between calls that run side by side."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from ..base.errors import Abstention
from .context import DEFAULT_TERMS, AnyTerms, SharedTerms

T = TypeVar("T")
_MAX_REMEMBERED = 4096
_CLOSING_SECONDS = 1.0
"""How long a cancelled call may take to end, for example to close its connection."""


class Coalescer(Generic[T]):
    """Makes identical calls once: callers that ask for a call in flight get its result.

    Every caller gets the result or the exception of the shared call. A caller that is cancelled
    leaves the others and the call alone. When the last caller is cancelled, the call is cancelled
    too and given up to one second to end; a caller that comes after that starts a new call. The
    call is made on the terms of all callers that wait for it at any moment (`SharedTerms`). Results
    are not remembered: once a call has ended, the next caller makes it again.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, tuple[asyncio.Task[T], SharedTerms]] = {}

    async def __call__(
        self, key: Hashable, make: Callable[[SharedTerms], Awaitable[T]], terms: AnyTerms = DEFAULT_TERMS
    ) -> T:
        """The result of `make`, shared with all callers of the same key that come while it runs.

        Args:
            key: Equal for identical calls.
            make: Makes the call; it gets the terms of all callers that wait.
            terms: Terms of this caller.
        """
        if key not in self._running:
            joint = SharedTerms()
            task: asyncio.Task[T] = asyncio.ensure_future(make(joint))
            self._running[key] = (task, joint)
            task.add_done_callback(lambda ended_task: self._forget(key, ended_task))
        task, joint = self._running[key]
        try:
            with joint.join(terms):
                return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not joint.caller_count and not task.done():
                self._forget(key, task)  # a caller that comes now is not cancelled with it
                task.cancel()
                # The call books what it took before its caller goes on.
                await asyncio.wait([task], timeout=_CLOSING_SECONDS)
            raise

    def _forget(self, key: Hashable, task: asyncio.Task[T]) -> None:
        if key in self._running and self._running[key][0] is task:
            del self._running[key]


class PrefixLeaders:
    """Lets the first of several calls with a common prefix go ahead, and the others follow it.

    A provider's cache holds a prefix once a request with this prefix has ended, and replicas have
    caches of their own. So the other calls wait for the first one, which leads. They go on when it
    has ended, whether it succeeded, failed or was cancelled; no call waits twice for a prefix. A
    single vLLM needs no leader: it counts a prefix as cached as soon as the request is scheduled.

    Args:
        is_enabled: False lets every call go at once.
    """

    def __init__(self, *, is_enabled: bool = True) -> None:
        self._is_enabled = is_enabled
        self._ahead: dict[str, asyncio.Event] = {}
        self._through: OrderedDict[str, None] = OrderedDict()

    @asynccontextmanager
    async def turn(self, prefix: str) -> AsyncIterator[None]:
        """Make a call inside the block, as the leader of its prefix or after the leader."""
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
            if len(self._through) > _MAX_REMEMBERED:
                self._through.popitem(last=False)
            del self._ahead[prefix]
            is_through.set()


async def gather_all(*work: Awaitable[T]) -> list[T]:
    """The results of calls that run side by side, in order; waits until all have ended.

    Because all are waited for, the outcome does not depend on which call is the fastest: the same
    failure is raised each time, and an abstention names the calls of all abstentions, so that all
    of them can be made again.

    Raises:
        Abstention: no call failed, but some abstained. It has the reason of the first one and the
            calls of all.
        Exception: of the first call in order that failed.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    values: list[T] = []
    abstentions: list[Abstention] = []
    for result in results:
        if isinstance(result, Abstention):
            abstentions.append(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            values.append(result)
    if abstentions:
        first = abstentions[0]
        calls = dict.fromkeys(key for each in abstentions for key in each.calls)
        raise Abstention(first.kind, first.reason, first.evidence, tuple(calls)) from first
    return values
