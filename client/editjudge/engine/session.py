"""A session: one process judges the edits of a plan, until all are judged or it is ended.

Each reply is committed when it arrives, and each edit with all its verdicts when it is judged. So
a process that is killed loses only the calls in flight. The next session judges the edits without
verdicts again, and reads the replies that did arrive from the store.
"""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from ..base.config import Settings
from ..base.errors import ConfigError, first_error
from ..base.identity import Identities, ServiceName
from ..base.text import group_by_key
from ..base.threads import in_thread
from ..panel import Panel
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

_CALL_SETTINGS = frozenset(
    {"url", "model", "max_pixels", "max_tokens", "temperature", "seed", "samples", "logprobs", "extra", "image_detail"}
)


def compare_with_last_session(plan: RunPlan, store: VerdictStore, before: RunHeader | None, settings: Settings) -> None:
    """Find what is left to judge if the services are the same as in the last session.

    Args:
        before: The header that the last session stored; None for a new run.
        settings: Settings of this session. If they name other services than the last session's,
            no service is assumed, so verdicts that rest on one do not count as valid.
    """
    same = before is not None and before.settings == service_settings(settings)
    compare_with_run(plan, store, before.identities if before and same else {})


def service_settings(settings: Settings) -> dict[str, JsonValue]:
    """Collect the settings that decide which services answer and how, without secrets."""
    if settings.gateway is not None:
        return {"gateway": settings.gateway.url, "endpoints": [], "judges": {}}
    return {
        "endpoints": [endpoint.url for endpoint in settings.endpoints.values()],
        "judges": {
            # The default limit is stored too, as it was before `max_tokens` was a setting.
            name: endpoint.model_dump(mode="json", include=set(_CALL_SETTINGS))
            | {"max_tokens": endpoint.max_tokens or MAX_TOKENS}
            for name, endpoint in settings.judges.items()
        },
    }


def _find_changed_judges(before: Mapping[str, JsonValue], now: Mapping[str, JsonValue]) -> frozenset[ServiceName]:
    """Find the judges whose settings differ from the stored ones: their identity may differ."""
    earlier, later = before.get("judges"), now["judges"]
    old = earlier if isinstance(earlier, dict) else {}
    names = later if isinstance(later, dict) else {}
    return frozenset(ServiceName.judge(name) for name in names if names[name] != old.get(name))


