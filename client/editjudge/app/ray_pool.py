"""Spreads the edits of a session over workers on Ray: `run --ray`."""

import asyncio
import logging
import os
import secrets
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from ..base.config import PostgresAddress, Settings
from ..base.errors import ConfigError, MissingExtra
from ..base.objects import to_path
from ..base.signature import versions
from ..base.text import format_count
from ..base.verdict import Failure
from ..benchmarks.dataset import ItemRef
from ..engine.run_plan import RunPlan
from ..engine.scheduler import EndReason, Scheduler, StopError, make_jobs
from ..engine.session import compute_max_in_flight
from ..panel.calls import CallStore
from ..storage.ledger import Ledger
from .ray_worker import Part, Work, Worker, WorkOrder
from .spec import ResolvedSpec

LOCAL = "local"
"""In the place of an address: Ray is started on this machine, for this session."""
_CHUNK = 32
"""The most items of one source that a worker is given at once."""
_SUSPICIOUS, _MOST_DEATHS = 2, 5
"""After how many deaths of its workers an edit is given to one alone, and to none any more."""
_WAIT_FOR_WORKER = 30.0
_WAIT_FOR_END = 5.0
"""Seconds that workers get to release what they have claimed."""


class RayOptions(NamedTuple):
    """How a run is spread.

    Attributes:
        address: `host:port` of the cluster, `auto` for the one of this machine, or `local`.
        workers: The least and the most workers, of a processor each; None for one on each
            processor that the cluster has at first.
        may_repeat_calls: Whether to go without a ledger that the workers share, so that a call
            may be paid for twice.
    """

    address: str
    workers: tuple[int, int] | None = None
    may_repeat_calls: bool = False

    def check(self, plan: RunPlan, settings: Settings) -> None:
        """Refuse what would be paid for twice, and what Ray cannot do.

        Raises:
            ConfigError: there is no ledger that machines can share, a Judge service judges, or the
                address is one for clients outside of the cluster.
        """
        if self.address.startswith("ray://"):
            raise ConfigError(
                f"--ray {self.address}: a client of Ray cannot stream results",
                "give host:port on a machine of the cluster, or use ray job submit",
            )
        if settings.gateway is not None:
            raise ConfigError(
                "--ray and --gateway contradict each other: the Judge service spreads edits itself",
                "give one of the two",
            )
        if isinstance(settings.ledger, PostgresAddress):
            return
        if settings.max_cost is not None:
            raise ConfigError(
                "workers on Ray share no ledger, which --max-cost needs",
                "give --ledger postgresql://…, or leave it out",
            )
        if plan.inputs.roles(d.id for d in plan.inputs.dimensions) and not self.may_repeat_calls:
            raise ConfigError(
                "workers on Ray share no ledger, so that calls could be paid for twice",
                "give --ledger postgresql://…, or allow it by --ledger none",
            )


def _connect(address: str) -> Any:
    """Import Ray and connect to a cluster.

    Raises:
        MissingExtra: Ray is not installed.
        ConfigError: there is no such cluster, or it refuses this client.
    """
    if address == LOCAL:
        # Ray listens on all addresses of the machine.
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("a run on Ray", "ray") from error
    options: Any = {"include_dashboard": False} if address == LOCAL else {}
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **options)
    except Exception as error:  # many kinds, for one reason: there is nobody to talk to
        cause = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConfigError(f"--ray {address}: {cause}", "see docs/howto/machines.md#ray") from error
    return ray


@dataclass(eq=False)
class _Hand:
    """A worker, and the items that it was given and has not returned, by their position."""

    actor: Any
    items: dict[int, tuple[ItemRef, dict[str, frozenset[str]]]] = field(default_factory=dict)
    is_ready: bool = False

    @property
    def edit_count(self) -> int:
        return sum(len(models) for _, models in self.items.values())


