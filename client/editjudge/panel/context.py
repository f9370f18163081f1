"""On whose behalf calls are made: who pays, who waits, where replies are kept, who notes them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from .budget import Budget
from .calls import Call, CallRecord, Reply, make_record

if TYPE_CHECKING:
    from ..base.config import Price
    from .calls import ReplyStore

_CLOSE = 0.01
"""Seconds by which two moments are taken for one: a deadline travels rounded."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Until when a caller waits, and whether its calls go first.

    They decide when a call is made and no number: they are in no signature and no key of a call.

    Attributes:
        end: When it stops waiting, by the event loop's clock; infinity where it does not.
        urgent: Its calls go before others, where a server knows how.
    """

    end: float = math.inf
    urgent: bool = False


class JointTerms:
    """The terms of a call that several callers wait for.

    It goes on for the most patient of those who wait now, and is urgent where it is to one. Where
    nobody waits any more its end has come.
    """

    def __init__(self) -> None:
        self._callers: list[AnyTerms] = []

    @property
    def waiting(self) -> int:
        """How many callers wait."""
        return len(self._callers)

    @property
    def end(self) -> float:
        """See `Terms`."""
        return max((each.end for each in self._callers), default=-math.inf)

    @property
    def urgent(self) -> bool:
        """See `Terms`."""
        return any(each.urgent for each in self._callers)

    @contextmanager
    def joined(self, terms: AnyTerms) -> Iterator[None]:
        """Wait too, on these terms, until the block is left."""
        self._callers.append(terms)
        try:
            yield
        finally:
            self._callers.remove(terms)


AnyTerms: TypeAlias = Terms | JointTerms
PATIENT = Terms()


def is_over(end: float, now: float) -> bool:
    """Whether a deadline has come."""
    return end <= now + _CLOSE


@dataclass(slots=True)
class CallNotes:
    """What one piece of work asked, and what came back.

    Attributes:
        generalists: Keys of the calls to generalists, whether they were made now or stored.
        specialists: Keys of the calls to specialists; empty where no ledger keeps replies.
        usage: What generalists took: `calls` made now; `prompt_tokens`, `cached_tokens` (of these)
            and `completion_tokens` of all replies, and their `cost` where they have one; `spent` is
            the cost of the calls made now. Empty while nobody was asked.
        stored: How many calls were answered without being made.
        asked: How many calls to specialists were made.
        answered: How many of these were answered, with a value or without.
        said: By key what generalists said; None where nobody wants it.
    """

    generalists: set[str] = field(default_factory=set)
    specialists: set[str] = field(default_factory=set)
    usage: dict[str, float] = field(default_factory=dict)
    stored: int = 0
    asked: int = 0
    answered: int = 0
    said: dict[str, CallRecord] | None = None

    def reply(self, call: Call, reply: Reply, *, made_now: bool) -> None:
        """Note a generalist's reply."""
        more: dict[str, float] = {
            "calls": int(made_now),
            **asdict(reply.usage),
        }
        if reply.cost is not None:
            more["cost"] = reply.cost
            if made_now:
                more["spent"] = reply.cost
        for name, number in more.items():
            self.usage[name] = self.usage.get(name, 0) + number
        if self.said is not None:
            self.said[call.key] = make_record(call, reply)


@dataclass(frozen=True, slots=True)
class CallContext:
    """On whose behalf calls are made; see `Panel.within`.

    Attributes:
        budget: Pays for calls that have a price.
        calls: Where this caller's calls are kept apart from those of others who share the panel;
            None where that is the panel's own store.
        salt: What nobody can guess, by which a server that can (vLLM over HTTP) keeps its cache of
            prefixes apart: who finds one there learns what others asked. Empty for none.
        terms: Until when the caller waits.
        notes: Of the pieces of work that the calls are a part of.
    """

    budget: Budget | None = None
    calls: ReplyStore | None = None
    salt: str = ""
    terms: AnyTerms = PATIENT
    notes: tuple[CallNotes, ...] = ()

    def count(self, *, stored: int = 0, asked: int = 0, answered: int = 0) -> None:
        """Add to the numbers of `notes`."""
        for notes in self.notes:
            notes.stored += stored
            notes.asked += asked
            notes.answered += answered

    def noting(self, notes: CallNotes) -> CallContext:
        """The same, with calls noted there too."""
        return replace(self, notes=(*self.notes, notes))

    def paying(self, price: Price | None = None) -> Budget:
        """The budget that pays for a call.

        Raises:
            RuntimeError: the call has a price, and no caller pays.
        """
        if self.budget is None and price is not None:
            raise RuntimeError("a call that has a price needs a `CallContext` with a budget")
        return self.budget or Budget()


NOBODY = CallContext()
