"""Judging a whole data set: for scripts, notebooks and other engines.

```python
spec = editjudge.RunSpec(benchmark="core", data="items.jsonl", outputs={"ours": "out/ours"})
result = editjudge.run(spec, out="runs/first")
```
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, TypedDict, Unpack

from ..base.config import Settings
from ..base.errors import ConfigError, InputError
from ..base.identity import Identities
from ..base.text import format_count, group_by_key, shorten_list
from ..benchmarks.dimension import Dimension
from ..engine.content_keys import FileCache
from ..engine.events import FinishEvent, NoteEvent, RunEndReason, RunEvent
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
)
from ..engine.scheduler import Scheduler
from ..engine.session import Session, compare_with_last_session
from ..panel.budget import Budget
from ..panel.calls import CallStore
from ..panel.redaction import shorten
from ..prompts.rubrics import list_rubric_ids
from ..storage.shared_ledger import open_call_store
from ..storage.store import RunStore
from .client import JudgeConfigs, add_local_stack, check_type, resolve_settings, run_sync
from .estimate import Estimate, count_calls, describe_sampled_judges, estimate, judge_notes
from .name_shift import refuse_shifted_outputs
from .ray_pool import RayOptions, RayScheduler
from .spec import ResolvedSpec, RunSpec, check_known
from .summary import Cells, mean_cells
from .view import RunView

OnEvent: TypeAlias = Callable[[RunEvent], None]
Retry: TypeAlias = Literal["unscored"]
_QUOTE_CHARS = 20
"""Characters by which a reply is found in a reason that quotes it."""
_UNREAD = ("unparsable", "refused", "abstained")
"""The kinds of verdicts without a number where a judge replied and gave none. The first two are of
judges alone."""


@dataclass(frozen=True, repr=False)
class RunResult:
    """The result of a session of `run`.

    ```python
    result = editjudge.run(spec, out="runs/first")
    result.status  # "done"
    result.cells["ours"]["core.psnr.source.whole"].value
    ```

    Attributes:
        out: The folder of the run; `RunView(out)` reads it.
        last_event: The last event: how the session ended, counts, usage, and the edits without a
            number with their reasons.
        cells: By model under test and dimension, the mean over the chosen items, on the
            dimension's scale, with its coverage and signature; without a value where no edit is
            scored. The columns of the paper are in `RunView.results`.
        services: Identities by role, of the services of this session and of earlier ones.
    """

    out: Path
    last_event: FinishEvent
    cells: Cells
    services: Identities
    _resolved_spec: ResolvedSpec

    def __repr__(self) -> str:
        count = format_count(self.last_event.judged, "edit")
        return f"RunResult: {self.status}, {count} judged in this session, run in {self.out}"

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The chosen dimensions, each after its rounds."""
        return self._resolved_spec.dimensions

    def services_of(self, dimensions: Iterable[str]) -> Identities:
        """Return the identities of the services that these dimensions call."""
        roles = self._resolved_spec.roles(dimensions)
        return {role: identity for role, identity in self.services.items() if role in roles}

    @property
    def status(self) -> RunEndReason:
        """`done`, or why the session ended before."""
        return self.last_event.ended


class RunOptions(TypedDict, total=False):
    """The options of `run` and `run_async`, all of them optional.

    Attributes:
        settings: By default read from `EDITJUDGE_*` and `editjudge.toml`; a running local stack
            is used where they configure nothing. None is started.
        judges: Judges by name instead of those of the settings; see `Client`. The spec's `judges`
            have the same names.
        progress: A function that gets each event (`editjudge.engine.events.RunEvent`), in the
            thread that judges. An error that it raises ends the session.
        every: Seconds between two events `progress`, above 0; 2 by default.
        shard: `(i, n)` judges every n-th item from the i-th on, by its place in the data, counted
            from 0: the same items on each machine. `editjudge merge` joins the n runs.
        retry: `unscored` asks again what has no number, instead of taking the stored replies.
        fail_on_error: The share of failed verdicts, 0 to 1, above which the session ends, once
            there are 20 verdicts; None, the default, never ends it.
        max_cost: A limit instead of that of the settings: the run ends before it is spent, all
            sessions together, in the currency of the configured prices.
        ray: Where workers on Ray judge instead of this process; see `ray_pool.RayOptions`.
        as_named: Take outputs by their names, also where their sizes or contents say that they
            belong to the items beside them.
    """

    settings: Settings | None
    judges: JudgeConfigs | None
    progress: OnEvent | None
    every: float
    shard: tuple[int, int]
    retry: Retry | None
    fail_on_error: float | None
    max_cost: float | None
    as_named: bool
    ray: RayOptions | None


