"""The budget of one caller: what its calls to judges cost, held below a limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from ..base.errors import CostLimit
from .calls import Usage

if TYPE_CHECKING:
    from ..base.config import Price


class Budget:
    """The account of one caller (a run, a score): its calls, their tokens and their cost.

    A caller names its budget in the `CallContext` of its calls. Several callers, each with a budget
    of its own, may share a panel.

    The limit holds although calls run side by side. The cost of a call is known only when the call
    has ended, so each call in flight is counted with the cost of the dearest call so far. Until the
    first call with a price has ended, such calls are made one after the other.

    Args:
        limit: The most that may be spent, in the currency of the prices; None for no limit.

    Attributes:
        cost: Cost so far, in earlier sessions too.
        dearest: Cost of the dearest call so far.
        earlier_cost: Cost in earlier sessions alone.
        calls: Calls that were made.
        stored_replies: Replies that were taken from a store of replies and cost nothing now.
        usage: Tokens of all calls that were made.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit
        self.cost = 0.0
        self.earlier_cost = 0.0
        self.calls = 0
        self.stored_replies = 0
        self.usage = Usage()
        self.dearest = 0.0
        self._in_flight = 0
        self._first = asyncio.Lock()

    def add_earlier_cost(self, cost: float, dearest: float) -> None:
        """Add what earlier sessions have spent.

        Args:
            cost: Cost of all their calls.
            dearest: Cost of their dearest call.
        """
        self.cost += cost
        self.earlier_cost += cost
        self.dearest = max(self.dearest, dearest)

    @asynccontextmanager
    async def turn(self, *, has_price: bool) -> AsyncIterator[None]:
        """Make one call inside the block, which is entered when it is this call's turn.

        Calls take turns while costs are limited and the cost of no call is known. Otherwise the
        block is entered at once.

        Args:
            has_price: Whether the call costs anything.
        """

        def is_known() -> bool:
            return self.limit is None or not has_price or self.dearest > 0

        if not is_known():
            async with self._first:
                if not is_known():
                    yield
                    return
        yield

    @contextmanager
    def reserve_call(
        self, price: Price | None, service: str, most_tokens: int = 0
    ) -> Iterator[Callable[[Usage], float | None]]:
        """Make one call inside the block, with its cost reserved.

        Args:
            most_tokens: About the most tokens that it takes, for budgets that count broken calls.

        Yields:
            A function that books the usage of the call and returns its cost, None without a price.

        Raises:
            CostLimit: the call could exceed the limit.
        """
        if price is None:
            yield self.count_calls
            return

        def pay(usage: Usage) -> float:
            cost = price.of(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)
            self.count_calls(usage)
            self.pay(cost)
            return cost

        with self.reserve(service):
            yield pay

    @contextmanager
    def reserve(self, service: str) -> Iterator[None]:
        """Reserve the cost of one call inside the block; `pay` books the cost when it is known.

        Raises:
            CostLimit: the call could exceed the limit.
        """
        possible_cost = self.cost + (self._in_flight + 1) * self.dearest
        if self.limit is not None and (possible_cost > self.limit or self.cost >= self.limit):
            raise CostLimit(
                f"{self.cost:.4g} of max_cost = {self.limit:g} is spent; all verdicts so far"
                " are stored, raise the limit to go on",
                service=service,
            )
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    def pay(self, cost: float) -> None:
        """Add the cost of one call."""
        self.cost += cost
        self.dearest = max(self.dearest, cost)

    def count_calls(self, usage: Usage, calls: int = 1) -> None:
        """Add calls that were made and the tokens of all of them."""
        self.calls += calls
        self.usage += usage
