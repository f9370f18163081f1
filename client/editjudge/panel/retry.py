"""Retries: a call is made again after failures that may pass, within one deadline for all attempts.

gRPC's own retries do nothing for requests above 256 KiB, which requests with images are.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ..base.errors import DeadlineExceeded, NoConnection, OutOfTime, RateLimit, ServiceError
from .context import DEFAULT_TERMS, AnyTerms, is_past

T = TypeVar("T")
_LEAST = 0.001
"""Seconds that an attempt gets at least: transports take 0 for no limit."""
_LIMIT_FACTOR = 10
"""How many times as long the waits after a `RateLimit` are: limits are counted by the minute."""


def read_clock() -> float:
    """The time of the running event loop, in seconds; it can only be compared with itself."""
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a call is tried.

    Attributes:
        attempts: Attempts at most, the first included. Attempts that could not connect are counted
            apart, up to the same number: they use up none of the others. Those that met a rate
            limit are not counted: they are made until the deadline.
        deadline: Seconds for all attempts together, with the waits between them.
        first_wait: Seconds before the second attempt; doubled before each further one, plus a
            random part of up to this time.
        longest_wait: Seconds that a wait takes at most, without its random part.
        connection_age: Seconds, about, after which later calls go on a new connection.
        note_retry: Is called before each further attempt: the error of the last one, and the time
            when the call began by the event loop's clock.
    """

    attempts: int = 4
    deadline: float = 60.0
    first_wait: float = 0.1
    longest_wait: float = 5.0
    connection_age: float = 300.0
    note_retry: Callable[[ServiceError, float], None] | None = field(default=None, compare=False)

    def get_wait(self, attempt: int, error: ServiceError) -> float:
        """Seconds to wait after a failed attempt: exponential backoff with a random part.

        Args:
            attempt: Number of the failed attempt, from 1.
            error: Its error; the wait is at least the error's `retry_after`.
        """
        # No power of two beyond this one is needed, and larger ones are no floats.
        factor = _LIMIT_FACTOR if isinstance(error, RateLimit) else 1
        backoff = self.first_wait * 2.0 ** min(attempt - 1, 64)
        backoff = min(backoff, self.longest_wait) + random.uniform(0, self.first_wait)
        return max(factor * backoff, error.retry_after or 0.0)


async def call_with_retries(
    call: Callable[[float], Awaitable[T]], policy: RetryPolicy, terms: AnyTerms = DEFAULT_TERMS
) -> T:
    """Make a call, and make it again after a retryable error.

    A non-retryable error, the last attempt and the deadline end it. An attempt whose time was cut
    short by the callers' deadline tells nothing about the server: it ends with `OutOfTime`, or is
    made again where a caller with a later deadline has joined. Cancellation ends it at once.

    Args:
        call: Makes one attempt. It gets the seconds that are left until the policy's deadline or
            the callers' deadline, whichever is earlier.
        terms: Terms of the callers.

    Raises:
        OutOfTime: the callers' deadline has passed.
        ServiceError: of the last attempt, with `attempts` and `since` filled in.
    """
    began = read_clock()
    end = began + policy.deadline
    since: float | None = None
    attempts = {True: 0, False: 0}
    while True:
        until, attempt = terms.deadline, read_clock()
        try:
            return await call(max(min(end, until) - attempt, _LEAST))
        except ServiceError as error:
            if isinstance(error, DeadlineExceeded) and until < end and is_past(until, read_clock()):
                # It had less time than the policy gives: that says nothing of the server.
                if terms.deadline > until:
                    continue
                raise OutOfTime.of(error) from error
            now = read_clock()
            since = now if since is None else since
            has_reached = not isinstance(error, NoConnection)
            attempts[has_reached] += 1
            wait = policy.get_wait(attempts[has_reached], error)
            is_last = attempts[has_reached] >= policy.attempts and not isinstance(error, RateLimit)
            if not error.retryable or is_last or now + wait >= end:
                error.gave_up(sum(attempts.values()), since)
                raise
            if is_past(terms.deadline, now):
                raise OutOfTime.of(error) from error
            if policy.note_retry is not None:
                policy.note_retry(error, began)
        await asyncio.sleep(wait)
