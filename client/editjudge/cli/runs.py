"""`editjudge validate`, `run`, `merge` and `rescore`."""

import asyncio
import contextlib
import os
import shlex
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..app.canary import last_checks_line
from ..app.dimensions import models_needed, unserved_command
from ..app.estimate import describe_estimate
from ..app.merge import merge
from ..app.rescoring import RescoreEntry, rescore_run
from ..app.run import RunOptions, RunResult, RunSession, preview_run
from ..app.run import read_spec as stored_spec
from ..app.spec import ResolvedSpec, RunSpec, ask_about_pairs
from ..app.summary import column_titles, mean_columns
from ..app.validation import Validation, validate
from ..base.config import Settings
from ..base.console import make_console
from ..base.errors import InputError
from ..base.identity import untrained_services
from ..base.terminal import print_notice, print_text
from ..base.text import format_count, group_by_key, shorten_list
from ..base.verdict import Pending
from ..benchmarks.cell import Tally
from ..benchmarks.pairs import FILE as PAIRS
from ..report.display import format_progress, make_display
from ..report.numbers import format_usage, untrained_warning
from ..report.summary import build_results_tables, drop_empty_columns
from ..report.table import Head, Row, Table
from .local_stack import provide_services
from .options import check_judges, open_run, parse_judges, parse_part, parse_ray, settings_from, spec_from
from .output import print_json, print_tables

_RESUME = "repeat the command to resume"
_WAIT_FOR_CALLS = 10.0
"""Seconds from an interruption until the process exits, even if calls are still in flight."""
_WAIT_FOR_THREADS = 1.0
"""Seconds that threads get after an interruption; writing a line takes less."""
_THREADS = "run"
"""Prefix of the names of the event loop's threads."""
_EARLY_ENDS = {
    "interrupted": "interrupted",
    "failures": "ended early: too many verdicts failed",
    "judge": "ended early: a judge cannot be used",
    "cost": "ended early to stay below max_cost; to continue, set a higher --max-cost",
}
_MAX_LISTED = 20
"""Number of problems of one kind and place that are listed."""


def validate_command(benchmark: str, *, json: bool, **options: Any) -> int:
    """Check data and outputs; return the exit code."""
    spec = spec_from(benchmark, options, settings_from(options))
    result = validate(ResolvedSpec(spec), spec.single_image, as_named=options["as_named"])
    if json:
        print_json(result)
    else:
        _print_validation(result)
    return 2 if result.wrong else 0


def _print_validation(result: Validation) -> None:
    print_text(f"{format_count(result.items, 'item')} can be used")
    for model, count in result.outputs.items():
        print_text(f"{model}: {format_count(count, 'output')}")
    if result.mask_share is not None:
        print_text(f"masks: median {100 * result.mask_share:.0f} % white (may change)")
    counts: Counter[tuple[str, str]] = Counter()
    for problem in result.problems:
        counts[problem.where, problem.kind] += 1
        if counts[problem.where, problem.kind] <= _MAX_LISTED:
            place = ": ".join(dict.fromkeys((problem.where, problem.kind)))
            print_text(f"{place}{' (note)' if problem.note else ''}: {problem.what}")
    for (where, kind), count in counts.items():
        if count > _MAX_LISTED:
            print_text(f"{where}: {kind}: and {count - _MAX_LISTED:,} more")
    if result.wrong:
        print_text("problems found: fix them. editjudge run can judge the rest, unless a line is no item")
    else:
        print_text("no problems found; next: editjudge run (--dry-run counts its calls)")


def run_command(
    benchmark: str, out: Path, *, dry_run: bool, json: bool, retry: Any, per_item: int | None, **options: Any
) -> int:
    """Judge the rest of a run, or estimate it (--dry-run); return the exit code."""
    if not options["outputs"]:
        raise InputError("--outputs", "no model is given", "give --outputs MODEL=DIR")
    if dry_run and retry:
        raise InputError("--dry-run", f"cannot be combined with --retry {retry}", "leave one of the two out")
    settings = settings_from(options)
    spec = spec_from(benchmark, options, settings, stored_spec(out))
    check_judges(parse_judges(options), settings)
    how: Any = {"shard": parse_part("shard", options["shard"]), "as_named": options["as_named"]}
    with TemporaryDirectory() if dry_run else contextlib.nullcontext(out) as folder:
        if options["pairs"] or per_item:
            spec = ask_about_pairs(spec, Path(folder) / PAIRS, per_item)
        if not dry_run:
            how |= {"retry": retry, "fail_on_error": options["fail_on_error"], "ray": parse_ray(options)}
            return _judge(spec, out, settings, how, as_json=json)
        estimate, work = preview_run(spec, out, settings, **how)
    if json:
        print_json(estimate)
    else:
        print_text(*describe_estimate(estimate, work))
    return 0


