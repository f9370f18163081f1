"""A worker of a run on Ray: it judges the items that it is given, as a session of one process does.

It needs no Ray itself. Replies are looked up in the shared ledger before each call and committed to
it at once. Verdicts, and what the run stores of its calls, go to the driver in parts.
"""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ..base.config import Settings
from ..base.errors import ConfigError, EditjudgeError, first_error
from ..base.identity import ServiceName
from ..base.signature import versions as versions_of_today
from ..base.verdict import Outcome
from ..benchmarks.dataset import ItemRef
from ..engine.content_keys import ItemContents, JudgedEdit
from ..engine.judge import open_local_judges
from ..engine.progress import Progress
from ..engine.run_plan import RunPlan
from ..engine.scheduler import EndReason, Job, Scheduler, make_jobs
from ..panel.budget import Budget
from ..panel.calls import NO_USAGE, Usage
from ..scorers.pixels import ALIGNERS
from ..storage.ledger import Ledger, LedgerRows
from ..storage.shared_ledger import SharedCalls, open_call_store
from .spec import ResolvedSpec, RunSpec

Work: TypeAlias = tuple[ItemRef, Mapping[str, frozenset[str]]]
"""An item, and by model the ids of the dimensions to judge."""
_INTERVAL = 0.2
"""Seconds between two parts."""


class WorkOrder(NamedTuple):
    """What a worker must know before its first item.

    Attributes:
        spec: The run, with absolute paths.
        settings: The settings of the driver, with the keys of its judges.
        data_digest: The digest of the data, which is to be the same everywhere.
        roles: The services that the run calls.
        dropped_keys: The calls that are to be made again although the ledger has a reply.
        max_in_flight: How many edits to have in flight.
        versions: The packages of the driver.
    """

    spec: RunSpec
    settings: Settings
    data_digest: str
    roles: frozenset[ServiceName]
    dropped_keys: frozenset[str]
    max_in_flight: int
    versions: str


class EditResult(NamedTuple):
    """A judged edit, as `Scheduler` stores it; `place` is the position of its item in the data."""

    place: int
    edit: JudgedEdit
    outcomes: Mapping[str, Outcome]
    signatures: Mapping[str, str]


class Part(NamedTuple):
    """What a worker did since its last part.

    Attributes:
        results: The judged edits.
        rows: The calls and prompts that are new to this worker.
        counts: How many calls to judges were made, how many replies came from the ledger, and how
            many calls another process had made meanwhile.
        usage: The tokens that the calls took.
        costs: What the calls cost, and the cost of the dearest one so far.
        notes: Messages for people.
        end_reason: Why the session is to end, see `Scheduler.run`.
        error: Why the worker cannot go on; empty where it can.
    """

    results: Sequence[EditResult] = ()
    rows: LedgerRows = LedgerRows()
    counts: tuple[int, int, int] = (0, 0, 0)
    usage: Usage = NO_USAGE
    costs: tuple[float, float] = (0.0, 0.0)
    notes: Sequence[str] = ()
    end_reason: EndReason = "done"
    error: str = ""


@dataclass
class _WorkerScheduler(Scheduler):
    """Judges what comes through a queue, up to None, and collects the results."""

    queue: asyncio.Queue[Sequence[Work] | None] = field(default_factory=asyncio.Queue)
    results: list[EditResult] = field(default_factory=list)

    async def _list_jobs(self) -> AsyncIterator[Job]:
        while (chunk := await self.queue.get()) is not None:
            for ref, models in chunk:
                for job in make_jobs(self.plan, ref, models):
                    yield job

    async def _save(
        self,
        job: Job,
        edit: JudgedEdit,
        outcomes: Mapping[str, Outcome],
        signatures: Mapping[str, str],
        versions: str | None = None,
    ) -> None:
        self.results.append(EditResult(job.shared_item.ref.index, edit, outcomes, signatures))


