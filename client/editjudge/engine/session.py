"""One session of a run: what is left is planned, judged and kept, until it is done or ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from pydantic import JsonValue, TypeAdapter

from ..base.config import Settings
from ..base.digest import content_digest
from ..base.errors import ConfigError, first_of
from ..base.identity import Identities, ModelIdentity, ServiceName
from ..panel import Panel, PoolPolicy
from ..panel.budget import Budget
from ..panel.calls import CallStore
from ..panel.transport import MAX_TOKENS
from .contents import VerdictStore
from .header import RunHeader
from .judge import Judges, Opened, Settled, near, unserved
from .order import Order
from .progress import Progress, took
from .runplan import Observed, RunPlan, plan_run
from .scheduler import Ended, Scheduler

T = TypeVar("T")
IDENTITIES = TypeAdapter(dict[ServiceName, ModelIdentity])
HowEnded: TypeAlias = Ended | Literal["interrupted"]
_HOW_ASKED = frozenset(
    {"url", "model", "max_pixels", "max_tokens", "temperature", "seed", "samples", "logprobs"}
)


class Watcher(Protocol):
    """Who shows how far a session is."""

    every: float

    def started(self, progress: Progress, panel: Panel | None) -> None:
        """Judging begins."""

    def tick(self) -> None:
        """Called every `every` seconds."""

    def say(self, line: str) -> None:
        """Something people should know."""


@dataclass
class Finished:
    """A session that is over.

    Attributes:
        ended: Why.
        plan: What was to be judged.
        progress: How far it came.
        not_served: Why dimensions were not judged: each reason with the dimensions.
        usage: What generalists took.
    """

    ended: HowEnded
    plan: RunPlan
    progress: Progress
    not_served: Mapping[str, list[str]] = field(default_factory=dict)
    usage: Mapping[str, float] = field(default_factory=dict)


def planned_as_before(
    observed: Observed, store: VerdictStore, before: RunHeader | None, settings: Settings
) -> RunPlan:
    """What is left to do of a run if the services are those of its last session.

    Args:
        before: The header as that session left it; None at the beginning.
        settings: Where they ask otherwise than that session, nothing that was judged stands.
    """
    same = before is not None and before.settings == asking(settings)
    return plan_run(observed, store, before.identities if before and same else {})


def asking(settings: Settings) -> dict[str, JsonValue]:
    """The settings that decide which judge answers, and how it is asked; without secrets."""
    if settings.gateway is not None:
        return {"gateway": settings.gateway.url, "endpoints": [], "generalists": {}}
    return {
        "endpoints": [endpoint.url for endpoint in settings.endpoints.values()],
        "generalists": {
            # Without a limit they are those of the time when the usual one was the only one.
            name: endpoint.model_dump(mode="json", include=set(_HOW_ASKED))
            | {"max_tokens": endpoint.max_tokens or MAX_TOKENS}
            for name, endpoint in settings.generalists.items()
        },
    }


def services_fact(settings: Settings) -> str:
    """The name under which a ledger knows the services that these settings mean."""
    asked = json.dumps(asking(settings), sort_keys=True)
    return f"services that judged, by {content_digest(asked.encode())}"


def _asked_otherwise(
    before: Mapping[str, JsonValue], now: Mapping[str, JsonValue]
) -> frozenset[ServiceName]:
    """The generalists that have other settings now: earlier identities are not theirs."""
    earlier, later = before.get("generalists"), now["generalists"]
    known = earlier if isinstance(earlier, dict) else {}
    names = later if isinstance(later, dict) else {}
    return frozenset(
        ServiceName.generalist(name) for name in names if names[name] != known.get(name)
    )


class Session:
    """A session of a run.

    Args:
        observed: The items, looked at.
        store: An open run.
        calls: Where its calls are kept.
        watcher: Who is told how far it is.
        opened: Opens its judges.

    Attributes:
        settings: Where services are and how they are asked.
    """

    def __init__(
        self,
        observed: Observed,
        store: VerdictStore,
        calls: CallStore,
        settings: Settings,
        watcher: Watcher,
        opened: Opened = near,
    ) -> None:
        self._opened = opened
        self.order: Order = observed.order
        self._observed = observed
        self._store = store
        self._calls = calls
        self.settings = settings
        self._asking = asking(settings)
        self._watcher = watcher

    def left(self, before: RunHeader | None) -> RunPlan:
        """What is left to do, as yet; see `planned_as_before`."""
        return planned_as_before(self._observed, self._store, before, self.settings)

    def nothing_left(self, plan: RunPlan) -> Finished:
        """The end of a session that has nothing to judge: no service is asked for anything."""
        self._keep_contents(plan)
        return Finished("done", plan, self._progress(plan, Budget()))

    async def judge(self, left: RunPlan, fail_on_error: float | None = None) -> Finished:
        """Judge what is left, until it is done, ended or interrupted.

        Cancelling it cancels what is in flight, and gives what was judged until then; while the
        services are still looked for, it raises `CancelledError` as any task does.

        Args:
            left: From `left`; planned anew where the services are not what they were.

        Raises:
            ConfigError: a service cannot be used as it is configured.
            StoreError: the run cannot be written any more.
        """
        budget = Budget(self.settings.max_cost)
        budget.goes_on(*self._store.costs)
        policy = PoolPolicy(patience=self.settings.patience)
        opened = self._opened(self.settings, self._calls, policy, budget)
        try:
            async with opened as judges, _beside(judges.panel.settle()) as settling:
                plan = await self._planned_with(judges, left, settling)
                progress = await _aside(lambda: self._progress(plan, budget))
                knowing = self._known(plan, judges.panel, progress, settling)
                async with _beside(knowing) as known:
                    return await self._judged(plan, judges, progress, known, fail_on_error)
        except BaseExceptionGroup as several:
            raise first_of(several) from several

    async def _planned_with(
        self, judges: Judges, left: RunPlan, settling: asyncio.Task[None]
    ) -> RunPlan:
        """What is left with the services that there are.

        How generalists answer choices is a part of signatures. Where there are verdicts it decides
        which of them stand, so it is waited for; where there are none, all is left anyway.
        """
        header, panel = self._store.header, judges.panel
        begun = left.total("standing") or await _aside(lambda: len(self._store.counts()))
        if begun:
            await settling
        identities = self._identities(header, panel)
        changed = begun and left.signatures != self.order.signatures(identities)
        plan = left
        waiting = unserved(self._observed.dimensions, panel, here=judges.here)
        if changed or waiting:
            plan = await _aside(lambda: plan_run(self._observed, self._store, identities, waiting))
        self._check_judges(plan, panel)
        return plan

    async def _known(
        self, plan: RunPlan, panel: Panel, progress: Progress, settling: asyncio.Task[None]
    ) -> None:
        """Have the run know who judges it; only then is anything signed, kept or shown."""
        await settling
        header = self._store.header
        identities = self._identities(header, panel)
        plan.signatures = self.order.signatures(identities)
        await self._keep_judges(identities, panel)
        await _aside(lambda: self._keep_contents(plan))
        self._watcher.started(progress, panel)

    async def _keep_judges(self, identities: Identities, panel: Panel) -> None:
        await _aside(lambda: self._amend(self._store.header, identities, panel))
        met = IDENTITIES.dump_json(panel.identities()).decode()
        await self._calls.keep_fact(services_fact(self.settings), met)

    async def _keep_learned(self, plan: RunPlan, panel: Panel) -> None:
        """Keep what was learned of judges only while they judged: it is in what they signed.

        A judge whose first question failed says later how it answers choices. Another model that
        came meanwhile is nothing learned: the next session finds it.
        """
        before = self._store.header.identities
        learned = {
            role: identity
            for role, identity in panel.identities().items()
            if role in before and before[role] != identity and before[role].may_be(identity)
        }
        if learned:
            identities = {**before, **learned}
            plan.signatures = self.order.signatures(identities)
            await self._keep_judges(identities, panel)

    async def _judged(
        self,
        plan: RunPlan,
        judges: Judges,
        progress: Progress,
        known: asyncio.Task[None],
        fail_on_error: float | None,
    ) -> Finished:
        """Judge what a plan says."""
        panel = judges.panel

        async def settled() -> None:
            await asyncio.shield(known)

        scheduler = Scheduler(
            plan,
            judges,
            self._store.keep,
            progress,
            in_flight=_in_flight(plan, self.settings),
            settled=settled,
            fail_on_error=fail_on_error,
            say=self._watcher.say,
        )
        ended: HowEnded
        async with _beside(_ticking(self._watcher, settled)):
            try:
                ended = await scheduler.run()
                await settled()
                await self._tell_altered(panel)
            except asyncio.CancelledError:
                if not known.done():
                    raise
                ended = "interrupted"
        await self._keep_learned(plan, panel)
        not_served = self._not_served(plan, panel)
        return Finished(ended, plan, progress, not_served, took(panel, progress))

    async def _tell_altered(self, panel: Panel) -> None:
        """Say which services are others now than they were at the session's beginning."""
        for line in await panel.altered():
            self._watcher.say(line)

    def _identities(self, header: RunHeader, panel: Panel) -> Identities:
        """Of the services at hand, and of those of earlier sessions that may come again."""
        others = _asked_otherwise(header.settings, self._asking)
        before = {
            role: identity for role, identity in header.identities.items() if role not in others
        }
        return {**before, **panel.identities()}

    def _amend(self, header: RunHeader, identities: Identities, panel: Panel) -> None:
        """Keep which services judge from now on, how they are asked, and which are not there."""
        needed = self.order.roles(d.id for d in self.order.dimensions)
        absent = {role: panel.why_not(role) for role in needed - identities.keys()}
        now = {"identities": identities, "not_served": absent, "settings": self._asking}
        self._store.amend(header.model_copy(update=now))

    def _keep_contents(self, plan: RunPlan) -> None:
        """Keep what items and outputs hold now, so that the next session need not read them."""
        outputs = {**self._store.header.outputs, **self.order.places}
        header = {"data_digest": self.order.dataset.digest, "outputs": outputs}
        self._store.keep_contents(plan.met, plan.contents.news(), header)

    def _progress(self, plan: RunPlan, budget: Budget) -> Progress:
        standing: dict[str, Counter[str]] = {}
        for model, row in self._store.counts(plan.signatures).items():
            for name, counts in row.items() if model in plan.todo else ():
                standing.setdefault(name, Counter()).update(counts)
        return Progress.of(plan, standing, budget)

    def _check_judges(self, plan: RunPlan, panel: Panel) -> None:
        """A judge that was asked for and cannot be used ends the run; a specialist does not."""
        for name in self.settings.generalists:
            role = ServiceName.generalist(name)
            if role not in panel.served and role in self.order.roles(_unserved(plan)):
                raise ConfigError(
                    f"{role} cannot be used: {panel.why_not(role)}",
                    "mend that; editjudge doctor checks it",
                )

    def _not_served(self, plan: RunPlan, panel: Panel) -> dict[str, list[str]]:
        """The dimensions that wait for a service, by the reason, which names the services."""
        computed: dict[str, list[str]] = {}
        roles: dict[str, set[str]] = {}
        waiting: dict[str, dict[str, None]] = {}
        for name in _unserved(plan):
            if lacking := self.order.lacking(name):
                computed.setdefault(lacking, []).append(name)
            for role in sorted(self.order.roles([name]) - panel.served):
                why = panel.why_not(role)
                roles.setdefault(why, set()).add(role)
                waiting.setdefault(why, {})[name] = None
        served = {
            f"{', '.join(sorted(roles[why]))}: {why}": [*names] for why, names in waiting.items()
        }
        return served | computed


def _unserved(plan: RunPlan) -> list[str]:
    """Dimensions of which some edits wait for a service."""
    names = (d.id for d in plan.order.dimensions)
    return [n for n in names if any(row[n]["not_served"] for row in plan.counts.values())]


def _in_flight(plan: RunPlan, settings: Settings) -> int:
    """Enough that no endpoint waits for edits that are loaded or kept meanwhile.

    Beyond the calls that an endpoint takes it is half as many again: so many may wait for their
    place, or for what was judged to be stored. Pictures are bounded by themselves
    (`scheduler.MAX_HELD`).
    """
    decoding = 2 * (os.cpu_count() or 1)
    return decoding + (settings.concurrency + settings.concurrency // 2 if plan.roles else 0)


async def _aside(work: Callable[[], T]) -> T:
    """Do work with the store without holding up the event loop.

    It is waited for also where the caller is cancelled meanwhile: the store must stay open.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Do work beside the block; what is not done when the block ends is cancelled."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _ticking(watcher: Watcher, settled: Settled) -> None:
    """Tick from the beginning on."""
    await settled()
    while True:
        await asyncio.sleep(watcher.every)
        watcher.tick()
