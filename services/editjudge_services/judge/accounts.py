"""What teams use of a service, and what they may: kept as it happens, for the next start too."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextvars import Context
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from editjudge.base.errors import ConfigError, CostLimit, OutOfTime, ServiceError, StoreError
from editjudge.panel.budget import Budget
from editjudge.panel.calls import Usage
from editjudge.storage.accounts import AccountsFile, Day, Used

if TYPE_CHECKING:
    from editjudge.base.config import Price

__all__ = ["Accounts", "Day", "Taken", "Used", "used_in"]

FILE = "usage.sqlite"


def today() -> str:
    """The day, in UTC."""
    return datetime.now(UTC).date().isoformat()


class Accounts:
    """The accounts of all teams; use as an async context manager.

    A day begins at 00:00 UTC.

    Args:
        folder: Where they are kept; None keeps them in memory.
        limit: What a team may spend on a day, in the currency of the prices; None for no limit.
        say: Told where they cannot be written; they are as soon as they can be.
        day: Tells today.

    Attributes:
        total: Used since it was opened, by team.
    """

    def __init__(
        self,
        folder: Path | None,
        limit: float | None,
        say: Callable[[str], None],
        day: Callable[[], str] = today,
    ) -> None:
        self._folder = folder
        self._limit = limit
        self._say = say
        self._day = day
        self._budgets: dict[Day, Budget] = {}
        self._before: Mapping[Day, Used] = {}
        self._unwritten: dict[Day, Used] = {}
        self._writing: asyncio.Task[None] | None = None
        self._resources = contextlib.ExitStack()
        self._failing = False
        self.total: dict[str, Used] = {}

    async def __aenter__(self) -> Self:
        path = None if self._folder is None else self._folder / FILE
        self._file = self._resources.enter_context(AccountsFile(path))
        self._before = self._file.read()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.written()
        self._resources.close()

    def taken(self, team: str) -> Taken:
        """The account of one request of a team."""
        return Taken(self.budget(team), lambda more: self.add(team, more))

    def budget(self, team: str) -> Budget:
        """What a team may spend today, and has."""
        # Those of other days stay: a clock that is set back makes one of them today again.
        at = (self._day(), team)
        budget = self._budgets.get(at)
        if budget is None:
            before = self._before.get(at, Used())
            budget = self._budgets[at] = Budget(self._limit)
            budget.goes_on(before.cost, before.dearest)
        return budget

    def spent_today(self) -> Mapping[str, float]:
        """What each team has spent today, also before a restart, in the currency of the prices."""
        today = self._day()
        before = {team: used.cost for (day, team), used in self._before.items() if day == today}
        now = {team: each.spent for (day, team), each in self._budgets.items() if day == today}
        return before | now

    def add(self, team: str, more: Used) -> None:
        """Note what a team has used; it is written soon."""
        at = (self._day(), team)
        self._unwritten[at] = self._unwritten.get(at, Used()) + more
        self.total[team] = self.total.get(team, Used()) + more
        if self._writing is None or self._writing.done():
            # Not in the context of the request: what is noted outlives it.
            self._writing = asyncio.create_task(self._write(), context=Context())

    async def written(self) -> None:
        """Wait until all that was noted is written, or cannot be."""
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def _write(self) -> None:
        while self._unwritten:
            rows, self._unwritten = self._unwritten, {}
            try:
                await asyncio.to_thread(self._file.add, rows)
            except StoreError as error:
                for day, used in rows.items():
                    self._unwritten[day] = self._unwritten.get(day, Used()) + used
                if not self._failing:
                    self._say(f"accounts are held in memory until they can be written: {error}")
                self._failing = True
                return
            self._failing = False


class Taken(Budget):
    """What one request takes: its team pays, from what it may spend on the day.

    Attributes:
        used: By this request.
    """

    def __init__(self, day: Budget, add: Callable[[Used], None]) -> None:
        super().__init__(day.limit)
        self._whole = day
        self._add = add
        self.used = Used()

    def note(self, **more: float) -> None:
        """Add to what this request and its team have used; the names are those of `Used`."""
        used = Used(**more)  # type: ignore[arg-type]
        self.used += used
        self._add(used)

    @contextlib.asynccontextmanager
    async def turn(self, *, priced: bool) -> AsyncIterator[None]:
        """See `Budget`: requests of a team take turns, as calls of one request do."""
        async with self._whole.turn(priced=priced):
            yield

    @contextlib.contextmanager
    def one_call(
        self, price: Price | None, service: str
    ) -> Iterator[Callable[[Usage], float | None]]:
        """See `Budget`.

        Raises:
            CostLimit: the call could pass the limit of the day.
        """
        with contextlib.ExitStack() as whole:
            try:
                spend = whole.enter_context(self._whole.one_call(price, service))
            except CostLimit as limit:
                spent = f"{self._whole.spent:.4g} of the {self._whole.limit:g} a day"
                raise CostLimit(
                    f"{spent} that this team may spend is spent (max_cost); the next day begins at"
                    " 00:00 UTC",
                    service=service,
                ) from limit

            def both(usage: Usage) -> float | None:
                cost = spend(usage)
                self._note_calls(usage, cost or 0.0)
                return cost

            try:
                yield both
            except (asyncio.CancelledError, OutOfTime):
                # It was sent, and may be charged for: what it cost will not be known.
                self._note_given_up(0.0 if price is None else self._whole.dearest)
                raise
            except ServiceError:
                self.note(failed=1)
                raise

    def _note_given_up(self, cost: float) -> None:
        self._whole.spend(cost)
        self.spent += cost
        self.note(failed=1, cost=cost)

    def count(self, usage: Usage, calls: int = 1) -> None:
        """Note calls that were made and have no price."""
        self._whole.count(usage, calls)
        self._note_calls(usage, 0.0, calls)

    def _note_calls(self, usage: Usage, cost: float, calls: int = 1) -> None:
        super().count(usage, calls)
        self.spent += cost
        self.note(
            calls=calls,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
            cost=cost,
            dearest=cost,
        )


def used_in(folder: Path) -> Mapping[Day, Used]:
    """What teams have used, by day; a service may be writing.

    Raises:
        ConfigError: no service has kept accounts there.
        StoreError: they are damaged.
    """
    path = folder / FILE
    if not path.is_file():
        raise ConfigError(f"{folder}: no Judge service has kept accounts here", "give its --cache")
    with AccountsFile(path, read_only=True) as file:
        return file.read()