def run(spec: RunSpec, *, out: Path | str, **options: Unpack[RunOptions]) -> RunResult:
    """Judge what a spec names, or the rest of it where the run in `out` has begun.

    ```python
    result = editjudge.run(spec, out="runs/first", max_cost=5.0)
    ```

    A service that fails costs the verdicts that need it, which are `failed` and judged again by
    the next session; it raises nothing.

    The function sets no signal handler and never ends the process. Where an event loop runs already
    (a notebook, a web server) the judging has a thread with a loop of its own; there `run_async`
    does without. An interruption (KeyboardInterrupt) cancels the calls in flight; verdicts so far
    are stored, and the same call goes on.

    Args:
        spec: The benchmark, data, outputs and dimensions.
        out: The folder of the run, made where there is none; one process at a time judges in it.
        options: See `RunOptions`.

    Returns:
        The result, also where the session ended early: `status` is `done`, `cost`, `failures` or
        `judge` (a judge is another model than the requested one, or refuses the key).

    Raises:
        ConfigError: the spec, a setting or the folder cannot be used, or another process has it.
        InputError: the data, or a folder of outputs, cannot be used, or outputs clearly belong to
            the items beside their own.
        StoreError: the disk is full, or the run is damaged.
        TypeError: there is no such option.
        KeyboardInterrupt: it was interrupted; verdicts until then are stored.
    """
    return run_sync(run_async(spec, out=out, **options))


async def run_async(spec: RunSpec, *, out: Path | str, **options: Unpack[RunOptions]) -> RunResult:
    """Judge what a spec names, in the event loop that awaits it; see `run`.

    ```python
    result = await editjudge.run_async(spec, out="runs/first")
    ```

    Arguments, result and errors are those of `run`. `progress` is called in the same loop.

    Raises:
        asyncio.CancelledError: it was cancelled; verdicts until then are stored.
    """
    option_names = RunOptions.__annotations__
    if unknown := options.keys() - option_names.keys():
        raise TypeError(f"run has no option {min(unknown)!r}; it has {', '.join(option_names)}")
    check_type("spec", spec, RunSpec, "give editjudge.RunSpec(benchmark=…, data=…, outputs=…)")
    judges = options.get("judges") or {}
    if others := [name for name in judges if name not in spec.judges]:
        raise ConfigError(f"the spec has no judge {others[0]!r}", f"RunSpec(judges={[*judges]})")
    settings = resolve_settings(options.get("settings"), judges)
    if (max_cost := options.get("max_cost")) is not None:
        settings = settings.model_copy(update={"max_cost": max_cost})
    session = await asyncio.to_thread(RunSession, spec, Path(out), settings, options)
    with session:
        result = await session.judge(settings) if session.plan.edit_count else session.finish()
    if result.status == "interrupted":
        raise asyncio.CancelledError
    return result


