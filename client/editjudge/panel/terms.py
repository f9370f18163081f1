"""On which terms calls are made: until when somebody waits for them, and whether they go first.

Like the budget that pays, terms are the caller's, and many callers share a panel. They decide when
a call is made and no number: they are in no signature and no key of a call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_CLOSE = 0.01
"""Seconds by which two moments are taken for one: a deadline travels rounded."""


@dataclass(frozen=True, slots=True)
class Terms:
    """A caller's.

    Attributes:
        end: When it stops waiting, by the event loop's clock; infinity where it does not.
        urgent: Its calls go before others, where a server knows how.
    """

    end: float = math.inf
    urgent: bool = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the calls in this block on these terms, in its tasks too."""
        with _holding(lambda: self):
            yield

    def adopt(self) -> None:
        """Make the calls of this task on these terms from here on."""
        _HELD.set(lambda: self)


class Joint:
    """The terms of a call that several callers wait for.

    It goes on for the most patient of those who wait now, and is urgent where it is to one. Where
    nobody waits any more its end has come.
    """

    def __init__(self) -> None:
        self._callers: list[Callable[[], Terms]] = []

    @property
    def waiting(self) -> int:
        """How many callers wait."""
        return len(self._callers)

    def terms(self) -> Terms:
        """Those of all who wait now."""
        of_each = [of() for of in self._callers]
        end = max((each.end for each in of_each), default=-math.inf)
        return Terms(end, any(each.urgent for each in of_each))

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Wait too, on the terms that hold here, until the block is left."""
        of_caller = _HELD.get()
        self._callers.append(of_caller)
        try:
            yield
        finally:
            self._callers.remove(of_caller)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the calls in this block, and in its tasks, on the terms of whoever waits then."""
        with _holding(self.terms):
            yield


def current() -> Terms:
    """The terms of a call that is made here and now."""
    return _HELD.get()()


def waited_beyond(moment: float) -> bool:
    """Whether somebody waits longer than until then, so that a server that is late is to blame."""
    return not is_over(current().end, moment)


def is_over(end: float, now: float) -> bool:
    """Whether a deadline has come."""
    return end <= now + _CLOSE


@contextmanager
def _holding(of: Callable[[], Terms]) -> Iterator[None]:
    before = _HELD.set(of)
    try:
        yield
    finally:
        _HELD.reset(before)


NONE = Terms()
_HELD: ContextVar[Callable[[], Terms]] = ContextVar("terms", default=lambda: NONE)
