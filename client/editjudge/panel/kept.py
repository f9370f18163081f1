"""Where calls are kept, where callers who share a panel keep theirs apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .calls import CallStore

_KEPT: ContextVar[CallStore | None] = ContextVar("kept", default=None)


@contextmanager
def keeping(calls: CallStore) -> Iterator[None]:
    """Keep the calls that are made in this block there, in its tasks too.

    What is kept elsewhere answers none of them, and none waits for an equal call that is made
    elsewhere. What is found out about services stays with the panel.
    """
    before = _KEPT.set(calls)
    try:
        yield
    finally:
        _KEPT.reset(before)


def kept_here() -> CallStore | None:
    """Where calls that are made here are kept; None where that is the panel's."""
    return _KEPT.get()
