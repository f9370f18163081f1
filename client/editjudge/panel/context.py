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
class CallTerms:
    """Until when a caller waits, and whether its calls go first.

    They decide when a call is made and no number: they are in no signature and no key of a call.

    Attributes:
        end: When it stops waiting, by the event loop's clock; infinity where it does not.
        urgent: Its calls go before others, where a server knows how.
    """

    deadline: float = math.inf
    urgent: bool = False


class SharedTerms:
    """The terms of a call that several callers wait for.

    It goes on for the most patient of those who wait now, and is urgent where it is to one. Where
    nobody waits any more its end has come.
    """

    def __init__(self) -> None:
        self._callers: list[AnyTerms] = []

    @property
    def caller_count(self) -> int:
        """How many callers wait."""
        return len(self._callers)

    @property
    def deadline(self) -> float:
        """See `Terms`."""
        return max((each.deadline for each in self._callers), default=-math.inf)

    @property
    def urgent(self) -> bool:
        """See `Terms`."""
        return any(each.urgent for each in self._callers)

    @contextmanager
    def join(self, terms: AnyTerms) -> Iterator[None]:
        """Wait too, on these terms, until the block is left."""
        self._callers.append(terms)
        try:
            yield
        finally:
            self._callers.remove(terms)


AnyTerms: TypeAlias = CallTerms | SharedTerms
DEFAULT_TERMS = CallTerms()


def is_past(end: float, now: float) -> bool:
    """Whether a deadline has come."""
    return end <= now + _CLOSE


@dataclass(slots=True)
class CallLog:
    """What one piece of work asked, and what came back.

    Attributes:
        judges: Keys of the calls to judges, whether they were made now or stored.
        specialists: Keys of the calls to specialists; empty where no ledger keeps replies.
        usage: What judges took: `calls` made now; `prompt_tokens`, `cached_tokens` (of these)
            and `completion_tokens` of all replies, and their `cost` where they have one; `spent` is
            the cost of the calls made now. Empty while nobody was asked.
        stored: How many calls were answered without being made.
        asked: How many calls to specialists were made.
        answered: How many of these were answered, with a value or without.
        said: By key what judges said; None where nobody wants it.
    """

    judge_calls: set[str] = field(default_factory=set)
    specialist_calls: set[str] = field(default_factory=set)
    usage: dict[str, float] = field(default_factory=dict)
    stored_count: int = 0
    request_count: int = 0
    answer_count: int = 0
    records: dict[str, CallRecord] | None = None

    def add_reply(self, call: Call, reply: Reply, *, made_now: bool) -> None:
        """Note a judge's reply."""
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
        if self.records is not None:
            self.records[call.key] = make_record(call, reply)


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
    terms: AnyTerms = DEFAULT_TERMS
    logs: tuple[CallLog, ...] = ()

    def add_counts(self, *, stored_replies: int = 0, requests: int = 0, answers: int = 0) -> None:
        """Add to the numbers of `notes`."""
        for logs in self.logs:
            logs.stored_count += stored_replies
            logs.request_count += requests
            logs.answer_count += answers

    def with_log(self, notes: CallLog) -> CallContext:
        """The same, with calls noted there too."""
        return replace(self, logs=(*self.logs, notes))

    def require_budget(self, price: Price | None = None) -> Budget:
        """The budget that pays for a call.

        Raises:
            RuntimeError: the call has a price, and no caller pays.
        """
        if self.budget is None and price is not None:
            raise RuntimeError("a call that has a price needs a `CallContext` with a budget")
        return self.budget or Budget()


NO_CALLER = CallContext()
