"""The budget of one caller: what its calls to judges cost, held below a limit."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Self

from ..base.config import Price, Settings
from ..base.errors import ConfigError, CostLimit, StoreError
from .calls import Account, ReplyStore, Usage


class Budget:
    """The account of one caller (a run, a score): its calls, their tokens and their cost.

    A caller names its budget in the `CallContext` of its calls. Several callers, each with a budget
    of its own, may share a panel.

    The limit holds although calls run side by side. The cost of a call is known only when the call
    has ended, so each call in flight is counted with the cost of the dearest call so far. Until the
    first call with a price has ended, such calls are made one after the other.

    Processes may share a budget through an `Account`. Each reads what all have spent before a call
    and stores its own cost after it. So the limit is passed by no more than the calls that are in
    flight in all processes when it is reached.

    Args:
        limit: The most that may be spent, in the currency of the prices; None for no limit.
        account: Where the processes that share the budget store their costs.

    Attributes:
        cost: Cost so far, in earlier sessions too.
        dearest: Cost of the dearest call so far.
        earlier_cost: Cost in earlier sessions alone.
        calls: Calls that were made.
        stored_replies: Replies that were taken from a store of replies and cost nothing now.
        usage: Tokens of all calls that were made.
    """

    def __init__(self, limit: float | None = None, account: Account | None = None) -> None:
        self.limit = limit
        self.cost = 0.0
        self.earlier_cost = 0.0
        self.calls = 0
        self.stored_replies = 0
        self.usage = Usage()
        self.dearest = 0.0
        self._in_flight = 0
        self._first = asyncio.Lock()
        self._account = account
        self._own_cost = self._others_cost = 0.0
        self._settling = asyncio.Lock()
        self._asked_count = self._settled_count = 0

    @classmethod
    def of(cls, settings: Settings, calls: ReplyStore | None = None) -> Self:
        """Make the budget of the settings: one that has a name is shared through the ledger.

        Args:
            calls: The store of the calls that it pays for.

        Raises:
            ConfigError: it has a name, and the store is no ledger in PostgreSQL.
        """
        account = None
        if settings.budget is not None:
            account = None if calls is None else calls.open_account(settings.budget)
            if account is None:
                raise ConfigError(
                    f"the budget {settings.budget!r} cannot be shared without a ledger in PostgreSQL",
                    "give --ledger postgresql://host/database, or leave the budget out",
                )
        return cls(settings.max_cost, account)

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

        async with AsyncExitStack() as turns:
            if self._account is not None and has_price:
                await self._settle()
                turns.push_async_callback(self._settle)
            if not is_known():
                async with self._first:
                    if not is_known():
                        yield
                        return
            yield

    async def _settle(self) -> None:
        """Store what this process has spent and read what others have, once for all who wait."""
        task = asyncio.current_task()
        if self._account is None or (task is not None and task.cancelling()):
            return
        self._asked_count = number = self._asked_count + 1
        async with self._settling:
            if self._settled_count < number:
                count = self._asked_count
                try:
                    totals = await self._account(self._own_cost, self.dearest)
                except StoreError as error:
                    why = f"the shared budget cannot be read, nothing more is spent: {error}"
                    raise CostLimit(why, service="") from error
                self._others_cost, self.dearest = totals[0], max(self.dearest, totals[1])
                self._settled_count = count

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
        cost = self.cost if self._account is None else self._own_cost + self._others_cost
        possible_cost = cost + (self._in_flight + 1) * self.dearest
        if self.limit is not None and (possible_cost > self.limit or cost >= self.limit):
            raise CostLimit(
                f"{cost:.4g} of max_cost = {self.limit:g} is spent; all verdicts so far"
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
        self._own_cost += cost
        self.dearest = max(self.dearest, cost)

    def count_calls(self, usage: Usage, calls: int = 1) -> None:
        """Add calls that were made and the tokens of all of them."""
        self.calls += calls
        self.usage += usage
