"""Judging for many callers on one panel: what both protocols stand on."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from editjudge import Client, Dimension, Judgement
from editjudge.base.config import Settings
from editjudge.base.contracts import LONGEST_NAME, NAME
from editjudge.base.signature import Signature
from editjudge.base.terminal import tell
from editjudge.base.threads import in_thread
from editjudge.service import DimensionSet

from .accounting import Asking, Audit, Caller
from .admission import Shared
from .calls import CallCache
from .metrics import Metrics
from .options import ServiceOptions
from .protocols import chosen
from .schemas import Protocol, ScoreAsked, Unusable
from .usage import Meter, UsageLog, Used

_TEAM = re.compile(f"({NAME})?")
_NAMES = f"letters, digits, . _ - alone, {LONGEST_NAME} at most"


class Judging:
    """Judges edits for callers; use as an async context manager.

    Args:
        settings: Where the services are.
        rebind_seconds: After which services that came or went are looked for again.
        options: Its bounds, and what outlives it.

    Attributes:
        client: The client that judges.
        edits: Judged now, by caller.
        requests: Bytes of the requests that are held, by caller.
        streams: Open now, by caller.
        metrics: For Prometheus.
        ending: It is about to end: it answers, and says so to who asks for its health.
        over: Set when it takes nothing more; what is in flight is finished.
    """

    def __init__(
        self,
        settings: Settings,
        options: ServiceOptions | None = None,
        rebind_seconds: float = 15.0,
    ) -> None:
        options = options or ServiceOptions()
        # It is the Judge service: it asks no other one.
        alone = {"gateway": None, "ledger": None, "max_cost": None}
        self.client = Client(settings.model_copy(update=alone))
        held, pixels = options.held_bytes, options.pixels
        self.edits = Shared(options.edits, options.edits_of_one, "edits")
        self.requests = Shared(held, held // 2, "bytes", "body")
        self.streams = Shared(options.streams, options.streams_of_one, "streams")
        self._pixels = Shared(pixels, pixels // 2, "pixels")
        self._usage = UsageLog(options.cache, tell)
        self._cache = CallCache(options.cache, shared=options.cache_shared, say=tell)
        self.metrics = Metrics(
            edits_in_hand=("Edits that are judged now.", lambda: sum(self.edits.taken.values())),
            cache_bytes=("Size of what is kept.", self._cache.bytes),
        )
        self._audit = Audit(options.audit, self.metrics.audit_lost.inc)
        self._rebind_seconds = rebind_seconds
        self.ending = False
        self.over = asyncio.Event()
        self._resources = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Judging:
        async with contextlib.AsyncExitStack() as resources:
            await resources.enter_async_context(self._cache)
            await resources.enter_async_context(self._usage.open())
            await resources.enter_async_context(self.client)
            self._resources = resources.pop_all()
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

    @contextlib.contextmanager
    def asking(self, caller: Caller) -> Iterator[Asking]:
        """Account for a request, whatever becomes of it.

        Raises:
            Unusable: the team has no name that one can have.
        """
        if not _TEAM.fullmatch(caller.team):
            raise Unusable("x-team", "this is no name of a team", _NAMES)
        meter = Meter(lambda used: self._note(caller.team, used))
        with Asking(caller, meter, self._ended) as asking:
            yield asking

    def _note(self, team: str, used: Used) -> None:
        self.metrics.add(team, used)
        self._usage.add(team, used)

    def _ended(self, asking: Asking) -> None:
        self.metrics.count(asking)
        self._audit.write(asking.line)

    @property
    def in_flight(self) -> Mapping[str, int]:
        """Edits that are judged now, by caller."""
        return self.edits.taken

    async def score(
        self, read: Callable[[], Awaitable[ScoreAsked]], asking: Asking, *, waits: bool = False
    ) -> Judgement:
        """Judge an edit.

        Args:
            read: Gives what is asked; it is not called before there is a place for it.
            asking: The request, entered.
            waits: For room, as one of many that came together, instead of being refused.

        Raises:
            Unusable: naming the field of the request that cannot be used.
            Busy: there is no room now.
        """
        caller = asking.caller.team
        async with self.edits.taking(caller, 1, waits=waits):
            asked = await read()
            known, dimensions = await in_thread(chosen, asked.protocol, asked.dimensions)
            asking.dimensions = len(dimensions)
            pixels = await in_thread(asked.edit.pixels)
            async with self._pixels.taking(caller, pixels, waits=waits):
                edit = await in_thread(asked.edit.edit, asked.protocol.benchmark == "core")
                await self._signed(known, dimensions)  # so that the event loop finds them made
                context = replace(
                    self._cache.of(caller),
                    budget=asking.meter,
                    terms=asking.caller.terms,
                    notes=(asking.notes,),
                )
                judgement = await self.client.judge(
                    edit, dimensions, known.known, known.signatures, context
                )
        await self._usage.written()
        return judgement

    async def signatures(
        self, protocol: Protocol, patterns: Iterable[str], asking: Asking
    ) -> dict[str, Signature]:
        """The signatures that values by a protocol have now, by dimension id.

        It takes a place, as an edit does.

        Args:
            asking: The request, entered.

        Raises:
            Unusable: naming the field of the request that cannot be used.
            Busy: there is no room now.
        """
        asking.edits = 0
        async with self.edits.taking(asking.caller.team, 1, waits=False):
            known, dimensions = await in_thread(chosen, protocol, patterns)
            asking.dimensions = len(dimensions)
            await self.client.panel.settle()
            return await self._signed(known, dimensions)

    async def _signed(
        self, known: DimensionSet, dimensions: Iterable[Dimension]
    ) -> dict[str, Signature]:
        return await in_thread(known.signatures.of, dimensions, self.client.panel.identities())

    async def _rebind(self) -> None:
        while True:
            await asyncio.sleep(self._rebind_seconds)
            try:
                await self.client.panel.rebind()
                await self.client.panel.settle()
            except Exception as error:  # noqa: BLE001 - the next time it may be found again
                tell(f"looking for services: {type(error).__name__}: {error}")
