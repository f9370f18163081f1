"""What a caller may spend on judges, and has."""

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
    """The account of one caller: what its calls took, and their costs, kept below a limit.

    A caller (a run, a score) names it in the `CallContext` of its calls; several callers may share
    a panel.

    What a call costs is known when it is done, so each call in flight is taken to cost as much
    as the dearest one so far. The first ones, of which nothing is known, take turns.

    Args:
        limit: In the currency of the prices; None for no limit.

    Attributes:
        spent: So far, by earlier sessions too.
        spent_before: By earlier sessions.
        calls: Calls made.
        known: Replies that were kept from calls before, which cost nothing now.
        usage: What they took together.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit
        self.cost = 0.0
        self.earlier_cost = 0.0
        self.calls = 0
        self.stored_replies = 0
        self.usage = Usage()
        self._dearest = 0.0
        self._in_flight = 0
        self._first = asyncio.Lock()

    def add_earlier_cost(self, cost: float, dearest: float) -> None:
        """Count in what was spent before.

        Args:
            dearest: Cost of the dearest call so far.
        """
        self.cost += cost
        self.earlier_cost += cost
        self._dearest = max(self._dearest, dearest)

    @asynccontextmanager
    async def turn(self, *, has_price: bool) -> AsyncIterator[None]:
        """Make one call inside, once others that may tell what a call costs have ended.

        While costs are limited and none is known yet, calls go one by one.

        Args:
            priced: Whether the call costs anything.
        """

        def is_known() -> bool:
            return self.limit is None or not has_price or self._dearest > 0

        if not is_known():
            async with self._first:
                if not is_known():
                    yield
                    return
        yield

    @contextmanager
    def reserve_call(
        self, price: Price | None, service: str
    ) -> Iterator[Callable[[Usage], float | None]]:
        """Make one call inside. It yields a function from what the call took to its cost.

        Raises:
            CostLimit: the call could pass the limit.
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
        """Leave room for one more payment, which is told by `spend` when it is known.

        Raises:
            CostLimit: it could pass the limit.
        """
        possible_cost = self.cost + (self._in_flight + 1) * self._dearest
        if self.limit is not None and (possible_cost > self.limit or self.cost >= self.limit):
            raise CostLimit(
                f"{self.cost:.4g} of max_cost = {self.limit:g} is spent; what was judged is kept,"
                " raise the limit to go on",
                service=service,
            )
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    def pay(self, cost: float) -> None:
        """Note what was paid at once."""
        self.cost += cost
        self._dearest = max(self._dearest, cost)

    def count_calls(self, usage: Usage, calls: int = 1) -> None:
        """Note calls that were made, and what they took together."""
        self.calls += calls
        self.usage += usage

    @property
    def dearest(self) -> float:
        """What was paid at once at most."""
        return self._dearest