@dataclass
class Session:
    """Judges the edits of a `RunPlan` in this process, with a `Scheduler`.

    Args:
        plan: What is left to judge, from `compare_with_last_session`, then with the available services.
        store: The open run.
        calls: The store of its calls.
        settings: Where the services are, and how they are called.
        on_event: Receives all events but the last one (`FinishEvent`).
        progress_interval: Seconds between two events `progress`.
        open_judges: Opens the judges and other services.
        make_scheduler: Makes the scheduler of the edits, with the arguments of `Scheduler`.

    Attributes:
        progress: The counts of the session.
        not_served: The ids of dimensions that wait for a service, by reason.
        usage: What judges used: calls, tokens, cost.
    """

    plan: RunPlan
    store: VerdictStore
    calls: CallStore
    settings: Settings
    on_event: Callable[[RunEvent], None]
    progress_interval: float
    open_judges: OpenJudges = open_local_judges
    make_scheduler: Callable[..., Scheduler] = Scheduler
    progress: Progress = field(default_factory=Progress, init=False)
    not_served: Mapping[str, list[str]] = field(default_factory=dict, init=False)
    usage: Mapping[str, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.inputs: RunInputs = self.plan.inputs
        self._service_settings = service_settings(self.settings)

    def note(self, line: str) -> None:
        """Send a message for people, as an event."""
        self.on_event(NoteEvent(text=line))

    def finish_unjudged(self) -> RunEndReason:
        """Finish a session that has nothing to judge, without opening any service."""
        self._save_contents()
        self._count(Budget())
        return "done"

    async def judge(self, fail_on_error: float | None = None) -> RunEndReason:
        """Judge what is left, until all is done or the session ends early.

        Cancelling it cancels the calls in flight and returns `interrupted`; edits that were judged
        stay stored. Before the identities of the services are stored, it raises `CancelledError`.

        Args:
            fail_on_error: The share of failed verdicts, 0 to 1, above which the session ends; None
                for never.

        Raises:
            ConfigError: a needed judge cannot be used.
            StoreError: the run cannot be written any more.
        """
        budget = Budget.of(self.settings, self.calls)
        budget.add_earlier_cost(*self.store.costs)
        context = self.open_judges(self.settings, self.calls, budget)
        try:
            async with context as judges, _background_task(judges.panel.probe_judges()) as probe:
                await self._compare(judges, probe)
                await in_thread(lambda: self._count(budget))
                async with _background_task(self._store_identities(judges.panel, probe)) as task:
                    return await self._judge(judges, task, fail_on_error)
        except BaseExceptionGroup as group:
            raise first_error(group) from group

    async def _compare(self, judges: Judges, probe_task: asyncio.Task[None]) -> None:
        """Find what is left to judge with the available services.

        Signatures contain how a judge answers choices, which only the probe finds out. If the run
        has verdicts, the probe is awaited, because it decides which of them are valid. Without
        verdicts everything is left to judge anyway.
        """
        header, panel, plan = self.store.header, judges.panel, self.plan
        has_verdicts = plan.total("standing") or await in_thread(lambda: len(self.store.counts()))
        if has_verdicts:
            await probe_task
        identities = self._collect_identities(header, panel)
        has_changed = has_verdicts and plan.signatures != self.inputs.signatures(identities)
        reasons = explain_unserved(plan.needed_dimensions, panel, is_local=judges.is_local)
        if has_changed or reasons:
            await in_thread(lambda: compare_with_run(plan, self.store, identities, reasons))
        self._check_judges(panel)

    async def _store_identities(self, panel: Panel, probe_task: asyncio.Task[None]) -> None:
        """Store the services' identities and the contents after the probe, and send `started`.

        Before that nothing is signed, stored or shown.
        """
        await probe_task
        identities = self._collect_identities(self.store.header, panel)
        self.plan.signatures = self.inputs.signatures(identities)
        await in_thread(lambda: self._amend_header(self.store.header, identities, panel))
        await in_thread(self._save_contents)
        self.on_event(StartEvent.by(self.progress, panel))

    async def _save_new_identities(self, panel: Panel) -> None:
        """Store identities that became more precise during the session: they enter the signatures.

        How a judge answers choices becomes known only later if its probe failed. The identity of
        another model that took a judge's place is not stored: the next session finds it.
        """
        before = self.store.header.identities
        new_identities = {
            role: identity
            for role, identity in panel.identities().items()
            if role in before and before[role] != identity and before[role].may_be(identity)
        }
        if new_identities:
            identities = {**before, **new_identities}
            self.plan.signatures = self.inputs.signatures(identities)
            await in_thread(lambda: self._amend_header(self.store.header, identities, panel))

    async def _judge(
        self, judges: Judges, identities_task: asyncio.Task[None], fail_on_error: float | None
    ) -> RunEndReason:
        """Run the scheduler on the plan, then set `not_served` and `usage`."""
        panel = judges.panel

        async def wait_for_identities() -> None:
            await asyncio.shield(identities_task)

        scheduler = self.make_scheduler(
            self.plan,
            judges,
            self.store.save_edit,
            self.progress,
            max_in_flight=compute_max_in_flight(self.plan, self.settings),
            wait_for_identities=wait_for_identities,
            fail_on_error=fail_on_error,
            say=self.note,
        )
        end_reason: RunEndReason
        async with _background_task(self._report_progress(panel, wait_for_identities)):
            try:
                end_reason = await scheduler.run()
                await wait_for_identities()
                for line in await panel.list_model_changes():
                    self.note(line)
            except asyncio.CancelledError:
                if not identities_task.done():
                    raise
                end_reason = "interrupted"
        await self._save_new_identities(panel)
        self.not_served = self._explain_not_served(panel)
        self.usage = summarise_usage(panel, self.progress)
        return end_reason

    async def _report_progress(self, panel: Panel, wait_for_identities: WaitForIdentities) -> None:
        """Send an event `progress` every `progress_interval` seconds."""
        await wait_for_identities()
        while True:
            await asyncio.sleep(self.progress_interval)
            self.on_event(ProgressEvent.by(self.progress, panel))

    def _collect_identities(self, header: RunHeader, panel: Panel) -> Identities:
        """Collect the identities of the available services and the stored ones of absent services.

        The stored identity of a judge whose settings have changed is left out.
        """
        others = _find_changed_judges(header.settings, self._service_settings)
        before = {role: one for role, one in header.identities.items() if role not in others}
        return {**before, **panel.identities()}

    def _amend_header(self, header: RunHeader, identities: Identities, panel: Panel) -> None:
        """Store in the header which services judge, their settings, and which are missing."""
        needed_roles = self.inputs.roles(d.id for d in self.inputs.dimensions)
        absent = {role: panel.why_not(role) for role in needed_roles - identities.keys()}
        now = {"identities": identities, "not_served": absent, "settings": self._service_settings}
        self.store.extend_header(header.model_copy(update=now))

    def _save_contents(self) -> None:
        """Store the content of items and outputs, so that the next session need not read it."""
        outputs = {**self.store.header.outputs, **self.inputs.output_folders}
        header = {"data_digest": self.inputs.dataset.digest, "outputs": outputs}
        self.store.save_contents(self.plan.current_edits, self.plan.contents.updates(), header)

    def _count(self, budget: Budget) -> None:
        """Set `progress` to the counts of valid verdicts and of what is left to judge."""
        standing_counts: dict[str, Counter[str]] = {}
        counts = self.store.counts(self.plan.signatures, self.plan.all_ids)
        for model, row in counts.items():
            for name, by_status in row.items() if model in self.plan.todo else ():
                standing_counts.setdefault(name, Counter()).update(by_status)
        self.progress = Progress.of(self.plan, standing_counts, budget)

    def _check_judges(self, panel: Panel) -> None:
        """Refuse to run without a needed judge. A missing specialist is no reason to refuse."""
        roles = self.inputs.roles(_list_not_served(self.plan)) - panel.service_names
        for role in map(ServiceName.judge, self.settings.judges):
            if role in roles:
                raise ConfigError(
                    f"{role} cannot be used: {panel.why_not(role)}",
                    "fix its settings or its server; editjudge doctor checks both",
                )

    def _explain_not_served(self, panel: Panel) -> dict[str, list[str]]:
        """Group the dimensions that wait for a service by reason, which names the services."""
        names = _list_not_served(self.plan)
        absent = [(role, name) for name in names for role in sorted(self.inputs.roles([name]) - panel.service_names)]
        by_service: dict[str, list[str]] = {}
        for why, pairs in group_by_key((panel.why_not(pair[0]), pair) for pair in absent).items():
            roles, dimensions = (dict.fromkeys(each) for each in zip(*pairs, strict=True))
            by_service[f"{', '.join(sorted(roles))}: {why}"] = [*dimensions]
        lacking = ((self.inputs.why_unavailable(name), name) for name in names)
        return by_service | group_by_key(pair for pair in lacking if pair[0])


def _list_not_served(plan: RunPlan) -> list[str]:
    """List the dimensions that wait for a service on at least one edit."""
    names = (d.id for d in plan.inputs.dimensions)
    return [n for n in names if any(row[n]["not_served"] for row in plan.counts.values())]


def compute_max_in_flight(plan: RunPlan, settings: Settings, processors: int | None = None) -> int:
    """Compute how many edits to have in flight, so that no endpoint waits for one to be loaded.

    It is 1.5 times an endpoint's concurrency, for edits that wait for a call or are being stored,
    plus two per processor (by default those of this machine), for edits whose images are decoded.
    The memory of images has its own bound (`scheduler.MAX_HELD`).
    """
    decoding = 2 * (processors or os.cpu_count() or 1)
    return decoding + (settings.concurrency + settings.concurrency // 2 if plan.roles else 0)


@contextlib.asynccontextmanager
async def _background_task(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run a task in the background of the block; it is cancelled when the block ends."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
