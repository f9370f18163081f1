"""A run's calls, read through a ledger that many runs share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ..base.errors import StoreError
from ..panel.calls import AnyCall, CallRecord, CallStore, Reply
from .ledger import Ledger

T = TypeVar("T")


def open_call_store(
    own: Ledger, path: Path | None, say: Callable[[str], None], resources: ExitStack
) -> CallStore:
    """Where a run's calls are kept: in its own file, and in the ledger of the settings with it.

    Args:
        path: Of that ledger; None, or the run's own file, for none.
        say: Told where it cannot be used; the run goes on with its own file then.
        resources: Closes it.

    Raises:
        ConfigError: it is no ledger, or cannot be opened where it is said to be.
    """
    if path is None or (own.path is not None and path.resolve() == own.path.resolve()):
        return own
    try:
        ledger = resources.enter_context(Ledger(path))
    except StoreError as error:
        say(_abandonment_notice(path, error))
        return own
    return SharedCalls(own, ledger, say)


class SharedCalls:
    """A `CallStore` that keeps every call in a run's own file, and shares it with others.

    A call that the run lacks is looked up in the shared ledger and copied into the run, where it
    cost nothing; a call that is made is written to the run first, then to the ledger. What a run
    has dropped is asked anew: the ledger's reply is not taken, and the new one stands in its place.

    Whatever goes wrong with the ledger is told once, and it is left alone from then on: a reply
    that was paid for is in the run.
    """

    def __init__(self, own: Ledger, ledger: Ledger, say: Callable[[str], None]) -> None:
        self._own = own
        self._ledger = ledger
        self._say = say
        self._turn = asyncio.Lock()
        self._is_unusable = False
        self._dropped_keys: frozenset[str] | None = None

    async def get(self, call: AnyCall) -> Reply | None:
        """The reply to a call that was made before, by this run or another; None otherwise."""
        if (own_reply := await self._own.get(call)) is not None or await self._asks_anew(call.key):
            return own_reply
        reply = await self._use_ledger(lambda: self._ledger.get(call))
        if reply is None:
            return None
        return await self._own.put(call, replace(reply, cost=None if reply.cost is None else 0.0))

    async def put(self, call: AnyCall, reply: Reply) -> Reply:
        """Keep a reply; the first one for a call stays, but for one that was dropped."""
        stored_reply = await self._own.put(call, reply)
        if await self._asks_anew(call.key):
            await self._use_ledger(lambda: self._ledger.drop([call.key]))
        await self._use_ledger(lambda: self._ledger.put(call, reply))
        return stored_reply

    async def get_records(self, keys: Iterable[str]) -> Mapping[str, CallRecord]:
        """What came back from calls, by key, of those of the run."""
        return await self._own.get_records(keys)

    async def get_fact(self, name: str) -> str | None:
        """Something found out about a service before, by this run or another; None otherwise."""
        if (own_value := await self._own.get_fact(name)) is not None:
            return own_value
        if (fact := await self._use_ledger(lambda: self._ledger.get_fact(name))) is not None:
            await self._own.put_fact(name, fact)
        return fact

    async def put_fact(self, name: str, value: str) -> None:
        """Keep what was found out; the last stays."""
        await self._own.put_fact(name, value)
        await self._use_ledger(lambda: self._ledger.put_fact(name, value))

    async def put_records(self, records: Iterable[CallRecord]) -> None:
        """Keep what judges said to others who asked for us, in the run alone."""
        await self._own.put_records(records)

    async def drop(self, keys: Iterable[str]) -> int:
        """Forget the run's replies, so that the calls are made again; returns how many."""
        self._dropped_keys = None
        return await self._own.drop(keys)

    async def _asks_anew(self, key: str) -> bool:
        """Whether the run has dropped its reply, and has no other yet."""
        if self._dropped_keys is None:
            self._dropped_keys = await self._own.get_dropped_keys()
        return key in self._dropped_keys

    async def _use_ledger(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """What the ledger says; None where it cannot be used any more."""
        # One after another, so that a file that is locked is waited for once, not by every call.
        async with self._turn:
            if self._is_unusable:
                return None
            try:
                return await work()
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the run is not
                self._is_unusable = True
                self._say(_abandonment_notice(self._ledger.path, error))
                return None


def _abandonment_notice(path: Path | None, error: Exception) -> str:
    why = str(error) if str(path) in str(error) else f"{path}: {error}"
    return f"the ledger is left alone in this session, the run has its own calls: {why}"