class RunSession:
    """A session of a run: it reads the data when it is made, and the run is open inside `with`.

    `run` uses it, and so does the command line, which starts services in between.

    Args:
        settings: The settings that decide which judge answers, and how it is asked.
        options: As of `run`; its `settings`, `judges` and `max_cost` do not count here.

    Attributes:
        resolved_spec: The rules, data and dimensions of the spec.
        plan: The edits that are to be judged.
        idle_dimensions: Lines that name the chosen dimensions which apply to no item.

    Raises:
        ConfigError: the spec cannot be used, or a judge is not configured.
        InputError: the data, or a folder of outputs, cannot be used.
    """

    def __init__(self, spec: RunSpec, out: Path, settings: Settings, options: RunOptions) -> None:
        shard, retry = options.get("shard", (0, 1)), options.get("retry")
        first, step = shard
        if not 0 <= first < step:
            raise ConfigError(f"there is no shard {first} of {step}", "give (i, n) with i from 0 to n - 1")
        if not spec.outputs:
            raise InputError("outputs", "no model is given", "name a model and its folder")
        if retry and settings.gateway is not None:
            raise ConfigError(
                f"the Judge service keeps the replies, so that {retry} verdicts stay what they are",
                "leave --retry out, or judge them without --gateway",
            )
        as_named = options.get("as_named", False)
        self.resolved_spec, self.plan, self._before = _look(spec, out, shard, as_named=as_named)
        if ray := options.get("ray"):
            ray.check(self.plan, settings)
        self._out = out
        self._settings = settings
        self._tell = options.get("progress") or (lambda _: None)
        self._options = options
        self.idle_dimensions = _describe_idle_dimensions(spec, self.plan)
        # A run that goes on without names has the dimensions of its first session by name.
        self._expects_all = bool(spec.dimensions or self.resolved_spec.benchmark.table)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        header = self.resolved_spec.header(self._settings)
        if self._before is not None:
            # Until today's judges are found, those of the last session are who judged.
            header = header.model_copy(update={"settings": self._before.settings})
        with ExitStack() as stack:
            self._store = stack.enter_context(RunStore.open(self._out, header))
            if retry := self._options.get("retry"):
                self.say(self._drop_verdicts(retry))
            # Through a Judge service nothing is asked that a ledger could answer.
            ledger = None if self._settings.gateway else self._settings.ledger
            self._calls = open_call_store(self._store.ledger, ledger, self._settings.patience, self.say, stack)
            self._session = Session(
                self.plan,
                self._store,
                self._calls,
                self._settings,
                self._tell,
                self._options.get("every", 2.0),
                _judges_of(self.resolved_spec),
                self._make_scheduler,
            )
            compare_with_last_session(self.plan, self._store, self._before, self._settings)
            if self._before is not None and not self._options.get("as_named", False):
                refuse_shifted_outputs(self.plan)
            problems = describe_data_problems(self.resolved_spec.dataset, self.plan.flawed_items)
            self.say(*(f"data: {line}" for line in problems), *self.idle_dimensions)
            self.say(*_describe_new_dimensions(self.plan, self._before, self._settings))
            self._tell_outputs()
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def say(self, *lines: str) -> None:
        """Send lines for people, each as an event."""
        for line in lines:
            self._tell(NoteEvent(text=line))

    async def judge(self, settings: Settings) -> RunResult:
        """Judge the edits of the plan; see `Session.judge`.

        Args:
            settings: The settings with the available services.
        """
        self._session.settings = settings
        self.say(*judge_notes(self.resolved_spec, settings))
        return self._result(await self._session.judge(self._options.get("fail_on_error")))

    def _make_scheduler(self, *arguments: Any, **more: Any) -> Scheduler:
        if (ray := self._options.get("ray")) is None:
            return Scheduler(*arguments, **more)
        return RayScheduler(
            *arguments,
            spec=self.resolved_spec,
            settings=self._session.settings,
            ledger=self._store.ledger,
            calls=self._calls,
            options=ray,
            **more,
        )

    def finish(self) -> RunResult:
        """Return the result of a run without anything to judge; no service is called."""
        return self._result(self._session.finish_unjudged())

    @property
    def absent(self) -> Mapping[str, Sequence[str]]:
        """The dimensions that were asked for and that no service judges, by reason.

        Asked for are those that were named, or all of a published benchmark.
        """
        return self._session.not_served if self._expects_all else {}

    def _result(self, end_reason: RunEndReason) -> RunResult:
        plan, progress, session = self.plan, self._session.progress, self._session
        means = mean_cells(self._store, plan)
        for model, reasons in self._unreadable(plan).items():
            self.say(f"{model}: {format_count(len(reasons), 'output')} cannot be read (first: {reasons[0]})")
        self.say(*describe_sampled_judges(plan.inputs, self._store.header.identities))
        if count := self._calls.repeated_count + progress.repeated_calls:
            self.say(
                f"{format_count(count, 'call was', 'calls were')} made twice: another process had"
                " stored its reply to the ledger first"
            )
        self.say(*(unread := [*self._describe_unread()]))
        event = FinishEvent.of(
            progress,
            seconds_left=None,  # nothing is judged any more, whatever is left
            ended=end_reason,
            exit_code=_exit_code(end_reason, plan, progress, is_incomplete=bool(unread or self.absent)),
            usage=session.usage,
            unscored=progress.unscored,
            first_failure=progress.first_failure or None,
            not_served=session.not_served,
            columns=means,
        )
        self._tell(event)
        return RunResult(self._out, event, means, self._store.header.identities, self.resolved_spec)

    def _drop_verdicts(self, status: Retry) -> str:
        """Drop the verdicts that are to be judged again, and describe how many."""
        order, store = self.resolved_spec, self._store
        before = store.verdict_count
        above = order.dependents
        ids = {dimension.id for dimension in order.dimensions}
        count = store.drop_verdicts(status, models=order.outputs, dimensions=ids, derived_ids=above)
        beside = before - store.verdict_count - count
        note = f"{count:,} {status} verdicts are asked for again"
        return f"{note}, and {beside:,} that rest on the same replies" if beside else note

    def _describe_unread(self) -> Iterator[str]:
        """Name each judge that gave no number in any session, with a reply."""
        progress, ledger = self._session.progress, self._store.ledger
        dimensions = [d for d in self.plan.inputs.dimensions if d.id in progress.lines]
        for judge in dict.fromkeys(r for d in dimensions for r in d.roles if r.is_judge):
            own = [d for d in dimensions if judge in d.roles]
            verdicts = ((d, progress.first_unscored.get(d.id)) for d in own)
            # Where a specialist has a part, it may be what abstained.
            unread = (
                (d.id, verdict)
                for d, verdict in verdicts
                if verdict and verdict.kind in _UNREAD[: None if d.roles == (judge,) else 2]
            )
            name, verdict = next(unread, ("", None))
            if verdict is None or any(progress.lines[d.id].scored for d in own):
                continue
            numbers = map(ledger.find_number, reversed(verdict.calls))
            replies = (ledger.read_record(number).reply for number in numbers if number is not None)
            texts = [str(r["text"]) for r in replies if isinstance(r, dict) and "text" in r]
            is_quoted = any(repr(text)[1:_QUOTE_CHARS] in verdict.reason for text in texts)
            quote = f"; one reply: {shorten(texts[0])!r}" if texts and not is_quoted else ""
            yield (
                f"no reply of {judge} could be used: {name}: {verdict.reason}{quote}; see that"
                " it is a chat model that takes pictures (editjudge doctor), then give --retry"
                " unscored"
            )

    def _tell_outputs(self) -> None:
        for model, (count, reason) in self.plan.missing.items():
            if count:
                gone_count = self.plan.lost_outputs[model]
                note = f"; {gone_count:,} were judged before and stay judged" if gone_count else ""
                outputs = format_count(count, "output is", "outputs are")
                self.say(f"{model}: {outputs} missing (first: {reason}){note}")
        self.say(*self.plan.unmatched_file_notes)

    def _unreadable(self, plan: RunPlan) -> Mapping[str, list[str]]:
        """Return, by model, why present outputs of the selected items count as missing."""
        item_ids = {plan.ids[index] for index in plan.selected_positions}
        edits = (edit for model in plan.todo for edit in self._store.edits(model) if edit.item in item_ids)
        return group_by_key((e.model, e.missing.reason) for e in edits if e.missing and e.missing.kind == "unreadable")


