"""`editjudge run`: judge models on a data set, and go on where it ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import click

from ..app.estimate import lines
from ..app.run import Retry, Running, RunResult, foreseen, spec_of
from ..app.spec import RunSpec
from ..app.summary import columns, titles_of
from ..app.wire.base import text_of
from ..app.wire.checks import Estimate
from ..app.wire.run import Finished
from ..base.config import Settings
from ..base.console import console
from ..base.errors import InputError
from ..base.screen import say, say_json, tell
from ..base.words import counted
from ..report.columns import Parted, results_table
from ..report.live import display, summary
from ..report.table import untrained_line, usage_text
from .options import (
    GatewayOptions,
    SpecOptions,
    as_named_option,
    concurrency_option,
    cost_option,
    json_option,
    ledger_option,
    options,
    services_at_hand,
)

_RESUME = "the same command goes on where this ended"
_WAIT_FOR_CALLS = 10.0
"""Seconds after an interruption until the process ends whatever still hangs."""
_WAIT_FOR_THREADS = 1.0
"""Seconds after an interruption for what runs in threads: a line that is written takes less."""
_EARLY = {
    "interrupted": "interrupted",
    "failures": "ended: too many verdicts failed",
    "judge": "ended: a judge cannot be used",
    "cost": "ended before max_cost was passed; with a higher --max-cost",
}


@click.command("run")
@options(SpecOptions, "asked")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder of the run; kept."
)
@click.option(
    "--retry",
    type=click.Choice(["unscored"]),
    help="Ask again what has no number, instead of taking the stored replies.",
)
@click.option("--dry-run", is_flag=True, help="Say what it would take, and call nothing.")
@click.option(
    "--fail-on-error",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="End when more than this share of verdicts failed, for example 0.05.",
)
@as_named_option
@options(GatewayOptions, "services")
@concurrency_option
@cost_option
@ledger_option
@click.option(
    "--canary/--no-canary",
    default=None,
    help="Watch judges for drift, where that is worth its calls (docs/canaries.md); on by default.",
)
@json_option
def command(
    asked: SpecOptions,
    out: Path,
    retry: Retry | None,
    dry_run: bool,
    fail_on_error: float | None,
    as_named: bool,
    services: GatewayOptions,
    concurrency: str | None,
    max_cost: float | None,
    ledger: Path | None,
    canary: bool | None,
    as_json: bool,
) -> int:
    """Judge what models made of a data set; the same command resumes the run.

    BENCHMARK is core for data of your own, or one that editjudge list benchmarks shows.

    Exit code 3 when verdicts failed, nothing could be judged, or the run ended early
    (--fail-on-error, --max-cost).
    """
    if not asked.outputs:
        raise InputError("--outputs", "no model is given", "give --outputs MODEL=DIR")
    spec = asked.spec(spec_of(out))
    settings = services.settings(max_cost=max_cost, ledger=ledger, concurrency=concurrency)
    if canary is not None:
        settings = settings.model_copy(update={"canary": canary})
    asked.check_judges(settings)
    if dry_run and retry:
        raise InputError(
            "--dry-run", f"does not foresee --retry {retry}", "leave one of the two out"
        )
    if dry_run:
        return _dry_run(spec, out, settings, as_named=as_named, as_json=as_json)
    with display(as_json=as_json) as shown:
        prepared = Running(
            spec,
            out,
            settings,
            tell=shown,
            every=shown.every,
            retry=retry,
            fail_on_error=fail_on_error,
            as_named=as_named,
        )
        with prepared as running:
            result = _judged(running, settings)
    if result is None:
        tell(f"interrupted; {_RESUME}")
        return 130
    if not as_json:
        _show(result, running.unasked, titles_of(running.resolved.rules.columns))
    return result.finished.exit_code


def _judged(running: Running, settings: Settings) -> RunResult | None:
    """Judge what is left; None where that was interrupted."""
    if not running.left.edits:
        return running.nothing_left()
    start = any(not role.is_generalist for role in running.left.roles)
    with services_at_hand(settings, start=start, say=running.say) as at_hand:
        try:
            return asyncio.run(_interruptible(running, at_hand))
        except asyncio.CancelledError:
            return None


class _Threads(ThreadPoolExecutor):
    """The event loop's threads.

    Whoever looks up the name of a server that is not there hangs for half a minute, and nothing
    ends that: after an interruption nobody waits for it.
    """

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="run")
        self.interrupted = False
        self._submitted: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As every executor's."""
        future = super().submit(fn, *args, **kwargs)
        self._submitted.add(future)
        future.add_done_callback(self._submitted.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As every executor's, but waits for a second at most where the run was interrupted."""
        super().shutdown(wait and not self.interrupted, cancel_futures=cancel_futures)
        if self.interrupted:
            _wait_for(self._submitted)


def _wait_for(futures: set[Future[Any]]) -> None:
    wait(list(futures), _WAIT_FOR_THREADS)


async def _interruptible(running: Running, at_hand: Settings) -> RunResult:
    # Edits are side by side already: further threads within OpenCV's functions would only wait for
    # each other. It is read at its first use, and cannot be changed safely while others use it.
    os.environ.setdefault("OPENCV_FOR_THREADS_NUM", "1")
    threads = _Threads()
    asyncio.get_running_loop().set_default_executor(threads)
    judging = asyncio.ensure_future(running.judge(at_hand))
    with _signals(judging, threads):
        return await judging


@contextlib.contextmanager
def _signals(judging: asyncio.Future[RunResult], threads: _Threads) -> Iterator[None]:
    """Let SIGINT and SIGTERM cancel the judging, and the second of them end the process."""
    loop = asyncio.get_running_loop()
    seen = 0

    def interrupt() -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            os._exit(130)
        threads.interrupted = True
        judging.cancel()
        loop.call_later(_WAIT_FOR_CALLS, os._exit, 130)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # Not in a thread, and not on Windows, where asyncio.run itself sees to SIGINT.
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


def _dry_run(spec: RunSpec, out: Path, settings: Settings, *, as_named: bool, as_json: bool) -> int:
    estimate, work, again = foreseen(spec, out, settings, as_named=as_named)
    if as_json:
        say_json(text_of(Estimate.of(estimate, work.item_changes, again)))
        return 0
    for line in (*(one.text for one in again), *lines(estimate, work)):
        say(line)
    return 0


def _show(result: RunResult, unasked: Sequence[str], titles: Mapping[str, str]) -> None:
    finished = result.finished
    judged = [d for d in result.dimensions if _was_asked(result, d.id) and not d.round_of]
    screen, parted = console(), Parted.of(columns(judged, titles), result.cells)
    if parted.told:
        screen.print(results_table(parted.told, result.cells, result.beside, screen.width))
    if warning := untrained_line(result.services_of(d.id for d in judged)):
        say(warning, fg="red", bold=True)
    for line in unasked:
        say(line)
    for line in _unserved(result, told=bool(parted.told)):
        say(line)
    if finished.usage:
        say(f"generalists took {usage_text(finished.usage)}")
    for line in (_done(result), *_ending(finished), f"kept in {result.out}"):
        tell(line)


def _unserved(result: RunResult, *, told: bool) -> Iterator[str]:
    """What waits for models, in one line; where nothing was judged, for which and why."""
    waiting = result.finished.not_served
    if not told:
        for reason, names in waiting.items():
            yield f"not judged, {reason}: {counted(len(names), 'dimension')}"
    if number := sum(map(len, waiting.values())):
        need = counted(number, "dimension needs", "dimensions need")
        yield f"{need} models that nobody serves: editjudge summary {result.out} --unserved"


def _done(result: RunResult) -> str:
    """Say what this session did, in one line."""
    if result.finished.edits:
        return summary(result.finished)
    counts = (cell.counts for row in result.cells.values() for cell in row.values())
    waiting = sum(count.get("not_served", 0) for count in counts)
    if waiting:
        verdicts = counted(waiting, "verdict waits", "verdicts wait")
        return f"nothing could be judged: {verdicts} for a service"
    return "nothing was left to do"


def _was_asked(result: RunResult, name: str) -> bool:
    return any(set(row[name].counts) - {"not_served"} for row in result.cells.values())


def _ending(finished: Finished) -> list[str]:
    by_count = sorted(finished.unscored.items(), key=lambda kind: -kind[1].count)
    lines = [
        f"{counted(kind.count, 'verdict has', 'verdicts have')} no number, {name}"
        f" (first: {kind.first})"
        for name, kind in by_count
    ]
    lines += [
        f"{one.service}: {one.why} (canary)" for one in finished.watched if one.state != "steady"
    ]
    failed = sum(line.failed for line in finished.verdicts.values())
    if failed:
        lines.append(f"{counted(failed, 'verdict')} failed (first: {finished.first_failure})")
    why = _EARLY.get(finished.ended)
    if why or failed:
        lines.append(f"{why}; {_RESUME}" if why else _RESUME)
    return lines
