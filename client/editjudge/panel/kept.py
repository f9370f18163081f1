"""Where calls are kept, where callers who share a panel keep theirs apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from .calls import CallStore


@dataclass(frozen=True, slots=True)
class Apart:
    """What keeps the calls of one caller from those of others.

    Attributes:
        calls: Where they are kept.
        salt: What nobody can guess, by which a server that can (vLLM over HTTP) keeps its cache of
            prefixes apart: who finds one there learns what others asked. Empty for none.
    """

    calls: CallStore
    salt: str = ""


_APART: ContextVar[Apart | None] = ContextVar("apart", default=None)


@contextmanager
def keeping(apart: Apart) -> Iterator[None]:
    """Keep the calls that are made in this block apart, in its tasks too.

    What is kept elsewhere answers none of them, and none waits for an equal call that is made
    elsewhere. What is found out about services stays with the panel.
    """
    before = _APART.set(apart)
    try:
        yield
    finally:
        _APART.reset(before)


def kept_here() -> CallStore | None:
    """Where calls that are made here are kept; None where that is the panel's."""
    return apart.calls if (apart := _APART.get()) else None


def salt_here() -> str:
    """The salt for caches of prefixes, of a call that is made here; empty for none."""
    return apart.salt if (apart := _APART.get()) else ""