class Worker:
    """The actor: `judge` is called once, and `add` as often as there is more to judge."""

    def __init__(self, order: WorkOrder) -> None:
        # See `cli.runs`; here each processor has a worker of its own.
        os.environ.setdefault("OPENCV_FOR_THREADS_NUM", "1")
        ALIGNERS.count = 1
        self._order = order
        self._queue: asyncio.Queue[Sequence[Work] | None] = asyncio.Queue()
        self._task: asyncio.Task[EndReason] | None = None
        self._notes: list[str] = []

    async def add(self, chunk: Sequence[Work] | None) -> None:
        """Add items to judge; None ends `judge` after those that were added before."""
        self._queue.put_nowait(chunk)

    async def stop(self) -> None:
        """End `judge` now, and cancel the calls in flight."""
        self._queue.put_nowait(None)
        if self._task is not None:
            self._task.cancel()

    async def judge(self) -> AsyncIterator[Part]:
        """Judge, and yield the results in parts; the first is empty and says that it is ready."""
        try:
            with ExitStack() as resources:
                async for part in self._judge(resources):
                    yield part
        except (EditjudgeError, BaseExceptionGroup) as error:
            first = first_error(error) if isinstance(error, BaseExceptionGroup) else error
            yield Part(error=f"the worker at {platform.node()}: {first}")

    async def _judge(self, resources: ExitStack) -> AsyncIterator[Part]:
        order = self._order
        inputs, ledger = await asyncio.to_thread(self._open)
        resources.callback(ledger.close)
        notes = self._notes
        calls = open_call_store(ledger, order.settings.ledger, order.settings.patience, notes.append, resources)
        if isinstance(calls, SharedCalls):
            calls.dropped_keys = order.dropped_keys
        budget = Budget.of(order.settings, calls)
        async with open_local_judges(order.settings, calls, budget) as judges:
            panel = judges.panel
            for role in order.roles - panel.service_names:
                raise ConfigError(f"{role} cannot be used: {panel.why_not(role)}")
            await panel.probe_judges()
            scheduler = _WorkerScheduler(
                RunPlan(inputs, ItemContents(inputs.dataset)),
                judges,
                save_edit=_save_nothing,
                progress=Progress(),
                max_in_flight=order.max_in_flight,
                say=notes.append,
                queue=self._queue,
            )
            self._task = asyncio.create_task(scheduler.run())
            yield Part()
            repeated_count, is_done = 0, False
            while not is_done:
                is_done = bool((await asyncio.wait([self._task], timeout=_INTERVAL))[0])
                results, rows = [*scheduler.results], ledger.new_rows()
                counts = budget.calls, budget.stored_replies, calls.repeated_count - repeated_count
                costs, lines = (budget.cost, budget.dearest), [*notes]
                part = Part(results, rows, counts, budget.usage, costs, lines, scheduler.end_reason)
                repeated_count = calls.repeated_count
                budget.calls, budget.stored_replies, budget.cost, budget.usage = 0, 0, 0.0, NO_USAGE
                scheduler.results.clear()
                notes.clear()
                if results or any(rows) or any(counts) or lines or is_done:
                    yield part
            if not self._task.cancelled():
                self._task.result()

    def _open(self) -> tuple[ResolvedSpec, Ledger]:
        """Read the data, and make the ledger of the calls that the driver does not have yet.

        Raises:
            ConfigError: the packages or the data are others than the driver's.
        """
        if self._order.versions != (here := versions_of_today()):
            raise ConfigError(
                f"its packages are others than the driver's: {here} for {self._order.versions}",
                "install the same on all machines",
            )
        inputs = ResolvedSpec(self._order.spec)
        if inputs.dataset.digest != self._order.data_digest:
            raise ConfigError(f"{inputs.dataset.path} there is another", "use shared storage")
        return inputs, Ledger()


async def _save_nothing(*_: object) -> None:
    """Store no verdict: the driver does."""
