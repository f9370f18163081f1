"""The Judge service without its transport, which the gRPC and the HTTP server share."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from editjudge import Client, Dimension, Judgement
from editjudge.base.config import Settings
from editjudge.base.contracts import LONGEST_NAME, NAME
from editjudge.base.identity import ServiceName
from editjudge.base.images import Image
from editjudge.base.item import Edit
from editjudge.base.signature import Signature
from editjudge.base.terminal import print_notice
from editjudge.base.threads import FairThreads, in_thread
from editjudge.base.verdict import NotServed
from editjudge.rewards.config import RewardConfig
from editjudge.rewards.reward import JudgeWatch
from editjudge.service import DimensionSet, Judge, computes_pixels, find_lazy_limit, sort_by_dependency

from .accounting import Caller, RequestAccount
from .admission import (
    INVALID_REQUESTS,
    LISTED_OF_REQUEST,
    MAX_CALLS,
    NEW_OF_REQUEST,
    PARTS_OF_REQUEST,
    FairLock,
    SharedLimit,
    SharedRate,
)
from .audit import AuditLog
from .calls import DAY_SECONDS, CallCache
from .metrics import Metrics
from .options import ServiceOptions
from .protocols import is_in_memory, list_dimensions, load_dimensions, select_dimensions
from .retention import purge
from .schemas import InvalidRequest, Protocol, ScoreRequest, ServedDimension, drop_hints
from .token_reports import Debt, TokenReport
from .usage import Meter, TeamUsage, UsageLog

_DELETION_SECONDS = 3600.0
"""The interval at which what is old is deleted."""
_REFUSALS_SECONDS = 60.0
"""The time for which equal refusals have one line in the audit log, after the first's."""
Selection = tuple[DimensionSet, Sequence[Dimension], Sequence[Dimension]]
"""All dimensions of a protocol, those that a request names, and these with all that they derive from."""
_Inspection = tuple[Sequence[Judge], int, Mapping[str, Image], int]
"""The judges that see the pictures of a request; the most pixels of a picture that stays encoded; the
images that do, by their paths in the request; how many pixels are decoded."""
_TEAM = re.compile(f"({NAME})?")
_TEAM_FIX = f"use letters, digits, . _ - alone, {LONGEST_NAME} at most"


