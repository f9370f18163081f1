"""One session of a run: what is left is planned, judged and kept, until it is done or ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from pydantic import JsonValue, TypeAdapter

from ..base.config import Settings
from ..base.digest import content_digest
from ..base.errors import ConfigError, first_error
from ..base.identity import Identities, ModelIdentity, ServiceName
from ..panel import Panel, PoolPolicy
from ..panel.budget import Budget
from ..panel.calls import CallStore
from ..panel.transport import MAX_TOKENS
from .content_keys import VerdictStore
from .events import NoteEvent, ProgressEvent, RunEndReason, RunEvent, StartEvent
from .judge import Judges, OpenJudges, WaitForIdentities, explain_unserved, open_local_judges
from .progress import Progress, summarise_usage
from .run_header import RunHeader
from .run_inputs import RunInputs
from .run_plan import RunPlan, compare_with_run
from .scheduler import Scheduler

T = TypeVar("T")
IDENTITIES = TypeAdapter(dict[ServiceName, ModelIdentity])
_HOW_ASKED = frozenset(
    {"url", "model", "max_pixels", "max_tokens", "temperature", "seed", "samples", "logprobs"}
)


def compare_with_last_session(
    plan: RunPlan, store: VerdictStore, before: RunHeader | None, settings: Settings
) -> None:
    """Find out what is left to do of a run if the services are those of its last session.

    Args:
        before: The header as that session left it; None at the beginning.
        settings: Where they ask otherwise than that session, nothing that was judged stands.
    """
    same = before is not None and before.settings == service_settings(settings)
    compare_with_run(plan, store, before.identities if before and same else {})


def service_settings(settings: Settings) -> dict[str, JsonValue]:
    """The settings that decide which judge answers, and how it is asked; without secrets."""
    if settings.gateway is not None:
        return {"gateway": settings.gateway.url, "endpoints": [], "judges": {}}
    return {
        "endpoints": [endpoint.url for endpoint in settings.endpoints.values()],
        "judges": {
            # Without a limit they are those of the time when the usual one was the only one.
            name: endpoint.model_dump(mode="json", include=set(_HOW_ASKED))
            | {"max_tokens": endpoint.max_tokens or MAX_TOKENS}
            for name, endpoint in settings.judges.items()
        },
    }


def services_fact_name(settings: Settings) -> str:
    """The name under which a ledger knows the services that these settings mean."""
    settings_text = json.dumps(service_settings(settings), sort_keys=True)
    return f"services that judged, by {content_digest(settings_text.encode())}"


def _asked_otherwise(
    before: Mapping[str, JsonValue], now: Mapping[str, JsonValue]
) -> frozenset[ServiceName]:
    """The judges that have other settings now: earlier identities are not theirs."""
    earlier, later = before.get("judges"), now["judges"]
    earlier_by_name = earlier if isinstance(earlier, dict) else {}
    names = later if isinstance(later, dict) else {}
    return frozenset(
        ServiceName.judge(name) for name in names if names[name] != earlier_by_name.get(name)
    )


class Session:
    """A session of a run.

    Args:
        plan: What is left of it, if the services are those of its last session.
        store: An open run.
        calls: Where its calls are kept.
        tell: Gets the events, but for the last.
        every: Seconds between two events `progress`.
        opened: Opens its judges.

    Attributes:
        settings: Where services are and how they are asked.
        plan: What is judged, once the services are found.
        progress: How far it is.
        not_served: Why dimensions were not judged: each reason with the dimensions.
        usage: What judges took.
    """

    def __init__(
        self,
        plan: RunPlan,
        store: VerdictStore,
        calls: CallStore,
        settings: Settings,
        on_event: Callable[[RunEvent], None],
        every: float,
        open_judges: OpenJudges = open_local_judges,
    ) -> None:
        self.plan = plan
        self.order: RunInputs = plan.inputs
        self.settings = settings
        self.progress = Progress()
        self.not_served: Mapping[str, list[str]] = {}
        self.usage: Mapping[str, float] = {}
        self._store = store
        self._calls = calls
        self._service_settings = service_settings(settings)
        self._tell = on_event
        self._every = every
        self._open_judges = open_judges

    def note(self, line: str) -> None:
        """Tell people something, as an event."""
        self._tell(NoteEvent(text=line))

    def end(self) -> RunEndReason:
        """End a session that has nothing to judge: no service is asked for anything."""
        self._keep_contents()
        self._count(Budget())
        return "done"

    async def judge(self, fail_on_error: float | None = None) -> RunEndReason:
        """Judge what is left, until it is done, ended or interrupted.

        Cancelling it cancels what is in flight, and gives what was judged until then; while the
        services are still looked for, it raises `CancelledError` as any task does.

        Raises:
            ConfigError: a service cannot be used as it is configured.
            StoreError: the run cannot be written any more.
        """
        budget = Budget(self.settings.max_cost)
        budget.add_earlier_cost(*self._store.costs)
        policy = PoolPolicy(patience=self.settings.patience)
        judges_context = self._open_judges(self.settings, self._calls, policy, budget)
        try:
            async with judges_context as judges, _beside(judges.panel.probe_judges()) as settling:
                await self._compare(judges, settling)
                await _aside(lambda: self._count(budget))
                async with _beside(self._settle(judges.panel, settling)) as identities_task:
                    return await self._judge(judges, identities_task, fail_on_error)
        except BaseExceptionGroup as several:
            raise first_error(several) from several

    async def _compare(self, judges: Judges, settling: asyncio.Task[None]) -> None:
        """Find out what is left with the services that there are.

        How judges answer choices is a part of signatures. Where there are verdicts it decides
        which of them stand, so it is waited for; where there are none, all is left anyway.
        """
        header, panel, plan = self._store.header, judges.panel, self.plan
        has_verdicts = plan.total("standing") or await _aside(lambda: len(self._store.counts()))
        if has_verdicts:
            await settling
        identities = self._identities(header, panel)
        has_changed = has_verdicts and plan.signatures != self.order.signatures(identities)
        why_not_served = explain_unserved(plan.parts, panel, is_local=judges.is_local)
        if has_changed or why_not_served:
            await _aside(lambda: compare_with_run(plan, self._store, identities, why_not_served))
        self._check_judges(panel)

    async def _settle(self, panel: Panel, settling: asyncio.Task[None]) -> None:
        """Have the run know who judges it; only then is anything signed, kept or shown."""
        await settling
        identities = self._identities(self._store.header, panel)
        self.plan.signatures = self.order.signatures(identities)
        await self._keep_judges(identities, panel)
        await _aside(self._keep_contents)
        self._tell(StartEvent.by(self.progress, panel))

    async def _keep_judges(self, identities: Identities, panel: Panel) -> None:
        await _aside(lambda: self._amend(self._store.header, identities, panel))
        identities_json = IDENTITIES.dump_json(panel.identities()).decode()
        await self._calls.put_fact(services_fact_name(self.settings), identities_json)

    async def _keep_learned(self, panel: Panel) -> None:
        """Keep what was learned of judges only while they judged: it is in what they signed.

        A judge whose first question failed says later how it answers choices. Another model that
        came meanwhile is nothing learned: the next session finds it.
        """
        before = self._store.header.identities
        new_identities = {
            role: identity
            for role, identity in panel.identities().items()
            if role in before and before[role] != identity and before[role].may_be(identity)
        }
        if new_identities:
            identities = {**before, **new_identities}
            self.plan.signatures = self.order.signatures(identities)
            await self._keep_judges(identities, panel)

    async def _judge(
        self, judges: Judges, identities_task: asyncio.Task[None], fail_on_error: float | None
    ) -> RunEndReason:
        """Judge what the plan says."""
        panel = judges.panel

        async def settle() -> None:
            await asyncio.shield(identities_task)

        scheduler = Scheduler(
            self.plan,
            judges,
            self._store.save_edit,
            self.progress,
            in_flight=_in_flight(self.plan, self.settings),
            wait_for_identities=settle,
            fail_on_error=fail_on_error,
            say=self.note,
        )
        end_reason: RunEndReason
        async with _beside(self._tick(panel, settle)):
            try:
                end_reason = await scheduler.run()
                await settle()
                for line in await panel.list_model_changes():
                    self.note(line)
            except asyncio.CancelledError:
                if not identities_task.done():
                    raise
                end_reason = "interrupted"
        await self._keep_learned(panel)
        self.not_served = self._explain_not_served(panel)
        self.usage = summarise_usage(panel, self.progress)
        return end_reason

    async def _tick(self, panel: Panel, wait_for_identities: WaitForIdentities) -> None:
        """Tell how far it is, from the beginning on."""
        await wait_for_identities()
        while True:
            await asyncio.sleep(self._every)
            self._tell(ProgressEvent.by(self.progress, panel))

    def _identities(self, header: RunHeader, panel: Panel) -> Identities:
        """Of the services at hand, and of those of earlier sessions that may come again."""
        others = _asked_otherwise(header.settings, self._service_settings)
        before = {
            role: identity for role, identity in header.identities.items() if role not in others
        }
        return {**before, **panel.identities()}

    def _amend(self, header: RunHeader, identities: Identities, panel: Panel) -> None:
        """Keep which services judge from now on, how they are asked, and which are not there."""
        needed_roles = self.order.roles(d.id for d in self.order.dimensions)
        absent = {role: panel.why_not(role) for role in needed_roles - identities.keys()}
        now = {"identities": identities, "not_served": absent, "settings": self._service_settings}
        self._store.amend(header.model_copy(update=now))

    def _keep_contents(self) -> None:
        """Keep what items and outputs hold now, so that the next session need not read them."""
        outputs = {**self._store.header.outputs, **self.order.output_folders}
        header = {"data_digest": self.order.dataset.digest, "outputs": outputs}
        self._store.save_contents(self.plan.current_edits, self.plan.contents.updates(), header)

    def _count(self, budget: Budget) -> None:
        """Count what stands and what is left, before anything is judged."""
        standing_counts: dict[str, Counter[str]] = {}
        for model, row in self._store.counts(self.plan.signatures).items():
            for name, counts in row.items() if model in self.plan.todo else ():
                standing_counts.setdefault(name, Counter()).update(counts)
        self.progress = Progress.of(self.plan, standing_counts, budget)

    def _check_judges(self, panel: Panel) -> None:
        """A judge that was asked for and cannot be used ends the run; a specialist does not."""
        for name in self.settings.judges:
            role = ServiceName.judge(name)
            if role not in panel.service_names and role in self.order.roles(
                _list_not_served(self.plan)
            ):
                raise ConfigError(
                    f"{role} cannot be used: {panel.why_not(role)}",
                    "mend that; editjudge doctor checks it",
                )

    def _explain_not_served(self, panel: Panel) -> dict[str, list[str]]:
        """The dimensions that wait for a service, by the reason, which names the services."""
        by_missing_package: dict[str, list[str]] = {}
        roles: dict[str, set[str]] = {}
        names_by_reason: dict[str, dict[str, None]] = {}
        for name in _list_not_served(self.plan):
            if lacking := self.order.why_unavailable(name):
                by_missing_package.setdefault(lacking, []).append(name)
            for role in sorted(self.order.roles([name]) - panel.service_names):
                why = panel.why_not(role)
                roles.setdefault(why, set()).add(role)
                names_by_reason.setdefault(why, {})[name] = None
        by_missing_service = {
            f"{', '.join(sorted(roles[why]))}: {why}": [*names]
            for why, names in names_by_reason.items()
        }
        return by_missing_service | by_missing_package


def _list_not_served(plan: RunPlan) -> list[str]:
    """Dimensions of which some edits wait for a service."""
    names = (d.id for d in plan.inputs.dimensions)
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