def _judge(spec: RunSpec, out: Path, settings: Settings, how: RunOptions, *, as_json: bool) -> int:
    with (
        make_display(as_json=as_json) as bar,
        RunSession(spec, out, settings, {**how, "progress": bar, "every": bar.seconds_between}) as run,
    ):
        result = _judge_rest(run, settings, starts_stack=how.get("ray") is None)
    if result is None:
        print_notice(f"interrupted; {_RESUME}")
        return 130
    if not as_json:
        _print_result(result, run.idle_dimensions, column_titles(run.resolved_spec.rules.columns))
        if checks := last_checks_line(result.services, settings=settings):
            print_notice(checks)
        if run.absent:
            are = format_count(sum(map(len, run.absent.values())), "dimension was", "dimensions were")
            print_notice(f"incomplete: {are} not judged: {shorten_list([*run.absent])}")
    return result.last_event.exit_code


def _judge_rest(running: RunSession, settings: Settings, *, starts_stack: bool) -> RunResult | None:
    """Judge the rest of the run; return None if interrupted.

    Args:
        starts_stack: Whether a local stack may judge; workers on other machines do not reach it.
    """
    if not running.plan.edit_count:
        return running.finish()
    stack = provide_services(settings, roles=running.plan.roles, say=running.say)
    with stack if starts_stack else contextlib.nullcontext(settings) as at_hand:
        try:
            return asyncio.run(_judge_interruptibly(running, at_hand))
        except asyncio.CancelledError:
            return None


async def _judge_interruptibly(running: RunSession, available: Settings) -> RunResult:
    # Edits are judged in parallel already: threads within OpenCV's functions would only wait for
    # each other. OpenCV reads the variable at its first use, and it cannot be changed safely later.
    os.environ.setdefault("OPENCV_FOR_THREADS_NUM", "1")
    loop, threads = asyncio.get_running_loop(), ThreadPoolExecutor(thread_name_prefix=_THREADS)
    loop.set_default_executor(threads)
    task = asyncio.create_task(running.judge(available))
    try:
        with _cancel_on_signals(task):
            return await task
    finally:
        if task.cancelling():
            # Looking up the name of an unreachable server blocks a thread for half a minute and
            # cannot be cancelled. The end of the loop would wait for it, so threads are replaced.
            loop.set_default_executor(ThreadPoolExecutor())
            _leave_threads(threads)


def _leave_threads(threads: ThreadPoolExecutor) -> None:
    """Wait for the threads for a second at most, and cancel everything else."""
    threads.shutdown(wait=False, cancel_futures=True)
    until = time.monotonic() + _WAIT_FOR_THREADS
    for thread in threading.enumerate():
        if thread.name.startswith(f"{_THREADS}_"):
            thread.join(max(0.0, until - time.monotonic()))