class JudgeService:
    """Judges the edits of many callers with one panel of judges and specialists.

    It is an async context manager.

    Overload: edits in flight, bytes of requests, streams and decoded pixels are limited, so that no
    caller can take them all (`SharedLimit`). A request without room waits until its deadline, or 30
    seconds, and fails with `NoCapacity`; the edits of a batch or a stream wait as long as it takes.
    At servers and at threads teams take turns (`FairQueue`).

    Cancellation: when a request is cancelled, so are its calls to judges and specialists, unless
    other requests wait for them. Their cost so far is counted, and replies that have arrived
    are stored.

    Restart: with a cache folder, replies and usage survive a restart. A repeated request then pays
    only for the calls without a stored reply.

    Args:
        settings: The addresses of judges and specialists.
        options: The limits, and the paths of the cache and the audit log.
        discovery_seconds: The interval at which new and lost services are discovered.

    Attributes:
        client: The client that judges.
        calls: The limit on calls of any kind that are open, those that wait for room included.
        edits: The limit on edits in flight.
        rate: The limit on requests of each caller in a second.
        requests: The limit on bytes of requests in memory.
        streams: The limit on open streams.
        reward_config: The rewards for trainers, if any are served.
        reward_watch: Looks whether the judges of rewards have changed.
        connection_age: Seconds, about, after which a caller's connection is closed when its calls
            have ended, so that callers find the replicas that came since.
        metrics: The Prometheus metrics.
        is_terminating: Whether the service is draining. Requests are still accepted, but health
            checks fail, so that load balancers use other replicas.
        shutdown: Set when no more requests are accepted. Requests in flight still finish.
    """

    def __init__(
        self, settings: Settings, options: ServiceOptions | None = None, discovery_seconds: float = 15.0
    ) -> None:
        self._options = options = options or ServiceOptions()
        # A Judge service must not call another one, nor itself.
        changes = {"gateway": None, "ledger": None, "max_cost": None, "budget": None}
        self.client = Client(settings.model_copy(update=changes))
        self.edits = SharedLimit(options.edits, "edits")
        self.calls = SharedLimit(MAX_CALLS, "calls")
        self.rate = SharedRate(options.rate, options.rate / 4, "requests")
        self._resolving = FairLock()
        self.requests = SharedLimit(options.held_bytes, "bytes", "body")
        self.streams = SharedLimit(options.streams, "streams")
        self._pixels = SharedLimit(options.pixels, "pixels")
        self._usage = UsageLog(options.cache, print_notice)
        self._cache = CallCache(options.cache, is_shared=options.cache_shared, say=print_notice)
        self.metrics = Metrics(
            edits_in_hand=("Edits in flight.", lambda: sum(self.edits.in_use.values())),
            reward_check_age_seconds=("Time since the judges rated the canaries.", lambda: self.reward_watch.age),
            cache_bytes=("Size of the cache folder on disk.", self._cache.bytes),
        )
        self.reward_watch = JudgeWatch()
        self.reward_config = RewardConfig.load(options.reward) if options.reward else None
        self._debts: defaultdict[str, Debt] = defaultdict(Debt)
        self._audit = AuditLog(options.audit, self.metrics.audit_lost.inc)
        self._discovery_seconds = discovery_seconds
        self.connection_age = settings.connection_age
        self.is_terminating = False
        self.shutdown = asyncio.Event()
        self._resources = contextlib.AsyncExitStack()

    async def __aenter__(self) -> JudgeService:
        asyncio.get_running_loop().set_default_executor(FairThreads())
        async with contextlib.AsyncExitStack() as resources:
            await resources.enter_async_context(self._cache)
            await resources.enter_async_context(self._usage.open())
            await resources.enter_async_context(self.client)
            self._resources = resources.pop_all()
        upkeep = asyncio.gather(self._discover_services(), self._delete_old(), self._flush_audit())

        async def stop() -> None:
            upkeep.cancel()
            await asyncio.gather(upkeep, return_exceptions=True)
            self._audit.flush()

        self._resources.push_async_callback(stop)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._resources.aclose()

    @contextlib.contextmanager
    def open_account(self, caller: Caller, report: TokenReport | None = None) -> Iterator[RequestAccount]:
        """Open the account of a request; leaving the block closes it, also after an error.

        Args:
            report: The report of its tokens; None where its answer has none.

        Raises:
            InvalidRequest: the name of the team is not valid.
        """
        if not _TEAM.fullmatch(caller.team):
            raise InvalidRequest("x-team", "this is not a valid team name", _TEAM_FIX)
        report = report or TokenReport(Debt())
        meter = Meter(lambda usage: self._add_usage(caller.team, usage), report.add)
        with RequestAccount(caller, meter, report, self._close_account) as account:
            yield account

    def open_report(self, caller: Caller) -> TokenReport:
        """Open the report of the tokens of a request, to be closed when its answer has arrived."""
        return TokenReport(self._debts[caller.team] if caller.is_counted else Debt())

    def _add_usage(self, team: str, usage: TeamUsage) -> None:
        self.metrics.add(team, usage)
        self._usage.add(team, usage)

    def _close_account(self, account: RequestAccount) -> None:
        self.metrics.count(account)
        caller = account.caller
        if account.code == "INVALID_ARGUMENT":
            self.rate.charge(caller.owner, INVALID_REQUESTS - 1)
        if account.is_refusal:
            kind = caller.team, caller.method, account.code
            self._audit.count(kind, account.make_audit_line)
        else:
            self._audit.write(account.make_audit_line)

    async def score(
        self, read: Callable[[], Awaitable[ScoreRequest]], account: RequestAccount, selection: Selection | None = None
    ) -> Judgement:
        """Judge an edit.

        Args:
            read: Reads the request. It is called after the edit is admitted.
            account: The open account of the request.
            selection: What its protocol and dimensions mean, where it is known.

        Raises:
            InvalidRequest: naming the field of the request that cannot be used.
            NoCapacity: there was no room in time.
        """
        caller, until = account.caller.team, account.caller.waits_until
        async with self.edits.acquire(caller, 1, until):
            request = await read()
            own_selection = await self._select(request.protocol, request.dimensions, account, selection)
            dimension_set, dimensions, _ = own_selection
            judges = dict(self.client.panel.judges)

            def prepare(inspection: _Inspection) -> Edit:
                # Computed in a thread, so that the event loop finds all of it in caches.
                own_judges, max_lazy_pixels, encoded_images, _ = inspection
                dimension_set.signatures.of(dimensions, self.client.panel.identities())
                edit = request.edit.decode(request.protocol.benchmark == "core", encoded_images, max_lazy_pixels)
                images = filter(None, (*edit.item.sources, edit.item.target, edit.image))
                for judge, image in product(own_judges, images):
                    judge.prepare_picture(image)
                return edit

            def begin() -> tuple[_Inspection, Edit | None]:
                inspection = _inspect(request, own_selection, judges)
                return inspection, None if inspection[-1] else prepare(inspection)

            inspection, edit = await in_thread(begin)
            async with contextlib.AsyncExitStack() as room:
                if edit is None:  # its pictures are decoded when there is room
                    hold = self._pixels.acquire(caller, inspection[-1], until)
                    await room.enter_async_context(hold)
                    edit = await in_thread(prepare, inspection)
                context = replace(
                    self._cache.for_team(caller),
                    budget=account.meter,
                    terms=account.caller.terms,
                    logs=(account.call_log,),
                )
                account.report.check()
                judgement = await self.client.judge(
                    edit, dimensions, dimension_set.by_id, dimension_set.signatures, context
                )
        await self._usage.flush()
        outcomes = {
            name: outcome.model_copy(update={"reason": drop_hints(outcome.reason)})
            if isinstance(outcome, NotServed)
            else outcome
            for name, outcome in judgement.outcomes.items()
        }
        return replace(judgement, outcomes=outcomes)

    async def _select(
        self, protocol: Protocol, names: Iterable[str], account: RequestAccount, selection: Selection | None = None
    ) -> Selection:
        """Resolve a protocol and the dimensions that a request names, at its team's expense.

        A protocol that is not in memory takes up to a second of Python's lock: they are made one
        after another, by turns of teams, and each when its team is not in debt for those before.
        """
        caller = account.caller
        while selection is None and (selection := await in_thread(_select_in_memory, protocol, names)) is None:
            await self.rate.wait(caller.owner, 0.0, caller.waits_until)
            async with self._resolving:
                if self.rate.is_in_debt(caller.owner):  # another of its own came first
                    continue
                new_set = await in_thread(load_dimensions, protocol)
                self.rate.charge(caller.owner, len(new_set.by_id) / NEW_OF_REQUEST)
                selection = await in_thread(_resolve, protocol, names)
                identities = self.client.panel.identities()
                await in_thread(new_set.signatures.of, selection[1], identities)
                break
        else:
            await self.rate.wait(caller.owner, len(selection[2]) / PARTS_OF_REQUEST, caller.waits_until)
        account.dimensions = len(selection[1])
        return selection

    async def list_dimensions(self, patterns: Iterable[str], field: str, caller: Caller) -> list[ServedDimension]:
        """List the dimensions that ids and globs name; all without any.

        It counts as an invalid request until its patterns are known to match: also where its caller
        does not wait for the answer.

        Raises:
            InvalidRequest: an id or glob matches no dimension.
        """
        self.rate.charge(caller.owner, INVALID_REQUESTS - 1)
        dimensions = await in_thread(list_dimensions, patterns, field)
        requests = len(dimensions) / LISTED_OF_REQUEST
        self.rate.charge(caller.owner, requests - (INVALID_REQUESTS - 1))
        available = frozenset(map(str, self.client.panel.service_names))
        return await in_thread(ServedDimension.list_served, dimensions, available)

    async def make_signatures(
        self, protocol: Protocol, patterns: Iterable[str], account: RequestAccount
    ) -> dict[str, Signature]:
        """Return the current signatures of dimensions under a protocol, by dimension id.

        A signature states all that a value depends on; see `Signature`. The request counts as an
        edit in flight.

        Args:
            patterns: Ids or globs of dimensions.
            account: The open account of the request.

        Raises:
            InvalidRequest: naming the field of the request that cannot be used.
            NoCapacity: there was no room in time.
        """
        account.edits = 0
        caller = account.caller
        async with self.edits.acquire(caller.team, 1, caller.waits_until):
            dimension_set, dimensions, _ = await self._select(protocol, patterns, account)
            await self.client.panel.probe_judges()
            identities = self.client.panel.identities()
            return await in_thread(dimension_set.signatures.of, dimensions, identities)

    async def _discover_services(self) -> None:
        while True:
            await asyncio.sleep(self._discovery_seconds)
            try:
                await self._cache.forget(self._options.keep_days)
                self.rate.forget()
                await self.client.panel.rebind()
                await self.client.panel.probe_judges()
            except Exception as error:  # noqa: BLE001 - the next discovery may succeed
                print_notice(f"services could not be discovered: {type(error).__name__}: {error}")

    async def _flush_audit(self) -> None:
        while True:
            await asyncio.sleep(_REFUSALS_SECONDS)
            self._audit.flush()

    async def _delete_old(self) -> None:
        logs = [] if self._audit.file is None else [self._audit.file]
        while self._options.keep_days:
            before = time.time() - self._options.keep_days * DAY_SECONDS
            try:
                await purge(self._options.cache, logs, None, before)
            except Exception as error:  # noqa: BLE001 - the next attempt may succeed
                print_notice(f"what is old could not be deleted: {type(error).__name__}: {error}")
            await asyncio.sleep(_DELETION_SECONDS)


def _select_in_memory(protocol: Protocol, names: Iterable[str]) -> Selection | None:
    return _resolve(protocol, names) if is_in_memory(protocol) else None


def _resolve(protocol: Protocol, names: Iterable[str]) -> Selection:
    dimension_set, dimensions = select_dimensions(protocol, names)
    return dimension_set, dimensions, sort_by_dependency(dimensions, dimension_set.by_id)


def _inspect(request: ScoreRequest, selection: Selection, judges: Mapping[ServiceName, Judge]) -> _Inspection:
    """What is known of a request before any picture is decoded."""
    dimension_set, dimensions, parts = selection
    roles = {role for part in parts for role in part.roles}
    own = [judges[role] for role in roles & judges.keys()]
    reads_pixels = any(computes_pixels(each, dimension_set.by_id) for each in dimensions)
    limit = find_lazy_limit(own, reads_pixels=reads_pixels)
    encoded_images = request.edit.leave_encoded(limit)
    pixels = request.edit.count_pixels(encoded_images)
    return own, limit, encoded_images, pixels
