"""Calls side by side, and which calls were asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from ..base.errors import Abstained

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """Keys of the calls that were asked for, whether they were made now or known.

    Attributes:
        generalists: Of calls to generalists.
        specialists: Of calls to specialists; empty where no ledger keeps replies.
    """

    generalists: set[str] = field(default_factory=set)
    specialists: set[str] = field(default_factory=set)


_ASKED: ContextVar[Asked | None] = ContextVar("asked", default=None)


@contextmanager
def asking() -> Iterator[Asked]:
    """Note which calls are asked for in this block, in its tasks too."""
    asked = Asked()
    before = _ASKED.set(asked)
    try:
        yield asked
    finally:
        _ASKED.reset(before)


def noted() -> Asked:
    """Where a call that is asked for here is noted."""
    return _ASKED.get() or Asked()


async def together(*work: Awaitable[T]) -> list[T]:
    """What calls side by side give, in order; all of them are waited for.

    So it is the same failure every time, whichever call is the fastest, and what has no number
    names every reply that could not be read: all are asked anew together.

    Raises:
        Abstained: no call failed, but some have no value: the first says why, with the calls of
            all of them.
        Exception: the first failure.
    """
    done = await asyncio.gather(*work, return_exceptions=True)
    values: list[T] = []
    abstained: list[Abstained] = []
    for result in done:
        if isinstance(result, Abstained):
            abstained.append(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            values.append(result)
    if abstained:
        first = abstained[0]
        calls = dict.fromkeys(key for each in abstained for key in each.calls)
        raise Abstained(first.kind, first.reason, first.evidence, tuple(calls)) from first
    return values