def _describe_idle_dimensions(spec: RunSpec, plan: RunPlan) -> tuple[str, ...]:
    """Describe the chosen dimensions that apply to no item; the default ones are not mentioned."""
    return describe_inapplicable(plan) if spec.dimensions else ()


def preview_run(
    spec: RunSpec, out: Path, settings: Settings, *, shard: tuple[int, int] = (0, 1), as_named: bool = False
) -> tuple[Estimate, RunPlan]:
    """Estimate what a session would cost, and plan what it would do.

    No service is called, and nothing is written.

    Raises:
        ConfigError: the spec cannot be used, or the run in `out` is about something else.
        InputError: the data, or a folder of outputs, cannot be used; see `run`.
    """
    resolved_spec, plan, header = _look(spec, out, shard, as_named=as_named)
    at_hand = add_local_stack(settings)
    if RunView.exists_at(out):
        with RunStore.open(out, read_only=True) as store:
            header = store.header
            header.join(resolved_spec.header(settings), str(out))  # what a session would refuse
            compare_with_last_session(plan, store, header, settings)
        if not as_named:
            refuse_shifted_outputs(plan)
    work = estimate(plan, at_hand)
    new = _describe_new_dimensions(plan, header, at_hand)
    notes = (*_describe_idle_dimensions(spec, plan), *new, *work.notes)
    return replace(work, notes=notes), plan