@dataclass
class RayScheduler(Scheduler):
    """A `Scheduler` whose edits are judged by workers on Ray, and stored here.

    A worker is given chunks of items in the order of the data, all items of a source together.
    What a dead worker had not returned is given to others, which find the replies in the ledger.

    Attributes:
        spec: The run, whose data and outputs each worker reads by their absolute paths.
        settings: The settings of the session.
        ledger: The calls of the run.
        calls: The same, together with the shared ledger.
        options: Where Ray is, and how many workers there may be.
    """

    spec: ResolvedSpec = field(kw_only=True)
    settings: Settings = field(kw_only=True)
    ledger: Ledger = field(kw_only=True)
    calls: CallStore = field(kw_only=True)
    options: RayOptions = field(kw_only=True)
    _hands: list[_Hand] = field(default_factory=list)
    _chunks: deque[Sequence[Work]] = field(default_factory=deque)
    _suspects: deque[Work] = field(default_factory=deque)
    _deaths: Counter[int] = field(default_factory=Counter)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _left_count: int = 0
    _early_deaths: int = 0

    async def run(self) -> EndReason:
        """Judge all edits of the plan, or until the session ends early; see `Scheduler.run`."""
        self._ray = await asyncio.to_thread(_connect, self.options.address)
        try:
            order = await self._make_order()
            self._order, self._most_given = self._ray.put(order), 2 * order.max_in_flight
            # One processor each, so that many workers fill a machine.
            self._worker_class = self._ray.remote(num_cpus=1)(Worker)
            self._limits = self.options.workers or (int(self._ray.cluster_resources().get("CPU", 1)),) * 2
            self._rest = _list_chunks(self.plan)
            self._left_count = self.plan.edit_count
            self._start_workers()
            await self._wait_for_workers()
        except StopError as stop:
            self.end_reason = stop.reason
        finally:
            for hand in self._hands:
                hand.actor.stop.remote()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_WAIT_FOR_END)
            for task in self._tasks:
                task.cancel()
            await asyncio.to_thread(self._ray.shutdown)
        return self.end_reason

    async def _make_order(self) -> WorkOrder:
        inputs, spec, budget, settings = self.plan.inputs, self.spec.spec, self.progress.budget, self.settings
        if settings.max_cost is not None and settings.budget is None:
            # One for the workers of this session, in which the earlier ones have a part too.
            name = f"workers {secrets.token_hex(8)}"
            settings = settings.model_copy(update={"budget": name})
            if (account := self.calls.open_account(name)) is not None:
                await account(budget.earlier_cost, budget.dearest)
        folders = {model: Path(folder) for model, folder in inputs.output_folders.items()}
        dropped_keys = await self.ledger.get_dropped_keys()
        return WorkOrder(
            spec.model_copy(update={"data": to_path(spec.data).absolute(), "outputs": folders}),
            settings,
            inputs.dataset.digest,
            self.plan.roles & self.judges.panel.service_names,
            frozenset(key for key in dropped_keys if self.ledger.find_number(key) is None),
            compute_max_in_flight(self.plan, self.settings, processors=1),
            versions(),
        )

    async def _wait_for_workers(self) -> None:
        has_waited = False
        while self._tasks:
            ends, _ = await asyncio.wait(self._tasks, timeout=_WAIT_FOR_WORKER, return_when=asyncio.FIRST_COMPLETED)
            self._tasks -= ends  # others were added meanwhile
            for task in ends:
                task.result()
            if not ends and not has_waited and not any(hand.is_ready for hand in self._hands):
                has_waited = True
                self.say("no worker has begun yet: Ray has no free processor, or starts one")

    def _start_workers(self) -> None:
        """Start workers while there is work: the least at once, more one by one as they begin."""
        least, most = self._limits
        while len(self._hands) < min(most, self._left_count):
            if len(self._hands) >= least and not all(hand.is_ready for hand in self._hands):
                return  # one that waits for a place is enough to have a machine added
            hand = _Hand(self._worker_class.remote(self._order))
            self._hands.append(hand)
            self._tasks.add(asyncio.create_task(self._tend(hand)))

    async def _tend(self, hand: _Hand) -> None:
        """Give a worker items, and store what it returns, until nothing is left or it dies."""
        error: Exception | None = None
        try:
            stream = hand.actor.judge.options(num_returns="streaming").remote()
            async for reference in stream:
                hand.is_ready = True
                await self._take(hand, await reference)
                self._give(hand)
                self._start_workers()
        except self._ray.exceptions.RayError as death:
            error = death
        finally:
            self._hands.remove(hand)
            self._ray.kill(hand.actor)
        if error is not None:
            await self._replace(hand, error)

    def _give(self, hand: _Hand) -> None:
        """Give a worker as much as it has room for, or tell it that there is no more."""
        if self.end_reason != "done":
            self._left_count = 0
        # Of the last edits each worker gets its part, so that none is waited for at the end.
        room = min(self._most_given, self._left_count // len(self._hands) + 1)
        is_alone = any(self._deaths[place] >= _SUSPICIOUS for place in hand.items)
        while self._left_count > 0 and hand.edit_count < room and not is_alone:
            chunk = self._chunks.popleft() if self._chunks else next(self._rest, None)
            if chunk is None:
                if hand.items or not self._suspects:
                    break
                chunk, is_alone = [self._suspects.popleft()], True
            hand.items |= {ref.index: (ref, dict(models)) for ref, models in chunk}
            self._left_count -= sum(len(models) for _, models in chunk)
            hand.actor.add.remote(chunk)
        if not hand.items:
            hand.actor.add.remote(None)

    async def _take(self, hand: _Hand, part: Part) -> None:
        """Store what a worker returned."""
        if part.error:
            raise ConfigError(part.error)
        for line in part.notes:
            self.say(line)
        await self.ledger.add_rows(part.rows)
        budget = self.progress.budget
        calls, stored_replies, repeated_calls = part.counts
        budget.count_calls(part.usage, calls)
        budget.cost += part.costs[0]
        budget.dearest = max(budget.dearest, part.costs[1])
        budget.stored_replies += stored_replies
        self.progress.repeated_calls += repeated_calls
        for result in part.results:
            ref, models = hand.items[result.place]
            (job,) = make_jobs(self.plan, ref, {result.edit.model: models.pop(result.edit.model)})
            if not models:
                del hand.items[result.place]
            await self._save(job, result.edit, result.outcomes, result.signatures)
        if part.end_reason != "done":
            self.end_reason = part.end_reason

    async def _replace(self, hand: _Hand, error: Exception) -> None:
        """Give the items of a dead worker to others; an edit that kills every worker fails.

        Raises:
            ConfigError: workers die before they begin.
        """
        cause = " ".join(str(error).split())
        if not hand.is_ready:
            self._early_deaths += 1
            if self._early_deaths >= _MOST_DEATHS:
                raise ConfigError(f"no worker started on Ray: {cause}", "see docs/howto/machines.md#ray")
        elif self.end_reason == "done":
            count = format_count(hand.edit_count, "edit goes", "edits go")
            self.say(f"a worker died, {count} to others: {cause}")
        for place, work in hand.items.items():
            self._deaths[place] += 1
            if self._deaths[place] >= _MOST_DEATHS:
                for job in make_jobs(self.plan, *work):
                    failure = Failure(error=f"each worker that was given it died: {cause}")
                    await self._save_failure(job, await self._describe_unloadable(job), failure)
                continue
            is_suspect = self._deaths[place] >= _SUSPICIOUS
            self._suspects.append(work) if is_suspect else self._chunks.append([work])
            self._left_count += len(work[1])
        self._start_workers()


def _list_chunks(plan: RunPlan) -> Iterator[Sequence[Work]]:
    """List the unfinished items, those that follow each other on one source together."""
    items = plan.list_unfinished_items()
    keys = groupby(items, lambda work: (work[0].files.get("source"), work[0].index // _CHUNK))
    return (list(chunk) for _, chunk in keys)
