"""Asking again: one deadline per call, shared by all its attempts.

gRPC's own retry is off for requests above 256 KiB, which images are, so it is done here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ..base.errors import DeadlineExceeded, OutOfTime, ServiceError, Unconnected
from .context import DEFAULT_TERMS, AnyTerms, is_past

T = TypeVar("T")
_LEAST = 0.001
"""Seconds that an attempt gets at least: transports take 0 for no limit."""


class Clock:
    """Monotonic time, in seconds since any moment: that of the event loop that runs.

    Times are compared within one clock only.
    """

    def now(self) -> float:
        """The time now."""
        return asyncio.get_running_loop().time()

    def call_later(self, seconds: float, do: Callable[[], None]) -> Callable[[], None]:
        """Do something once after some time; returns what cancels that."""
        return asyncio.get_running_loop().call_later(seconds, do).cancel

    async def sleep(self, seconds: float) -> None:
        """Return after some time."""
        await asyncio.sleep(seconds)


LOOP_CLOCK = Clock()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long to ask.

    Attributes:
        attempts: Including the first. Those that reached nobody are counted apart, to the same
            number: they use up none of the others.
        deadline: Seconds for all attempts together, waits between them included.
        first_wait: Seconds before the second attempt, about; doubled each time.
        longest_wait: Seconds.
        observe: Gets every attempt that failed, also where the next one succeeds: the error,
            and when the call began by the clock of the event loop.
        pause: Waits so many seconds before the next attempt, and then for whatever the call needs
            besides. It returns the seconds of the latter, which are not counted.
    """

    attempts: int = 4
    deadline: float = 60.0
    first_wait: float = 0.1
    longest_wait: float = 5.0
    observe: Callable[[ServiceError, float], None] | None = field(default=None, compare=False)
    pause: Callable[[float], Awaitable[float]] | None = field(default=None, compare=False)

    def report_failure(self, error: ServiceError, began: float) -> None:
        """Hand a failed attempt to the observer."""
        if self.observe is not None:
            self.observe(error, began)

    def get_wait(self, attempt: int, error: ServiceError) -> float:
        """Seconds to wait after a failed attempt, with some chance in it.

        Args:
            attempt: The failed attempt's number, from 1.
            error: Its `retry_after` is the least.
        """
        # No power of two beyond this one is needed, and larger ones are no floats.
        backoff = self.first_wait * 2.0 ** min(attempt - 1, 64)
        backoff = min(backoff, self.longest_wait) + random.uniform(0, self.first_wait)
        return max(backoff, error.retry_after or 0.0)


async def call_with_retries(
    call: Callable[[float], Awaitable[T]],
    policy: RetryPolicy,
    clock: Clock = LOOP_CLOCK,
    *,
    terms: AnyTerms = DEFAULT_TERMS,
    late: Callable[[float], None] | None = None,
) -> T:
    """Make a call, again where the error says that this can help.

    Args:
        call: Takes the seconds that are left, of the policy's deadline or of the callers' patience.
        terms: Of the callers.
        late: Told when an attempt began that got no reply in the time that the policy gives.

    Raises:
        OutOfTime: nobody waits any longer.
        ServiceError: of the last attempt, with `attempts` and `since` filled in.
    """
    began = clock.now()
    end = began + policy.deadline
    since: float | None = None
    attempts = {True: 0, False: 0}
    while True:
        until, attempt = terms.deadline, clock.now()
        try:
            return await call(max(min(end, until) - attempt, _LEAST))
        except ServiceError as error:
            if isinstance(error, DeadlineExceeded) and until < end and is_past(until, clock.now()):
                # It had less time than the policy gives: that says nothing of the server.
                if terms.deadline > until:
                    continue
                raise OutOfTime.of(error) from error
            if late is not None and isinstance(error, DeadlineExceeded):
                late(attempt)
            policy.report_failure(error, began)
            now = clock.now()
            since = now if since is None else since
            has_reached = not isinstance(error, Unconnected)
            attempts[has_reached] += 1
            wait = policy.get_wait(attempts[has_reached], error)
            if not error.retryable or attempts[has_reached] >= policy.attempts or now + wait >= end:
                error.gave_up(sum(attempts.values()), since)
                raise
            if is_past(terms.deadline, now):
                raise OutOfTime.of(error) from error
        if policy.pause is None:
            await clock.sleep(wait)
        else:
            end += await policy.pause(wait)
