"""Judging a whole data set: for scripts, notebooks and other engines.

```python
spec = editjudge.RunSpec(benchmark="core", data="items.jsonl", outputs={"ours": "out/ours"})
result = editjudge.run(spec, out="runs/first")
```
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self, TypeAlias, TypeVar

from ..base.config import Settings, load_settings
from ..base.errors import ConfigError, InputError
from ..base.identity import Identities
from ..base.text import format_count
from ..benchmarks.dimension import Dimension
from ..engine import events
from ..engine.content_keys import FileCache
from ..engine.events import FinishEvent, RunEndReason
from ..engine.judge import Judges, OpenJudges, open_local_judges
from ..engine.progress import Progress
from ..engine.run_header import RunHeader
from ..engine.run_plan import (
    RunPlan,
    check_applicable,
    compare_with_run,
    describe_data_problems,
    describe_inapplicable,
    inspect_items,
    pause_gc,
)
from ..engine.session import Session, compare_with_last_session
from ..panel import PoolPolicy
from ..panel.budget import Budget
from ..panel.calls import CallStore
from ..storage.shared_ledger import open_call_store
from ..storage.store import RunStore
from .client import add_local_stack, run_sync
from .estimate import Estimate, estimate, judge_notes
from .judge_spread import JudgeSpread
from .ledger_hits import count_ledger_hits
from .name_shift import refuse_shifted_outputs
from .spec import ResolvedSpec, RunSpec
from .summary import Cells, judge_spread, mean_cells
from .view import RunView

OnEvent: TypeAlias = Callable[[events.RunEvent], None]
Retry: TypeAlias = Literal["unscored"]
T = TypeVar("T")


@dataclass(frozen=True)
class RunResult:
    """What came of a session.

    Attributes:
        out: Folder of the run; `RunView(out)` reads it.
        finished: The last event: how it ended, counts, usage, and what has no number and why.
        cells: By model under test and dimension, the mean over the items asked for, on the
            dimension's scale, with its coverage and signature; without a value where nothing is
            scored. The paper's own columns are `RunView.results`.
        services: Identities by role, of this session's services and of earlier ones'.
    """

    out: Path
    last_event: FinishEvent
    cells: Cells
    services: Identities
    _resolved: ResolvedSpec

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """Those asked for, each after its rounds."""
        return self._resolved.dimensions

    @property
    def judge_spread(self) -> JudgeSpread:
        """What each of several judges says alone."""
        return judge_spread(self._resolved, self.cells)

    def services_of(self, dimensions: Iterable[str]) -> Identities:
        """Those that these dimensions call."""
        roles = self._resolved.roles(dimensions)
        return {role: identity for role, identity in self.services.items() if role in roles}

    @property
    def status(self) -> RunEndReason:
        """`done`, or why it ended before."""
        return self.last_event.ended


def run(
    spec: RunSpec,
    *,
    out: Path | str,
    settings: Settings | None = None,
    progress: OnEvent | None = None,
    every: float = 2.0,
    shard: tuple[int, int] = (0, 1),
    retry: Retry | None = None,
    fail_on_error: float | None = None,
    max_cost: float | None = None,
    as_named: bool = False,
) -> RunResult:
    """Judge what a spec asks for, or the rest of it where the run in `out` is begun.

    A service that fails costs the verdicts that need it, which are `failed` and judged again by
    the next session; it raises nothing.

    It sets no signal handler and never ends the process. Where an event loop runs already (a
    notebook, a web server) the judging has a thread with a loop of its own; there `run_async` does
    without. An interruption (KeyboardInterrupt) cancels the calls in flight; what was judged is
    kept, and the same call goes on.

    Args:
        out: Folder of the run, made where there is none; one process at a time judges in it.
        settings: By default read from `EDITJUDGE_*` and `editjudge.toml`; a running local stack
            is used where nothing is configured there. None is started.
        progress: Gets events (`RunEvent`), in the thread that judges; what it raises ends the
            session.
        every: Seconds between two events `progress`, above 0.
        shard: `(i, n)` judges every n-th item from the i-th on, by its place in the data, counted
            from 0: the same items on each machine. `editjudge merge` puts the n runs together.
        retry: `unscored` asks again what has no number, instead of taking the stored replies.
        fail_on_error: Share of failed verdicts, 0 to 1, above which it ends, once there are 20
            verdicts; None never.
        max_cost: Instead of that of the settings: it ends before this is spent, all sessions of
            the run together, in the currency of the configured prices.
        as_named: Take outputs by their names, also where their sizes say that they are those of
            the items beside them.

    Returns:
        What came of it, also where it ended early: `ended` is `done`, `cost`, `failures` or
        `judge` (one is not the one asked for, or refuses the key).

    Raises:
        ConfigError: the spec, a setting or the folder cannot be used, or another process has it.
        InputError: the data, or a folder of outputs, cannot be used, or outputs clearly are those
            of the items beside their own.
        StoreError: the disk is full, or the run is damaged.
        KeyboardInterrupt: it was interrupted; what was judged until then is kept.
    """
    judging = run_async(
        spec,
        out=out,
        settings=settings,
        progress=progress,
        every=every,
        shard=shard,
        retry=retry,
        fail_on_error=fail_on_error,
        max_cost=max_cost,
        as_named=as_named,
    )
    return run_sync(judging)


async def run_async(
    spec: RunSpec,
    *,
    out: Path | str,
    settings: Settings | None = None,
    progress: OnEvent | None = None,
    every: float = 2.0,
    shard: tuple[int, int] = (0, 1),
    retry: Retry | None = None,
    fail_on_error: float | None = None,
    max_cost: float | None = None,
    as_named: bool = False,
) -> RunResult:
    """`run` for asynchronous programs; cancelling it cancels the calls in flight.

    Arguments, result and errors are those of `run`. It judges in the loop that awaits it, and
    `progress` is called there.

    Raises:
        asyncio.CancelledError: it was cancelled; what was judged until then is kept.
    """
    at_hand = add_local_stack(settings or load_settings())
    if max_cost is not None:
        at_hand = at_hand.model_copy(update={"max_cost": max_cost})
    prepared = await asyncio.to_thread(
        RunSession,
        spec,
        Path(out),
        at_hand,
        progress=progress,
        every=every,
        shard=shard,
        retry=retry,
        fail_on_error=fail_on_error,
        as_named=as_named,
    )
    with prepared as running:
        result = await running.judge(at_hand) if running.plan.edits else running.finish()
    if result.status == "interrupted":
        raise asyncio.CancelledError
    return result


class RunSession:
    """A session of a run: the data is looked at when it is made, the run is open inside `with`.

    `run` is made of it, and so is the command line, which looks for services in between.

    Args:
        settings: Decide which judge answers, and how it is asked.
        tell: Gets the events.

    Attributes:
        resolved: What the spec means.
        left: What is to be judged; known inside `with`.
        unasked: Which of the dimensions that were chosen ask nothing of any item, in lines.

    Raises:
        ConfigError: the spec cannot be used, or a judge is not configured.
        InputError: the data, or a folder of outputs, cannot be used.
    """

    def __init__(
        self,
        spec: RunSpec,
        out: Path,
        settings: Settings,
        *,
        progress: OnEvent | None = None,
        every: float = 2.0,
        shard: tuple[int, int] = (0, 1),
        retry: Retry | None = None,
        fail_on_error: float | None = None,
        as_named: bool = False,
    ) -> None:
        first, step = shard
        if not 0 <= first < step:
            raise ConfigError(
                f"there is no shard {first} of {step}", "give (i, n) with i from 0 to n - 1"
            )
        if not spec.outputs:
            raise InputError("outputs", "no model is given", "name a model and its folder")
        if retry and settings.gateway is not None:
            raise ConfigError(
                f"the Judge service keeps the replies, so that {retry} verdicts stay what they are",
                "leave --retry out, or judge them without --gateway",
            )
        self.resolved_spec, self.plan, self._before = _look(spec, out, shard, as_named=as_named)
        self._out = out
        self._settings = settings
        self._tell = progress or (lambda _: None)
        self._every = every
        self._retry = retry
        self._fail_on_error = fail_on_error
        self.idle_dimensions = _unasked(self.resolved_spec, self.plan)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        header = self.resolved_spec.header(self._settings)
        if self._before is not None:
            # Until today's judges are found, those of the last session are who judged.
            header = header.model_copy(update={"settings": self._before.settings})
        with ExitStack() as opened:
            self._store = opened.enter_context(RunStore.open(self._out, header))
            if self._retry:
                self.say(self._dropped(self._retry))
            # Through a Judge service nothing is asked that a ledger could answer.
            ledger = None if self._settings.gateway else self._settings.ledger
            calls = open_call_store(self._store.ledger, ledger, self.say, opened)
            self._session = Session(
                self.plan,
                self._store,
                calls,
                self._settings,
                self._tell,
                self._every,
                _judges_of(self.resolved_spec),
            )
            compare_with_last_session(self.plan, self._store, self._before, self._settings)
            for line in describe_data_problems(self.resolved_spec.dataset, self.plan.flawed_items):
                self.say(f"data: {line}")
            for line in self.idle_dimensions:
                self.say(line)
            self._tell_outputs()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def say(self, line: str) -> None:
        """Tell people something, as an event."""
        self._tell(events.NoteEvent(text=line))

    async def judge(self, settings: Settings) -> RunResult:
        """Judge what is left; see `Session.judge`.

        Args:
            at_hand: The settings with the services there are.
        """
        self._session.settings = settings
        for line in judge_notes(self.resolved_spec, settings):
            self.say(line)
        return self._result(await self._session.judge(self._fail_on_error))

    def finish(self) -> RunResult:
        """The result where all is done: no service is asked for anything."""
        return self._result(self._session.end())

    def _result(self, ended: RunEndReason) -> RunResult:
        plan, progress, session = self.plan, self._session.progress, self._session
        made = mean_cells(self._store, plan)
        for model, reasons in self._unreadable(plan).items():
            self.say(
                f"{model}: {format_count(len(reasons), 'output')} cannot be read"
                f" (first: {reasons[0]})"
            )
        event = FinishEvent.of(
            progress,
            seconds_left=None,  # nothing is judged any more, whatever is left
            ended=ended,
            exit_code=_exit_code(ended, plan, progress),
            usage=session.usage,
            unscored=events.unscored_of(progress),
            first_failure=progress.first_failure or None,
            not_served=session.not_served,
            columns=made,
        )
        self._tell(event)
        return RunResult(self._out, event, made, self._store.header.identities, self.resolved_spec)

    def _dropped(self, status: Retry) -> str:
        """Drop what is to be asked anew; says how much that is."""
        order, store = self.resolved_spec, self._store
        before = store.verdict_count
        above = order.dependents
        names = {dimension.id for dimension in order.dimensions}
        dropped = store.drop_verdicts(status, models=order.outputs, dimensions=names, above=above)
        beside = before - store.verdict_count - dropped
        told = f"{dropped:,} {status} verdicts are asked for again"
        return f"{told}, and {beside:,} that rest on the same replies" if beside else told

    def _tell_outputs(self) -> None:
        for model, (count, reason) in self.plan.missing.items():
            if count:
                gone = self.plan.lost_outputs[model]
                kept = f"; {gone:,} were judged before and stay judged" if gone else ""
                outputs = format_count(count, "output is", "outputs are")
                self.say(f"{model}: {outputs} missing (first: {reason}){kept}")
        for line in self.plan.unmatched_file_notes:
            self.say(line)

    def _unreadable(self, plan: RunPlan) -> Mapping[str, list[str]]:
        """By model, why outputs that are there count as missing, of the items asked for."""
        asked = {plan.ids[index] for index in plan.selected_positions}
        reasons: dict[str, list[str]] = {}
        for model in plan.todo:
            for edit in self._store.edits(model):
                if edit.item in asked and edit.missing and edit.missing.kind == "unreadable":
                    reasons.setdefault(model, []).append(edit.missing.reason)
        return reasons


def _unasked(resolved: ResolvedSpec, plan: RunPlan) -> tuple[str, ...]:
    """Nobody chose what is asked by default: much of that needs what most data has not."""
    return describe_inapplicable(plan) if resolved.spec.dimensions else ()


def preview_run(
    spec: RunSpec,
    out: Path,
    settings: Settings,
    *,
    shard: tuple[int, int] = (0, 1),
    as_named: bool = False,
) -> tuple[Estimate, RunPlan]:
    """What a session would take, and what it would do.

    Nothing is called or written.

    Raises:
        ConfigError: the spec cannot be used, or the run in `out` is about something else.
        InputError: the data, or a folder of outputs, cannot be used; see `run`.
    """
    resolved, plan, header = _look(spec, out, shard, as_named=as_named)
    at_hand = add_local_stack(settings)
    if RunView.exists_at(out):
        with RunStore.open(out, read_only=True) as store:
            header = store.header
            header.join(resolved.header(settings), str(out))  # what a session would refuse
            compare_with_last_session(plan, store, header, settings)
    estimated = estimate(plan, at_hand, count_ledger_hits(plan, header, at_hand))
    return replace(estimated, notes=(*_unasked(resolved, plan), *estimated.notes)), plan


def _look(
    spec: RunSpec, out: Path, shard: tuple[int, int], *, as_named: bool
) -> tuple[ResolvedSpec, RunPlan, RunHeader | None]:
    """What is asked for, its items, and the header as the last session left it, where there is one.

    Raises:
        ConfigError: the spec cannot be used.
        InputError: the data, or a folder of outputs, cannot be used.
    """
    resolved = ResolvedSpec(spec, shard=shard)
    resolved.check_single_image(spec.single_image)
    header = read_header(out)
    plan = inspect_items(resolved, None if header is None else read_file_cache(out))
    if header is None:
        compare_with_run(plan)  # refuses outputs that cannot be used before a run is begun
    if not as_named:
        refuse_shifted_outputs(plan)
    check_applicable(plan)
    return resolved, plan, header


def read_header(out: Path) -> RunHeader | None:
    """Of the run as the last session left it; None where there is none yet."""
    if not RunView.exists_at(out):
        return None
    try:
        with RunStore.open(out, read_only=True, only_header=True) as store:
            return store.header
    except ConfigError:  # of an older version, or begun and not yet written
        return None


def read_file_cache(out: Path) -> FileCache:
    """What the run in a folder knows of files."""
    with RunStore.open(out, read_only=True, only_header=True) as store, pause_gc():
        return store.file_cache()


def read_spec(out: Path) -> RunSpec | None:
    """What the run in a folder was asked for; None where there is none yet."""
    header = read_header(out)
    return None if header is None else RunSpec.of(header)


def _exit_code(ended: RunEndReason, plan: RunPlan, progress: Progress) -> int:
    waiting = 0 if progress.edits else plan.total("not_served")
    nothing = waiting and not plan.total("standing")
    failed = progress.verdicts["failed"]
    return {"interrupted": 130, "done": 3 if failed or nothing else 0}.get(ended, 3)


def _judges_of(resolved: ResolvedSpec) -> OpenJudges:
    """Opens the services of the settings, or the Judge service that they name."""

    @contextlib.asynccontextmanager
    async def opened(
        settings: Settings,
        calls: CallStore,
        policy: PoolPolicy,
        budget: Budget,
    ) -> AsyncIterator[Judges]:
        if settings.gateway is None:
            async with open_local_judges(settings, calls, policy, budget) as judges:
                yield judges
            return
        from ..gateway.messages import make_protocol
        from ..gateway.panel import Gateway
        from ..gateway.session import open_session

        spec = resolved.spec
        protocol = make_protocol(
            spec.benchmark, resolved.rules.protocol, spec.judge_rounds, spec.prompts
        )
        gateway = Gateway(settings.gateway, settings, calls, policy)
        async with open_session(gateway, protocol, resolved, calls, budget) as through:
            yield through

    return opened
