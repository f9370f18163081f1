"""Opens the ledger of the settings, and joins it with the calls in a run's own file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from ..base.config import LedgerPlace, PostgresAddress
from ..base.errors import MissingExtra, StoreError
from ..base.terminal import print_notice
from ..panel.calls import Account, AnyCall, CallRecord, CallStore, Reply
from .ledger import Ledger

if TYPE_CHECKING:
    from .postgres_ledger import PostgresLedger

T = TypeVar("T")
AnyLedger: TypeAlias = "Ledger | PostgresLedger"


def open_ledger(place: LedgerPlace, patience: float, say: Callable[[str], None] = print_notice) -> AnyLedger:
    """Open a ledger; use it as a context manager.

    Args:
        patience: Seconds to wait for the server of a database that was lost.
        say: Receives one line when it is lost.

    Raises:
        MissingExtra: the driver of the database is not installed.
        ConfigError: the file or database is no ledger, or cannot be used.
        StoreError: the file is damaged.
    """
    return Ledger(place) if isinstance(place, Path) else open_database(place, patience, say)


def open_database(place: PostgresAddress, patience: float, say: Callable[[str], None] = print_notice) -> PostgresLedger:
    """Open a ledger in PostgreSQL; see `open_ledger`."""
    try:
        from .postgres import Postgres
        from .postgres_ledger import PostgresLedger
    except ImportError as error:
        raise MissingExtra("a ledger in PostgreSQL", "postgres") from error
    return PostgresLedger(Postgres(place, patience, say))


def open_call_store(
    own: Ledger, place: LedgerPlace | None, patience: float, say: Callable[[str], None], resources: ExitStack
) -> CallStore:
    """Open the call store of a run: its own file, and the ledger of the settings if there is one.

    Args:
        own: The calls in the run's own file.
        place: The shared ledger. None, or the run's own file, means that there is none.
        patience: See `open_ledger`.
        say: Receives a message if the ledger cannot be used; the run then uses its own file only.
        resources: Closes the shared ledger when it is closed itself.

    Raises:
        MissingExtra: the driver of the database is not installed.
        ConfigError: it is no ledger, or cannot be opened.
    """
    if place is None:
        return own
    if isinstance(place, Path) and own.path is not None and place.resolve() == own.path.resolve():
        return own
    try:
        ledger = open_ledger(place, patience, say)
    except StoreError as error:
        say(_abandonment_notice(str(place), error))
        return own
    resources.callback(ledger.close)
    return SharedCalls(own, ledger, say)


class SharedCalls(CallStore):
    """A `CallStore` that stores every call in a run's own file and shares it through a ledger.

    A call that the run lacks is looked up in the shared ledger. Its reply is copied into the run at
    cost 0. A new call is committed to the run first and then to the ledger, so a crash between the
    two loses no reply. A call that the run has dropped is made again: the ledger's reply is not
    used, and the new reply replaces it in the ledger.

    After the first error of the ledger, one message is sent and the ledger is not used again in
    this session. Nothing is lost, since the run has every reply.

    Attributes:
        dropped_keys: The calls that are made again; None before they were read from the run.
    """

    def __init__(self, own: Ledger, ledger: AnyLedger, say: Callable[[str], None]) -> None:
        self._own = own
        self._ledger = ledger
        self._say = say
        # One call at a time, so that only one call waits for a locked file.
        self._turn = asyncio.Lock() if ledger.needs_turns else nullcontext()
        self._is_unusable = False
        self.dropped_keys: frozenset[str] | None = None

    @property
    def repeated_count(self) -> int:  # type: ignore[override]
        """How many replies came when the ledger had one."""
        return self._ledger.repeated_count

    async def get(self, call: AnyCall) -> Reply | None:
        """Get the reply to a call that this run or another made before; None otherwise."""
        async with self.claim(call) as reply:
            return reply

    @asynccontextmanager
    async def claim(self, call: AnyCall) -> AsyncIterator[Reply | None]:
        """Get a stored reply, or None for who is to make the call; see `CallStore`."""
        if (reply := await self._own.get(call)) is not None or await self._was_dropped(call.key):
            yield reply
            return
        async with AsyncExitStack() as claims:
            reply = await self._use_ledger(lambda: claims.enter_async_context(self._ledger.claim(call)))
            if reply is not None:
                cost = None if reply.cost is None else 0.0
                reply = await self._own.put(call, replace(reply, cost=cost))
            yield reply

    async def put(self, call: AnyCall, reply: Reply) -> Reply:
        """Store a reply; the first reply to a call stays, unless it was dropped."""
        stored_reply = await self._own.put(call, reply)
        if await self._was_dropped(call.key):
            await self._use_ledger(lambda: self._ledger.drop([call.key]))
        await self._use_ledger(lambda: self._ledger.put(call, reply))
        return stored_reply

    async def get_records(self, keys: Iterable[str]) -> Mapping[str, CallRecord]:
        """Get the records of the run's calls, by key."""
        return await self._own.get_records(keys)

    async def get_fact(self, name: str) -> str | None:
        """Get a fact about a service that this run or another stored before; None otherwise."""
        if (own_value := await self._own.get_fact(name)) is not None:
            return own_value
        if (fact := await self._use_ledger(lambda: self._ledger.get_fact(name))) is not None:
            await self._own.put_fact(name, fact)
        return fact

    async def put_fact(self, name: str, value: str) -> None:
        """Store a fact about a service in both files; it replaces an earlier one of that name."""
        await self._own.put_fact(name, value)
        await self._use_ledger(lambda: self._ledger.put_fact(name, value))

    def open_account(self, budget: str) -> Account | None:
        """Open the account of a budget in the shared ledger."""
        return self._ledger.open_account(budget)

    async def put_records(self, records: Iterable[CallRecord]) -> None:
        """Store records of calls that a gateway made for us, in the run only."""
        await self._own.put_records(records)

    async def drop(self, keys: Iterable[str]) -> int:
        """Drop the run's replies to calls, so that these are made again; returns how many."""
        self.dropped_keys = None
        return await self._own.drop(keys)

    async def _was_dropped(self, key: str) -> bool:
        """Whether the run ever dropped a reply to this call, so that the ledger's is not used."""
        if self.dropped_keys is None:
            self.dropped_keys = await self._own.get_dropped_keys()
        return key in self.dropped_keys

    async def _use_ledger(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Do work with the ledger; return None if the ledger cannot be used any more."""
        async with self._turn:
            if self._is_unusable:
                return None
            try:
                return await work()
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the run is not
                if not self._is_unusable:
                    self._say(_abandonment_notice(self._ledger.where, error))
                self._is_unusable = True
                return None


def _abandonment_notice(where: str, error: Exception) -> str:
    why = str(error) if where in str(error) else f"{where}: {error}"
    return f"this session no longer uses the ledger (the run stores all replies itself): {why}"
