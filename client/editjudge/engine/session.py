"""One session of a run: what is left is planned, judged and kept, until it is done or ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from pydantic import JsonValue

from ..base.config import Settings
from ..base.errors import ConfigError, ServiceError
from ..base.identity import Identities, ServiceName
from ..panel import Panel, PoolPolicy
from ..panel.budget import Budget
from ..panel.transport import MAX_TOKENS
from .header import RunHeader
from .keeping import JudgedEdit, VerdictStore
from .order import Order
from .progress import Progress, took
from .runplan import Observed, RunPlan, plan_run
from .scheduler import Ended, Scheduler, jobs

HowEnded: TypeAlias = Ended | Literal["interrupted"]
_HOW_ASKED = frozenset(
    {"url", "model", "max_pixels", "max_tokens", "temperature", "seed", "repeats", "logprobs"}
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


def planned(
    observed: Observed,
    store: VerdictStore,
    identities: Identities,
    served: frozenset[str] | None = None,
) -> RunPlan:
    """What is left to do of a run; see `plan_run`."""
    return plan_run(observed, store, identities, served, store.looked)


def planned_as_before(
    observed: Observed, store: VerdictStore, before: RunHeader | None, settings: Settings
) -> RunPlan:
    """What is left to do of a run if the services are those of its last session.

    Args:
        before: The header as that session left it; None at the beginning.
        settings: Where they ask otherwise than that session, nothing that was judged stands.
    """
    same = before is not None and before.settings == asking(settings)
    return planned(observed, store, before.identities if before and same else {})


def asking(settings: Settings) -> dict[str, JsonValue]:
    """The settings that decide which judge answers, and how it is asked; without secrets."""
    return {
        "endpoints": [endpoint.url for endpoint in settings.endpoints.values()],
        "generalists": {
            # Without a limit they are those of the time when the usual one was the only one.
            name: endpoint.model_dump(mode="json", include=set(_HOW_ASKED))
            | {"max_tokens": endpoint.max_tokens or MAX_TOKENS}
            for name, endpoint in settings.generalists.items()
        },
    }


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
        watcher: Who is told how far it is.

    Attributes:
        settings: Where services are and how they are asked.
    """

    def __init__(
        self, observed: Observed, store: VerdictStore, settings: Settings, watcher: Watcher
    ) -> None:
        self.order: Order = observed.order
        self._observed = observed
        self._store = store
        self.settings = settings
        self._asking = asking(settings)
        self._watcher = watcher
        self._looked = 0.0

    def left(self, before: RunHeader | None) -> RunPlan:
        """What is left to do, as yet; see `planned_as_before`."""
        self._looked = time.time()
        return planned_as_before(self._observed, self._store, before, self.settings)

    def nothing_left(self, plan: RunPlan) -> Finished:
        """The end of a session that has nothing to judge: no service is asked for anything."""
        self._keep_outputs(plan)
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
        panel = Panel(self.settings, ledger=self._store.ledger, policy=policy)
        try:
            with budget.pays():
                async with panel:
                    plan = await self._planned_with(panel, left)
                    return await self._judged(plan, panel, budget, fail_on_error)
        except BaseExceptionGroup as several:
            raise _first(several) from several

    async def _planned_with(self, panel: Panel, left: RunPlan) -> RunPlan:
        """What is left with the services that there are; from here on the run knows these."""
        await _settle(panel)
        header = self._store.header
        identities = self._identities(header, panel)
        plan = left
        if left.signatures != self.order.signatures(identities) or left.roles - panel.served:
            plan = planned(self._observed, self._store, identities, panel.served)
        self._tell_changes(header, panel, plan)
        self._check_judges(plan, panel)
        self._amend(header, identities, panel)
        self._keep_outputs(plan)
        return plan

    async def _judged(
        self, plan: RunPlan, panel: Panel, budget: Budget, fail_on_error: float | None
    ) -> Finished:
        """Judge what a plan says."""
        progress = self._progress(plan, budget)
        self._watcher.started(progress, panel)
        scheduler = Scheduler(
            self.order,
            panel,
            self._store,
            progress,
            in_flight=_in_flight(plan, self.settings),
            fail_on_error=fail_on_error,
            say=self._watcher.say,
        )
        ended: HowEnded
        async with _ticking(self._watcher):
            try:
                ended = await scheduler.run(jobs(plan))
            except asyncio.CancelledError:
                ended = "interrupted"
        not_served = self._not_served(plan, panel)
        return Finished(ended, plan, progress, not_served, took(panel, progress))

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

    def _keep_outputs(self, plan: RunPlan) -> None:
        """Keep what became of the outputs; one that is not touched from now on is known."""
        edits = [JudgedEdit(*edit) for edit in plan.changed]
        edits += [JudgedEdit(item, model, None, reason) for item, model, reason in plan.absent]
        self._store.keep_outputs(edits, dict.fromkeys(self.order.outputs, self._looked))

    def _progress(self, plan: RunPlan, budget: Budget) -> Progress:
        standing: dict[str, Counter[str]] = {}
        for model, row in self._store.counts(plan.signatures).items():
            for name, counts in row.items() if model in plan.todo else ():
                standing.setdefault(name, Counter()).update(counts)
        return Progress.of(plan, standing, budget)

    def _tell_changes(self, header: RunHeader, panel: Panel, plan: RunPlan) -> None:
        for role, identity in panel.identities().items():
            before = header.identities.get(role)
            if before is not None and before != identity:
                self._watcher.say(
                    f"{role} is another one than before: what it judged is done again"
                )
        if plan.changed:
            item, model, _ = plan.changed[0]
            count = len(plan.changed)
            self._watcher.say(
                f"{count:,} outputs are others than last time, and are judged anew"
                f" (first: {item} of {model})"
            )

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
        roles: dict[str, set[str]] = {}
        waiting: dict[str, dict[str, None]] = {}
        for name in _unserved(plan):
            for role in sorted(self.order.roles([name]) - panel.served):
                why = panel.why_not(role)
                roles.setdefault(why, set()).add(role)
                waiting.setdefault(why, {})[name] = None
        return {
            f"{', '.join(sorted(roles[why]))}: {why}": [*names] for why, names in waiting.items()
        }


def _unserved(plan: RunPlan) -> list[str]:
    """Dimensions of which some edits wait for a service."""
    names = (d.id for d in plan.order.dimensions)
    return [n for n in names if any(row[n]["not_served"] for row in plan.counts.values())]


def _in_flight(plan: RunPlan, settings: Settings) -> int:
    """Enough that no endpoint waits for images to be decoded."""
    decoding = 2 * (os.cpu_count() or 1)
    return decoding + (settings.concurrency if plan.roles else 0)


async def _settle(panel: Panel) -> None:
    """Find out how generalists answer choices now: it is part of their identity."""
    for generalist in panel.generalists.values():
        with contextlib.suppress(ServiceError):  # the calls will say it
            await generalist.method()


@contextlib.asynccontextmanager
async def _ticking(watcher: Watcher) -> AsyncIterator[None]:
    async def tick() -> None:
        while True:
            await asyncio.sleep(watcher.every)
            watcher.tick()

    task = asyncio.create_task(tick())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    first = several.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
