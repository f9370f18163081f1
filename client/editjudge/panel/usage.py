"""What generalists take for one piece of work, apart from their replies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .calls import Reply

_TAKEN: ContextVar[dict[str, float] | None] = ContextVar("taken", default=None)


@contextmanager
def counting() -> Iterator[dict[str, float]]:
    """Count what generalists take for what is asked in this block, in its tasks too.

    Yields:
        `calls` made now, not those that were known; `prompt_tokens`, `cached_tokens` (of these)
        and `completion_tokens` of all replies, and their `cost` where they have one; `spent` is
        what the calls cost that were made now. Empty while nobody was asked.
    """
    taken: dict[str, float] = {}
    before = _TAKEN.set(taken)
    try:
        yield taken
    finally:
        _TAKEN.reset(before)


def count(reply: Reply, *, made_now: bool) -> None:
    """Add a reply to what is counted here, if anything is."""
    if (taken := _TAKEN.get()) is None:
        return
    more: dict[str, float] = {
        "calls": int(made_now),
        "prompt_tokens": reply.prompt_tokens,
        "cached_tokens": reply.cached_tokens,
        "completion_tokens": reply.completion_tokens,
    }
    if reply.cost is not None:
        more["cost"] = reply.cost
        if made_now:
            more["spent"] = reply.cost
    for name, number in more.items():
        taken[name] = taken.get(name, 0) + number
