"""Asking again: one deadline per call, shared by all its attempts.

gRPC's own retry is off for requests above 256 KiB, which images are, so it is done here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    wait_exponential,
    wait_random,
)

from ..errors import ServiceError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long to ask.

    Attributes:
        attempts: Including the first.
        deadline: Seconds for all attempts together, waits included.
        first_wait: Seconds before the second attempt, about; doubled each time.
        longest_wait: Seconds.
        observe: Told of every attempt that failed, also where the next one succeeds: the
            error, and when the call began by the clock of the event loop.
    """

    attempts: int = 4
    deadline: float = 60.0
    first_wait: float = 0.1
    longest_wait: float = 5.0
    observe: Callable[[ServiceError, float], None] | None = field(default=None, compare=False)

    def failed(self, error: ServiceError, began: float) -> None:
        """Tell the observer of a failed attempt."""
        if self.observe is not None:
            self.observe(error, began)


async def with_retries(call: Callable[[float], Awaitable[T]], policy: RetryPolicy) -> T:
    """Make a call, again where the error says that this can help.

    Args:
        call: Takes the seconds that are left.

    Raises:
        ServiceError: of the last attempt, with `attempts` filled in.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    end = began + policy.deadline
    try:
        return await call(policy.deadline)
    except ServiceError as error:
        policy.failed(error, began)
        if not error.retryable:
            raise
        first, since = error, clock()

    def enough(state: RetryCallState) -> bool:
        late = clock() + state.upcoming_sleep >= end
        return late or state.attempt_number >= policy.attempts

    backoff = wait_exponential(policy.first_wait, policy.longest_wait) + wait_random(
        0, policy.first_wait
    )

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = getattr(error, "retry_after", None) or 0.0
        return max(backoff(state), asked)

    # Nearly every call succeeds at once, and does not pay for the machinery below: it is
    # told of the first failure, and goes on from there.
    made = 0
    try:
        async for attempt in AsyncRetrying(
            stop=enough,
            wait=wait,
            retry=retry_if_exception(lambda e: isinstance(e, ServiceError) and e.retryable),
            reraise=True,
        ):
            with attempt:
                made += 1
                if made == 1:
                    raise first
                try:
                    return await call(max(end - clock(), 0.001))
                except ServiceError as error:
                    policy.failed(error, began)
                    raise
    except ServiceError as last:
        whole = type(last)(
            last.detail,
            service=last.service,
            endpoint=last.endpoint,
            model=last.model,
            attempts=made,
            retry_after=last.retry_after,
        )
        whole.since = since
        raise whole from last
    raise AssertionError("tenacity reraises the last error")
