"""The call store of a run that also uses a ledger shared with other runs."""

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
    """Open the call store of a run: its own file, and the ledger of the settings if there is one.

    Args:
        own: The calls in the run's own file.
        path: The path of the shared ledger. None, or the run's own file, means that there is none.
        say: Receives a message if the ledger cannot be used; the run then uses its own file only.
        resources: Closes the shared ledger when it is closed itself.

    Raises:
        ConfigError: the file is no ledger, or cannot be opened.
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
    """A `CallStore` that stores every call in a run's own file and shares it through a ledger.

    A call that the run lacks is looked up in the shared ledger. Its reply is copied into the run at
    cost 0. A new call is committed to the run first and then to the ledger, so a crash between the
    two loses no reply. A call that the run has dropped is made again: the ledger's reply is not
    used, and the new reply replaces it in the ledger.

    After the first error of the ledger, one message is sent and the ledger is not used again in
    this session. Nothing is lost, since the run has every reply.
    """

    def __init__(self, own: Ledger, ledger: Ledger, say: Callable[[str], None]) -> None:
        self._own = own
        self._ledger = ledger
        self._say = say
        self._ledger_lock = asyncio.Lock()
        self._is_unusable = False
        self._dropped_keys: frozenset[str] | None = None

    async def get(self, call: AnyCall) -> Reply | None:
        """Get the reply to a call that this run or another made before; None otherwise."""
        if (reply := await self._own.get(call)) is not None or await self._was_dropped(call.key):
            return reply
        reply = await self._use_ledger(lambda: self._ledger.get(call))
        if reply is None:
            return None
        return await self._own.put(call, replace(reply, cost=None if reply.cost is None else 0.0))

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

    async def put_records(self, records: Iterable[CallRecord]) -> None:
        """Store records of calls that a gateway made for us, in the run only."""
        await self._own.put_records(records)

    async def drop(self, keys: Iterable[str]) -> int:
        """Drop the run's replies to calls, so that these are made again; returns how many."""
        self._dropped_keys = None
        return await self._own.drop(keys)

    async def _was_dropped(self, key: str) -> bool:
        """Whether the run ever dropped a reply to this call, so that the ledger's is not used."""
        if self._dropped_keys is None:
            self._dropped_keys = await self._own.get_dropped_keys()
        return key in self._dropped_keys

    async def _use_ledger(self, work: Callable[[], Awaitable[T]]) -> T | None:
        """Do work with the ledger; return None if the ledger cannot be used any more."""
        # One call at a time, so that only one call waits for a locked file.
        async with self._ledger_lock:
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
    return f"this session no longer uses the ledger (the run stores all replies itself): {why}"