@contextlib.contextmanager
def _cancel_on_signals(task: asyncio.Task[RunResult]) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM cancel the task, and the second one end the process."""
    loop = asyncio.get_running_loop()
    signal_count = 0

    def interrupt() -> None:
        nonlocal signal_count
        signal_count += 1
        if signal_count > 1:
            os._exit(130)
        task.cancel()
        loop.call_later(_WAIT_FOR_CALLS, os._exit, 130)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # Handlers cannot be set in a thread, nor on Windows, where asyncio.run handles SIGINT.
    with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
        for number in before:
            loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)


def _print_result(result: RunResult, notes: Sequence[str], titles: Mapping[str, str]) -> None:
    event = result.last_event
    rows = result.cells.values()
    dimensions = [
        d for d in result.dimensions if not d.round_of and any(row[d.id].counts.keys() - {"not_served"} for row in rows)
    ]
    columns, _ = drop_empty_columns(mean_columns(dimensions, titles), result.cells, result.out)
    if columns:
        print_tables(build_results_tables(columns, result.cells, width=make_console().width))
    names = untrained_services(result.services_of(d.id for d in dimensions))
    if warning := untrained_warning(names):
        print_text(warning, fg="red", bold=True)
    print_text(*notes, *_describe_unserved(result, has_table=bool(columns)))
    if event.usage:
        print_text(f"judges took {format_usage(event.usage)}")
    print_notice(_session_line(result), *_end_lines(result), f"stored in {result.out}", *_next_steps(result))


def _describe_unserved(result: RunResult, *, has_table: bool) -> Iterator[str]:
    """Count the dimensions that wait for models, and give the reason for those not installed here.

    If nothing was judged, the reasons of all of them are given.
    """
    local_reasons = {dimension.unavailable_reason for dimension in result.dimensions}
    count = 0
    for reason, names in result.last_event.not_served.items():
        if reason in local_reasons or not has_table:
            yield f"not judged, {reason}: {format_count(len(names), 'dimension')}"
        count += 0 if reason in local_reasons else len(names)
    if count:
        yield f"{models_needed(count, 'dimension')}: {unserved_command(result.out)}"


def _next_steps(result: RunResult) -> Iterator[str]:
    """Suggest the next command for a finished run with scores."""
    run = shlex.quote(str(result.out))
    # Further outputs of a model are not another model.
    models = [name for name in result.cells if name.rpartition("@")[0] not in result.cells]
    if result.last_event.ended != "done" or not any(
        cell.scored for row in result.cells.values() for cell in row.values()
    ):
        return
    if len(models) > 1:
        first, second = map(shlex.quote, models[:2])
        yield f"next: editjudge compare {run} {first} {second}"
    else:
        yield f"next: editjudge summary {run}"


def _session_line(result: RunResult) -> str:
    """Describe in one line what this session did."""
    if result.last_event.edits:
        return format_progress(result.last_event)
    counts = (cell.counts for row in result.cells.values() for cell in row.values())
    count = sum(count.get("not_served", 0) for count in counts)
    if count:
        verdicts = format_count(count, "verdict waits", "verdicts wait")
        return f"nothing could be judged: {verdicts} for a service"
    return "nothing was left to judge"


def _end_lines(result: RunResult) -> list[str]:
    event = result.last_event
    by_count = sorted(event.unscored.items(), key=lambda kind: -kind[1].count)
    lines = [
        f"{format_count(kind.count, 'verdict has', 'verdicts have')} no number, {name} (first: {kind.first})"
        for name, kind in by_count
    ]
    failures = sum(line.failed for line in event.verdicts.values())
    if failures:
        lines.append(f"{format_count(failures, 'verdict')} failed (first: {event.first_failure})")
    reason = _EARLY_ENDS.get(event.ended)
    if reason or failures:
        lines.append(f"{reason}; {_RESUME}" if reason else _RESUME)
    return lines


def merge_command(runs: tuple[Path, ...], out: Path, shards: int | None) -> None:
    """Merge runs into a new one, or into one for each shard."""
    counts = merge(runs, out, shards=shards)
    print_text(
        f"{out}: {format_count(counts.verdicts, 'verdict')} on {format_count(counts.edits, 'edit')}"
        f" ({counts.duplicates:,} were in several runs)"
    )
    if shards is None:
        _print_pending(out)
        return
    if cost := sum(counts.costs):
        each = ", ".join(f"{one:.4g}" for one in counts.costs)
        print_text(f"spent so far: {cost:.4g}; --max-cost of each shard counts its own: {each}")
    print_notice(f"go on with --shard I/{shards} --out {shlex.quote(str(out))}/I, I from 0")


def _print_pending(run: Path) -> None:
    """Report edits that are not judged yet, for example of a missing shard."""
    with open_run(run) as view:
        if view.missing_data_reason:
            print_notice(f"whether every edit was judged is unknown: {view.missing_data_reason}")
            return
        pending = [any(isinstance(outcome, Pending) for outcome in row.outcomes.values()) for row in view.rows()]
    if count := sum(pending):
        are = format_count(count, "edit is", "edits are")
        print_notice(
            f"{are} not judged yet, of {len(pending):,}: a run is missing, unfinished or had a"
            f" --limit; to judge them, run it with --out {shlex.quote(str(run))}"
        )


def rescore_command(run: Path, *, write: bool, json: bool) -> None:
    """Score a run again from its stored replies, and show what changed."""
    changes = rescore_run(run, write=write)
    if json:
        print_json(changes)
        return
    print_tables([changes_table(changes)])
    print_text(*kept_reasons(changes))
    if not write and any(change.changed for change in changes):
        print_notice("the run was not changed; --write stores the new verdicts")


def changes_table(changes: Iterable[RescoreEntry]) -> Table:
    """Make a table of verdicts and their means, a row for each model and dimension."""
    words = ("model", "dimension")
    figures = ("verdicts", "mean before", "mean after", "changed", "kept")
    rows = []
    for change in changes:
        means = (_mean(change.before), _mean(change.after))
        count = sum(change.before.all_counts.values())
        rows.append(Row((change.model, change.dimension, count, *means, change.changed, change.kept)))
    return Table(
        (*(Head(name, fold=True) for name in words), *(Head(name, right=True) for name in figures)),
        rows,
        notes=["Means of the scored verdicts; missing outputs have none."],
    )


def _mean(tally: Tally) -> str:
    mean = tally.mean()
    return "-" if mean is None else f"{mean:.4g} of {tally.counts['scored']:,}"


def kept_reasons(changes: Iterable[RescoreEntry]) -> Iterator[str]:
    """Explain why verdicts were not rescored, a line for each reason."""
    by_reason = group_by_key(
        (change.why_kept, f"{change.dimension} of {change.model} ({change.kept:,})")
        for change in changes
        if change.kept
    )
    for why, verdicts in by_reason.items():
        yield f"- not rescored: {shorten_list(verdicts)}: {why}"