def _look(
    spec: RunSpec, out: Path, shard: tuple[int, int], *, as_named: bool
) -> tuple[ResolvedSpec, RunPlan, RunHeader | None]:
    """Resolve a spec, plan its edits, and read the header of the last session, if there is one.

    Raises:
        ConfigError: the spec cannot be used.
        InputError: the data, or a folder of outputs, cannot be used.
    """
    header = read_header(out)
    if header is not None and not spec.dimensions:
        spec = _keep_dimensions(spec, header)
    resolved_spec = ResolvedSpec(spec, shard=shard)
    resolved_spec.check_single_image(spec.single_image)
    if header is not None:
        asked_ids = [name for name in header.dimensions if name in spec.dimensions]
        check_known(asked_ids, resolved_spec.dimensions_by_id)
    plan = inspect_items(resolved_spec, None if header is None else read_file_cache(out))
    if header is None:  # what cannot be used is refused before a run is begun
        compare_with_run(plan)
        if not as_named:
            refuse_shifted_outputs(plan)
    check_applicable(plan)
    return resolved_spec, plan, header


def _keep_dimensions(spec: RunSpec, header: RunHeader) -> RunSpec:
    """Ask for the dimensions that a run has, as far as they are known here, and for new rubrics.

    Raises:
        ConfigError: none of them is known.
    """
    names = RunSpec.of(header).dimensions
    known_ids = ResolvedSpec(spec.model_copy(update={"dimensions": names})).dimensions_by_id.keys()
    ids = [name for name in names if name in known_ids]
    if not ids:
        check_known(names, {})
    rubrics = [name for name in list_rubric_ids(spec.prompts) if name not in names]
    return spec.model_copy(update={"dimensions": (*ids, *rubrics)})


def _describe_new_dimensions(plan: RunPlan, header: RunHeader | None, settings: Settings) -> Iterator[str]:
    """Describe what dimensions that a run does not have yet add to it."""
    new = [d for d in plan.inputs.dimensions if header and d.id not in header.dimensions]
    names = [one.id for one in new if not one.round_of]
    if names and header and header.dimensions:
        verdicts = sum(row[one.id]["todo"] for row in plan.counts.values() for one in new)
        calls = count_calls(plan, frozenset(one.id for one in new), settings)
        by_service = (f"{service} at most {count:,}" for service, count in calls.items())
        yield (
            f"added to the run: {shorten_list(names)}: {format_count(verdicts, 'verdict')},"
            f" calls: {', '.join(by_service) or 'none'}"
        )


def read_header(out: Path) -> RunHeader | None:
    """Read the header of a run as the last session left it; None where there is none yet."""
    if not RunView.exists_at(out):
        return None
    try:
        with RunStore.open(out, read_only=True, only_header=True) as store:
            return store.header
    except ConfigError:  # of an older version, or begun and not yet written
        return None


def read_file_cache(out: Path) -> FileCache:
    """Read what the run in a folder stores of files."""
    with RunStore.open(out, read_only=True, only_header=True) as store:
        return store.file_cache()


def read_spec(out: Path) -> RunSpec | None:
    """Read the spec of the run in a folder; None where there is none yet."""
    header = read_header(out)
    return None if header is None else RunSpec.of(header)


def _exit_code(end_reason: RunEndReason, plan: RunPlan, progress: Progress, *, is_incomplete: bool) -> int:
    waiting_count = 0 if progress.edits else plan.total("not_served")
    nothing = waiting_count and not plan.total("standing")
    failure_count = progress.verdicts["failed"]
    is_bad = failure_count or nothing or is_incomplete
    return {"interrupted": 130, "done": 3 if is_bad else 0}.get(end_reason, 3)


def _judges_of(resolved_spec: ResolvedSpec) -> OpenJudges:
    """Make the function that opens the services of the settings, or their Judge service."""

    @contextlib.asynccontextmanager
    async def open_judges(settings: Settings, calls: CallStore, budget: Budget) -> AsyncIterator[Judges]:
        if settings.gateway is None:
            async with open_local_judges(settings, calls, budget) as judges:
                yield judges
            return
        from ..gateway.messages import make_protocol
        from ..gateway.panel import Gateway
        from ..gateway.session import open_session

        spec = resolved_spec.spec
        protocol = make_protocol(spec.benchmark, resolved_spec.rules.protocol, spec.judge_rounds, spec.prompts)
        gateway = Gateway(settings.gateway, settings, calls)
        async with open_session(gateway, protocol, resolved_spec, calls, budget) as through:
            yield through

    return open_judges
