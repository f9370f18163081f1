"""The context of a call: who pays, how long the caller waits, where replies are stored."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..base.config import Price
from ..base.strict import list_fields
from .budget import Budget
from .calls import Call, CallRecord, Reply, ReplyStore, make_record

_CLOSE = 0.01
"""Seconds by which two moments are taken for one: a deadline travels rounded."""


@dataclass(frozen=True, slots=True)
class CallTerms:
    """How long a caller waits for its calls, and whether they go before others.

    Terms decide when a call is made, and never its result. They are in no signature and in no key
    of a call.

    Attributes:
        deadline: Until when the caller waits, by the event loop's clock; infinity for no deadline.
        urgent: Whether its calls go before others, at servers that have priorities.
    """

    deadline: float = math.inf
    urgent: bool = False


class SharedTerms:
    """The terms of one call that several callers wait for.

    The call lasts until the latest deadline of the callers that wait now, and is urgent if it is
    urgent to one of them. A caller that stops waiting no longer counts. Without callers the
    deadline has passed.
    """

    def __init__(self) -> None:
        self._callers: list[AnyTerms] = []

    @property
    def caller_count(self) -> int:
        """How many callers wait."""
        return len(self._callers)

    @property
    def deadline(self) -> float:
        """See `CallTerms`."""
        return max((each.deadline for each in self._callers), default=-math.inf)

    @property
    def urgent(self) -> bool:
        """See `CallTerms`."""
        return any(each.urgent for each in self._callers)

    @contextmanager
    def join(self, terms: AnyTerms) -> Iterator[None]:
        """Add a caller with its terms until the block is left."""
        self._callers.append(terms)
        try:
            yield
        finally:
            self._callers.remove(terms)


AnyTerms: TypeAlias = CallTerms | SharedTerms
DEFAULT_TERMS = CallTerms()


def is_past(end: float, now: float) -> bool:
    """Whether a deadline has passed."""
    return end <= now + _CLOSE


@dataclass(slots=True)
class CallLog:
    """The calls that one piece of work rests on, and what they took.

    Attributes:
        judge_calls: Keys of the calls to judges, made now or answered from a store.
        specialist_calls: Keys of the calls to specialists; empty where no ledger stores replies.
        usage: Sums over the calls to judges: `calls` that were made now; `prompt_tokens`,
            `cached_tokens` (a part of these) and `completion_tokens` of all replies; `cost` of all
            replies that have one; `spent`, the part of it for calls made now. Empty without such
            calls.
        stored_count: How many calls were answered from a store.
        request_count: How many calls to specialists were made.
        answer_count: How many of these were answered, with a value or an abstention.
        records: The calls to judges with their replies, by key; None where nobody reads them.
    """

    judge_calls: set[str] = field(default_factory=set)
    specialist_calls: set[str] = field(default_factory=set)
    usage: dict[str, float] = field(default_factory=dict)
    stored_count: int = 0
    request_count: int = 0
    answer_count: int = 0
    records: dict[str, CallRecord] | None = None

    def add_reply(self, call: Call, reply: Reply, *, made_now: bool) -> None:
        """Add a judge's reply."""
        more: dict[str, float] = {"calls": int(made_now), **list_fields(reply.usage)}
        if reply.cost is not None:
            more |= {"cost": reply.cost, "spent": reply.cost if made_now else 0.0}
        for name, number in more.items():
            self.usage[name] = self.usage.get(name, 0) + number
        if self.records is not None:
            self.records[call.key] = make_record(call, reply)


@dataclass(frozen=True, slots=True)
class CallContext:
    """On whose behalf calls are made; see `Panel.with_context`.

    Attributes:
        budget: Pays for calls that have a price.
        calls: A store for this caller's replies alone, apart from those of others who share the
            panel; None for the panel's own store.
        salt: A secret that keeps this caller's prompts apart in a server's prefix cache, which
            would otherwise show what others have asked. Only vLLM over HTTP uses it. Empty for
            none.
        terms: How long the caller waits, and whether its calls are urgent.
        logs: Where the calls are logged, one log for each piece of work that they belong to.
    """

    budget: Budget | None = None
    calls: ReplyStore | None = None
    salt: str = ""
    terms: AnyTerms = DEFAULT_TERMS
    logs: tuple[CallLog, ...] = ()

    def add_counts(self, *, stored_replies: int = 0, requests: int = 0, answers: int = 0) -> None:
        """Add to the counts of all logs."""
        for logs in self.logs:
            logs.stored_count += stored_replies
            logs.request_count += requests
            logs.answer_count += answers

    def with_log(self, notes: CallLog) -> CallContext:
        """The same context with one more log."""
        return replace(self, logs=(*self.logs, notes))

    def require_budget(self, price: Price | None = None) -> Budget:
        """The budget that pays for a call.

        Raises:
            RuntimeError: the call has a price, and the context has no budget.
        """
        if self.budget is None and price is not None:
            raise RuntimeError("a call that has a price needs a `CallContext` with a budget")
        return self.budget or Budget()


NO_CALLER = CallContext()
