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
from editjudge.base.terminal import print_notice
from editjudge.base.threads import in_thread
from editjudge.service import DimensionSet

from .accounting import AuditLog, Caller, RequestAccount
from .admission import SharedLimit
from .calls import CallCache
from .metrics import Metrics
from .options import ServiceOptions
from .protocols import select_dimensions
from .schemas import InvalidRequest, Protocol, ScoreRequest
from .usage import Meter, TeamUsage, UsageLog

_TEAM = re.compile(f"({NAME})?")
_NAMES = f"letters, digits, . _ - alone, {LONGEST_NAME} at most"


class JudgeService:
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
        self.edits = SharedLimit(options.edits, options.edits_of_one, "edits")
        self.requests = SharedLimit(held, held // 2, "bytes", "body")
        self.streams = SharedLimit(options.streams, options.streams_of_one, "streams")
        self._pixels = SharedLimit(pixels, pixels // 2, "pixels")
        self._usage = UsageLog(options.cache, print_notice)
        self._cache = CallCache(options.cache, shared=options.cache_shared, say=print_notice)
        self.metrics = Metrics(
            edits_in_hand=("Edits that are judged now.", lambda: sum(self.edits.in_use.values())),
            cache_bytes=("Size of what is kept.", self._cache.bytes),
        )
        self._audit = AuditLog(options.audit, self.metrics.audit_lost.inc)
        self._rebind_seconds = rebind_seconds
        self.is_terminating = False
        self.shutdown = asyncio.Event()
        self._resources = contextlib.AsyncExitStack()

    async def __aenter__(self) -> JudgeService:
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

    def announce_end(self) -> None:
        """Say that it is about to end; whoever spreads calls looks elsewhere."""
        self.is_terminating = True

    @contextlib.contextmanager
    def open_account(self, caller: Caller) -> Iterator[RequestAccount]:
        """Account for a request, whatever becomes of it.

        Raises:
            InvalidRequest: the team has no name that one can have.
        """
        if not _TEAM.fullmatch(caller.team):
            raise InvalidRequest("x-team", "this is no name of a team", _NAMES)
        meter = Meter(lambda used: self._note(caller.team, used))
        with RequestAccount(caller, meter, self._close_account) as account:
            yield account

    def _note(self, team: str, used: TeamUsage) -> None:
        self.metrics.add(team, used)
        self._usage.add(team, used)

    def _close_account(self, account: RequestAccount) -> None:
        self.metrics.count(account)
        self._audit.write(account.line)

    @property
    def in_flight(self) -> Mapping[str, int]:
        """Edits that are judged now, by caller."""
        return self.edits.in_use

    async def score(
        self,
        read: Callable[[], Awaitable[ScoreRequest]],
        account: RequestAccount,
        *,
        may_wait: bool = False,
    ) -> Judgement:
        """Judge an edit.

        Args:
            read: Gives what is asked; it is not called before there is a place for it.
            account: The request, entered.
            may_wait: For room, as one of many that came together, instead of being refused.

        Raises:
            InvalidRequest: naming the field of the request that cannot be used.
            Busy: there is no room now.
        """
        caller = account.caller.team
        async with self.edits.acquire(caller, 1, may_wait=may_wait):
            asked = await read()
            known, dimensions = await in_thread(select_dimensions, asked.protocol, asked.dimensions)
            account.dimensions = len(dimensions)
            pixels = await in_thread(asked.edit.pixels)
            async with self._pixels.acquire(caller, pixels, may_wait=may_wait):
                edit = await in_thread(asked.edit.decode, asked.protocol.benchmark == "core")
                await self._make_signatures(
                    known, dimensions
                )  # so that the event loop finds them made
                context = replace(
                    self._cache.for_team(caller),
                    budget=account.meter,
                    terms=account.caller.terms,
                    logs=(account.notes,),
                )
                judgement = await self.client.judge(
                    edit, dimensions, known.by_id, known.signatures, context
                )
        await self._usage.flush()
        return judgement

    async def signatures(
        self, protocol: Protocol, patterns: Iterable[str], account: RequestAccount
    ) -> dict[str, Signature]:
        """The signatures that values by a protocol have now, by dimension id.

        It takes a place, as an edit does.

        Args:
            account: The request, entered.

        Raises:
            InvalidRequest: naming the field of the request that cannot be used.
            Busy: there is no room now.
        """
        account.edits = 0
        async with self.edits.acquire(account.caller.team, 1, may_wait=False):
            known, dimensions = await in_thread(select_dimensions, protocol, patterns)
            account.dimensions = len(dimensions)
            await self.client.panel.probe_judges()
            return await self._make_signatures(known, dimensions)

    async def _make_signatures(
        self, known: DimensionSet, dimensions: Iterable[Dimension]
    ) -> dict[str, Signature]:
        return await in_thread(known.signatures.of, dimensions, self.client.panel.identities())

    async def _rebind(self) -> None:
        while True:
            await asyncio.sleep(self._rebind_seconds)
            try:
                await self.client.panel.rebind()
                await self.client.panel.probe_judges()
            except Exception as error:  # noqa: BLE001 - the next time it may be found again
                print_notice(f"looking for services: {type(error).__name__}: {error}")
