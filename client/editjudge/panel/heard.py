"""What generalists say to whoever asks here, whether or not it is kept anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .calls import Call, Reply
from .said import Said

_HEARD: ContextVar[dict[str, Said] | None] = ContextVar("heard", default=None)


@contextmanager
def hearing() -> Iterator[dict[str, Said]]:
    """Gather what is said to what is asked in this block, in its tasks too.

    Yields:
        By key of the call, also of calls that were known before.
    """
    heard: dict[str, Said] = {}
    before = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(before)


def hear(call: Call, reply: Reply) -> None:
    """Add a reply to what is gathered here, if anything is."""
    if (heard := _HEARD.get()) is not None:
        heard[call.key] = said_of(call, reply)


def said_of(call: Call, reply: Reply) -> Said:
    """A generalist's reply, without the pictures that the call holds."""
    return Said(
        call=call.key,
        judge=call.judge,
        model=reply.model,
        prompt=call.prompt.digest,
        reply=dict(reply.content),
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        completion_tokens=reply.completion_tokens,
        cost=reply.cost,
    )
