"""Judging for many callers on one panel: what both protocols stand on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping

from ..app.client import Client
from ..base.config import Settings
from ..base.screen import tell
from ..base.signature import Signature
from ..engine.judge import Judgement
from ..panel.budget import Budget
from .asked import Asked
from .protocols import Protocol
from .room import Room, Shared


class Judging:
    """Judges edits for callers; use as an async context manager.

    Args:
        settings: Where the services are.
        room: What callers share.
        rebind_seconds: After which services that came or went are looked for again.

    Attributes:
        client: The client that judges.
        edits: Judged now, by caller.
        requests: Bytes of the requests that are held, by caller.
        ending: It is about to end: it answers, and says so to who asks for its health.
    """

    def __init__(
        self, settings: Settings, room: Room | None = None, rebind_seconds: float = 15.0
    ) -> None:
        # It is the Judge service: it asks no other one.
        self.client = Client(settings.model_copy(update={"gateway": None}))
        self.room = room or Room()
        room = self.room
        self.edits = Shared(room.edits, room.edits_of_one, "edits")
        self.requests = Shared(room.held_bytes, room.held_bytes // 2, "bytes", "body")
        self._pixels = Shared(room.pixels, room.pixels // 2, "pixels")
        self._budgets: dict[str, Budget] = {}
        self._rebind_seconds = rebind_seconds
        self.ending = False
        self._resources = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Judging:
        await self._resources.enter_async_context(self.client)
        rebinding = asyncio.create_task(self._rebind())

        async def stop() -> None:
            rebinding.cancel()
            await asyncio.gather(rebinding, return_exceptions=True)

        self._resources.push_async_callback(stop)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._resources.aclose()

    def end(self) -> None:
        """Say that it is about to end; whoever spreads calls looks elsewhere."""
        self.ending = True

    def usage(self) -> Mapping[str, Budget]:
        """What each caller has taken."""
        return dict(self._budgets)

    @property
    def in_flight(self) -> Mapping[str, int]:
        """Edits that are judged now, by caller."""
        return self.edits.taken

    async def score(
        self, read: Callable[[], Awaitable[Asked]], caller: str, *, waits: bool = False
    ) -> Judgement:
        """Judge an edit.

        Args:
            read: Gives what is asked; it is not called before there is a place for it.
            caller: Who asks, for limits and accounts; "" where nobody says.
            waits: For room, as one of many that came together, instead of being refused.

        Raises:
            Unusable: naming the field of the request that cannot be used.
            Busy: there is no room now.
        """
        async with self.edits.taking(caller, 1, waits=waits):
            asked = await read()
            meaning = await asyncio.to_thread(asked.protocol.meaning)
            dimensions = await asyncio.to_thread(meaning.chosen, asked.dimensions)
            pixels = await asyncio.to_thread(asked.pixels)
            async with self._pixels.taking(caller, pixels, waits=waits):
                edit = await asked.edit()
                budget = self._budgets.setdefault(caller, Budget(self.room.max_cost))
                return await self.client.judge(
                    edit, dimensions, meaning.known, meaning.signatures, budget
                )

    async def signatures(self, protocol: Protocol, patterns: Iterable[str]) -> dict[str, Signature]:
        """The signatures that values by a protocol have now, by dimension id.

        Raises:
            Unusable: naming the field of the request that cannot be used.
        """
        meaning = await asyncio.to_thread(protocol.meaning)
        dimensions = await asyncio.to_thread(meaning.chosen, patterns)
        await self.client.panel.settle()
        return meaning.signatures.of(dimensions, self.client.panel.identities())

    async def _rebind(self) -> None:
        while True:
            await asyncio.sleep(self._rebind_seconds)
            try:
                await self.client.panel.rebind()
                await self.client.panel.settle()
            except Exception as error:  # noqa: BLE001 - the next time it may be found again
                tell(f"looking for services: {type(error).__name__}: {error}")
